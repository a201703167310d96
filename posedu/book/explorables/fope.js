posedu.live("fope", ({ find }) => {
  const places = Array.from({ length: 161 }, (_, n) => n / 4);
  const slow = 10 ** -0.5;

  return ({ own, other, back }) => {
    const waves = [[own, 1], [other, slow], [back, -1]];
    const most = own + other + back || 1;
    const point = (x) => [Math.cos, Math.sin].map((part) =>
      waves.reduce((sum, [g, w]) => sum + g * part(w * x), 0) / most);
    const points = places.map(point);
    const scores = places.map((x, n) => {
      const [there, here] = [point(x + 1), points[n]];
      return there[0] * here[0] + there[1] * here[1];
    });
    const line = (many) => "M" + many.join("L");
    const written = (value) => value.toFixed(2).replace("-", "−");
    find(".curve").setAttribute("d", line(points.map((p) => p.map((v) => v.toFixed(3)))));
    find(".scores").setAttribute("d", line(places.map((x, n) => `${x},${scores[n].toFixed(3)}`)));

    const count = waves.filter(([g]) => g > 0).length;
    const [low, high] = [Math.min(...scores), Math.max(...scores)].map(written);
    const found = count > 1
      ? `varies from ${low} to ${high} with the position. It is not relative.`
      : `is ${low} at every position. It is relative.`;
    return {
      own: own.toFixed(1), other: other.toFixed(1), back: back.toFixed(1),
      summary: `${count} wave${count === 1 ? "" : "s"}: the score of two neighbors ${found}`,
    };
  };
});
