// A notebook that is downloaded gets the package, which the site has once, put into it,
// and the notebook of a chapter's page gets the page's cells, out of its Markdown.
(function () {
  "use strict";
  const EMPTY = 'PACKAGE = ""', NO_PAGE = 'PAGE = ""';
  const MACROS = {  // of _config.yml, which Jupyter doesn't know
    R: String.raw`\mathbb{R}`, PE: String.raw`\mathrm{PE}`,
    softmax: String.raw`\operatorname{softmax}`, diag: String.raw`\operatorname{diag}`,
  };
  const MACRO = new RegExp(String.raw`\\(${Object.keys(MACROS).join("|")})(?![A-Za-z])`, "g");
  const DIRECTIVE = /^(?:`{3,}|:{3,})\{[\w:-]+\} *(.*)\n(?::[\w-]+:.*\n)*/gm;
  const BLOCK_OR_FENCE = /^(`{3,})\w+\n[\s\S]*?^\1$|^(?:`{3,}|:{3,})$\n?/gm;
  const ROLE = /\{([\w:-]+)\}`([^`<]*?)(?: *<[^`]*>)?`/g;
  const LINK = /\[([^\]]*)\]\((\.\.?\/[^)#]*)\.(?:md|ipynb)(#[^)]*)?\)/g;
  const CODE = /^```\{code-cell\}.*\n((?::[\w-]+:.*\n)*)([\s\S]*?)^```$/gm;
  const root = document.documentElement.dataset.content_root;
  const site = new URL(root, location.href).href;

  async function text(url) {
    const answer = await fetch(url);
    if (!answer.ok) throw new Error(`${url}: status ${answer.status}`);
    return answer.text();
  }

  // Markdown without directives, roles and macros, and with links to the site.
  function plain(markdown, url) {
    return markdown
      .replace(MACRO, (_, name) => MACROS[name])
      .replace(DIRECTIVE, (_, title) => title ? `**${title}**\n` : "\n")
      .replace(BLOCK_OR_FENCE, (found, ofCode) => ofCode ? found : "")
      .replace(ROLE, (_, role, words) => role === "in-code" ? `$${words}$` : words)
      .replace(LINK, (_, words, path, part) =>
        `[${words}](${new URL(path, url)}.html${part || ""})`);
  }

  function split(page) {
    const body = page.replace(/^---\n[\s\S]*?\n---\n/, "");
    const cells = [];
    let end = 0;
    function prose(source) {
      if (source.trim()) cells.push({cell_type: "markdown", metadata: {}, source: source.trim()});
    }
    for (const found of body.matchAll(CODE)) {
      prose(body.slice(end, found.index));
      cells.push({cell_type: "code", metadata: {}, source: found[2].trimEnd(),
        execution_count: null, outputs: []});
      end = found.index + found[0].length;
    }
    prose(body.slice(end));
    return cells;
  }

  // Fill in the page's cells; its text is also carried, for the checks that read it.
  function addCells(notebook, page, url) {
    const last = notebook.cells.pop();
    const stem = last.id.replace(/\d+$/, ""), first = notebook.cells.length;
    const cells = split(page);
    const words = cells.filter((cell) => cell.cell_type === "markdown").map((cell) => cell.source);
    replace(notebook, NO_PAGE, `PAGE = ${JSON.stringify(words.join("\n\n"))}`);
    cells.forEach((cell, number) => {
      cell.id = stem + (first + number);
      if (cell.cell_type === "markdown") cell.source = plain(cell.source, url);
    });
    notebook.cells.push(...cells);
  }

  function replace(notebook, old, put) {
    for (const cell of notebook.cells) {
      const source = [cell.source].flat().join("");
      if (source.includes(old)) cell.source = source.replace(old, () => put);
    }
  }

  async function complete(url) {
    const notebook = JSON.parse(await text(url));
    if (JSON.stringify(notebook).includes(JSON.stringify(EMPTY).slice(1, -1))) {
      const own = (await text(`${site}_sources/posedu-package.txt`)).trim();
      replace(notebook, EMPTY, `PACKAGE = "${own}"`);
    }
    const page = notebook.metadata.posedu?.page;
    if (page) addCells(notebook, await text(`${site}_sources/${page}`), site + page);
    return JSON.stringify(notebook, null, 1);
  }

  function save(notebook, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([notebook], {type: "application/x-ipynb+json"}));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  }

  window.poseduNotebook = complete;
  document.addEventListener("click", function (event) {
    const link = event.target.closest('a[href$=".ipynb"]');
    const isLocal = link && link.href.startsWith(site);
    // From a folder without a server no script may read files: the link stays a link.
    if (!isLocal || location.protocol === "file:" || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    complete(link.href).then(
      (notebook) => save(notebook, link.pathname.split("/").pop()),
      () => { location.href = link.href; });
  });
})();
