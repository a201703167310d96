posedu.live("temperature", ({ find }) => {
  const low = 4, high = 20, alpha = 0.1, soft = 4096;
  const lengths = { llama4: 8192, ministral: 8192, inkling: 128000, beam: 2048, learned: soft };
  const formulas = {
    none: () => 1,
    llama4: (n) => 1 + alpha * Math.log(1 + Math.floor(n / lengths.llama4)),
    ministral: (n) => 1 + alpha * Math.log(1 + Math.floor((n - 1) / lengths.ministral)),
    inkling: (n) => 1 + alpha * Math.log(Math.max(1, n / lengths.inkling)),
    beam: (n) => (1 + n / lengths.beam) ** alpha,
    learned: (n) => Math.log(n) / Math.log(soft),
  };
  const found = (formula, gap, n) => {
    const logit = formulas[formula](n) * gap, odds = (n - 1) * Math.exp(-logit);
    return [1 / (1 + odds), Math.log1p(odds) + odds / (1 + odds) * logit];
  };
  const points = Array.from({ length: high - low + 1 }, (_, x) => 2 ** (x + low));
  const path = (values) => "M" + values.map((y, x) => `${x},${y.toFixed(4)}`).join("L");

  return ({ formula, gap, doublings }) => {
    const values = points.map((n) => found(formula, gap, n));
    const plain = points.map((n) => found("none", gap, n)[0]);
    find("path.weight").setAttribute("d", path(values.map(([weight]) => weight)));
    find("path.plain").setAttribute("d", path(plain));
    find("path.entropy").setAttribute(
      "d", path(values.map(([, entropy], x) => entropy / Math.log(points[x])))
    );
    const length = lengths[formula];
    find("path.start").setAttribute(
      "d", length ? `M${(Math.log2(length) - low).toFixed(3)},0V1` : ""
    );
    const n = 2 ** doublings, [weight, entropy] = found(formula, gap, n);
    return {
      gap: gap.toFixed(1),
      doublings: n.toLocaleString("en"),
      summary: `Among ${n.toLocaleString("en")} keys the temperature is ` +
        `${formulas[formula](n).toFixed(3)}: a key that is ahead by ${gap.toFixed(1)} has ` +
        `${(100 * weight).toFixed(1)} % of the weight, and the entropy is ` +
        `${entropy.toFixed(2)} of at most ${Math.log(n).toFixed(2)} nats.`,
    };
  };
});
