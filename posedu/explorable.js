document.querySelectorAll(".posedu-explorable:not([data-live])").forEach((figure) => {
  figure.dataset.live = "";
  const find = (selector) => figure.querySelector(selector);
  const [offsetSlider, baseSlider] = figure.querySelectorAll("input");
  const clocks = [...figure.querySelectorAll(".clock")];

  const draw = () => {
    const offset = offsetSlider.valueAsNumber;
    const base = Number((10 ** baseSlider.valueAsNumber).toPrecision(3));
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
      { length: Number(offsetSlider.max) + 1 }, (_, t) => `${t},${score(t).toFixed(4)}`
    );
    find(".scores").setAttribute("d", "M" + points.join("L"));
    find(".marker").setAttribute("d", `M${points[offset]}h0`);
    find(".guide").setAttribute("d", `M${offset},-1V1`);

    const shownBase = base.toLocaleString("en");
    const shownScore = score(offset).toFixed(3);
    const slow = omega.filter((w) => w * offset < Math.PI / 2).length;
    baseSlider.setAttribute("aria-valuetext", shownBase);
    find(".offset").value = offset;
    find(".base").value = shownBase;
    find(".score").value = shownScore;
    find(".summary").textContent =
      `At offset ${offset} and base ${shownBase} the score is ${shownScore}; ` +
      `still within their first quarter turn: ${slow} of ${omega.length} hands.`;
  };

  offsetSlider.addEventListener("input", draw);
  baseSlider.addEventListener("input", draw);
  find(".controls").hidden = false;
  find(".still").hidden = true;
  draw();
});
