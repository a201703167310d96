posedu.live("relative_vectors", ({ find, numbers: { rows, keys, size, shift } }) => {
  const near = rows.length - 1;
  const arrows = [...find(".rows").children];
  const names = [...find(".names").children];
  const bars = [...find(".weights").children];
  const percent = (x) => `${(100 * x).toFixed(1)} %`;
  const [x0, y0, unit] = [100, 108, 60];

  return ({ angle, moved }) => {
    const turn = angle * Math.PI / 180;
    const query = [Math.cos(turn), Math.sin(turn)];
    const table = rows.map((row) => row.map((w, c) => w + moved * shift[c]));
    const logit = (row) =>
      size * (query[0] * row[0] + query[1] * row[1]) / Math.sqrt(2);
    const parts = Array.from(
      { length: keys }, (_, n) => Math.exp(logit(table[Math.min(n, near)]))
    );
    const total = parts.reduce((sum, part) => sum + part, 0);
    const weights = parts.map((part) => part / total);

    table.forEach(([x, y], n) => {
      arrows[n].setAttribute("d", `M0,0L${x.toFixed(3)},${y.toFixed(3)}`);
      const [fromX, fromY] = [0, 1].map((c) => 0.22 * rows[n][c] + table[n][c]);
      names[n].setAttribute("x", (x0 + unit * fromX).toFixed(1));
      names[n].setAttribute("y", (y0 + 5 - unit * fromY).toFixed(1));
    });
    const tip = query.map((c) => (0.75 * c).toFixed(3));
    find(".query").setAttribute("d", `M0,0L${tip[0]},${tip[1]}`);
    weights.forEach((weight, n) => {
      bars[n].setAttribute("d", `M${n + 0.5},0V${weight.toFixed(4)}`);
    });

    const best = weights.indexOf(Math.max(...weights));
    const far = percent(weights[near]);
    return {
      angle: `${angle}°`,
      moved: moved.toFixed(1),
      summary: best >= near
        ? `The keys at offsets ${near} to ${keys - 1} share a vector, and each gets ` +
          `${far} of the weight.`
        : `The key at offset ${best} gets ${percent(weights[best])} of the weight; ` +
          `each of those at ${near} to ${keys - 1}, which share a vector, ${far}.`,
    };
  };
});
