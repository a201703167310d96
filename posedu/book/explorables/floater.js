posedu.live("floater", ({ find }) => {
  const last = 24;
  const dots = (pairs) =>
    pairs.map(([x, y]) => `M${x.toFixed(3)},${y.toFixed(3)}h.001`).join("");

  return ({ rate, steps }) => {
    const z = rate / steps;
    const re = 1 - z ** 2 / 2 + z ** 4 / 24;
    const im = z - z ** 3 / 6;
    const nodes = [[1, 0]];
    for (let n = 0; n < last * steps; n++) {
      const [x, y] = nodes[n];
      nodes.push([re * x - im * y, im * x + re * y]);
    }
    const exact = Array.from({ length: last + 1 }, (_, i) =>
      [Math.cos(rate * i), Math.sin(rate * i)]);
    const path = nodes.map((pair) => pair.map((c) => c.toFixed(3)).join(","));
    find("path.solved").setAttribute("d", `M${path.join("L")}`);
    find("path.exact").setAttribute("d", dots(exact));
    find("path.found").setAttribute(
      "d", dots(nodes.filter((_, n) => n % steps === 0)));
    const radius = Math.hypot(...nodes[nodes.length - 1]).toFixed(3);
    const turn = (Math.atan2(im, re) + 2 * Math.PI) % (2 * Math.PI);
    const behind = (last * (rate - steps * turn) * 180) / Math.PI;
    const each = steps === 1 ? "one step" : `${steps} steps`;
    return {
      rate: rate.toFixed(1),
      radius,
      summary: `At ${rate.toFixed(1)} radians a position and ${each} in it, the ` +
        `solver is at radius ${radius} after ${last} positions; ` +
        `its angle ${behind < 0 ? "leads" : "lags"} by ` +
        `${Math.abs(behind).toFixed(1)}°.`,
    };
  };
});
