posedu.live("learned_embeddings", ({ find, numbers: { table, order } }) => {
  const length = table.length;
  const random = table.map((row) => [...row].map((c) => c.charCodeAt(0) - 94));
  const chance = 0.01;
  const sinusoid = (position, d) =>
    Array.from({ length: d }, (_, n) => {
      const angle = position * 10000 ** (-2 * Math.floor(n / 2) / d);
      return n % 2 ? Math.cos(angle) : Math.sin(angle);
    });
  const unit = (row) => {
    const norm = Math.sqrt(row.reduce((sum, x) => sum + x * x, 0));
    return row.map((x) => x / norm);
  };

  return ({ kind, row, power, shuffled }) => {
    const d = 2 ** power;
    const places = shuffled ? order : order.map((_, n) => n);
    const rows = places.map((n) =>
      unit(kind === "random" ? random[n].slice(0, d) : sinusoid(n, d)));
    const cosines = rows.map((other) =>
      other.reduce((sum, x, n) => sum + x * rows[row][n], 0));
    const limit = Math.min(
      1, Math.sqrt(2 * Math.log(2 * (length - 1) / chance) / d));
    find("path.stems").setAttribute(
      "d", cosines.map((c, n) => `M${n},0V${c.toFixed(4)}`).join(""));
    find("path.band").setAttribute(
      "d",
      `M-0.5,${(-limit).toFixed(4)}H${length - 0.5}V${limit.toFixed(4)}H-0.5Z`);
    const others = cosines.map((c, n) => (n === row ? -1 : Math.abs(c)));
    const rounded = others.map((c) => Math.round(c * 1e9));
    const at = rounded.indexOf(Math.max(...rounded));
    return {
      row: String(row),
      power: String(d),
      summary: `Of all other rows the one at ${at} is least orthogonal to that at ` +
        `${row}: |cosine| ${others[at].toFixed(2)}; the bound for random rows is ` +
        `${limit.toFixed(2)}.`,
    };
  };
});
