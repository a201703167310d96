posedu.live("fire", ({ find }) => {
  const c = 0.1;
  const curve = [[0, 0], [0.5, -0.2], [0.7, -0.75], [0.85, -0.55], [1, -1]];
  const distances = [...new Set(
    Array.from({ length: 61 }, (_, n) => Math.round(1000 ** (n / 60)))
  )];
  const psi = (t) => Math.log1p(c * t);
  const bias = (x) => {
    const n = Math.max(1, curve.findIndex(([end]) => end >= x));
    const [[left, low], [right, high]] = [curve[n - 1], curve[n]];
    return low + (high - low) * (x - left) / (right - left);
  };
  const line = (query, threshold) => {
    const most = psi(Math.max(query, threshold));
    const keys = [0, ...distances.filter((t) => t < query), query];
    return "M" + keys.map((t) => `${t},${bias(psi(t) / most).toFixed(4)}`).join("L");
  };

  return ({ query, threshold }) => {
    const middle = (Math.sqrt(c * Math.max(query, threshold) + 1) - 1) / c;
    find("path.fire").setAttribute("d", line(query, threshold));
    find("path.held").setAttribute("d", line(threshold, threshold));
    find("path.middle").setAttribute("d", `M${middle.toFixed(1)},0V-1`);
    const what = query <= threshold
      ? "has the same curve as a query at the threshold"
      : "has a stretched curve";
    return {
      "middle-at": middle.toFixed(0),
      summary: `A query at ${query.toLocaleString("en")} with the threshold ` +
        `${threshold} ${what}; the curve's middle is at distance ` +
        `${middle.toFixed(0)}.`,
    };
  };
});
