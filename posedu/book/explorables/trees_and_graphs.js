posedu.live("trees_and_graphs", ({ find, numbers }) => {
  const edges = [...find(".edges").children];
  const nodes = [...find(".nodes").children];
  const cells = [...find(".cells").children];
  const sliders = { query: find('input[name="query"]'), key: find('input[name="key"]') };
  const marks = nodes.map((node) => node.querySelector(".mark"));
  const [blue, orange] = ["query", "key"].map(
    (role) => marks[sliders[role].valueAsNumber].getAttribute("fill"));

  nodes.forEach((node, n) => node.addEventListener("click", () => {
    sliders.query.value = sliders.key.value;
    sliders.key.value = n;
    sliders.key.dispatchEvent(new Event("input"));
  }));

  const word = (node) => (node ? [...word((node - 1) >> 1), (node + 1) % 2] : []);
  const named = (path) => path.join(" ") || "root";
  const times = (a, b) => a.map((row) => [0, 1, 2].map(
    (j) => row.reduce((sum, v, l) => sum + v * b[l][j], 0)));
  const transposed = (a) => a.map((_, i) => a.map((row) => row[i]));
  const identity = () => [[1, 0, 0], [0, 1, 0], [0, 0, 1]];
  const rotation = (branches, letter) => {
    const [i, j] = numbers.planes[branches][letter];
    const turn = numbers.turns[branches][letter];
    const matrix = identity();
    matrix[i][i] = matrix[j][j] = Math.cos(turn);
    matrix[j][i] = Math.sin(turn);
    matrix[i][j] = -matrix[j][i];
    return matrix;
  };

  return ({ branches, order, query, key, moved }) => {
    const paths = [word(query), word(key)];
    const relative = (prefix) => {
      const [x, y] = paths.map((path) => {
        const whole = [...prefix, ...path];
        if (order === "node") whole.reverse();
        return whole.map((letter) => rotation(branches, letter)).reduce(times, identity());
      });
      return times(transposed(x), y);
    };
    const [before, now] = [relative([]), relative(moved ? [1] : [])];
    const [x, y] = paths;
    let common = 0;
    while (common < Math.min(x.length, y.length) && x[common] === y[common]) common += 1;

    const up = new Set();
    for (let [a, b] = [query, key]; a !== b;) {
      const lower = Math.max(a, b);
      up.add(lower);
      if (a === lower) a = (a - 1) >> 1; else b = (b - 1) >> 1;
    }
    edges.forEach((edge, n) => {
      edge.style.strokeWidth = up.has(n + 1) ? 4 : 1.2;
    });
    marks.forEach((mark, n) => mark.setAttribute(
      "fill", n === key ? orange : n === query ? blue : "none"));
    cells.forEach((cell, n) => {
      const value = now[Math.floor(n / 3)][n % 3];
      const [square, text] = cell.children;
      square.setAttribute("fill", value > -1e-9 ? blue : orange);
      square.setAttribute("fill-opacity", (0.6 * Math.abs(value)).toFixed(3));
      const shown = value.toFixed(2);
      text.textContent = shown === "-0.00" ? "0.00" : shown.replace("-", "−");
    });
    const change = Math.max(...now.flat().map(
      (v, n) => Math.abs(v - before[Math.floor(n / 3)][n % 3])));
    const cancels = order === "root" || branches === "planes";
    let summary = `From ${named(x)} to ${named(y)}: up ${x.length - common}, down ` +
      `${y.length - common}. `;
    if (moved) summary += `The new root changes the rotation by ${change.toFixed(2)}.`;
    else if (cancels) summary += `Common steps, which cancel: ${common}.`;
    else summary += `Common steps, which need not cancel: ${common}.`;
    return { query: named(x), key: named(y), summary };
  };
});
