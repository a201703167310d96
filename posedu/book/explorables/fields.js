posedu.live("fields", ({ find }) => {
  const offsets = Array.from({ length: 385 }, (_, n) => n / 192);
  const fixed = (x, digits) =>
    x.toFixed(digits).replace(/^-(0\.0*)$/, "$1");
  const line = (ys) =>
    "M" + offsets.map((t, n) => `${fixed(t, 6)},${fixed(ys[n], 4)}`).join("L");

  return ({ octaves, level, unit }) => {
    const sigma = 2 ** (level / 2);
    const angle = unit === "half turns" ? Math.PI : 1;
    const kernel = offsets.map((t) => {
      let sum = 0;
      for (let l = 0; l < octaves; l += 1) sum += Math.cos(2 ** l * angle * t);
      return sum / octaves;
    });
    const gauss = offsets.map((t) => Math.exp(-2 * (Math.PI * sigma * t) ** 2));
    find("path.kernel").setAttribute("d", line(kernel));
    find("path.gauss").setAttribute("d", line(gauss));
    const shown = String(Number(sigma.toPrecision(3)));
    return {
      level: shown,
      summary: `With L = ${octaves} the share is ${fixed(kernel[192], 2)} at offset 1 ` +
        `and ${fixed(kernel[384], 2)} at offset 2; the Gaussian with σ = ${shown} is ` +
        `${fixed(gauss[192], 2)} at offset 1.`,
    };
  };
});
