// Results of the search below its field: a combobox with a list of links.
const poseduSearch = (() => {
  "use strict";

  const LABELS = { statement: "", exercise: "", term: "Term of the glossary",
    api: "Name in the package" };
  const LONGEST = 180;  // characters of a sentence that is shown
  const AT_ONCE = 8;  // texts between two pauses, so that typing is not held up
  const attached = new Map();
  let ranking;

  // Make a search field a combobox; options are the site's root and how to load a file.
  function attach(field, { root, script }) {
    if (attached.has(field)) return;
    attached.set(field, new Panel(field, root));
    if (ranking) return;
    ranking = new poseduRanking.Ranking(poseduSearchTitles.pages);
    attached.forEach(panel => panel.update());
    readTexts(script).then(() => attached.forEach(panel => panel.refine()));
  }

  async function readTexts(script) {
    for (let number = 0; number < poseduSearchTitles.shards; number++) {
      await script(`search/texts-${number}.js`);
      const texts = JSON.parse(await self.poseduSearchTexts.pop());
      for (let at = 0; at < texts.length; at += AT_ONCE) {
        ranking.addTexts(texts.slice(at, at + AT_ONCE));
        await new Promise(resolve => setTimeout(resolve));
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
      if (ranking) this.update();
    }

    get options() {
      return [...this.list.children];
    }

    update() {
      const query = this.field.value.trim();
      const { hits, near } = ranking.find(query);
      this.list.replaceChildren(...hits.map((hit, at) => this.option(hit, at)));
      this.list.hidden = !hits.length;
      this.field.setAttribute("aria-expanded", String(hits.length > 0));
      this.status.textContent = message(query, hits.length, near);
      this.activate(-1);
    }

    // Answer again with all texts, unless a result has been chosen meanwhile.
    refine() {
      if (this.active < 0) this.update();
    }

    option({ place, text, terms }, at) {
      const link = make("a", { id: `${this.list.id}-${at}`, role: "option", tabIndex: -1,
        href: `${this.root}${place.page}.html${place.anchor && "#"}${place.anchor}` });
      link.setAttribute("aria-selected", "false");
      const title = make("span", { className: "posedu-title" });
      title.append(...marked(place.title, terms));
      const where = make("span", { className: "posedu-where",
        textContent: place.isPage ? "" : LABELS[place.kind] || place.of });
      const sentence = make("span", { className: "posedu-sentence" });
      sentence.append(...marked(bestSentence(text, terms), terms));
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

  function message(query, number, near) {
    if (!query) return "";
    if (!number) return `Nothing found for “${query}”. Type a word.`;
    if (near) return `Nothing found for “${query}”. The nearest titles:`;
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

  // The sentence with most of the terms, cut to a length that fits.
  function bestSentence(text, terms) {
    let best = text.split("\n", 1)[0], most = 0;
    const starts = [...terms].map(term => term.slice(0, 4));
    for (const sentence of text.split("\n")) {
      const lower = sentence.toLowerCase();
      if (!starts.some(start => lower.includes(start))) continue;  // saves most of the time
      const own = new Set(poseduRanking.termsOf(sentence).filter(t => terms.has(t)));
      if (own.size > most) [best, most] = [sentence, own.size];
    }
    return shortened(best, terms);
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
