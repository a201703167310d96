// Repairs that need the page: keyboard access to what scrolls sideways, and names.
(function () {
  "use strict";

  // A box that scrolls must be reachable by keyboard (WCAG 2.1.1), and shows where it
  // goes on. Sizes are heard of when they change, and when a fold or a tab opens.
  const boxes = "mjx-container, pre, .posedu-wide, .cell_output, " +
    ".pst-scrollable-table-container, dt.sig";
  const sizes = new ResizeObserver(function (changed) {
    changed.forEach(function (change) { look(change.target); });
  });

  function watch() {
    document.querySelectorAll(boxes).forEach(function (box) {
      sizes.observe(box);
      box.addEventListener("scroll", function () { cue(box); }, {passive: true});
    });
  }

  const slack = 4;  // pixels: an accent's ink may reach as far

  function look(box) {
    if (box.scrollWidth > box.clientWidth + slack && !box.hasAttribute("tabindex")) {
      const isFormula = box.tagName === "MJX-CONTAINER";
      box.tabIndex = 0;
      if (box.tagName !== "DT") {  // a term has no role to give away
        box.setAttribute("role", isFormula ? "math" : "group");
        box.setAttribute("aria-label", isFormula
          ? "formula, scrolls sideways" : "scrolls sideways");
      }
    }
    cue(box);
  }

  function cue(box) {
    const rest = box.scrollWidth - box.clientWidth - box.scrollLeft;
    box.classList.toggle("posedu-beyond-left", box.scrollLeft > slack);
    box.classList.toggle("posedu-beyond-right", rest > slack);
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
    Promise.resolve(mathjax && mathjax.promise).then(watch);
  });

  // Paper is white.
  const page = document.documentElement.dataset;
  let shown;
  window.addEventListener("beforeprint", function () {
    shown = page.theme;
    page.theme = "light";
  });
  window.addEventListener("afterprint", function () { page.theme = shown; });
})();
