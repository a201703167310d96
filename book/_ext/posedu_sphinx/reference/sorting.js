(() => {
  // Numbers come first, by size; other texts follow by the alphabet.
  const numberIn = (text) => parseFloat(text.replaceAll(",", ""));
  const compare = (one, other) => {
    const [x, y] = [one, other].map(numberIn);
    if (Number.isNaN(x) && Number.isNaN(y)) return one.localeCompare(other);
    if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
    return x - y;
  };

  for (const table of document.querySelectorAll(".posedu-sortable table")) {
    const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const sign = head.ariaSort === "ascending" ? -1 : 1;
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
        const text = (row) => row.cells[column].textContent;
        body.append(...[...body.rows].sort((a, b) => sign * compare(text(a), text(b))));
      });
    });
  }
})();
