posedu.live("sinusoidal", ({ figure, find }) => {
  const [shades, rotations, waves] = [".shade", ".rotation", ".wave"].map(
    (name) => [...figure.querySelectorAll(name)]
  );
  const levels = shades.length / 2;
  const length = Number(find('input[name="position"]').max) + 1;
  const written = (number) => Number(number.toPrecision(3)).toLocaleString("en");
  let drawn;

  const table = (omega) => {
    const runs = Object.fromEntries(shades.map((path) => [path.dataset.shade, ""]));
    omega.forEach((w, p) => [Math.sin, Math.cos].forEach((wave, row) => {
      const shade = (i) => i < length ? Math.round(levels * wave(w * i)) : NaN;
      for (let start = 0, i = 1; i <= length; i++) {
        if (shade(i) === shade(start)) continue;
        if (shade(start)) runs[shade(start)] += `M${start},${5 * p + 2 * row}h${i - start}`;
        start = i;
      }
    }));
    shades.forEach((path) => path.setAttribute("d", runs[path.dataset.shade]));
  };

  return (values) => {
    const base = Number((10 ** values.base).toPrecision(3));
    const omega = rotations.map((_, p) => base ** (-p / rotations.length));
    const lambda = omega.map((w) => 2 * Math.PI / w);
    if (base !== drawn) table(omega);
    drawn = base;
    rotations.forEach((rotation, p) => {
      const angle = omega[p] * values.position;
      const [cos, sin] = [Math.cos(angle), Math.sin(angle)].map((x) => x.toFixed(3));
      rotation.setAttribute("d", `M0,0L${cos},${sin}`);
      waves[p].textContent = written(lambda[p]);
    });
    const tall = find(".guide").getAttribute("d").match(/v(\d+)/)[1];
    find(".guide").setAttribute("d", `M${values.position},-1h1v${tall}h-1z`);

    const degrees = (w) => (w * values.position * 180 / Math.PI % 360).toFixed(1);
    const shown = { position: String(values.position), base: base.toLocaleString("en") };
    const turning = lambda.filter((wave) => wave <= length).length;
    return {
      ...shown,
      summary: `At base ${shown.base} pair 0 has the wavelength ${written(lambda[0])} ` +
        `positions, pair ${rotations.length - 1} ${written(lambda.at(-1))}; a full ` +
        `turn within the ${length} positions: ${turning} of ${rotations.length} pairs. ` +
        `At position ${shown.position} the angles of the first and the last pair are ` +
        `${degrees(omega[0])}° and ${degrees(omega.at(-1))}°.`,
    };
  };
});
