posedu.live("config_reader", ({ find, numbers: { known, examples, headings, codes } }) => {
  const text = find("textarea"), select = find("select"), LARGEST = 2 ** 24;
  const short = (x, digits) => Number(x.toPrecision(digits)).toLocaleString(
    "en", { maximumSignificantDigits: 12 });
  const lengths = (frequencies) => frequencies.map((w) => w ? 2 * Math.PI / w : Infinity);
  const y = (wave) => 172 - 18 * Math.min(Math.max(Math.log10(wave), 0.5), 9);

  const element = (name, content) => {
    const made = document.createElement(name);
    made.textContent = content;
    return made;
  };
  const linked = (remark) => {  // "warning [code]: text", the code as a link to its meaning
    const [, before, code, after] = remark.match(/^(\w+ \[)([\w-]+)(\].*)$/s);
    const item = element("li", ""), link = element("a", code);
    link.href = `${codes}#code-${code}`;
    item.append(before, link, after);
    return item;
  };
  const cells = (reading, waves) => {
    const { trained } = reading;
    const complete = lengths(reading.unscaled).filter((wave) => wave <= trained).length;
    return [
      reading.method, short(reading.base, 10), String(waves.length),
      `${short(waves[0], 4)} to ${short(waves.at(-1), 4)}`,
      trained ? `${complete} in ${trained.toLocaleString("en")}` : "not given",
      short(reading.attention_factor, 6), reading.layout || "not given",
    ].map((content, n) => {
      const cell = element(n ? "td" : "th", content);
      if (n) cell.dataset.head = headings[n];
      else cell.scope = "row";
      return cell;
    });
  };
  const draw = (reading) => {
    const waves = lengths(reading.frequencies);
    const last = Math.max(waves.length - 1, 1);
    const dots = (all) => all.map((wave, p) =>
      `M${(46 + 340 * p / last).toFixed(1)},${y(wave).toFixed(1)}h.01`).join("");
    find("path.pairs").setAttribute("d", dots(waves));
    find("path.unscaled").setAttribute("d", dots(lengths(reading.unscaled)));
    const { trained } = reading;
    find("path.length").setAttribute("d", trained ? `M46,${y(trained).toFixed(1)}H386` : "");
    find("tbody tr").replaceChildren(...waves.length ? cells(reading, waves) : []);
    find("ul").replaceChildren(...reading.remarks.map(linked));
    find("pre").textContent = reading.frequencies.join("\n");
  };
  const read = () => {
    if (text.value.length > LARGEST) {
      throw new Error(`the text must have at most ${LARGEST} characters`);
    }
    let config;
    try {
      config = JSON.parse(text.value);
    } catch (error) {
      throw new Error("the text is not JSON, which has double quotes, true, false, " +
        `null and no comma before } or ]: ${error.message}`);
    }
    return posedu.readRope(config, known);
  };

  text.value = examples[select.value];
  return (_, changed) => {
    if (changed === "example") text.value = examples[select.value];
    try {
      const reading = read();
      draw(reading);
      const warnings = reading.remarks.length;
      return {
        summary: `Format: ${reading.format}` +
          `${reading.family ? `, family ${reading.family}` : ""}; ` +
          `${warnings} warning${warnings === 1 ? "" : "s"}.`,
      };
    } catch (error) {
      draw({ unscaled: [], frequencies: [], remarks: [] });
      const deep = error instanceof RangeError;
      return { summary: `Not read: ${deep ? "the text is nested too deeply" : error.message}.` };
    }
  };
});
