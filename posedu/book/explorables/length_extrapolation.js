posedu.live("length_extrapolation", ({ find }) => {
  const pairs = Array.from({ length: 32 }, (_, p) => p);
  const bars = (low, high) => pairs.filter((p) => high[p] > low[p])
    .map((p) => `M${p + 0.5},${low[p].toFixed(4)}V${high[p].toFixed(4)}`).join("");
  const written = (n) => n.toLocaleString("en");

  return ({ trained, factor, base }) => {
    const length = 2 ** trained, longer = 2 ** (trained + factor);
    const shares = (n) => pairs.map(
      (p) => Math.min(Number(base) ** (-p / 32) / (2 * Math.PI) * (n - 1), 1)
    );
    const [covered, reached] = [shares(length), shares(longer)];
    find("path.covered").setAttribute("d", bars(covered.map(() => 0), covered));
    find("path.new").setAttribute("d", bars(covered, reached));
    const full = covered.filter((share) => share === 1).length;
    const fresh = pairs.filter((p) => reached[p] > covered[p]).length;
    return {
      trained: written(length), factor: String(2 ** factor),
      summary: `${full} of 32 pairs complete a full turn within ${written(length)} tokens; ` +
        `${fresh} meet new angles within ${written(longer)}.`,
    };
  };
});
