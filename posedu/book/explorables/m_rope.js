posedu.live("m_rope", ({ find }) => {
  const base = 1e6, pairs = 64, low = 2, width = 16;
  const sections = {
    sectioned: [16, 24, 24], interleaved: [24, 20, 20], alternating: [20, 22, 22],
  };
  const owners = {
    sectioned: (p, [t, h]) => p < t ? 0 : p < t + h ? 1 : 2,
    interleaved: (p, own) => Math.floor(p / 3) < own[p % 3] ? p % 3 : 0,
    alternating: (p, [, h, w]) => p < h + w ? 1 + p % 2 : 0,
  };
  const waves = Array.from({ length: pairs }, (_, p) => 2 * Math.PI * base ** (p / pairs));
  const ticks = (own) =>
    own.map((wave) => `M${(width * (Math.log2(wave) - low)).toFixed(2)},8V30`).join("");

  return ({ model, span }) => {
    const steps = 2 ** span;
    const counts = ["time", "rows", "columns"].map((name, axis) => {
      const own = waves.filter((_, p) => owners[model](p, sections[model]) === axis);
      const complete = own.filter((wave) => wave <= steps);
      find(`path.complete${axis}`).setAttribute("d", ticks(complete));
      find(`path.incomplete${axis}`).setAttribute("d", ticks(own.filter((wave) => wave > steps)));
      return `${complete.length} of ${own.length} pairs of ${name}`;
    });
    find("path.chosen").setAttribute("d", `M${66 + width * (span - low)},8V146`);
    return {
      span: steps.toLocaleString("en"),
      summary: `Over ${steps.toLocaleString("en")} steps ${counts[0]}, ${counts[1]} and ` +
        `${counts[2]} complete a full turn.`,
    };
  };
});
