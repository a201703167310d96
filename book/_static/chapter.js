// Open folds that contain the target of a link. For printing, open all folds and answer
// all guesses.
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
    document.querySelectorAll(".posedu-fold:not(.posedu-check, .posedu-code)")
      .forEach(openAround);
    const unanswered = ".posedu-explorable:not([data-covered]) .control > " +
      'button[aria-pressed="false"]';
    document.querySelectorAll(unanswered).forEach((button) => button.click());
  });
})();

// A term of a formula highlights the matching words in the code of the same tab or
// section. If none of them is visible, the line with the first one is shown below.
(function () {
  "use strict";

  function point(block, offset) {
    const text = document.createTreeWalker(block, NodeFilter.SHOW_TEXT);
    while (text.nextNode().length < offset) offset -= text.currentNode.length;
    return [text.currentNode, offset];
  }

  function inSight(block, range) {
    const { x, y, width, height } = range.getBoundingClientRect();
    return block.contains(document.elementFromPoint(x + width / 2, y + height / 2));
  }

  function lineAround(text, start, end) {
    const words = document.createElement("mark");
    words.textContent = text.slice(start, end);
    const before = text.slice(text.lastIndexOf("\n", start) + 1, start);
    return [before.trimStart(), words, text.slice(end).split("\n")[0]];
  }

  function highlight({ type, target, relatedTarget }) {
    if (echo.contains(target)) return;
    const termAt = (place) => place?.closest(".posedu-in-code");
    const reached = type === "focusout" ? relatedTarget : target;
    const term = termAt(reached) ?? termAt(document.activeElement);
    const ranges = new Highlight();
    CSS.highlights.set("posedu-in-code", ranges);
    echo.replaceChildren();
    if (!term) return;
    const { code } = term.dataset, lines = [];
    const words = RegExp(`(?<!\\w)${code.replace(/\W/g, "\\$&")}(?!\\w)`, "g");
    let isVisible = false;
    term.closest(".sd-tab-content, section").querySelectorAll("pre").forEach((block) => {
      for (const { index } of block.textContent.matchAll(words)) {
        const range = new Range(), end = index + code.length;
        range.setStart(...point(block, index));
        range.setEnd(...point(block, end));
        ranges.add(range);
        lines.push(lineAround(block.textContent, index, end));
        isVisible ||= inSight(block, range);
      }
    });
    if (!isVisible) echo.append(...lines[0]);
  }

  if (!window.Highlight) return;
  const echo = document.createElement("code");
  echo.className = "posedu-echo";
  document.addEventListener("DOMContentLoaded", () => document.body.append(echo));
  for (const kind of ["mouseover", "focusin", "focusout"]) {
    document.addEventListener(kind, highlight);
  }
  document.addEventListener("keydown", ({ key }) => {
    if (key === "Escape") echo.replaceChildren();
  });
})();

// Numbers in sentences that depend on a slider; the build has computed all of them.
(function () {
  "use strict";

  function follow(paragraph) {
    const parts = (kind) => paragraph.querySelectorAll(`.posedu-${kind}`), inputs = {};
    const value = (part, place) => part.dataset.values.split("|")[place];

    function show() {
      for (const part of parts("slider")) {
        const input = inputs[part.dataset.name];
        part.firstChild.data = value(part, input.value);
        input.setAttribute("aria-valuetext", part.firstChild.data);
      }
      for (const part of parts("computed")) {
        const of = part.dataset.of.split(" ").map((name) => inputs[name]);
        const place = of.reduce((at, { max, value }) => at * (+max + 1) + +value, 0);
        part.textContent = value(part, place);
      }
    }

    for (const part of parts("slider")) {
      const { name, values } = part.dataset, spelled = values.split("|");
      const input = (inputs[name] = document.createElement("input"));
      Object.assign(input, { type: "range", max: spelled.length - 1 });
      input.value = spelled.indexOf(part.textContent);
      input.setAttribute("aria-label", name);
      input.addEventListener("input", show);
      part.append(input);
    }
    show();
  }

  document.addEventListener("DOMContentLoaded", () => {
    new Set([...document.querySelectorAll(".posedu-slider")].map((n) => n.closest("p")))
      .forEach(follow);
  });
})();
