posedu.live("fourier", ({ find, numbers: normal }) => {
  const ridge = 1e-3;
  const steps = (count, at) => Array.from({ length: count }, (_, n) => at(n));
  const offsets = steps(81, (n) => (n - 40) / 80);
  const samples = steps(12, (n) => (n + 0.5) / 12);
  const places = steps(121, (n) => n / 120);
  const target = (x) => Math.sin(2 * Math.PI * x) + 0.6 * Math.sin(6 * Math.PI * x);
  const fixed = (x) => x.toFixed(4).replace("-0.0000", "0.0000");
  const line = (xs, ys) =>
    "M" + xs.map((x, n) => `${fixed(x)},${fixed(ys[n])}`).join("L");

  const solve = (matrix, right) => {
    const rows = matrix.map((row, n) => [...row, right[n]]);
    rows.forEach((pivot, n) => {
      for (const row of rows.slice(n + 1)) {
        const share = row[n] / pivot[n];
        for (let k = n; k < row.length; k += 1) row[k] -= share * pivot[k];
      }
    });
    const found = [];
    for (let n = rows.length - 1; n >= 0; n -= 1) {
      const known = found.reduce((sum, x, k) => sum + rows[n][n + 1 + k] * x, 0);
      found.unshift((rows[n].at(-1) - known) / rows[n][n]);
    }
    return found;
  };

  return ({ level, power }) => {
    const sigma = 2 ** (level / 2);
    const pairs = 2 ** power;
    const turns = normal.slice(0, pairs).map((b) => 2 * Math.PI * sigma * b);
    const product = (r) =>
      turns.reduce((sum, w) => sum + Math.cos(w * r), 0) / pairs;
    const kernel = offsets.map((r) => Math.exp(-2 * (Math.PI * sigma * r) ** 2));
    const estimate = offsets.map(product);
    const gram = samples.map((x, n) =>
      samples.map((y, k) => product(x - y) + (n === k ? ridge : 0)));
    const weights = solve(gram, samples.map(target));
    const fit = places.map((x) =>
      samples.reduce((sum, y, n) => sum + weights[n] * product(x - y), 0));
    find("path.kernel").setAttribute("d", line(offsets, kernel));
    find("path.estimate").setAttribute("d", line(offsets, estimate));
    find("path.fit").setAttribute("d", line(places, fit));
    const off = Math.max(...estimate.map((k, n) => Math.abs(k - kernel[n])));
    const squares = fit.reduce((sum, y, n) => sum + (y - target(places[n])) ** 2, 0);
    const worst = Math.sqrt(squares / places.length);
    const shown = String(Number(sigma.toPrecision(3)));
    return {
      level: shown,
      power: String(pairs),
      summary: `With σ = ${shown} and ${pairs} frequencies the error of the estimate is ` +
        `${off.toFixed(2)} at most, that of the fit ${worst.toFixed(2)} ` +
        "(root mean square).",
    };
  };
});
