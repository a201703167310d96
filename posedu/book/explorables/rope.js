posedu.live("rope", ({ figure, find }) => {
  const clocks = [...figure.querySelectorAll(".clock")];
  const longest = Number(find('input[name="offset"]').max);

  return (values) => {
    const offset = values.offset;
    const base = Number((10 ** values.base).toPrecision(3));
    const omega = clocks.map((_, p) => base ** (-p / clocks.length));
    const score = (t) =>
      omega.reduce((sum, w) => sum + Math.cos(w * t), 0) / omega.length;

    clocks.forEach((clock, p) => {
      const angle = omega[p] * offset;
      const [cos, sin] = [Math.cos(angle), Math.sin(angle)].map((x) => x.toFixed(4));
      const degrees = ((angle * 180 / Math.PI) % 360).toFixed(1);
      clock.querySelector(".query").setAttribute("d", `M0,0L${cos},${sin}`);
      clock.querySelector(".shadow").setAttribute("d", `M0,0H${cos}`);
      clock.querySelector(".angle").textContent = `${degrees}°`;
      clock.setAttribute("aria-label", `Pair ${p}: query ${degrees}° ahead of key`);
    });
    const points = Array.from(
      { length: longest + 1 }, (_, t) => `${t},${score(t).toFixed(4)}`
    );
    find(".scores").setAttribute("d", "M" + points.join("L"));
    find(".marker").setAttribute("d", `M${points[offset]}h.001`);
    find(".guide").setAttribute("d", `M${offset},-1V1`);

    const shown = {
      offset: String(offset),
      base: base.toLocaleString("en"),
      score: score(offset).toFixed(3),
    };
    const slow = omega.filter((w) => w * offset < Math.PI / 2).length;
    return {
      ...shown,
      summary: `At offset ${offset} and base ${shown.base} the score is ` +
        `${shown.score}; ${slow} of ${omega.length} pairs are still within ` +
        "their first quarter turn.",
    };
  };
});
