posedu.live("rotated_values", ({ find, figure }) => {
  const values = [[0.9, 0.1], [0.3, 0.8], [-0.2, 0.7], [0.8, -0.5]];
  const weights = [0.1, 0.2, 0.3, 0.4];
  const rotate = ([x, y], angle) => {
    const c = Math.cos(angle), s = Math.sin(angle);
    return [c * x - s * y, s * x + c * y];
  };
  const arrow = ([x, y]) => {
    const head = (side) => [0.9 * x - side * 0.05 * y, 0.9 * y + side * 0.05 * x];
    const points = [[x, y], head(1), [x, y], head(-1)];
    return "M0,0" + points.map((p) => `L${p[0].toFixed(4)},${p[1].toFixed(4)}`).join("");
  };
  const signed = (x) => x.toFixed(2).replace("-", "−").replace("−0.00", "0.00");

  return ({ start, apart, back }) => {
    const rotated = values.map((v, n) => rotate(v, start + apart * n));
    const sum = [0, 1].map((axis) => rotated.reduce((t, v, n) => t + weights[n] * v[axis], 0));
    const out = back ? rotate(sum, -(start + 3 * apart)) : sum;
    figure.querySelectorAll("path.value").forEach((path, n) =>
      path.setAttribute("d", arrow(rotated[n])));
    find("path.out").setAttribute("d", arrow(out));
    return {
      start: start.toFixed(1),
      apart: apart.toFixed(1),
      summary: `From position ${start.toFixed(1)} on, tokens ${apart.toFixed(1)} apart: the ` +
        `output, ${back ? "" : "not "}rotated back, is ${signed(out[0])}, ${signed(out[1])}.`,
    };
  };
});
