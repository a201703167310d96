posedu.live("rotation_and_decay", ({ figure, find, numbers }) => {
  const { words, exchanged, transitions, holds, properties, k, q } = numbers;
  const texts = [...figure.querySelectorAll(".word")];
  const marks = [...figure.querySelectorAll(".mark")];
  const last = words.length - 1;
  const at = (x) => x.toFixed(3);
  const number = (x) => x.toFixed(2).replace("-0.00", "0.00").replace("-", "−");

  return ({ transition, key, query, exchange }, changed) => {
    // A key after the query has no score: the control that was not moved gives way.
    const i = changed === "query" ? query : Math.max(key, query);
    const j = Math.min(key, i);
    find('input[name="query"]').value = i;
    find('input[name="key"]').value = j;

    const order = words.map((_, n) => n);
    if (exchange) {
      const [a, b] = exchanged;
      [order[a], order[b]] = [b, a];
    }
    const way = [k];
    for (let n = j + 1; n <= i; n += 1) {
      const [a, b, c, d] = transitions[transition][order[n]];
      const [x, y] = way[way.length - 1];
      way.push([a * x + b * y, c * x + d * y]);
    }
    const points = way.map(([x, y]) => `${at(x)},${at(y)}`);
    const [x, y] = way[way.length - 1];
    find(".way").setAttribute("d", `M${points.join("L")}`);
    find(".dots").setAttribute("d", points.map((p) => `M${p}h.001`).join(""));
    find(".end").setAttribute("cx", at(x));
    find(".end").setAttribute("cy", at(y));
    texts.forEach((text, n) => { text.textContent = words[order[n]]; });
    marks.forEach((mark, n) => {
      mark.setAttribute("fill-opacity", holds[transition][n] ? "1" : "0");
    });
    const place = (n) => 30 + 57 * n;
    find(".of-key").setAttribute("d", `M${place(j)},274h.001`);
    find(".between").setAttribute("d", `M${place(j)},274H${i > j ? place(i) : `${place(j)}.001`}`);
    find(".of-query").setAttribute("cx", place(i));

    const said = order.map((n) => words[n]);
    const over = said.slice(j + 1, i + 1).join(" ");
    const named = properties.filter((_, n) => holds[transition][n]);
    return {
      key: said[j],
      query: said[i],
      summary: `“${said[j]}”, carried over ${over ? `“${over}”` : "no word"}, has ` +
        `length ${number(Math.hypot(x, y))}; the score is ` +
        `${number(q[0] * x + q[1] * y)}. Properties: ${named.join(", ")}.`,
    };
  };
});
