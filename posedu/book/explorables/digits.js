posedu.live("digits", ({ find, figure }) => {
  const names = ["units", "tens", "hundreds", "thousands"];
  const coupled = [-1, 1, 2, 3, 4, 1, 2, 3, 4, 3, 2, 1, 0, -1];
  const counted = [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 4, 0];
  const write = (row, ids) => [...find(row).children].forEach((text, i) => {
    text.textContent = `${ids[i]}`;
  });

  return ({ start, power }) => {
    const ofCoupling = coupled.map((m) => (m >= 0 ? m + start : 0));
    const ofAbacus = counted.map((p) => (p > 0 ? p + start - 1 : 0));
    write(".coupling", ofCoupling);
    write(".abacus", ofAbacus);
    for (const mark of figure.querySelectorAll(".marks rect")) {
      const isShown = mark.dataset.power === `${power}`;
      mark.setAttribute("visibility", isShown ? "visible" : "hidden");
    }
    const [one, other] = [3 - power + start, power + start];
    return {
      start: `${start}`,
      power: names[power],
      coupled: `${one}`,
      counted: `${other}`,
      largest: `${Math.max(...ofCoupling)} and ${Math.max(...ofAbacus)}`,
      summary: `With the start ${start} the ${names[power]} of all numbers have the ` +
        `id ${one} with position coupling and ${other} with Abacus.`,
    };
  };
});
