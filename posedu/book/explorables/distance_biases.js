posedu.live("distance_biases", ({ find }) => {
  const longest = 2 ** 16;
  const sums = (weight) => {
    const all = new Float64Array(longest);
    for (let t = 0, total = 0; t < longest; t++) all[t] = total += weight(t);
    return all;
  };
  const fixed = { alibi: sums((t) => Math.exp(-t / 16)), none: sums(() => 1) };
  const nearest = [...new Set(
    Array.from({ length: 65 }, (_, n) => Math.round(2 ** (n / 4)))
  )];
  const cache = {};

  return ({ length: doublings, r1 }) => {
    const length = 2 ** doublings;
    const kerple = cache[r1] ??= sums((t) => (1 + t) ** -r1);
    const shown = { length: length.toLocaleString("en"), r1: r1.toFixed(1) };
    for (const [name, total] of Object.entries({ ...fixed, kerple })) {
      const all = total[length - 1];
      const points = nearest.filter((n) => n <= length).map(
        (n) => `${Math.log2(n).toFixed(3)},${(total[n - 1] / all).toFixed(4)}`
      );
      find(`path.${name}`).setAttribute("d", "M" + points.join("L"));
      const half = total.findIndex((sum) => sum >= all / 2) + 1;
      shown[`${name}-half`] = half.toLocaleString("en");
    }
    const grows = r1 <= 1 ? "grows with the length" : "is bounded";
    return {
      ...shown,
      summary: `Of ${shown.length} keys the nearest ${shown["alibi-half"]} have half ` +
        `of the weight under ALiBi, the nearest ${shown["kerple-half"]} under KERPLE ` +
        `with r₁ = ${shown.r1}, where this number ${grows}.`,
    };
  };
});
