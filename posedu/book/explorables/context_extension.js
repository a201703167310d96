posedu.live("context_extension", ({ find }) => {
  const trained = 4096, share = 0.75, floor = -6, turn = 2 * Math.PI;
  const turns = (w) => trained * w / turn;
  const clip = (x) => Math.min(Math.max(x, 0), 1);
  const blend = (w, s, gamma) => (1 - gamma) * w / s + gamma * w;
  const byTurns = (all, s, slow, fast) =>
    all.map((w) => blend(w, s, clip((turns(w) - slow) / (fast - slow))));
  const byIndex = (all, s, base) => {
    const pairs = all.length;
    const at = (r) => pairs * Math.log(trained / (turn * r)) / Math.log(base);
    const hold = (end) => Math.min(Math.max(end, 0), 2 * pairs - 1);
    const [first, last] = [hold(Math.floor(at(32))), hold(Math.ceil(at(1)))];
    return all.map((w, p) => blend(w, s, 1 - clip((p - first) / (last - first))));
  };
  const nearest = (all) => {
    const away = all.map((w) => Math.abs(Math.log(turns(w))));
    return away.indexOf(Math.min(...away));
  };
  const scalings = {
    rope: (all) => all,
    pi: (all, s) => all.map((w) => w / s),
    ntk: (all, s) => all.map((w, p) => w * s ** (-p / (all.length - 1))),
    turns: (all, s) => byTurns(all, s, 1, 32),
    llama3: (all, s) => byTurns(all, s, 1, 4),
    index: byIndex,
    prope: (all) => all.map((w, p) => p < Math.floor(share * all.length) ? w : 0),
    resonance: (all) => all.map((w) => turn / Math.round(turn / w)),
    riflex: (all, s) => {
      const pair = nearest(all);
      return all.map((w, p) => p === pair ? turn / (trained * s) : w);
    },
  };
  const select = find("select[name=method]");

  return ({ method, doublings, base, d }) => {
    const [s, b] = [2 ** doublings, Number(base)];
    const all = Array.from({ length: d / 2 }, (_, p) => b ** (-2 * p / d));
    const scaled = scalings[method](all, s, b);
    const isNew = all.map((w, p) =>
      Math.min(s * trained * scaled[p], turn) > Math.min(trained * w, turn) * (1 + 1e-9));
    const dot = (w, p) => {
      const height = Math.max(Math.log2(scaled[p] / w), floor);
      const x = 56 + 45 * (Math.log10(turns(w)) + 4);
      return `M${x.toFixed(1)},${(16 - 25 * height).toFixed(1)}h.01`;
    };
    const drawn = all.map(dot);
    find("path.known").setAttribute("d", drawn.filter((_, p) => !isNew[p]).join(""));
    find("path.new").setAttribute("d", drawn.filter((_, p) => isNew[p]).join(""));
    const slow = all.filter((w) => turns(w) < 1).length;
    return {
      doublings: String(s),
      summary: `${select.selectedOptions[0].text}, s = ${s}: ${slow} of ${d / 2} pairs ` +
        `do not complete a full turn in training, and ${isNew.filter(Boolean).length} meet new ` +
        `angles in ${(trained * s).toLocaleString("en")} tokens. From one token to the ` +
        `next the fastest pair rotates by ${(scaled[0] / all[0]).toFixed(2)} times the angle of training.`,
    };
  };
});
