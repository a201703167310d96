posedu.live("selective_attention", ({ find, numbers: { words, second } }) => {
  const n = words.length;
  const cells = [...find(".shares").children];
  const percent = (x) => `${(100 * x).toFixed(1)} %`;

  return (values) => {
    const token = values.token;
    const key = Math.min(values.key, token - 1);
    const spared = (j) => values.spare && j === 0;
    const chosen = (l, j) =>
      j < l && !spared(j) &&
      ((l === token && (values.which === "all" || j === key)) ||
        (values.second && l === second && j === key));
    const sum = (i, j) => {
      let total = 0;
      for (let l = j + 1; l < i + values.current; l++) {
        if (chosen(l, j)) total += values.amount;
      }
      return total;
    };
    const factor = (i, j) => Math.exp(-sum(i, j));

    let cell = 0, dots = "";
    for (let i = 0; i < n; i++) {
      for (let j = 0; j <= i; j++) {
        cells[cell++].setAttribute("opacity", factor(i, j).toFixed(3));
        if (chosen(i, j) && values.amount) dots += `M${j + 0.5},${i + 0.5}h.001`;
      }
    }
    find(".dots").setAttribute("d", dots || "M0,0");

    const last = words.map((_, j) => factor(n - 1, j));
    const total = last.reduce((s, f) => s + f, 0);
    const summary = spared(key)
      ? `“${words[0]}” is the first token, and cannot be deselected.`
      : `At the last token ${percent(last[key])} is left of “${words[key]}” (${key}); ` +
        `at equal logits its weight is ${percent(last[key] / total)}, where all ${n} ` +
        `keys alike would have ${percent(1 / n)}.`;
    return {
      token: words[token],
      key: words[key],
      amount: values.amount.toFixed(1),
      summary,
    };
  };
});
