// Folds open for what is looked for in them, and for the printer.
(function () {
  "use strict";

  function openAround(target) {
    for (let fold = target; fold; fold = fold.parentElement) {
      if (fold.tagName === "DETAILS") fold.open = true;
    }
  }

  function follow() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.closest("details:not([open])")) {
      openAround(target);
      target.scrollIntoView();
    }
  }

  document.addEventListener("DOMContentLoaded", follow);
  window.addEventListener("hashchange", follow);
  window.addEventListener("beforeprint", function () {
    document.querySelectorAll(".posedu-fold").forEach(openAround);
  });
})();

// A term of a formula lights up its words in the code of the same tab or section.
(function () {
  "use strict";

  function point(block, offset) {
    const text = document.createTreeWalker(block, NodeFilter.SHOW_TEXT);
    while (text.nextNode().length < offset) offset -= text.currentNode.length;
    return [text.currentNode, offset];
  }

  function light(event) {
    const term = event.target.closest(".posedu-in-code"), lit = new Highlight();
    CSS.highlights.set("posedu-in-code", lit);
    if (!term) return;
    const { code } = term.dataset;
    const words = RegExp(`(?<!\\w)${code.replace(/\W/g, "\\$&")}(?!\\w)`, "g");
    term.closest(".sd-tab-content, section").querySelectorAll("pre").forEach((block) => {
      for (const { index } of block.textContent.matchAll(words)) {
        const range = new Range();
        range.setStart(...point(block, index));
        range.setEnd(...point(block, index + code.length));
        lit.add(range);
      }
    });
  }

  if (!window.Highlight) return;
  for (const kind of ["mouseover", "focusin"]) document.addEventListener(kind, light);
})();
