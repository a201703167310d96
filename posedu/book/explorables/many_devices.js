posedu.live("many_devices", ({ find, figure, numbers }) => {
  const cells = [...figure.querySelectorAll(".number")];
  const set = (name, key, value) => find(name).setAttribute(key, value);
  const inks = ["var(--posedu-0, #0072b2)", "var(--posedu-1, #d55e00)"];
  const sum = (x) => x.reduce((a, b) => a + b, 0);
  const printed = (x, digits = 0) => x.toLocaleString("en-US",
    { minimumFractionDigits: digits, maximumFractionDigits: digits });

  return ({ order, pairs, ranks: n, step, rank }) => {
    for (const name of ["step", "rank"]) find(`input[name="${name}"]`).max = n - 1;
    [step, rank] = [Math.min(step, n - 1), Math.min(rank, n - 1)];
    const each = [...Array(n).keys()];
    const tokens = 2 * n * Math.round(24 / n);
    const places = [...Array(tokens).keys()];
    const own = places.map((i) => {
      if (order === "striped") return i % n;
      if (order === "contiguous") return Math.floor(i * n / tokens);
      const chunk = Math.floor(i * 2 * n / tokens);
      return Math.min(chunk, 2 * n - 1 - chunk);
    });
    const width = numbers.windows[pairs] ?? tokens;
    const computed = (i, j) => pairs === "all" || (i >= j && i - j < width);
    const when = (i, j) => (own[i] - own[j] + n) % n;
    const runs = (rows, columns, chosen) => {
      let path = "";
      for (let i = 0; i < rows; i++) {
        for (let j = 0, start; j < columns; j++) {
          if (!chosen(i, j)) continue;
          for (start = j; j < columns && chosen(i, j);) j++;
          path += `M${start},${i}h${j - start}v1h-${j - start}z`;
        }
      }
      return path;
    };
    const held = (rank - step + n) % n;
    const now = (i, j) => computed(i, j) && when(i, j) === step;
    set(".matrix", "transform", `translate(26,24) scale(${(176 / tokens).toFixed(4)})`);
    set(".every", "d", runs(tokens, tokens, computed));
    set(".pairs", "d", runs(tokens, tokens, (i, j) => now(i, j) && own[i] !== rank));
    set(".own", "d", runs(tokens, tokens, (i, j) => now(i, j) && own[i] === rank));
    set(".queries", "d", runs(tokens, 1, (i) => own[i] === rank));
    set(".keys", "d", runs(1, tokens, (_, j) => own[j] === held));

    const loads = each.map(() => each.map(() => 0));
    for (const i of places) {
      for (const j of places) if (computed(i, j)) loads[when(i, j)][own[i]] += 1;
    }
    const most = loads.map((row) => Math.max(...row));
    find(".ring").innerHTML = each.map((r) => {
      const angle = 2 * Math.PI * r / n, marked = r === rank;
      const [x, y] = [Math.sin(angle), -Math.cos(angle)];
      const load = loads[step][r];
      return `<path d="M301,46l5,4l-5,4"` +
        ` transform="rotate(${((r + 0.5) * 360 / n).toFixed(1)} 304 110)"` +
        ` stroke="currentColor"/>` +
        `<g transform="translate(${(304 + 60 * x).toFixed(1)},${(110 + 60 * y).toFixed(1)})">` +
        `<circle r="16" fill="Canvas"/><circle class="node" r="16" fill="${inks[0]}"` +
        ` fill-opacity="${(0.35 * load / Math.max(most[step], 1)).toFixed(2)}"` +
        ` stroke="${marked ? inks[1] : "currentColor"}"` +
        ` stroke-dasharray="${load ? "none" : "3"}"` +
        ` style="stroke-width:${marked ? 3 : 1}"/><text y="5">${r}</text></g>` +
        `<text class="held" x="${(304 + 87 * x).toFixed(1)}"` +
        ` y="${(114 + 87 * y).toFixed(1)}">${(r - step + n) % n}</text>`;
    }).join("");

    const ends = most.map((_, s) => sum(most.slice(0, s + 1)));
    const path = ends[n - 1], share = sum(loads.flat()) / n;
    const unit = 358 / path, row = 112 / n;
    const bars = (chosen) => loads.flatMap((line, s) => line.map((load, r) => {
      if (!load || !chosen(s, r)) return "";
      const [x, long] = [30 + unit * (ends[s] - most[s]), (unit * load).toFixed(1)];
      return `M${x.toFixed(1)},${(240 + row * r).toFixed(1)}` +
        `h${long}v${(0.8 * row).toFixed(1)}h-${long}z`;
    })).join("");
    set(".other", "d", bars((s) => s !== step));
    set(".now", "d", bars((s, r) => s === step && r !== rank));
    set(".mine", "d", bars((s, r) => s === step && r === rank));
    set(".bounds", "d", [0, ...ends].map(
      (end) => `M${(30 + unit * end).toFixed(1)},236v116`).join(""));
    set(".share", "d", `M${(30 + unit * share).toFixed(1)},232v124`);
    find(".ranks-of-rows").innerHTML = each.map((r) =>
      `<text x="18" y="${(245 + row * (r + 0.4)).toFixed(1)}">${r}</text>`).join("");
    const middle = 30 + unit * (ends[step] - most[step] / 2);
    find(".label").textContent = `step ${step}`;
    set(".label", "x", Math.min(Math.max(middle, 40), 374).toFixed(1));

    const ratio = printed(path / share, 3);
    const sent = step < n - 1 ? tokens / n * 4096 : 0;
    [printed(path), printed(share, 1), ratio, printed(sent)].forEach((text, place) => {
      cells[place].textContent = text;
    });
    const waiting = loads[step].filter((load) => load < most[step]).length;
    const wait = waiting
      ? `${waiting} of ${n} ranks wait${waiting > 1 ? "" : "s"} for the slowest`
      : most[step] ? "No rank waits" : "No rank has a pair";
    return {
      ranks: String(n),
      step: String(step),
      rank: String(rank),
      summary: `Step ${step}: rank ${rank} computes ${loads[step][rank]} pairs with ` +
        `the keys of rank ${held}. ${wait}. All steps take the time of ` +
        `${printed(path)} pairs, ${ratio} times an equal share.`,
    };
  };
});
