posedu.live("stickbreaking", ({ figure, find }) => {
  const keys = figure.querySelectorAll(".controls input").length;
  const [stickPieces, stickNames, meanPieces, meanNames] =
    [...figure.querySelectorAll(".cut")].map((group) => [...group.children]);
  const percent = (x) => `${(100 * x).toFixed(1)} %`;
  const back = (k) => k < keys ? `the key ${k + 1} back` : "no key";

  const breakStick = (logits) => {
    let left = 1;
    const shares = logits.map((z) => {
      const share = left / (1 + Math.exp(-z));
      left /= 1 + Math.exp(z);
      return share;
    });
    return [...shares, left];
  };
  const softmax = (logits) => {
    const exps = logits.map(Math.exp);
    const total = exps.reduce((sum, e) => sum + e, 0);
    return [...exps.map((e) => e / total), 0];
  };
  const cut = (shares, pieces, names) => {
    let end = 0;
    shares.forEach((share, k) => {
      const start = end;
      end += share;
      pieces[k]?.setAttribute("d", `M${start.toFixed(4)},0V1H${end.toFixed(4)}V0z`);
      names[k].setAttribute("x", (20 + 180 * (start + end)).toFixed(1));
      names[k].textContent = share >= 0.1 ? `${(100 * share).toFixed(0)} %` : "";
    });
  };

  return (values) => {
    const logits = Array.from({ length: keys }, (_, k) => values[`logit${k}`]);
    const stick = breakStick(logits), mean = softmax(logits);
    cut(stick, stickPieces, stickNames);
    cut(mean, meanPieces, meanNames);
    figure.toggleAttribute("data-covered", !values.reveal);

    const most = (shares) => {
      const k = shares.indexOf(Math.max(...shares));
      return `${back(k)}, ${percent(shares[k])}`;
    };
    const truth = `Stick-breaking gives the most to ${most(stick)}, softmax to ` +
      `${most(mean)}.`;
    const guess = Number(values.guess);
    const short = Math.max(...stick) - stick[guess];
    const feedback = values.guess === ""
      ? (values.reveal ? " You made no guess." : "")
      : !values.reveal ? ` Your guess: ${back(guess)}.`
      : short ? ` You guessed ${back(guess)}: of the stick it is ${percent(stick[guess])},` +
        ` ${(100 * short).toFixed(1)} points short of the most.`
      : ` You guessed ${back(guess)}: right.`;
    const shown = logits.map((z, k) => [`logit${k}`, String(z).replace("-", "−")]);
    return { ...Object.fromEntries(shown), summary: truth + feedback };
  };
});
