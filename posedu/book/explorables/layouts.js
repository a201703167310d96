posedu.live("layouts", ({ find }) => {
  const head = 16, left = 20, step = 24, top = 42, bottom = 142;
  const features = (order, width) => {
    const [layout, clockwise] = order.split("-");
    return Array.from({ length: width / 2 }, (_, p) => {
      const pair = layout === "half" ? [p, p + width / 2] : [2 * p, 2 * p + 1];
      return clockwise ? pair.reverse() : pair;
    });
  };
  return ({ source, target, width }) => {
    const [here, there] = [source, target].map((order) => features(order, Number(width)));
    const order = Array.from({ length: head }, (_, n) => n);
    here.forEach((pair, p) => pair.forEach((row, k) => { order[there[p][k]] = row; }));
    for (let n = 0; n < head / 2; n += 1) {
      const rows = [...(here[n] ?? [])].sort((a, b) => a - b);
      find(`path.pair${n}`).setAttribute("d", rows.map((row) =>
        `M${left + step * row},${top}L${left + step * order.indexOf(row)},${bottom}`).join(""));
    }
    order.forEach((row, n) => { find(`.to${n}`).textContent = row; });
    const moved = order.filter((row, n) => row !== n).length;
    return {
      summary: moved
        ? `${moved} of ${head} rows of each head move. The new head begins with rows ` +
          `${order.slice(0, 4).join(", ")} of the old one.`
        : "Nothing moves: the two are the same order.",
    };
  };
});
