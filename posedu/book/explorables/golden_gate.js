posedu.live("golden_gate", ({ find, numbers }) => {
  const ratio = 8;
  const text = (x) => {
    const shown = x.toFixed(4);
    return Number(shown) === 0 ? "0.0000" : shown;
  };

  return (values) => {
    const n = values.count;
    const angles = numbers.angles[values.kind].slice(0, n);
    const point = (angle, size) => [size * Math.cos(angle), -size * Math.sin(angle)];
    find(".directions").setAttribute("d", angles.map((angle) => {
      const [x, y] = point(angle, 1);
      return `M${text(-x)},${text(-y)}L${text(x)},${text(y)}`;
    }).join(""));
    find(".vectors").setAttribute("d", angles.map((angle, p) => {
      const [x, y] = point(angle, ratio ** (p / Math.max(n - 1, 1) - 1));
      return `M${text(x)},${text(y)}h.001M${text(-x)},${text(-y)}h.001`;
    }).join(""));
    const placed = [...angles].sort((a, b) => a - b);
    const gaps = placed.map((angle, p) =>
      ((p + 1 < n ? placed[p + 1] : placed[0] + Math.PI) - angle) * n / Math.PI);
    const largest = Math.max(...gaps).toFixed(2);
    const smallest = Math.min(...gaps).toFixed(2);
    return {
      largest, smallest,
      count: `${n}`,
      summary: `${n} pairs: the largest gap between directions is ${largest} ` +
        `times the mean gap, the smallest ${smallest} times.`,
    };
  };
});
