// Ranking of the search: which places answer a query, best first. No document needed.
const poseduRanking = (() => {
  "use strict";

  const KINDS = ["section", "statement", "exercise", "term", "api"];
  const STOP = new Set(("a about after all also am an and any are as at be been before " +
    "but by can could did do does doing explain find for from get give gives had has " +
    "have help how i if in into is it its just know learn like made make makes me mean " +
    "means my need no not of off on one or our out please see set should show so some " +
    "tell than that the their them then there these they this those to too up us use " +
    "used using very want was we were what when where which while who whose why will " +
    "with without would you your").split(" "));
  const SUFFIX = RegExp("(?:i[sz]ations?|ations?|i[sz]ing|i[sz]e[drs]?|ating|ate[ds]?|" +
    "ators?|ings?|ions?|ed|ers?|est|al|ally|ly|ments?|ness|e|y)$");

  // Weights of what a query matches: halfway between those that suit half of the table of
  // queries, and those that find most pages by an alias that is left out of the index.
  const PAGE_NAME = 3.5, SECTION_NAME = 0.7, TEXT = 0.3;
  const PREFIX = 0.35, FUZZY = 0.3, PART = 0.4, SYNONYM = 0.3;
  const FURTHER = 0.25;  // of a page's second and third section, added to its best
  const WHOLE_PAGE = 0.2, ONE_PLACE = 0.55;  // powers of the share of the query matched
  const EXACT = 1.5;  // for a name that is the whole query
  const BM25 = { k: 2.8, b: 1, d: 0.3 };

  // Words for the same thing, as stems.
  const SYNONYMS = new Map(Object.entries({
    embed: "encod", encod: "embed", fp16: "float16", bf16: "bfloat16", fp32: "float32",
    half: "float16", picture: "image", imag: "picture", document: "text",
    sequence: "text", slow: "time", fast: "time", exam: "exercis", test: "check",
    bug: "error", wrong: "error", website: "site",
  }).map(([word, other]) => [stem(word), stem(other)]));
  const AFTER_PAGES = 3;  // terms, theorems, exercises, names of the API
  const PAGES = 12, ALIKE = 5;
  const CANDIDATES = 400;  // of names and of texts, the best by MiniSearch's own score
  const COMMON = 50;  // names and texts; a word of more stands for itself alone

  // The stem of a word: without the endings of plural, verb, noun and adverb.
  function stem(word) {
    if (word.length < 4 || /\d/.test(word)) return word;
    let found = word.replace(/ies$/, "y");
    if (!/(?:ss|us|is|as)$/.test(found)) found = found.replace(/s$/, "");
    for (let times = 0; times < 2; times++) {
      const short = found.replace(SUFFIX, "");
      if (short.length < 4 || short === found) break;
      found = short;
    }
    if (found.length < 4) return found;  // RNNs, RNN
    return found.replace(/([^aeiouls])\1$/, "$1");  // padded, pad
  }

  // The words of a text, each as its terms for the index: the word itself and, of keys
  // and names such as max_position_embeddings, M-RoPE or KVCache, also the parts.
  const WORD = /[\p{L}\p{N}]+(?:[_\-.][\p{L}\p{N}]+)*/gu;
  function* words(text) {
    const plain = text.normalize("NFKD").replace(/\p{M}|['’]s\b|['’]/gu, "")
      .replace(/(\d),(?=\d{3})/g, "$1");  // 65,520
    for (const [word] of plain.matchAll(WORD)) yield { word, terms: terms(word) };
  }

  const known = new Map();  // terms by word: texts have each word forty times
  function terms(word) {
    if (!known.has(word)) known.set(word, termsOfWord(word));
    return known.get(word);
  }

  function termsOfWord(word) {
    const parts = word.split(/[_\-.]/).flatMap(pieces);
    const whole = word.replace(/[_\-.]/g, "");
    if (parts.length === 1) return [stem(parts[0].toLowerCase())];
    return [...new Set([whole.toLowerCase(), ...parts.map(p => stem(p.toLowerCase()))])];
  }

  // KVCache has the pieces KV and Cache, llama3 has llama and 3; RoPE is one word.
  function pieces(part) {
    const found = part.match(/[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^A-Za-z\d]+/g);
    const long = found.some(piece => piece.length > 3 && /[a-z]/.test(piece));
    return long && found.length > 1 ? found : [part];
  }

  function termsOf(text) {
    return [...words(text)].flatMap(word => word.terms);
  }

  function isStop(word) {
    return STOP.has(word.toLowerCase());
  }

  // What two texts share that say the same thing in the same order.
  function key(text) {
    const found = [...words(text)].filter(({ word }) => !isStop(word));
    return found.map(({ terms: [whole] }) => whole).join(" ");
  }

  function slug(title) {
    return title.replace(/[^\x00-\x7f]/g, "").toLowerCase()
      .replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
  }

  // Every place of titles.js, in the order of the texts in the further files.
  function places(pages) {
    return pages.flatMap(([page, factor, start, ...kinds]) => {
      const own = [kinds[0][0]].flat()[0];
      let before = "";
      return kinds.flatMap((entries, kind) => entries.map((entry, number) => {
        let [title, given, aliases = []] = [entry].flat();
        if (KINDS[kind] === "api") {  // begins with how much it shares with the one before
          const shared = title.match(/^\d+/)[0];
          title = before = before.slice(0, shared) + title.slice(shared.length);
        }
        const isPage = kind === 0 && number === 0;
        const derived = KINDS[kind] === "api" ? title : slug(title);
        const anchor = isPage ? "" : given ?? derived;
        return { page, factor, kind: KINDS[kind], title, anchor, aliases, isPage,
          of: own, text: isPage ? start : "", sources: "" };
      }));
    });
  }

  // An index of one field; it counts in how many of its texts each term is.
  function engine(field, counts) {
    const tokenize = text => {
      const found = termsOf(text);
      for (const term of new Set(found)) counts.set(term, (counts.get(term) ?? 0) + 1);
      return found;
    };
    return new MiniSearch({ fields: [field], tokenize, processTerm: term => term });
  }

  class Ranking {
    constructor(pages) {
      this.places = places(pages);
      this.counts = new Map();  // of each term the number of names and texts
      this.names = engine("name", this.counts);
      this.texts = engine("text", this.counts);
      this.named = [];  // of each name the place's number
      this.keys = [];  // of each name its key
      this.sizes = [];  // of each name the number of its words
      this.pageOf = new Map();
      this.read = 0;  // texts so far; they count once all are there
      this.places.forEach((place, number) => {
        if (place.isPage) this.pageOf.set(place.page, number);
        for (const name of [place.title, ...place.aliases]) this.addName(number, name);
      });
    }

    addName(number, name) {
      this.keys.push(key(name));
      this.sizes.push(this.keys.at(-1).split(" ").length);
      this.names.add({ id: this.named.length, name });
      this.named.push(number);
    }

    // Add the text of the next place; after an empty line it has sources.
    addText(text) {
      const place = this.places[this.read];
      const [sentences, sources = ""] = text.split("\n\n");
      Object.assign(place, { text: sentences || place.text, sources });
      this.texts.add({ id: this.read, text });
      this.read += 1;
    }

    get isComplete() {
      return this.read === this.places.length;
    }

    // The words of a query with their terms and weights; two neighboring letters are
    // swapped in a word that the book lacks if the book has the other.
    readQuery(query) {
      const all = [...words(query)];
      const asked = all.filter(({ word }) => !isStop(word));
      return (asked.length ? asked : all).map(({ word, terms: found }) => {
        const known = this.counts.has(found[0]);
        const swapped = known ? undefined : swaps(word.toLowerCase())
          .map(stem).find(term => this.counts.has(term));
        const own = swapped ? [swapped] : found;
        const synonym = SYNONYMS.get(own[0]);
        return { terms: own, synonym, weight: this.weight(own[0]) };
      });
    }

    // A rare term weighs more.
    weight(term) {
      return Math.log(1 + 6000 / (this.counts.get(term) ?? 1));
    }

    search(engine, asked) {
      const last = asked.at(-1).terms[0];
      const boosts = new Map(asked.filter(word => word.synonym)
        .map(word => [word.synonym, SYNONYM]));
      for (const { terms: [, ...parts] } of asked)
        for (const part of parts) boosts.set(part, PART);
      for (const { terms: [whole] } of asked) boosts.set(whole, 1);
      const found = [...boosts.keys()];
      return engine.search(found.join(" "), {
        tokenize: text => text.split(" "),
        boostTerm: term => boosts.get(term),
        prefix: term => term.length > 2 &&
          (this.counts.get(term) ?? 0) < (term === last ? COMMON : 1),
        fuzzy: term => term.length > 3 && !this.counts.has(term) && 1,
        weights: { prefix: PREFIX, fuzzy: FUZZY },
        bm25: BM25,
      }).slice(0, CANDIDATES);
    }

    // How well names answer, by the number of their place.
    scoreNames(asked, askedKey) {
      const best = new Map();
      for (const { id, score, queryTerms, terms } of this.search(this.names, asked)) {
        const number = this.named[id];
        const share = Math.min(1, queryTerms.length / this.sizes[id]);
        const value = score * coverage(asked, queryTerms) * share;
        if (value > (best.get(number)?.value ?? 0))
          best.set(number, { value, queryTerms, terms, exact: this.keys[id] === askedKey });
      }
      return best;
    }

    // The places that answer a query, best first: pages, then other places. A page
    // comes once, with its best section. The result's `near` says that nothing matched
    // and that names alike are listed.
    find(query) {
      const asked = this.readQuery(query);
      if (!asked.length) return { hits: [], near: false };
      const names = this.scoreNames(asked, key(query));
      const texts = new Map((this.isComplete ? this.search(this.texts, asked) : [])
        .map(result => [result.id, { ...result, value: result.score }]));
      const pages = new Map(), others = [];
      for (const number of new Set([...names.keys(), ...texts.keys()])) {
        const place = this.places[number];
        const hit = this.judge(place, number, names, texts, asked);
        if (place.kind !== "section") others.push(hit);
        else if (pages.has(place.page)) pages.get(place.page).push(hit);
        else pages.set(place.page, [hit]);
      }
      const found = best([...pages.values()].map(own => this.together(own, asked)), PAGES);
      const hits = withOthers(found, best(others, AFTER_PAGES)).map(withTerms);
      return hits.length ? { hits, near: false } : { hits: this.alike(query), near: true };
    }

    judge(place, number, names, texts, asked) {
      const isSection = place.kind === "section";
      const page = isSection && names.get(this.pageOf.get(place.page));
      const name = place.isPage ? undefined : names.get(number);
      const text = texts.get(number);
      const parts = [page, name, text].filter(Boolean);
      const ofPage = PAGE_NAME * (page?.value ?? 0);
      const own = SECTION_NAME * (name?.value ?? 0) + TEXT * (text?.value ?? 0);
      const matched = parts.flatMap(part => part.queryTerms);
      const share = coverage(asked, matched) ** ONE_PLACE;
      const exact = parts.some(part => part.exact);
      return { place, text: place.text, sources: place.sources, parts, ofPage, own, matched,
        exact,
        score: (ofPage + own) * place.factor * share * (exact ? EXACT : 1) };
    }

    // The best hit of a page, with a score that its other hits raise. It leads to the
    // page, not to the section, if it is due to the page's name; then it has the texts of
    // all these hits.
    together(hits, asked) {
      const [first, ...further] = best(hits, 3);
      const more = further.reduce((sum, hit) => sum + hit.own * hit.place.factor, 0);
      const matched = [...new Set(hits.flatMap(hit => hit.matched))];
      const share = coverage(asked, matched) ** WHOLE_PAGE;
      const score = (first.score + FURTHER * more) * share;
      const page = this.places[this.pageOf.get(first.place.page)];
      if (first.ofPage <= first.own)
        return { ...first, text: first.text || page.text, score };
      const text = [first, ...further, { text: page.text }].map(hit => hit.text)
        .filter(Boolean).join("\n");
      return { ...first, place: page, text, score };
    }

    // Pages whose names share most pairs of letters with a query.
    alike(query) {
      const pairs = pairsOf(query);
      return this.places.filter(place => place.isPage)
        .map(place => ({ place, text: place.text, sources: "", terms: new Set(),
          score: likeness(pairs, place) }))
        .sort((a, b) => b.score - a.score).slice(0, ALIKE);
    }
  }

  function* swapsOf(word) {
    for (let at = 0; at + 1 < word.length; at++)
      yield word.slice(0, at) + word[at + 1] + word[at] + word.slice(at + 2);
  }
  const swaps = word => [...swapsOf(word)];

  // The share of the query's words, by weight, that are among the matched terms.
  function coverage(asked, matched) {
    let sum = 0, all = 0;
    for (const { terms: [whole, ...parts], synonym, weight } of asked) {
      const share = parts.filter(part => matched.includes(part)).length / (parts.length || 1);
      const other = matched.includes(synonym) ? SYNONYM : share;
      all += weight;
      sum += weight * (matched.includes(whole) ? 1 : other);
    }
    return sum / all;
  }

  function best(hits, number) {
    return hits.sort((a, b) => b.score - a.score).slice(0, number);
  }

  // A hit with the terms of the index that matched in it, for the marks.
  function withTerms({ place, text, sources, score, parts }) {
    return { place, text, sources, score, terms: new Set(parts.flatMap(part => part.terms)) };
  }

  // Other places come after pages, except one that has the very name that is asked for.
  function withOthers(pages, others) {
    const isNamed = others[0]?.exact && !pages[0]?.exact;
    return isNamed ? [others[0], ...pages, ...others.slice(1)] : [...pages, ...others];
  }

  function pairsOf(text) {
    const letters = text.toLowerCase().replace(/[^\p{L}\p{N}]/gu, "");
    return new Set([...letters].slice(1).map((letter, at) => letters[at] + letter));
  }

  function likeness(pairs, { title, aliases }) {
    return Math.max(...[title, ...aliases].map(name => {
      const own = pairsOf(name);
      const shared = [...pairs].filter(pair => own.has(pair)).length;
      return 2 * shared / (pairs.size + own.size);
    }));
  }

  return { Ranking, termsOf, stem };
})();
