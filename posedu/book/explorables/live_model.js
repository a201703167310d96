posedu.live("live_model", ({ figure, find, numbers: { titles, samples, survival } }) => {
  const TESTED = 512, CAPACITY = 1200, BLOCK = 32, WRITTEN = 100, TOP = 8;
  const LEAST = 8; // values in the mean that is drawn
  const textarea = find("textarea"), summary = find(".summary");
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const readings = {}; // the last reading of each encoding
  const turns = { show: 0, compare: 0 }; // a later turn ends an earlier one

  const load = (encoding) => new Promise((resolve, reject) => {
    const script = document.createElement("script");
    const root = document.documentElement.dataset.content_root ?? "";
    script.src = `${root}_static/models/${encoding}.js`;
    script.onload = resolve;
    script.onerror = () => {
      script.remove();
      reject(new Error(`The weights were not found at ${script.src}.`));
    };
    document.head.append(script);
  });
  // Bits of each character, with all characters before it and with at most 64 of them.
  const newReading = async (encoding, settings) => {
    if (!posedu.models[encoding]) await load(encoding);
    const content = posedu.models[encoding];
    const [all, near] = [CAPACITY, 2 * BLOCK].map((capacity) => {
      const model = new posedu.SmallTransformer(content, capacity);
      model.set(settings);
      return model;
    });
    return { all, near, start: 0, tokens: [], logits: [], bits: [], nearBits: [] };
  };
  const reading = async (encoding, settings) => {
    const key = JSON.stringify(settings);
    if (readings[encoding]?.key !== key) {
      readings[encoding] = { key, ...await newReading(encoding, settings) };
    }
    return readings[encoding];
  };
  const probabilities = (logits) => {
    const largest = logits.reduce((a, b) => Math.max(a, b));
    const weights = Float64Array.from(logits, (logit) => Math.exp(logit - largest));
    const sum = weights.reduce((a, b) => a + b);
    return weights.map((weight) => weight / sum);
  };
  const bitsOf = (logits, token) => -Math.log2(probabilities(logits)[token]);
  // Read tokens, from the first that differs from those read before; yield after each step.
  const read = function* (state, tokens) {
    let same = 0;
    while (same < tokens.length && tokens[same] === state.tokens[same]) same += 1;
    if (same < state.tokens.length) {
      for (const bits of [state.bits, state.nearBits]) bits.length = Math.min(bits.length, same);
      state.near.cut(Math.max(same - 1 - state.start, 0));
      same = Math.max(same - 1, 0); // once more, for its logits
      state.all.cut(same);
      state.tokens.length = same;
    }
    for (let at = same; at < tokens.length; at++) {
      if (at) state.bits[at] ??= bitsOf(state.logits, tokens[at]);
      state.logits = state.all.step(tokens[at]);
      state.tokens.push(tokens[at]);
      yield;
    }
    for (let start = BLOCK; start + BLOCK + 1 < tokens.length; start += BLOCK) {
      if (state.nearBits.length >= Math.min(start + 2 * BLOCK + 1, tokens.length)) continue;
      if (state.start !== start) state.near.cut(0);
      state.start = start;
      for (let n = state.near.count; n < 2 * BLOCK && start + n + 1 < tokens.length; n++) {
        const logits = state.near.step(tokens[start + n]), next = start + n + 1;
        if (n >= BLOCK) state.nearBits[next] = bitsOf(logits, tokens[next]);
        yield;
      }
    }
  };
  // Run steps; a long run pauses for the page, and ends when it is no longer wanted.
  const finish = async (steps, isWanted, paint) => {
    let end = performance.now() + 40;
    for (const _ of steps) {
      if (performance.now() < end) continue;
      if (!still.matches) paint();
      await new Promise((resolve) => setTimeout(resolve));
      if (!isWanted()) return false;
      end = performance.now() + 40;
    }
    return true;
  };

  const mean = (values, from, to) => {
    const part = values.slice(from, to).filter((value) => value !== undefined);
    return part.reduce((a, b) => a + b, 0) / part.length;
  };
  const tokensOf = (text, known) => Array.from(text, (c) =>
    known.includes(c) ? known.indexOf(c) : known.length);
  const name = (token, known) =>
    ({ "\n": "line break", " ": "space" })[known[token]] ?? known[token] ?? "another character";
  const percent = (x) => `${(100 * x).toFixed(x < 0.0995 ? 1 : 0)}\u00a0%`;

  const curve = (bits, length) => {
    let path = "";
    for (let at = 0; at < bits.length; at++) {
      if (bits[at - LEAST] === undefined) continue;
      const value = mean(bits, Math.max(at - BLOCK + 1, 0), at + 1);
      const x = 46 + 340 * at / length, y = 170 - 19 * Math.min(value, 8);
      path += `${path ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`;
    }
    return path;
  };
  const paintCurves = ({ bits, nearBits }, length) => {
    find("path.near").setAttribute("d", curve(nearBits, length));
    find("path.all").setAttribute("d", curve(bits, length));
  };
  const paintAxis = (length, trained) => {
    const x = 46 + 340 * trained / length;
    find("path.trained").setAttribute("d", `M${x.toFixed(1)},12V170`);
    find("text.end").textContent = length.toLocaleString("en");
  };
  const paintNext = (chances, known, right) => {
    const best = [...chances.keys()].sort((a, b) => chances[b] - chances[a]).slice(0, TOP);
    find("ol.next").replaceChildren(...best.map((token) => {
      const item = document.createElement("li"), bar = document.createElement("span");
      bar.className = "bar";
      bar.style.inlineSize = `${50 * chances[token]}%`;
      const mark = token === right ? ", the text’s own" : "";
      const letter = document.createElement("code");
      letter.textContent = name(token, known);
      item.append(letter, bar, ` ${percent(chances[token])}${mark}`);
      return item;
    }));
    return best[0];
  };
  const paintHeads = ({ all, tokens }, known) => {
    const count = tokens.length, bins = Math.min(count, 128);
    all.attention.forEach((ofLayer, layer) => {
      for (let h = 0; h < all.heads; h++) {
        const weights = ofLayer.subarray(h * CAPACITY, h * CAPACITY + count);
        const sums = new Float64Array(bins);
        weights.forEach((weight, j) => { sums[Math.floor(j * bins / count)] += weight; });
        const tallest = sums.reduce((a, b) => Math.max(a, b));
        const path = Array.from(sums, (sum, bin) => {
          const x = 200 * (bin + 0.5) / bins, height = 40 * sum / tallest;
          return height < 0.2 ? "" : `M${x.toFixed(1)},44v-${height.toFixed(1)}`;
        });
        const strip = find(`.heads [data-head="${layer}-${h}"]`);
        const bars = strip.querySelector("path.bars");
        bars.setAttribute("d", path.join(""));
        bars.style.strokeWidth = Math.max(200 / bins * 0.8, 1);
        const first = 200 * Math.max(count - all.trained, 0) / count;
        strip.querySelector("path.recent").setAttribute("d", `M${first.toFixed(1)},47H200`);
        const largest = weights.indexOf(weights.reduce((a, b) => Math.max(a, b)));
        const back = count - 1 - largest;
        strip.querySelector("span").textContent =
          `most, ${percent(weights[largest])}, on “${name(tokens[largest], known)}”, ` +
          (back ? `${back} back` : "itself");
      }
    });
  };

  const write = (state, known) => {
    let { logits } = state;
    let text = "";
    const { count } = state.all;
    const kept = state.all.attention.map((ofLayer) => ofLayer.slice());
    for (let n = 0; n < WRITTEN; n++) {
      const token = logits.indexOf(logits.reduce((a, b) => Math.max(a, b)));
      text += known[token] ?? "�";
      logits = state.all.step(token);
    }
    state.all.cut(count);
    state.all.attention.forEach((ofLayer, layer) => ofLayer.set(kept[layer]));
    return text;
  };

  const words = (state, values, best, chance, known) => {
    const count = state.tokens.length, from = Math.max(Math.floor(count / 2), 1);
    const parts = [`${titles[values.encoding]}, ${count.toLocaleString("en")} characters.`];
    if (count > 1) {
      const far = mean(state.bits, from, count).toFixed(2);
      parts.push(`The second half costs ${far} bits per character` + (count > 2 * state.all.trained
        ? `, and ${mean(state.nearBits, from, count).toFixed(2)} with only the last 33 to 64 shown.`
        : "."));
    }
    parts.push(`Most probable next: “${name(best, known)}”, ${percent(chance)}.`);
    return parts.join(" ");
  };

  const show = async (values) => {
    const turn = ++turns.show, isWanted = () => turn === turns.show;
    const { encoding, typed } = values;
    const settings = encoding === "rope"
      ? { method: values.method, s: 2 ** values.doublings, base: Number(values.base) }
      : encoding === "alibi" ? { slopes: 2 ** values.slopes } : {};
    if (!posedu.models[encoding]) summary.textContent = "The weights are loading.";
    const state = await reading(encoding, settings);
    if (!isWanted()) return;
    const known = posedu.models[encoding].characters, limit = Number(values.length);
    const all = tokensOf(typed, known), tokens = all.slice(0, limit);
    if (!tokens.length) {
      summary.textContent = "The text is empty: type a character.";
      return;
    }
    const { trained } = state.all, length = Math.max(tokens.length, trained);
    paintAxis(length, trained);
    const paint = () => paintCurves(state, length);
    if (!await finish(read(state, tokens), isWanted, paint)) return;
    paint();
    const chances = probabilities(state.logits);
    const best = paintNext(chances, known, all[limit]);
    paintHeads(state, known);
    find(".results").hidden = false;
    find(".written").hidden = !values.write;
    if (values.write) find(".written code").textContent = write(state, known);
    summary.textContent = words(state, values, best, chances[best], known);
  };

  const compare = async (predicted) => {
    const turn = ++turns.compare, isWanted = () => turn === turns.compare;
    const rows = find(".survivors tbody"), verdict = find(".verdict");
    rows.replaceChildren();
    verdict.textContent = `The seven models read ${TESTED} characters.`;
    let right = 0;
    for (const [encoding, title] of Object.entries(titles)) {
      const state = await newReading(encoding, {});
      const tokens = tokensOf(samples.first, posedu.models[encoding].characters);
      if (!await finish(read(state, tokens.slice(0, TESTED)), isWanted, () => {})) return;
      const [far, near] = [state.bits, state.nearBits].map(
        (bits) => mean(bits, TESTED / 2, TESTED));
      const survives = far - near < survival;
      right += survives === predicted.includes(encoding);
      const row = document.createElement("tr");
      const cells = [title, near.toFixed(2), far.toFixed(2), survives ? "yes" : "no",
        predicted.includes(encoding) ? "yes" : "no"];
      row.append(...cells.map((content, n) => {
        const cell = document.createElement(n ? "td" : "th");
        if (!n) cell.scope = "row";
        cell.textContent = content;
        return cell;
      }));
      rows.append(row);
    }
    verdict.textContent = `You are right on ${right} of ${Object.keys(titles).length}.`;
  };

  const guarded = (promise, place) => promise.catch((error) => {
    place.textContent = error.message;
  });
  const groups = figure.querySelectorAll("[data-of]");
  figure.querySelectorAll(".controls").forEach((controls) => { controls.hidden = false; });
  textarea.value = samples.first;
  return (values, changed) => {
    if (changed === "sample") values.typed = textarea.value = samples[values.sample];
    groups.forEach((group) => { group.hidden = group.dataset.of !== values.encoding; });
    const texts = {
      doublings: String(2 ** values.doublings),
      slopes: `× ${2 ** values.slopes}`,
    };
    const predicted = Object.keys(titles).filter((encoding) => values[`predict-${encoding}`]);
    if (changed === "see" || changed?.startsWith("predict-")) {
      find(".survivors").hidden = !values.see;
      turns.compare += 1;
      if (values.see) guarded(compare(predicted), find(".verdict"));
    } else if (values.encoding) {
      guarded(show(values), summary);
    }
    return texts;
  };
});
