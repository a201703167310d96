posedu.live("states", ({ figure, find, numbers }) => {
  const { tokens, letters, weights, place, level, unit } = numbers;
  const all = (name) => [...figure.querySelectorAll(name)];
  const [words, bars, texts] = [all(".word"), all(".bar"), all(".weight")];
  const number = (x) => x.toFixed(2).replace("-0.00", "0.00").replace("-", "−");
  const said = (t) => `${tokens[t][0]} = ${tokens[t][1]}`;

  return ({ transition, letter, reader }) => {
    const row = weights[transition][letters.indexOf(letter)][reader];
    let answer = 0;
    let present = -1;
    tokens.forEach(([name, value], t) => {
      const height = unit * Math.abs(row[t]);
      const top = level - unit * Math.max(row[t], 0);
      bars[t].setAttribute("y", top.toFixed(1));
      bars[t].setAttribute("height", height.toFixed(1));
      texts[t].setAttribute("y", (row[t] < 0 ? level + height + 15 : top - 6).toFixed(1));
      texts[t].textContent = t > reader ? "" : number(row[t]);
      words[t].setAttribute("opacity", t > reader ? 0.6 : 1);
      answer += row[t] * value;
      if (t <= reader && name === letter) present = t;
    });
    const frame = find(".present");
    frame.setAttribute("visibility", present < 0 ? "hidden" : "visible");
    frame.setAttribute("x", 18 + place * Math.max(present, 0));
    let verdict = "nothing was assigned yet";
    if (present >= 0) {
      const value = tokens[present][1];
      verdict = Math.abs(answer - value) < 0.005
        ? "right" : `the present value is ${value}`;
    }
    return {
      reader: said(reader),
      summary: `Asked for ${letter} after “${said(reader)}”, the state answers ` +
        `${number(answer)}: ${verdict}.`,
    };
  };
});
