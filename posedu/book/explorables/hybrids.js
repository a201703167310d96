posedu.live("hybrids", ({ find, numbers }) => {
  const { models, heights } = numbers;
  const [LEFT, WIDTH, BOTTOM, SMALLEST, DECADE] = [8, 400, 60, 5, 36];
  const slider = find('input[name="layer"]');
  const length = (size) =>
    Math.max(0, DECADE * (Math.log10(Math.max(size, 1)) - SMALLEST)).toFixed(1);
  const text = (size) => {
    for (const [unit, name] of [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) {
      if (size >= unit) return `${(size / unit).toFixed(2)} ${name}`;
    }
    return `${size} B`;
  };

  return (values) => {
    const shown = models[values.model];
    const count = shown.roles.length;
    const step = WIDTH / count;
    slider.max = count - 1;
    const layer = Math.min(values.layer, count - 1);
    const tokens = 2 ** values.doublings;
    const width = (0.8 * step).toFixed(1);
    for (const [letter, height] of Object.entries(heights)) {
      find(`path.${letter}`).setAttribute("d", [...shown.roles].map((role, n) =>
        role === letter
          ? `M${(LEFT + step * n).toFixed(2)},${BOTTOM}v-${height}h${width}v${height}z`
          : "").join(""));
    }
    const x = (LEFT + step * (layer + 0.5)).toFixed(1);
    find(".chosen").setAttribute("d", `M${x},${BOTTOM + 3}l5,9h-10Z`);
    find(".recurrent").setAttribute("width", length(shown.fixed));
    find(".attention").setAttribute("width", length(shown.grows * tokens));
    find(".alone").setAttribute("width", length(shown.alone * tokens));

    const attention = `attention with ${shown.position}`;
    const recurrence = `${shown.recurrence}: order from ${shown.order}`;
    const [grown, state] = [text(shown.token * tokens), text(shown.state)];
    const many = tokens.toLocaleString("en-US");
    const texts = {
      a: `${attention}, ${grown} for ${many} tokens`,
      r: `${recurrence}, ${state} for any number of tokens`,
      b: `${attention}, ${grown}, and ${recurrence}, ${state}`,
      m: "an MLP alone, which mixes no tokens and caches nothing",
    };
    return {
      layer: String(layer),
      doublings: many,
      summary: `Layer ${layer}: ${texts[shown.roles[layer]]}. All layers together: `
        + `attention layers ${text(shown.grows * tokens)}, recurrent layers `
        + `${text(shown.fixed)}; attention in all ${text(shown.alone * tokens)}.`,
    };
  };
});
