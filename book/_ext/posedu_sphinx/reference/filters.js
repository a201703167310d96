(() => {
  const form = document.querySelector(".posedu-filters");
  const rows = [...document.querySelectorAll(".posedu-filtered tbody tr")];
  const find = (selector) => form.querySelector(selector);
  const fold = rows[0]?.closest("details");

  function narrow() {
    const text = find("input").value.trim().toLowerCase();
    const wanted = [...form.querySelectorAll("select")].filter((select) => select.value);
    rows.forEach((row) => {
      row.hidden = !row.textContent.toLowerCase().includes(text) ||
        !wanted.every((s) => row.classList.contains(`${s.name}-${s.value}`));
    });
    const shown = rows.filter((row) => !row.hidden).length;
    find("output").value = `${shown} of ${rows.length}`;
  }

  form.addEventListener("input", () => {
    narrow();
    if (fold) fold.open = true;
  });
  form.addEventListener("reset", () => setTimeout(narrow));
  form.addEventListener("submit", (event) => event.preventDefault());
  narrow();
  form.hidden = false;
})();
