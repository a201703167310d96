posedu.live("fox", ({ find, numbers: words }) => {
  const n = words.length;
  const cells = [...find(".shares").children];
  const percent = (x) => `${(100 * x).toFixed(1)} %`;

  return ({ token, gate, others }) => {
    const gates = words.map((_, l) => (l === token ? gate : others));
    const share = (i, j) => gates.slice(j + 1, i + 1).reduce((f, g) => f * g, 1);
    const bar = (l) => `M${l + 0.5},0V${gates[l].toFixed(2)}`;

    let cell = 0;
    for (let i = 0; i < n; i++) {
      for (let j = 0; j <= i; j++) {
        cells[cell++].setAttribute("opacity", share(i, j).toFixed(3));
      }
    }
    find(".bars").setAttribute("d", words.map((_, l) => bar(l)).join(""));
    find(".chosen").setAttribute("d", bar(token));
    find(".crossing").setAttribute(
      "d", token ? `M0,${token}H${token}V${n}H0Z` : "M0,0"
    );

    const word = `At the last token ${percent(share(n - 1, token))} is left of ` +
      `“${words[token]}”`;
    return {
      token: words[token],
      gate: gate.toFixed(2),
      others: others.toFixed(2),
      summary: token
        ? `${word}, and ${percent(share(n - 1, token - 1))} of ` +
          `“${words[token - 1]}” just before it: all older keys are multiplied by its gate.`
        : `${word}. It is the first word: no key is multiplied by its gate.`,
    };
  };
});
