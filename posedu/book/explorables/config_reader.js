posedu.live("config_reader", ({ find, numbers: { known, examples, inks, headings } }) => {
  const text = find("textarea"), select = find("select"), LARGEST = 2 ** 24;
  const MOST = 100;
  const short = (x, digits) => Number(x.toPrecision(digits)).toLocaleString(
    "en", { maximumSignificantDigits: 12 });
  const waves = (rope) => rope.frequencies.map((w) => w ? 2 * Math.PI / w : Infinity);
  const y = (wave) => 172 - 18 * Math.min(Math.max(Math.log10(wave), 0.5), 9);
  const dots = (rope) => waves(rope).map((wave, p, all) =>
    `M${(46 + 340 * (all.length > 1 ? p / (all.length - 1) : 0)).toFixed(1)},` +
    `${y(wave).toFixed(1)}h.01`).join("");
  const trained = (rope) => rope.trained ?? rope.longest;
  const fullTurns = (rope) => waves(rope).filter((wave) => wave <= trained(rope)).length;

  const bySection = ({ order, sections }) =>
    sections.length ? `; ${order} ${sections.join(", ")}` : "";

  const cells = (name, rope, layers) => {
    const many = layers.filter((kind) => kind === name).length;
    const who = many ? `${name} (${many})` : name;
    if (!rope) return [who, "no rotation", "", "", "", "", "", ""];
    const rotated = waves(rope).filter(Number.isFinite);
    return [
      who, rope.method, short(rope.base, 10),
      `${rotated.length} of ${Math.floor(rope.head_dim / 2)}${bySection(rope)}`,
      `${short(rotated[0], 4)} to ${short(rotated.at(-1), 4)}`,
      trained(rope) ? `${fullTurns(rope)} in ${trained(rope).toLocaleString("en")}` : "not given",
      short(rope.attention_factor, 6), rope.layout || "not given",
    ];
  };
  const row = (texts) => {
    const tr = document.createElement("tr");
    texts.forEach((content, n) => {
      const cell = document.createElement(n ? "td" : "th");
      if (n) cell.dataset.head = headings[n];
      else cell.scope = "row";
      cell.textContent = content;
      tr.append(cell);
    });
    return tr;
  };
  const item = (content) => {
    const li = document.createElement("li");
    li.textContent = content;
    return li;
  };
  const draw = ({ kinds, layers, remarks }) => {
    const ropes = Object.entries(kinds).filter(([, rope]) => rope);
    inks.forEach((_, n) => {
      const [, rope] = ropes[n] ?? [];
      find(`path.kind${n}`).setAttribute("d", rope ? dots(rope) : "");
      const length = rope && trained(rope);
      find(`path.length${n}`).setAttribute("d", length ? `M46,${y(length).toFixed(1)}H386` : "");
    });
    find("tbody").replaceChildren(
      ...Object.entries(kinds).map(([name, rope]) => row(cells(name, rope, layers))));
    find("ul").replaceChildren(
      ...remarks.map(({ level, text: remark }) => item(`${level}: ${remark}`)));
    find("pre").textContent = ropes.map(([name, rope]) =>
      `${name}\n${rope.frequencies.map((w) => String(w)).join("\n")}`).join("\n\n");
  };
  const read = () => {
    if (text.value.length > LARGEST) {
      throw new Error(`the text must have at most ${LARGEST} characters`);
    }
    let config;
    try {
      config = JSON.parse(text.value);
    } catch (error) {
      throw new Error(`the text is not JSON: ${error.message}`);
    }
    return posedu.readRope(config, known);
  };

  text.value = examples[select.value];
  return (_, changed) => {
    if (changed === "example") text.value = examples[select.value];
    try {
      const reading = read();
      const kinds = Object.keys(reading.kinds).length;
      if (kinds > MOST) throw new Error(`there must be at most ${MOST} kinds of layers`);
      draw(reading);
      const warnings = reading.remarks.filter(({ level }) => level === "warning").length;
      return {
        summary: `Format: ${reading.format}` +
          `${reading.family ? `, family ${reading.family}` : ""}; ${kinds} ` +
          `kind${kinds === 1 ? "" : "s"} of layers, ${warnings} ` +
          `warning${warnings === 1 ? "" : "s"}.`,
      };
    } catch (error) {
      draw({ kinds: {}, layers: [], remarks: [] });
      const deep = error instanceof RangeError;
      return { summary: `Not read: ${deep ? "the text is nested too deeply" : error.message}.` };
    }
  };
});
