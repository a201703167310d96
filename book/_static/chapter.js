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
