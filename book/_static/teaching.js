// Decks of slides: reveal.js, and slides whose contents fill their frame.
(function () {
  "use strict";

  const root = document.documentElement;
  const wide = matchMedia("(min-width: 56.25rem)");  // as in teaching.css
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const prints = /print-pdf/.test(location.search);

  function setTheme() {
    const mode = prints ? "light" : localStorage.getItem("mode") || "auto";
    root.dataset.theme = mode !== "auto" ? mode : dark.matches ? "dark" : "light";
  }

  // A projector gets 1280 by 720 pixels, scaled; a phone its own size.
  function size() {
    return wide.matches || prints
      ? { width: 1280, height: 720 }
      : { width: innerWidth, height: innerHeight };
  }

  const boxes = "pre, .posedu-wide, .pst-scrollable-table-container, mjx-container";
  const slack = 4;  // pixels by which an accent may extend beyond its box

  function overflows(content) {
    return content.scrollHeight > content.clientHeight + 1 ||
      content.scrollWidth > content.clientWidth + 1 ||
      [...content.querySelectorAll(boxes)].some((box) =>
        box.checkVisibility() && box.scrollWidth > box.clientWidth + slack);
  }

  function largestZoom(content) {
    let [least, most] = wide.matches || prints ? [10, 28] : [20, 20];  // in twentieths
    const fits = (zoom) => {
      content.style.setProperty("--posedu-zoom", zoom / 20);
      return !overflows(content);
    };
    if (fits(most)) return most;
    while (most - least > 1) {
      const middle = (least + most) >> 1;
      if (fits(middle)) least = middle; else most = middle;
    }
    content.style.setProperty("--posedu-zoom", least / 20);
    return least;
  }

  // On a projector contents are enlarged or reduced to fill the slide, code and its output
  // side by side or not. What then still is too large scrolls; so that the keyboard can
  // scroll it, it takes the focus.
  function fit(slide) {
    const content = slide.querySelector(".posedu-content");
    content.classList.remove("posedu-columns");
    const inRows = largestZoom(content);
    content.classList.add("posedu-columns");
    if (largestZoom(content) <= inRows) {
      content.classList.remove("posedu-columns");
      content.style.setProperty("--posedu-zoom", inRows / 20);
    }
    const scrolls = content.scrollHeight > content.clientHeight + 1 ||
      content.scrollWidth > content.clientWidth + 1;
    const marks = {
      "data-prevent-swipe": "", tabindex: 0, role: "group", "aria-label": "scrolls",
    };
    for (const [name, value] of Object.entries(marks)) {
      if (scrolls) content.setAttribute(name, value); else content.removeAttribute(name);
    }
  }

  const controls = "a, button, input, label, pre, select, summary, textarea, [tabindex]";

  // Keys belong to the control that has the focus, until Escape; a slide that scrolls
  // takes those that scroll.
  function isForDeck({ key }) {
    const focused = document.activeElement;
    if (focused.matches(".posedu-content")) {
      return !/^(ArrowUp|ArrowDown|Page.*|Home|End| )$/.test(key);
    }
    if (!focused.closest(`.posedu-content :is(${controls})`)) return true;
    if (key === "Escape") focused.blur();
    return false;
  }

  async function start() {
    setTheme();
    dark.addEventListener("change", setTheme);
    await window.poseduMathJax;  // it is unpacked
    await (window.MathJax.startup && window.MathJax.startup.promise);
    const deck = window.Reveal;
    await deck.initialize({
      ...size(), margin: 0, maxScale: 4, center: false, display: "flex", hash: true,
      pdfMaxPagesPerSlide: 1,
      transition: "none", slideNumber: "c/t", scrollActivationWidth: null,
      keyboardCondition: isForDeck, plugins: [window.RevealNotes],
    });
    const refit = () => fit(deck.getCurrentSlide());
    deck.on("slidechanged", refit);
    addEventListener("resize", () => { deck.configure(size()); refit(); });
    document.addEventListener("toggle", refit, true);
    deck.on("pdf-ready", () => deck.getSlides().forEach(fit));
    if (!prints) refit();
  }

  addEventListener("load", start);
})();
