posedu.live("nope", ({ find }) => {
  const gap = 4, doublings = 13;
  const counts = [...new Set(
    Array.from({ length: 4 * doublings + 1 }, (_, n) => Math.round(2 ** (n / 4)))
  )];
  const weight = (others, tau) => 1 / (1 + others * Math.exp(-tau * gap));
  const path = (tau) => "M" + counts.map(
    (n) => `${Math.log2(n).toFixed(3)},${weight(n, tau).toFixed(4)}`
  ).join("L");

  return ({ temperature, others: at }) => {
    const others = 2 ** at, share = weight(others, temperature);
    const half = temperature * gap / Math.LN2;
    find("path.weight").setAttribute("d", path(temperature));
    find("path.here").setAttribute("d", `M${at},${share.toFixed(4)}h.001`);
    find("path.half").setAttribute("d", `M${half.toFixed(3)},0V0.5`);
    return {
      temperature: temperature.toFixed(2),
      others: others.toLocaleString("en"),
      unit: Math.round(2 ** half).toLocaleString("en"),
      summary: `With the temperature ${temperature.toFixed(2)} the marked key has ` +
        `${(100 * share).toFixed(1)} % of the weight among ` +
        `${others.toLocaleString("en")} others.`,
    };
  };
});
