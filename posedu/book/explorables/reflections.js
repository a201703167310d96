posedu.live("reflections", ({ find, numbers: { words, key, mirror } }) => {
  const direction = (degrees) => {
    const angle = (degrees * Math.PI) / 180;
    return [Math.cos(angle), Math.sin(angle)];
  };
  const point = (v) => v.map((x) => (100 * x).toFixed(1)).join(",");
  const signed = (x) => x.toFixed(2).replace(/^-(0\.00)$/, "$1").replace("-", "−");
  const [heads, cells] = [".order", ".cells"].map((s) => [...find(s).children]);
  const inks = words.map((_, n) => find(`.mirror${n}`).getAttribute("stroke"));

  return ({ first, second, third, spread, swap }) => {
    const betas = [first, second, third];
    const order = swap ? [1, 0, 2] : [0, 1, 2];
    betas.forEach((beta, n) => {
      const [x, y] = direction(mirror + spread * n);
      const line = find(`.mirror${n}`);
      line.setAttribute("d", `M${point([-x, -y])}L${point([x, y])}`);
      line.setAttribute("stroke-opacity", (beta / 2).toFixed(2));
      find(`.name${n}`).setAttribute("x", (122 * x).toFixed(1));
      find(`.name${n}`).setAttribute("y", (4 - 114 * y).toFixed(1));
    });

    const moved = [direction(key)];
    const determinants = [1];
    order.forEach((n) => {
      const [x, y] = moved.at(-1);
      const [c, s] = direction(mirror + spread * n + 90);
      const amount = betas[n] * (c * x + s * y);
      moved.push([x - amount * c, y - amount * s]);
      determinants.push(determinants.at(-1) * (1 - betas[n]));
    });
    moved.forEach((v, step) => {
      const arrow = find(`.arrow${step}`);
      arrow.setAttribute("d", `M0,0L${point(v)}`);
      if (step) arrow.setAttribute("stroke", inks[order[step - 1]]);
      if (step) heads[step].textContent = words[order[step - 1]];
      cells[2 * step].textContent = Math.hypot(...v).toFixed(2);
      cells[2 * step + 1].textContent = signed(determinants[step]);
    });
    find(".trail").setAttribute("d", `M${moved.map(point).join("L")}`);

    const share = (100 * Math.hypot(...moved.at(-1))).toFixed(0);
    return {
      first: first.toFixed(2),
      second: second.toFixed(2),
      third: third.toFixed(2),
      spread: `${spread}°`,
      summary: `After “${words[2]}” the key has ${share} % of its length, and the ` +
        `determinant of the product is ${signed(determinants.at(-1))}.`,
    };
  };
});
