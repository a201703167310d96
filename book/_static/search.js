// Search: its engine and its index are loaded when a search field is first used.
(function () {
  "use strict";

  const FIELD = "form.bd-search input";
  const root = document.documentElement.dataset.content_root;
  const files = ["minisearch/minisearch.js", "search/titles.js", "search/ranking.js",
    "search/panel.js"];
  let loading;

  function script(file) {
    return new Promise((resolve, reject) => {
      const element = Object.assign(document.createElement("script"),
        {src: `${root}_static/${file}`, async: false, onload: resolve, onerror: reject});
      document.head.append(element);
    });
  }

  function style(file) {
    document.head.append(Object.assign(document.createElement("link"),
      {rel: "stylesheet", href: `${root}_static/${file}`}));
  }

  async function open(field) {
    if (!loading) style("search/search.css");
    loading ??= Promise.all(files.map(script));
    await loading;
    poseduSearch.attach(field, {root, script});
  }

  document.addEventListener("focusin", event => {
    if (event.target.matches(FIELD)) open(event.target);
  });
  document.addEventListener("keydown", event => {
    const isText = event.target.closest("input, textarea, select, [contenteditable]");
    if (event.key !== "/" || isText || event.ctrlKey || event.metaKey || event.altKey)
      return;
    event.preventDefault();
    const own = document.querySelector(".posedu-search-page input");
    if (own) own.focus();
    else document.querySelector(".search-button__button").click();
  });
  document.addEventListener("DOMContentLoaded", () => {
    const field = document.querySelector(".posedu-search-page input");
    if (!field) return;
    field.value = new URLSearchParams(location.search).get("q") ?? "";
    field.focus();
    open(field);  // a window in the background has no focus
  });
})();
