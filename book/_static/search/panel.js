// Results of the search below its field: a combobox with a list of links.
const poseduSearch = (() => {
  "use strict";

  const LABELS = { statement: "", exercise: "", term: "Term of the glossary",
    api: "Name in the package" };
  const LONGEST = 180;  // characters of a sentence that is shown
  const SLICE = 30;  // ms of reading between two pauses, so that typing is not held up
  const attached = new Map();
  let ranking, reading, isBroken;

  // Make a search field a combobox; options are the site's root and how to load a file.
  function attach(field, { root, script }) {
    if (attached.has(field)) return;
    attached.set(field, new Panel(field, root));
    reading ??= read(script);
  }

  async function read(script) {
    const { pages, shards } = JSON.parse(await poseduSearchTitles);
    ranking = new poseduRanking.Ranking(pages);
    attached.forEach(panel => panel.update());
    try {
      await readTexts([...Array(shards).keys()].map(n => script(`search/texts-${n}.js`)));
    } catch {
      isBroken = true;
    }
    attached.forEach(panel => panel.refine());
  }

  // The files load at the same time and run in their order.
  async function readTexts(files) {
    let since = performance.now();
    for (const file of files) {
      await file;
      for (const text of JSON.parse(await self.poseduSearchTexts.shift())) {
        if (performance.now() - since > SLICE) {
          await new Promise(resolve => setTimeout(resolve));
          since = performance.now();
        }
        ranking.addText(text);
      }
    }
  }

  class Panel {
    constructor(field, root) {
      this.field = field;
      this.root = root;
      this.active = -1;
      const name = `posedu-results-${attached.size}`;
      this.status = make("p", { className: "posedu-status", role: "status" });
      this.list = make("div", { className: "posedu-results", id: name, role: "listbox",
        ariaLabel: "Results" });
      this.list.hidden = true;
      this.container = make("div", { className: "posedu-search" });
      this.container.append(this.status, this.list);
      const form = field.closest("form");
      form.after(this.container);
      field.setAttribute("role", "combobox");
      field.setAttribute("aria-autocomplete", "list");
      field.setAttribute("aria-controls", name);
      field.setAttribute("aria-expanded", "false");
      field.addEventListener("input", () => this.update());
      field.addEventListener("keydown", event => this.press(event));
      form.addEventListener("submit", event => this.submit(event));
      this.update();
    }

    get options() {
      return [...this.list.children];
    }

    update() {
      const query = this.field.value.trim();
      const { hits, near } = ranking?.find(query) ?? { hits: [] };
      const shown = near && isLoading() ? [] : hits;
      this.list.replaceChildren(...shown.map((hit, at) => this.option(hit, at)));
      this.list.hidden = !shown.length;
      this.field.setAttribute("aria-expanded", String(shown.length > 0));
      this.status.textContent = query && message(query, hits.length, near);
      this.activate(-1);
    }

    // Answer again with all texts, unless a result has been chosen meanwhile.
    refine() {
      if (this.active < 0) return this.update();
      this.status.textContent = `${counted(this.options.length)} in titles. ` +
        "All texts are loaded now: change the query to search them.";
    }

    option({ place, text, sources, terms }, at) {
      const link = make("a", { id: `${this.list.id}-${at}`, role: "option", tabIndex: -1,
        href: `${this.root}${place.page}.html${place.anchor && "#"}${place.anchor}` });
      link.setAttribute("aria-selected", "false");
      const title = make("span", { className: "posedu-title" });
      title.append(...marked(place.title, terms));
      const where = make("span", { className: "posedu-where",
        textContent: place.isPage ? "" : LABELS[place.kind] || place.of });
      const sentence = make("span", { className: "posedu-sentence" });
      sentence.append(...marked(excerpt(text, sources, terms), terms));
      link.append(title, where, sentence);
      return link;
    }

    press(event) {
      const number = this.options.length;
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step && number) {
        event.preventDefault();
        const from = this.active < 0 && step < 0 ? 0 : this.active;
        this.activate((from + step + number) % number);
      } else if (event.key === "Enter" && this.active >= 0) {
        event.preventDefault();
        this.options[this.active].click();
        this.close();
      }
    }

    activate(at) {
      this.options[this.active]?.setAttribute("aria-selected", "false");
      this.active = at;
      const option = this.options[at];
      if (!option) return this.field.removeAttribute("aria-activedescendant");
      option.setAttribute("aria-selected", "true");
      option.scrollIntoView({ block: "nearest" });
      this.field.setAttribute("aria-activedescendant", option.id);
    }

    // A link to the page that is open leaves the dialog in its way.
    close() {
      document.querySelector(".search-button__wrapper.show")?.classList.remove("show");
    }

    // On the page of the search, its address follows the query.
    submit(event) {
      if (!this.field.closest(".posedu-search-page")) return;
      event.preventDefault();
      const query = new URLSearchParams({ q: this.field.value });
      history.replaceState(null, "", `?${query}`);
    }
  }

  function isLoading() {
    return !ranking?.isComplete && !isBroken;
  }

  function message(query, number, near) {
    if (!ranking) return "The search is loading …";
    if (!number) return `Nothing found for “${query}”. Type a word.`;
    const more = isLoading() ? " The texts of the pages are still loading …"
      : isBroken ? " The texts of the pages could not be loaded." : "";
    if (near) return isLoading() ? `No title has “${query}”.${more}`
      : `Nothing found for “${query}”.${more} The nearest titles:`;
    return more ? `${counted(number)} in titles.${more}` : counted(number);
  }

  function counted(number) {
    return number === 1 ? "1 result" : `${number} results`;
  }

  function make(tag, properties) {
    return Object.assign(document.createElement(tag), properties);
  }

  // A text in pieces: its words whose terms are given are marked.
  function marked(text, terms) {
    const pieces = text.split(/([\p{L}\p{N}]+(?:[_\-.'’][\p{L}\p{N}]+)*)/u);
    return pieces.map((piece, at) => {
      const isWord = at % 2 && poseduRanking.termsOf(piece).some(t => terms.has(t));
      return isWord ? make("mark", { textContent: piece }) : piece;
    });
  }

  // The sentence in which most of the terms are, by weight, cut to a length that fits;
  // or of the sources one that has all the terms.
  function excerpt(text, sources, terms) {
    const sentences = text.split("\n");
    const source = sources.split("\n").find(line => within(line, terms).size === terms.size);
    const first = sentences.find(sentence => /[.:?!]$/.test(sentence)) ?? sentences[0];
    return shortened(best(sentences, terms) ?? source ?? first, terms);
  }

  function best(sentences, terms) {
    let found, most = 0;
    const starts = [...terms].map(term => term.slice(0, 4));
    for (const sentence of sentences) {
      const lower = sentence.toLowerCase();
      if (!starts.some(start => lower.includes(start))) continue;  // saves most of the time
      let weight = 0;
      for (const term of within(sentence, terms)) weight += ranking.weight(term);
      if (weight > most) [found, most] = [sentence, weight];
    }
    return found;
  }

  // The terms that are in a text.
  function within(text, terms) {
    return new Set(poseduRanking.termsOf(text).filter(term => terms.has(term)));
  }

  function shortened(sentence, terms) {
    if (sentence.length <= LONGEST) return sentence;
    const words = sentence.split(" ");
    const first = words.findIndex(w => poseduRanking.termsOf(w).some(t => terms.has(t)));
    const before = words.slice(0, Math.max(first, 0)).join(" ").length;
    const start = Math.max(0, Math.min(before - 60, sentence.length - LONGEST));
    const from = start ? sentence.indexOf(" ", start) + 1 : 0;
    const until = sentence.lastIndexOf(" ", from + LONGEST);
    const isWhole = from + LONGEST >= sentence.length;
    const cut = sentence.slice(from, isWhole ? undefined : until);
    return `${from ? "… " : ""}${cut}${isWhole ? "" : " …"}`;
  }

  return { attach, isComplete: () => Boolean(ranking?.isComplete) };
})();
