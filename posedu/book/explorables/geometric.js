posedu.live("geometric", ({ find, numbers: matches }) => {
  const pieces = [...find(".pieces").children];
  const names = [...find(".names").children];
  const n = pieces.length + 1;
  const percent = (x) => `${(100 * x).toFixed(1)} %`;
  const signed = (x) => x.toFixed(1).replace("-", "−");
  const [left, right] = ["earlier", "later"].map((name) =>
    find(`.${name}`).getAttribute("stroke"));

  return (values) => {
    const query = values.query;
    const order = [...Array(n).keys()].filter((j) => j !== query).sort((a, b) =>
      Math.abs(a - query) - Math.abs(b - query) || b - a);
    const share = (j) => {
      if (values.causal && j > query) return 0;
      const own = matches.includes(j) ? values.match : values.other;
      if (j < query) return own;
      const odds = own / (1 - own) * Math.exp(values.right);
      return odds / (1 + odds);
    };
    let rest = 1;
    const weights = Array(n).fill(0);
    for (const j of order) {
      weights[j] = rest * share(j);
      rest *= 1 - share(j);
    }
    const total = weights.reduce((s, w) => s + w, 0);
    if (values.normalize) {
      weights.forEach((w, j) => { weights[j] = w / Math.max(total, 1e-12); });
      rest = total ? 0 : 1;
    }

    let end = 0;
    order.forEach((j, place) => {
      const start = end;
      end += weights[j];
      pieces[place].setAttribute("d",
        `M${start.toFixed(4)},0V1H${end.toFixed(4)}V0z`);
      pieces[place].setAttribute("fill", j < query ? left : right);
      names[place].setAttribute("x", (20 + 180 * (start + end)).toFixed(1));
      names[place].textContent = weights[j] >= 0.07 ? j : "";
    });
    const bars = weights.map((w, j) => `M${j + 0.5},0V${w.toFixed(4)}`);
    find(".later").setAttribute("d", bars.slice(query).join(""));
    find(".earlier").setAttribute("d", bars.slice(0, query).join("") || "M0,0");
    find(".here").setAttribute("d", `M${query + 0.5},0V1`);

    const visited = order.filter((j) => !values.causal || j < query);
    const most = weights.indexOf(Math.max(...weights));
    return {
      query: String(query),
      match: values.match.toFixed(2),
      other: values.other.toFixed(2),
      right: signed(values.right),
      summary: visited.length
        ? `Query ${query} visits the keys ${visited.join(", ")}. Key ${most} gets ` +
          `the most, ${percent(weights[most])}; ${percent(rest)} is left over.`
        : `Query ${query} sees no key: its weights are 0, divided or not.`,
    };
  };
});
