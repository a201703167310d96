posedu.live("disentangled_attention", ({ figure, find, numbers }) => {
  const { full, less, names, terms } = numbers;
  const methods = [...find("select").options];
  const panels = [...figure.querySelectorAll(".panel")];
  const at = (t, start) => t && t[t.length > 1 ? start : 0];
  const sum = (maps) => maps[0].map((_, c) => maps.reduce((s, m) => s + (m ? m[c] : 0), 0));
  const paint = (panel, values, moved) => {
    const cells = [...panel.children];
    cells.slice(0, -1).forEach((cell, c) => {
      const t = values ? values[c] : 0;
      if (t < 0) cell.setAttribute("fill", less);
      else cell.removeAttribute("fill");
      cell.setAttribute("opacity", Math.min(Math.abs(t) / full, 1).toFixed(2));
    });
    cells.at(-1).setAttribute("stroke-opacity", moved ? 1 : 0.3);
    cells.at(-1).style.strokeWidth = moved ? 3 : 1;
  };

  return ({ method, start }) => {
    const index = methods.findIndex((o) => o.value === method);
    const now = terms[index].map((term) => at(term, start));
    const before = terms[index].map((t) => at(t, 0));
    const change = (a, b) => (a ? Math.max(...a.map((t, c) => Math.abs(t - b[c]))) : 0);
    const changes = now.map((map, n) => change(map, before[n]));
    const total = change(sum(now), sum(before));
    now.forEach((map, n) => paint(panels[n], map, changes[n] > 0));
    paint(panels[4], sum(now), total > 0);

    const moved = names.filter((_, n) => changes[n] > 0);
    const none = names.filter((_, n) => !now[n]);
    const lacks = none.length ? ` It has ${none.map((n) => `no ${n} term`).join(" and ")}.` : "";
    const note = moved.length
      ? `${moved.join(", ")} changed, and scores by up to ${(total / 100).toFixed(2)}.`
      : start ? "no term changed." : "move the slider.";
    return {
      start: String(start),
      summary: `${methods[index].text}; the text starts at position ${start}: ${note}${lacks}`,
    };
  };
});
