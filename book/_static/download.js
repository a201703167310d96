// A notebook that is downloaded gets the package, which the site has once, put into it.
(function () {
  "use strict";
  const EMPTY = String.raw`PACKAGE = \"\"`;  // as it stands in the notebook's JSON
  const root = document.documentElement.dataset.content_root;
  const address = new URL(root + "_sources/posedu-package.txt", location.href);

  async function text(url) {
    const answer = await fetch(url);
    if (!answer.ok) throw new Error(`${url}: status ${answer.status}`);
    return answer.text();
  }

  async function complete(url) {
    const notebook = await text(url);
    if (!notebook.includes(EMPTY)) return notebook;
    const own = String.raw`PACKAGE = \"${(await text(address)).trim()}\"`;
    return notebook.replace(EMPTY, () => own);
  }

  function save(notebook, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([notebook], {type: "application/x-ipynb+json"}));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  }

  document.addEventListener("click", function (event) {
    const link = event.target.closest('a[href$=".ipynb"]');
    const isLocal = link && link.href.startsWith(new URL(root, location.href).href);
    // From a folder without a server no script may read files: the link stays a link.
    if (!isLocal || location.protocol === "file:" || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    complete(link.href).then(
      (notebook) => save(notebook, link.pathname.split("/").pop()),
      () => { location.href = link.href; });
  });
})();
