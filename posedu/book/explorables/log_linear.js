posedu.live("log_linear", ({ find }) => {
  const bars = ["now", "following"].map((name) => [...find(`.${name}`).children]);

  const digits = (n) => n ? Math.floor(Math.log2(n)) + 1 : 0;
  const strong = (t, s) => {
    let start = 0;
    while (t > s) {
      const left = t - start, level = digits(left);
      const size = level > 1 ? Math.max(2 ** (level - 2), 1) : 1;
      const end = start + (level > 1 && left >= 3 * size ? 2 : 1) * size;
      if (s < end) return level;
      start = end;
    }
    return 0;
  };
  const levelsOf = (t, buckets) => Array.from({ length: t + 1 }, (_, s) =>
    buckets === "weak" ? digits(t ^ s) : strong(t, s));
  const row = (levels, children) => {
    for (let level = 0; level < children.length / 2; level++) {
      const start = Math.max(levels.indexOf(level), 0);
      const end = levels.lastIndexOf(level) + 1;
      const [left, right] = [(start + 0.08).toFixed(2), (end - 0.08).toFixed(2)];
      const [path, text] = children.slice(2 * level, 2 * level + 2);
      path.setAttribute("d", end ? `M${left},0H${right}V1H${left}z` : "M0,0");
      text.setAttribute("x", (20 + 11.25 * (start + end) / 2).toFixed(3));
      text.textContent = end ? level : "";
    }
  };

  return ({ query, buckets, decay, slope }) => {
    const now = levelsOf(query, buckets), following = levelsOf(query + 1, buckets);
    row(now, bars[0]);
    row(following, bars[1]);
    const factors = now.map((level, j) =>
      decay ** (query - j) * Math.exp(slope * level));
    const most = Math.max(1, ...factors);
    find(".factors").setAttribute("d", factors.map((factor, j) =>
      `M${j + 0.5},0V${(factor / most).toFixed(4)}`).join(""));
    const sizes = [...new Set(now)].map((l) => now.filter((own) => own === l).length);
    const joined = sizes.length > 1
      ? `${sizes.slice(0, -1).join(", ")} and ${sizes.at(-1)}` : sizes[0];
    const into = following[query];
    const from = Math.max(...now.filter((_, j) => following[j] === into));
    const next = buckets === "strong" ? ""
      : from ? ` At the next token the levels 0 to ${from} become one bucket, of ` +
        `level ${into}.`
      : " At the next token its own bucket gets level 1, and all others stay.";
    const most1 = most > 1 ? ` The columns are divided by ${most.toFixed(2)}.` : "";
    return {
      query: String(query),
      decay: decay.toFixed(2),
      slope: slope.toFixed(1).replace("-", "−"),
      summary: `Query ${query}, ${query.toString(2)} in binary, has ` +
        `${sizes.length} bucket${sizes.length > 1 ? "s" : ""}, of ${joined} ` +
        `token${query ? "s" : ""}.${next}${most1}`,
    };
  };
});
