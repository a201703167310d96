posedu.live("comrope", ({ figure, numbers }) => {
  const clocks = [...figure.querySelectorAll(".clock")];
  const written = (angle) =>
    `${(angle * 180 / Math.PI).toFixed(0)}°`.replace("-", "−");

  return ({ kind, column, row }) => {
    const { law, shadows, frequencies } = numbers[kind];
    const angles = frequencies.map(([f, g]) => f * column + g * row);
    clocks.forEach((clock, plane) => {
      const angle = angles[plane];
      const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
      clock.querySelectorAll(".rotation").forEach((rotation, n) => {
        const [x, y] = shadows[plane][n];
        const [to, up] = [x * cos - y * sin, x * sin + y * cos].map((v) => v.toFixed(3));
        rotation.setAttribute("d", `M0,0L${to},${up}`);
      });
      clock.querySelector(".angle").textContent = written(angle);
      clock.setAttribute("aria-label", `Plane ${plane}, rotated by ${written(angle)}`);
    });
    const place = { column: column.toFixed(2), row: row.toFixed(2) };
    return {
      ...place,
      summary: `At column ${place.column}, row ${place.row} the planes are rotated by ` +
        `${angles.map(written).join(", ")}: ${law}.`,
    };
  };
});
