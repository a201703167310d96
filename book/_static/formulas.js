// On a page without formulas, fetch MathJax when a preview contains one.
(function () {
  "use strict";
  const settings = window.MathJax;
  const address = document.currentScript.dataset.mathjax;
  let fetched;

  function fetchOnce() {
    fetched = fetched || new Promise(function (done) {
      const script = document.createElement("script");
      window.MathJax = {...settings, typesetPromise: waiting};
      script.onload = function () {
        poseduMathJax.then(function () { return MathJax.startup.promise; }).then(done);
      };
      script.src = address;
      document.head.append(script);
    });
    return fetched;
  }

  function waiting(boxes) {
    if (!boxes.some(function (box) { return box.querySelector(".math"); })) {
      return Promise.resolve();
    }
    return fetchOnce().then(function () { return MathJax.typesetPromise(boxes); });
  }

  window.MathJax = {startup: {promise: Promise.resolve()}, typesetPromise: waiting};
})();
