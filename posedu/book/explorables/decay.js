posedu.live("decay", ({ find, numbers }) => {
  const { words, slope, steps, logits } = numbers;
  const equal = Math.log(Math.expm1(slope));
  const last = words.length - 1;

  return (values) => {
    const t = values.differ / 100;
    const mix = (own, common) => t * own + (1 - t) * common;
    const step = {
      alibi: () => slope,
      fox: (l) => mix(steps[l], slope),
      stick: (l) => Math.log1p(Math.exp(mix(logits[l], equal))),
    };
    const shown = {};
    for (const [name, of] of Object.entries(step)) {
      const path = words.map((_, j) => {
        let sum = 0;
        for (let l = j + 1; l <= last; l++) sum += of(l);
        return sum;
      });
      const points = path.map((p, j) => `${j},${p.toFixed(4)}`);
      find(`.path-${name}`).setAttribute("d", "M" + points.join("L"));
      find(`.mark-${name}`).setAttribute("d", `M${points[values.key]}h.001`);
      shown[name] = path[values.key].toFixed(2);
    }
    find(".guide").setAttribute("d", `M${values.key},0V4`);

    const word = words[values.key];
    return {
      ...shown,
      key: word,
      differ: `${values.differ} %`,
      summary: `The path from “${word}” to “${words[last]}” is ${shown.alibi} for ` +
        `ALiBi, ${shown.fox} for FoX, ${shown.stick} for stick-breaking.`,
    };
  };
});
