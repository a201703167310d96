// Accessibility repairs: keyboard access to boxes that scroll sideways, and names.
(function () {
  "use strict";

  // A box that scrolls must be reachable by keyboard (WCAG 2.1.1), and shows at which
  // edges it continues. The observer reports boxes that change size, also because a
  // fold or a tab opens.
  const boxes = "mjx-container, pre, .posedu-wide, .cell_output, .text_html, " +
    ".pst-scrollable-table-container, dt.sig";
  const sizes = new ResizeObserver(function (changed) {
    changed.forEach(function (change) { update(change.target); });
  });

  function watch() {
    document.querySelectorAll(boxes).forEach(function (box) {
      sizes.observe(box);
      box.addEventListener("scroll", function () { cue(box); }, {passive: true});
    });
  }

  const slack = 4;  // pixels by which an accent may extend beyond its box

  function update(box) {
    if (box.scrollWidth > box.clientWidth + slack && !box.hasAttribute("tabindex")) {
      const isFormula = box.tagName === "MJX-CONTAINER";
      box.tabIndex = 0;
      if (box.tagName !== "DT") {  // another role would hide that it is a term
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

  // In the theme, the accessible names of the search button and of folded cells differ
  // from their visible words, the logo is outside every landmark, and the bibliography
  // misuses roles.
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
      part.removeAttribute("role");  // a deprecated role, and a list without items
    });
    document.querySelectorAll(".headerlink").forEach(function (link) {
      link.title = "Link to this part";
    });
    const logo = document.querySelector(".sidebar-primary-item:has(.navbar-brand)");
    if (logo) {
      logo.setAttribute("role", "navigation");
      logo.setAttribute("aria-label", "Home");
    }
  }

  document.addEventListener("DOMContentLoaded", repairTheme);
  window.addEventListener("load", function () {
    Promise.resolve(window.poseduMathJax).then(function () {
      return window.MathJax && window.MathJax.startup && window.MathJax.startup.promise;
    }).then(watch);
  });

  // Print in the light theme, because paper is white.
  const page = document.documentElement.dataset;
  let shown;
  window.addEventListener("beforeprint", function () {
    shown = page.theme;
    page.theme = "light";
  });
  window.addEventListener("afterprint", function () { page.theme = shown; });
})();
