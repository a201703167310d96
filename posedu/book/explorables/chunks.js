posedu.live("chunks", ({ find }) => {
  const tokens = 32;
  const cells = [...find(".numbers").querySelectorAll(".number")];

  return ({ chunk, rule, features }) => {
    let within = "", between = "", dots = "", pairs = 0, steps = 0;
    for (let start = 0; start < tokens; start += chunk) {
      const stop = Math.min(start + chunk, tokens), size = stop - start;
      let stairs = "";
      for (let row = stop - 1; row > start; row--) stairs += `V${row}H${row}`;
      within += `M${start},${start}V${stop}H${stop}${stairs}V${start}z`;
      if (start) {
        between += `M0,${start}H${start}V${stop}H0z`;
        dots += `M${start - 0.01},${start}h0.02`;
      }
      pairs += size * (size + 1) / 2;
      steps += 1;
    }
    find(".within").setAttribute("d", within);
    find(".between").setAttribute("d", between);
    find(".dots").setAttribute("d", dots);
    const square = features * features;
    const operations = rule === "delta"
      ? 5 * chunk * features + (chunk - 1) * (2 * chunk - 1) / 6 + 3 * square
      : 2 * chunk * features + 2 * square;
    const whole = (value) => Math.round(value).toLocaleString("en-US");
    [pairs, steps - 1, steps, operations].forEach((value, n) => {
      cells[n].textContent = whole(value);
    });
    const through = steps === 1
      ? "and no state is carried"
      : `the others pass through ${steps - 1} state${steps > 2 ? "s" : ""} of ` +
        `${features} × ${features} numbers`;
    return {
      chunk: String(chunk),
      features: String(features),
      summary: `${steps} chunk${steps > 1 ? "s" : ""}: ${pairs} of ` +
        `${tokens * (tokens + 1) / 2} pairs are computed as pairs, ${through}. ` +
        `A token takes ${whole(operations)} operations.`,
    };
  };
});
