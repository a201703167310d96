// Show the two encodings that the menus choose; the page's address keeps the choice.
(function () {
  "use strict";
  const form = document.querySelector(".posedu-choose");
  const joined = document.querySelector(".posedu-joined");
  const compared = document.querySelector(".posedu-compare");
  const joins = JSON.parse(compared.nextElementSibling.textContent);
  const menus = [form.elements.a, form.elements.b];
  const cards = new Map();
  for (const card of compared.children) cards.set(card.dataset.name, card);

  function fromAddress() {
    const asked = new URLSearchParams(location.search);
    for (const menu of menus) {
      const name = asked.get(menu.name);
      menu.value = cards.has(name) ? name : menu.dataset.first;
    }
    show();
  }

  function show() {
    for (const card of cards.values()) delete card.dataset.side;
    for (const menu of menus) cards.get(menu.value).dataset.side ||= menu.name;
    for (const card of cards.values()) {
      for (const formula of card.querySelectorAll(".posedu-formula")) {
        formula.classList.toggle("math", "side" in card.dataset);
      }
    }
    join();
    typeset();
  }

  function join() {
    const [a, b] = menus.map(function (menu) { return menu.value; });
    if (a === b) {
      joined.textContent = "Both menus have the same encoding.";
      return;
    }
    const [lead, ...cases] = joins.pairs[`${a} ${b}`] || joins.pairs[`${b} ${a}`] || [0];
    const items = cases.map(function (n) { return `<li>${joins.cases[n]}</li>`; });
    joined.innerHTML = `<p></p><ul>${items.join("")}</ul>`;
    joined.firstChild.textContent = joins.leads[lead];
    if (!items.length) joined.lastChild.remove();
  }

  // Until MathJax has come, it finds the formulas of class math by itself.
  function typeset() {
    if (!window.MathJax || !MathJax.startup || !MathJax.startup.promise) return;
    MathJax.startup.promise.then(function () {
      return MathJax.typesetPromise([...compared.querySelectorAll("[data-side]")]);
    });
  }

  form.addEventListener("change", function () {
    const choice = new URLSearchParams(new FormData(form));
    history.pushState(null, "", `?${choice}`);
    show();
  });
  window.addEventListener("popstate", fromAddress);
  compared.classList.add("posedu-two");
  form.hidden = joined.hidden = false;
  fromAddress();
})();
