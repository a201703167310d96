// Unpack MathJax, and set the formulas that a reader sees first before all others.
(function () {
  "use strict";
  const FIRST = 20;  // more than two screens of formulas
  const settings = window.MathJax = window.MathJax || {};

  function comesFirst(formula) {
    const box = formula.getBoundingClientRect();
    return box.height > 0 && box.bottom > 0;
  }

  settings.loader = {paths: {mathjax: document.currentScript.src.replace(/\/[^/]*$/, "")}};
  settings.startup = {
    pageReady() {
      const first = [...document.querySelectorAll(".math")].filter(comesFirst);
      return MathJax.typesetPromise(first.slice(0, FIRST))
        .then(() => new Promise((done) => setTimeout(done, 50)))  // they are painted
        .then(() => MathJax.startup.defaultPageReady());
    },
  };
  window.poseduMathJax = PACKED.then(window.eval);
})();
