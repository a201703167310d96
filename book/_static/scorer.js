// Search lists chapters first, in the book's order where scores are equal, and the
// package's reference last.
const asked = new URLSearchParams(location.search).get("q")?.trim().toLowerCase();
var Scorer = {
  score([page, title, , , score]) {
    const number = Number(title.match(/>(\d+)/)?.[1] ?? 99);  // further pages last
    const name = title.replace(/<span.*?<\/span>/, "").toLowerCase();  // the number
    if (name === asked || name.startsWith(`${asked}:`)) score += 100;
    if (page.endsWith("reference/api")) return score - 100;
    if (/^book\/(?!reference|index)/.test(page)) return score + 40 - number / 100;
    if (/reference\/(glossary|elsewhere)$/.test(page)) return score + 20;
    return score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};

// Excerpts of results show formulas as text: θ for \theta, and no TeX syntax.
const GREEK = {
  alpha: "α", beta: "β", gamma: "γ", delta: "δ", varepsilon: "ε", theta: "θ",
  lambda: "λ", mu: "μ", pi: "π", sigma: "σ", phi: "φ", varphi: "φ", omega: "ω",
  Delta: "Δ", Omega: "Ω", Sigma: "Σ", Theta: "Θ", sum: "Σ", prod: "Π", cdot: "·",
  times: "×", le: "≤", ge: "≥", in: "∈", to: "→", infty: "∞", sqrt: "√", dots: "…",
  top: "ᵀ", odot: "⊙", pm: "±", ne: "≠", approx: "≈", lVert: "‖", rVert: "‖",
};
function withoutTeX(text) {
  return text
    .replace(/\\([A-Za-z]+)/g, (all, name) => GREEK[name] ?? " ")
    .replace(/\\[()[\]]/g, "").replace(/\\[^A-Za-z]/g, " ").replace(/[{}]/g, "");
}
document.addEventListener("DOMContentLoaded", () => {
  const plain = Search.htmlToText;
  Search.htmlToText = (...page) => withoutTeX(plain(...page));
});
