posedu.live("axial", ({ figure, find, numbers }) => {
  const patches = [...figure.querySelectorAll(".patch")];
  const { inks } = numbers;
  const [column, row] = ["column", "row"].map((name) => find(`input[name="${name}"]`));
  const wide = Number(column.max) + 2;
  const names = { axial: "Axial", one: "Mixed, one direction", two: "Mixed, two directions" };

  patches.forEach((patch, n) => patch.addEventListener("click", () => {
    column.value = n % wide;
    row.value = Math.floor(n / wide);
    column.dispatchEvent(new Event("input"));
  }));

  return (values) => {
    const vectors = numbers.vectors[values.kind];
    const score = (across, down) => vectors.reduce(
      (sum, [f, g]) => sum + Math.cos(f * across + g * down), 0) / vectors.length;
    patches.forEach((patch, n) => {
      const value = score(n % wide - values.column, Math.floor(n / wide) - values.row);
      patch.setAttribute("fill", value > 0 ? inks[1] : inks[0]);
      patch.setAttribute("fill-opacity", Math.abs(value).toFixed(2));
    });
    find(".key").setAttribute("transform", `translate(${values.column},${values.row})`);
    const diagonal = (score(0, 0) + score(1, 1)).toFixed(2);
    const others = (score(1, 0) + score(0, 1)).toFixed(2);
    return {
      diagonal, others,
      column: String(values.column),
      row: String(values.row),
      summary: `${names[values.kind]}, key in column ${values.column}, row ${values.row}: ` +
        `the two patches on the diagonal score ${diagonal} together, ` +
        `the two other neighbors ${others}.`,
    };
  };
});
