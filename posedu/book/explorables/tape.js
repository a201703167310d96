posedu.live("tape", ({ figure, find }) => {
  const frequencies = [1, 0.25];
  const tokens = [0, 1, 2, 3];
  const curves = [...figure.querySelectorAll(".trajectory")];
  const ends = [...figure.querySelectorAll(".token")];

  const weigh = (at, i, key) => {
    const logits = tokens.slice(0, i + 1).map((j) =>
      (j === 1 ? key : 1) *
      at[i].reduce((sum, [x, y], p) => sum + x * at[j][p][0] + y * at[j][p][1], 0));
    const most = Math.max(...logits);
    const parts = logits.map((logit) => Math.exp(logit - most));
    const total = parts.reduce((a, b) => a + b);
    return parts.map((part) => part / total);
  };
  const updated = (at, c, key) => tokens.map((i) => {
    const weights = weigh(at, i, key);
    return at[i].map((point, p) => point.map((x, n) =>
      x + c * weights.reduce((sum, w, j) => sum + w * at[j][p][n], 0)));
  });

  return ({ layers, attended, key, shift }) => {
    const states = [tokens.map((t) => frequencies.map((w) =>
      [Math.cos(w * (t + shift)), Math.sin(w * (t + shift))]))];
    for (let n = 0; n < layers; n += 1) states.push(updated(states[n], attended, key));
    const last = states[layers];
    frequencies.forEach((_, p) => tokens.forEach((t) => {
      const place = (at) => at[t][p].map((x) => x.toFixed(3));
      const number = p * tokens.length + t;
      curves[number].setAttribute("d", `M${states.map((s) => place(s).join()).join("L")}`);
      const [x, y] = place(last);
      ends[number].setAttribute("cx", x);
      ends[number].setAttribute("cy", y);
    }));
    const shares = weigh(last, 3, key).map((w) => (100 * w).toFixed(1)).join(", ") + " %";
    const farthest = Math.max(...last.flat().map(([x, y]) => Math.hypot(x, y)));
    const c = attended.toFixed(1).replace("-0.0", "0.0").replace("-", "−");
    return {
      layers: `${layers}`,
      attended: c,
      key: key.toFixed(1),
      shift: shift.toFixed(1),
      weights: shares,
      summary: `After ${layers} layers with c = ${c}, all positions shifted by ` +
        `${shift.toFixed(1)}, the farthest point is ${farthest.toFixed(3)} from the ` +
        `center; the weights of token 3 are ${shares}.`,
    };
  };
});
