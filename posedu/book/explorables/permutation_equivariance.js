posedu.live("permutation_equivariance", ({ figure, find, numbers }) => {
  const dials = (row) => [...figure.querySelectorAll(`.${row} .dial`)];
  const part = (dial, name) => dial.querySelector(`.${name}`);
  const [before, after] = [dials("before"), dials("after")];
  const strands = [...figure.querySelectorAll(".strand")];
  const words = before.map((dial) => part(dial, "word").textContent);
  const inks = before.map((dial) => part(dial, "arrow").getAttribute("stroke"));
  const to = ([x, y]) => `M0,0L${x},${y}`;
  const truth = { without: "word", with: "none" };

  return ({ order, guess, look, positions }) => {
    const old = numbers[positions]["012"];
    const now = numbers[positions][order];
    const stands = [...order, "3"].map(Number); // the word at each place, the mean last
    before.forEach((dial, n) => part(dial, "arrow").setAttribute("d", to(old[n])));
    after.forEach((dial, place) => {
      const n = stands[place];
      part(dial, "word").textContent = words[n];
      part(dial, "unseen").textContent = look ? "" : "?";
      part(dial, "arrow").setAttribute("stroke", inks[n]);
      part(dial, "arrow").setAttribute("d", look ? to(now[place]) : "");
      part(dial, "old").setAttribute("d", look ? to(old[n]) : "");
    });
    strands.forEach((strand, place) => {
      const n = stands[place];
      strand.setAttribute("d", `M${n},0C${n},0.5 ${place},0.5 ${place},1`);
      strand.setAttribute("stroke", inks[n]);
    });

    const sentence = stands.slice(0, 3).map((n) => words[n]).join(" ");
    const asked = `${sentence}, ${positions} positions: `;
    const mine = `“${find('select[name="guess"]').selectedOptions[0].textContent}”`;
    if (!look) {
      return {
        moved: "moved by ?",
        summary: `${asked}what becomes of the three outputs, and of their mean? ` +
          (guess ? `You guess ${mine}.` : "Guess, then look."),
      };
    }
    const changes = now.map(([x, y], place) => {
      const [oldX, oldY] = old[stands[place]];
      return Math.hypot(x - oldX, y - oldY);
    });
    const moved = changes.pop().toFixed(2);
    const [least, most] = [Math.min(...changes), Math.max(...changes)];
    const found = positions === "without"
      ? `each word keeps its output, changed by ${most.toFixed(2)}`
      : `every output changes, by ${least.toFixed(2)} to ${most.toFixed(2)}`;
    const verdict = guess === truth[positions] ? "was right" : "was not so";
    return {
      moved: `moved by ${moved}`,
      summary: `${asked}${found}, and the mean moves by ${moved}.` +
        (guess ? ` Your guess ${mine} ${verdict}.` : ""),
    };
  };
});
