posedu.live("nope", ({ find }) => {
  const gap = 4, doublings = 13;
  const counts = [...new Set(
    Array.from({ length: 4 * doublings + 1 }, (_, n) => Math.round(2 ** (n / 4)))
  )];
  const weight = (others, factor) => 1 / (1 + others * Math.exp(-factor * gap));
  const path = (factor) => "M" + counts.map(
    (n) => `${Math.log2(n).toFixed(3)},${weight(n, factor).toFixed(4)}`
  ).join("L");

  return ({ factor, others: at }) => {
    const others = 2 ** at, share = weight(others, factor);
    const half = factor * gap / Math.LN2;
    find("path.weight").setAttribute("d", path(factor));
    find("path.here").setAttribute("d", `M${at},${share.toFixed(4)}h.001`);
    find("path.half").setAttribute("d", `M${half.toFixed(3)},0V0.5`);
    return {
      factor: factor.toFixed(2),
      others: others.toLocaleString("en"),
      unit: Math.round(2 ** half).toLocaleString("en"),
      summary: `With the factor ${factor.toFixed(2)} the marked key has ` +
        `${(100 * share).toFixed(1)} % of the weight among ` +
        `${others.toLocaleString("en")} others.`,
    };
  };
});
