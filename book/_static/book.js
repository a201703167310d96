// Repairs that need the page: keyboard access to what scrolls sideways, and names.
(function () {
  "use strict";

  // A box that scrolls must be reachable by keyboard (WCAG 2.1.1).
  function reachable() {
    const boxes = 'mjx-container, pre, .posedu-wide, .cell_output, ' +
      ".pst-scrollable-table-container, dt.sig";
    document.querySelectorAll(boxes).forEach(function (box) {
      if (box.scrollWidth > box.clientWidth + 1 && !box.hasAttribute("tabindex")) {
        const isFormula = box.tagName === "MJX-CONTAINER";
        box.tabIndex = 0;
        if (box.tagName === "DT") return;  // a term has no role to give away
        box.setAttribute("role", isFormula ? "math" : "group");
        box.setAttribute("aria-label", isFormula
          ? "formula, scrolls sideways" : "scrolls sideways");
      }
    });
  }

  // The theme's search button and folded cells hide their visible words behind another
  // name, its logo stands outside every landmark, and its bibliography misuses roles.
  function repairTheme() {
    const misnamed = ".search-button-field, .hide > summary";
    document.querySelectorAll(misnamed).forEach(function (control) {
      control.removeAttribute("aria-label");
    });
    document.querySelectorAll(".bd-sidebar-primary summary").forEach(function (fold) {
      const page = fold.closest("li").querySelector("a").textContent.trim();
      fold.setAttribute("aria-label", "Pages of " + page);
    });
    document.querySelectorAll(".citation-list, .citation").forEach(function (part) {
      part.removeAttribute("role");  // a deprecated one, and a list without items
    });
    const logo = document.querySelector(".sidebar-primary-item:has(.navbar-brand)");
    if (logo) {
      logo.setAttribute("role", "navigation");
      logo.setAttribute("aria-label", "Home");
    }
  }

  document.addEventListener("DOMContentLoaded", repairTheme);
  window.addEventListener("load", function () {
    const mathjax = window.MathJax && window.MathJax.startup;
    Promise.resolve(mathjax && mathjax.promise).then(reachable);
  });
  window.addEventListener("resize", reachable);
})();
