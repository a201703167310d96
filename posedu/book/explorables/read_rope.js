// posedu.readRope(config, known): the result of posedu.tools.read_rope for a config.json of
// transformers, in the form of as_json. `known` holds the tables of
// posedu.book.explorables.config_reader. It throws an Error with the same message.
window.posedu.readRope = (() => {
  class ConfigError extends Error {}
  const [LARGEST, LARGEST_HEAD] = [2 ** 31, 2 ** 16];
  const has = (o, name) => Object.hasOwn(o, name) && o[name] !== null && o[name] !== undefined;
  const get = (o, name) => has(o, name) ? o[name] : null;
  const isObject = (v) => typeof v === "object" && v !== null && !Array.isArray(v);
  const first = (o, names) => {
    const name = names.find((n) => has(o, n));
    return name === undefined ? null : [name, o[name]];
  };
  const truthy = (v) => Boolean(v) && !(Array.isArray(v) && !v.length)
    && !(isObject(v) && !Object.keys(v).length);

  // Values as Python prints them
  const repr = (v) => {
    if (v === null || v === undefined) return "None";
    if (v === true || v === false) return v ? "True" : "False";
    if (typeof v === "string") {
      const quoted = JSON.stringify(v);
      return v.includes("'") ? quoted : `'${quoted.slice(1, -1).replaceAll('\\"', '"')}'`;
    }
    if (Array.isArray(v)) return `[${v.map(repr).join(", ")}]`;
    if (isObject(v)) {
      return `{${Object.entries(v).map(([k, e]) => `${repr(k)}: ${repr(e)}`).join(", ")}}`;
    }
    return String(v);
  };
  const shortRepr = (v) => {
    const text = repr(v);
    return text.length <= 60 ? text : `${text.slice(0, 57)}…`;
  };
  const general = (x) => {
    const [mantissa, exponent] = x.toExponential(5).split("e").map(Number);
    if (exponent >= -4 && exponent < 6) return String(Number(x.toPrecision(6)));
    const sign = exponent < 0 ? "-" : "+";
    return `${mantissa}e${sign}${String(Math.abs(exponent)).padStart(2, "0")}`;
  };

  // Validated values; errors name the key
  const NUMBER = /^\s*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*$/i;
  const number = (name, v) => {
    if (typeof v !== "number" && !(typeof v === "string" && NUMBER.test(v))) {
      throw new ConfigError(`${name} must be a number, got ${shortRepr(v)}`);
    }
    const found = Number(v);
    if (!Number.isFinite(found) || found <= 0) {
      throw new ConfigError(`${name} must be finite and above 0, got ${shortRepr(v)}`);
    }
    return found;
  };
  const count = (name, v) => {
    const found = number(name, v);
    if (!Number.isInteger(found) || found > LARGEST) {
      throw new ConfigError(`${name} must be a whole number up to 2^31, got ${shortRepr(v)}`);
    }
    return found;
  };
  const list = (name, v, each, what) => {
    if (!Array.isArray(v)) throw new ConfigError(`${name} must be a list of ${what}, got ${shortRepr(v)}`);
    return v.map((e, n) => each(`${name}[${n}]`, e));
  };
  const features = (headDim, share) => Math.floor(Math.min(headDim * share, LARGEST));
  const numbers = (name, v) => list(name, v, number, "numbers");
  const counts = (name, v) => list(name, v, count, "whole numbers");

  // Frequencies
  const clip = (x, low, high) => Math.min(Math.max(x, low), high);
  const blend = (all, s, gamma) => all.map((w, p) => (1 - gamma[p]) * w / s + gamma[p] * w);
  const ntk = (all, s) => all.map((w, p) => w * s ** (-p / Math.max(all.length - 1, 1)));
  const byIndex = (all, { trained, fast, slow, truncate }) => {
    const step = Math.log(all[0] / all[1]);
    let [low, high] = [fast, slow].map(
      (turns) => Math.log(all[0] * trained / (2 * Math.PI * turns)) / step);
    if (truncate) [low, high] = [Math.floor(low), Math.ceil(high)];
    [low, high] = [low, high].map((end) => clip(end, 0, 2 * all.length - 1));
    if (low === high) high += 0.001;
    return all.map((_, p) => 1 - clip((p - low) / (high - low), 0, 1));
  };
  const byTurns = (all, { trained, fast, slow }) => all.map((w) => {
    const turns = trained * w / (2 * Math.PI);
    return slow === fast ? Number(turns > fast) : clip((turns - slow) / (fast - slow), 0, 1);
  });
  const MAPS = {
    default: (all) => all,
    linear: (all, { factor }) => all.map((w) => w / factor),
    ntk: (all, { factor }) => ntk(all, factor),
    dynamic: (all) => ntk(all, 1),
    yarn: (all, o, trained) => {
      if (all.length < 2) throw new ConfigError("yarn: the ramp by index needs two pairs");
      return blend(all, o.factor, byIndex(all, { ...o, trained }));
    },
    llama3: (all, o, trained) =>
      blend(all, o.factor, byTurns(all, { trained, fast: o.high, slow: o.low })),
    longrope: (all, o) => all.map((w, p) => w / o.short[p]),
    proportional: (all, o) => all.map((w, p) => p < o.rotated_pairs ? w / o.factor : 0),
  };
  const plain = (rope, width) =>
    Array.from({ length: Math.ceil(width / 2) }, (_, p) => rope.base ** (-2 * p / width));
  const frequencies = (rope) => {
    const found = rope.order === "separate"
      ? rope.sections.flatMap((pairs) => plain(rope, 2 * pairs))
      : MAPS[rope.method](plain(rope, rope.width), rope.options, rope.trained);
    if (!found.every(Number.isFinite)) {
      throw new ConfigError(`${rope.method}: these frequencies and arguments are out of reach`);
    }
    return found;
  };

  // One object of parameters: given, where, headDim, width, longest, remarks, base
  class Parameters {
    constructor(fields, known) { Object.assign(this, fields, { known }); }
    has(name) { return has(this.given, name); }
    number(name, fallback = null) {
      if (this.has(name)) return number(`${this.where}.${name}`, this.given[name]);
      if (fallback === null) throw new ConfigError(`${this.where}: ${this.type} needs ${name}`);
      return fallback;
    }
    say(level, text) { this.remarks.push({ level, text: this.where + text }); }
    warn(text) { this.say("warning", text); }
    note(text) { this.say("note", text); }
    current(type) { return get(this.known.aliases, type) ?? type; }
    get type() {
      const type = get(this.given, "rope_type") ?? get(this.given, "type") ?? "default";
      if (typeof type !== "string" || !Object.hasOwn(METHODS, this.current(type))) {
        throw new ConfigError(`${this.where}.rope_type must be one of ` +
          `${Object.keys(METHODS).join(", ")}, got ${shortRepr(type)}`);
      }
      return type;
    }
    get method() {
      const current = this.current(this.type);
      return current === "dynamic" && this.has("alpha") ? "ntk" : current;
    }
    get share() { return this.number("partial_rotary_factor", 1); }
    get rotatedWidth() {
      if (this.width !== null) return this.width;
      return features(this.headDim, this.method === "proportional" ? 1 : this.share);
    }
    get trained() {
      const name = "original_max_position_embeddings";
      if (this.has(name)) return count(`${this.where}.${name}`, this.given[name]);
      if (this.longest === null) {
        throw new ConfigError(`${this.where}: ${this.type} needs ${name}, the training ` +
          "length, and there is no max_position_embeddings to use instead");
      }
      return this.longest;
    }
    warnOfStaleKeys() {
      this.warn(`: under ${shortRepr(this.type)} the frequencies change with the length of ` +
        "the text, so keys that were cached before a change are rotated by the wrong " +
        "angles; transformers 5.23 keeps them");
    }
  }

  const METHODS = {
    default: () => ({}),
    linear: (of) => ({ options: { factor: of.number("factor") } }),
    ntk: (of) => {
      const alpha = of.number("alpha");
      of.note(` has alpha ${general(alpha)}: the base is multiplied by alpha^(d/(d−2)) for ` +
        "texts of any length (HunYuan), whatever the type is named");
      return { options: { factor: alpha } };
    },
    dynamic: (of) => {
      if (of.longest === null) {
        throw new ConfigError(`${of.where}: dynamic needs max_position_embeddings`);
      }
      if (of.has("original_max_position_embeddings")) {
        of.warn(".original_max_position_embeddings is ignored by transformers under " +
          "'dynamic': max_position_embeddings is the training length");
      }
      of.warnOfStaleKeys();
      return { options: { factor: of.number("factor") }, trained: of.longest };
    },
    yarn: (of) => {
      const trained = of.trained;
      const factor = of.number("factor", of.longest && of.longest / trained);
      const [fast, slow] = [of.number("beta_fast", 32), of.number("beta_slow", 1)];
      if (fast < slow) {
        throw new ConfigError(`${of.where}: beta_fast must be at least beta_slow, got ` +
          `${general(fast)} and ${general(slow)}`);
      }
      const truncate = get(of.given, "truncate");
      if (truncate !== null && typeof truncate !== "boolean") {
        throw new ConfigError(`${of.where}.truncate must be true or false, got ${shortRepr(truncate)}`);
      }
      const both = truthy(get(of.given, "mscale")) && truthy(get(of.given, "mscale_all_dim"));
      const growth = 0.1 * Math.log(Math.max(factor, 1));
      const byDefault = both
        ? (of.number("mscale") * growth + 1) / (of.number("mscale_all_dim") * growth + 1)
        : growth + 1;
      if (!(byDefault > 0 && byDefault < Infinity)) {
        throw new ConfigError(`${of.where}: mscale and mscale_all_dim must give an attention ` +
          "factor that is finite and above 0");
      }
      return {
        options: { factor, fast, slow, truncate: truncate !== false },
        trained,
        attention_factor: of.number("attention_factor", byDefault),
      };
    },
    llama3: (of) => {
      const [low, high] = [of.number("low_freq_factor"), of.number("high_freq_factor")];
      if (high < low) {
        throw new ConfigError(`${of.where}: high_freq_factor must be at least ` +
          `low_freq_factor, got ${general(high)} and ${general(low)}`);
      }
      return { options: { factor: of.number("factor"), low, high }, trained: of.trained };
    },
    longrope: (of) => {
      const pairs = Math.ceil(of.rotatedWidth / 2);
      const lists = {};
      for (const name of ["short", "long"]) {
        const where = `${of.where}.${name}_factor`;
        if (!of.has(`${name}_factor`)) {
          throw new ConfigError(`${of.where}: ${of.type} needs ${name}_factor`);
        }
        lists[name] = numbers(where, of.given[`${name}_factor`]);
        if (lists[name].length !== pairs) {
          throw new ConfigError(`${where} must be ${pairs} numbers, one for each pair, got ` +
            lists[name].length);
        }
      }
      const trained = of.trained;
      const factor = of.number("factor", (of.longest || trained) / trained);
      if (factor > 1 && trained < 2) {
        throw new ConfigError(`${of.where}: the training length must be above 1, since ` +
          `${of.type} divides by its logarithm`);
      }
      const byDefault = factor > 1 ? Math.sqrt(1 + Math.log(factor) / Math.log(trained)) : 1;
      of.warnOfStaleKeys();
      const attentionFactor = of.number("attention_factor", byDefault);
      return { options: lists, trained, attention_factor: attentionFactor };
    },
    proportional: (of) => {
      const pairs = Math.floor(of.headDim / 2);
      const rotated = Math.floor(features(of.headDim, of.share) / 2);
      if (!(rotated > 0 && rotated <= pairs)) {
        throw new ConfigError(`${of.where}.partial_rotary_factor must give 1 to ${pairs} ` +
          `rotated pairs, got ${general(of.share)}, which gives ${rotated}`);
      }
      if (rotated < pairs) {
        of.note(`: 'proportional' is not partial rotation. ${rotated} of ${pairs} pairs are ` +
          "rotated, with the frequencies that they have in the whole head");
      }
      return { options: { rotated_pairs: rotated, factor: of.number("factor", 1) } };
    },
  };

  const makeRope = (of, layout = "") => {
    const { method, rotatedWidth: width } = of;
    for (const name of Object.keys(of.given).sort()) {
      if (!of.known.parameters.includes(name)) {
        of.warn(`.${name} is not a RoPE parameter and is ignored`);
      }
    }
    const [now, old] = [get(of.given, "rope_type"), get(of.given, "type")];
    if (now !== null && old !== null && now !== old) {
      of.warn(` has rope_type ${shortRepr(now)} and type ${shortRepr(old)}: the first is used`);
    }
    if (of.type === "mrope") {
      of.warn(" has the type 'mrope', which transformers does not define: Qwen2-VL's class " +
        "reads it as 'default' with sections, and other models of transformers 5.23 raise " +
        "KeyError when they are built");
    }
    if (width < 2) {
      throw new ConfigError(`${of.where}: at least 2 of the ${of.headDim} features of a head ` +
        `must be rotated, got ${width}`);
    }
    if (!of.has("rope_theta") && !of.base) {
      of.warn(" does not give rope_theta, the base: 10000 is used, as most libraries do " +
        "without a warning");
    }
    const base = of.number("rope_theta", of.base || 10000);
    if (base <= 1) {
      throw new ConfigError(`${of.where}.rope_theta must be above 1, got ${general(base)}`);
    }
    const rope = {
      head_dim: of.headDim, width, base, method, options: {}, trained: null,
      longest: of.longest, attention_factor: 1, softmax: 1, layout, sections: [], order: "",
    };
    const named = of.has("mrope_section") ? "mrope_section" : "xdrope_section";
    if (of.has(named)) {
      rope.sections = counts(`${of.where}.${named}`, of.given[named]);
      const sum = rope.sections.reduce((a, b) => a + b, 0);
      if (sum !== Math.floor(width / 2)) {
        throw new ConfigError(`${of.where}.${named} must add up to the ${Math.floor(width / 2)} ` +
          `rotated pairs, got ${repr(rope.sections)}, which add up to ${sum}`);
      }
      rope.order = truthy(get(of.given, "mrope_interleaved")) ? "interleaved" : "sectioned";
    }
    Object.assign(rope, METHODS[method](of));
    const widest = Math.max(rope.head_dim, width);
    if (widest > LARGEST_HEAD) {
      throw new ConfigError(`a head must have at most ${LARGEST_HEAD} features, got ` +
        general(widest));
    }
    return rope;
  };

  // A configuration of transformers without its sub-configurations
  class Part {
    constructor(name, config, family, remarks, known) {
      Object.assign(this, { name, config, family, remarks, known });
      this.prefix = name && `${name}.`;
      this.unrotated = has(config, "sliding_window")
        ? this.family.unrotated_layer_types || [] : [];
    }
    warn(text) { this.remarks.push({ level: "warning", text: this.prefix + text }); }
    title(kind) {
      if (!this.name) return kind;
      return kind === "all" ? this.name : `${this.name}: ${kind}`;
    }
    ropeObject(quiet = false) {
      const [now, old] = ["rope_parameters", "rope_scaling"].map((n) => get(this.config, n));
      if (!quiet && now !== null && old !== null && !same(now, old)) {
        this.warn("rope_parameters and rope_scaling are both given and differ: transformers 5 " +
          "uses rope_scaling, and version 4 knows no other; rope_parameters is used here");
      }
      const where = now === null && old !== null ? "rope_scaling" : "rope_parameters";
      const given = truthy(now ?? old) ? now ?? old : {};
      if (!isObject(given)) {
        throw new ConfigError(`${this.prefix}${where} must be a JSON object, got ` +
          shortRepr(given));
      }
      return [{ ...given }, where];
    }
    read() {
      const [given, where] = this.ropeObject();
      if (!Object.keys(given).length && this.family.class_fills_defaults) {
        this.warn(`${where} is missing, and this family's class fills in more than a base, ` +
          "which is not known here: give the configuration that transformers completes, " +
          "AutoConfig.from_pretrained(folder)");
      }
      let layers = this.layers();
      const byKind = this.byKind(given, layers);
      if (this.isUnrotated()) return [{ [this.title("all")]: null }, []];
      const names = Object.keys(byKind);
      if (names.length === 1 && names[0] === "all") {
        layers = layers.map((kind) => kind === "none" ? kind : "all");
      } else if (!layers.every((kind) => kind === "none" || names.includes(kind))) {
        layers = [];
      }
      const kinds = Object.create(null);  // A kind may have any name, also __proto__.
      for (const kind of names) {
        const here = `${this.prefix}${where}${kind === "all" ? "" : `.${kind}`}`;
        const rotates = byKind[kind] !== null && !this.unrotated.includes(kind);
        kinds[this.title(kind)] = rotates ? this.rope(here, byKind[kind], kind, layers) : null;
      }
      if (layers.includes("none")) kinds[this.title("none")] = null;
      return [kinds, layers.map((kind) => this.title(kind))];
    }
    temperature() {
      const [given, where] = this.ropeObject(true);
      if (truthy(get(this.config, "attn_temperature_tuning"))) {
        return {
          growth: "steps", index_from: 1, layers: this.title("none"),
          alpha: number(`${this.prefix}attn_scale`, get(this.config, "attn_scale")),
          length: number(`${this.prefix}floor_scale`, get(this.config, "floor_scale")),
        };
      }
      if (!has(given, "llama_4_scaling_beta")) return null;
      const name = "original_max_position_embeddings";
      return {
        growth: "steps", index_from: 0, layers: this.title("all"),
        alpha: number(`${where}.llama_4_scaling_beta`, given.llama_4_scaling_beta),
        length: number(`${where}.${name}`, get(given, name)),
      };
    }
    byKind(given, layers) {
      const inner = Object.keys(given).filter((k) => isObject(given[k]));
      const absent = Object.keys(given).filter((k) => given[k] === null && layers.includes(k));
      const local = first(this.config, this.known.local)?.[1] ?? get(this.family, "local");
      if (!inner.length) this.compare(given);
      let byKind;
      if (inner.length || (absent.length && absent.length === Object.keys(given).length)) {
        for (const name of Object.keys(given).sort()) {
          if (!inner.includes(name) && !absent.includes(name) && given[name] !== null) {
            this.warn(`rope_parameters.${name} is ignored, since rope_parameters has an ` +
              "object for each kind of layer");
          }
        }
        byKind = Object.fromEntries(Object.entries(given)
          .filter(([k]) => inner.includes(k) || absent.includes(k))
          .map(([k, v]) => [k, v && { ...v }]));
      } else if (local !== null) {
        byKind = { full_attention: given, sliding_attention: { rope_theta: local } };
        const globalBase = first(this.config, ["global_rope_theta"]);
        if (globalBase !== null && !Object.hasOwn(given, "rope_theta")) {
          given.rope_theta = globalBase[1];
        }
      } else if (this.unrotated.some((kind) => layers.includes(kind))) {
        byKind = Object.fromEntries(layers.map((kind) => [kind, { ...given }]));
      } else {
        byKind = { all: given };
      }
      for (const ofKind of Object.values(byKind)) {
        if (ofKind !== null) this.complete(ofKind);
      }
      return byKind;
    }
    compare(given) {
      const base = first(this.config, this.known.bases), own = get(given, "rope_theta");
      if (base !== null && own !== null && own !== base[1]) {
        this.warn(`${base[0]} is ${shortRepr(base[1])}, but rope_parameters.rope_theta is ` +
          `${shortRepr(own)}, which is used`);
      }
    }
    complete(given) {
      const base = first(this.config, this.known.bases);
      if (base !== null && !has(given, "rope_theta")) {
        given.rope_theta = base[1];
      }
      const share = first(this.config, this.known.shares);
      if (share !== null && !has(given, "partial_rotary_factor")) {
        given.partial_rotary_factor = share[1];
      }
      for (const name of ["original_max_position_embeddings", "mrope_section"]) {
        if (has(this.config, name) && !Object.hasOwn(given, name)) given[name] = this.config[name];
      }
    }
    isUnrotated() {
      const name = "position_embedding_type";
      const required = this.family.required_embedding_type, own = get(this.config, name);
      const isOther = Boolean(required) && own !== required;
      const note = (text) => this.remarks.push({ level: "note", text: this.prefix + text });
      if (isOther) {
        note(`${name} is ${shortRepr(own)}, not ${shortRepr(required)}: no layer is rotated`);
      }
      if (get(this.config, "alibi") !== true) return isOther;
      note("alibi is true: no layer is rotated");
      return true;
    }
    pattern() {
      const depth = first(this.config, this.known.depths);
      const name = "sliding_window_pattern";
      const pattern = get(Object.hasOwn(this.config, name) ? this.config : this.family,
        Object.hasOwn(this.config, name) ? name : "pattern");
      if (depth === null || !has(this.config, "sliding_window") || !truthy(pattern)) return null;
      const layers = Math.min(count(this.prefix + depth[0], depth[1]), this.known.mostLayers);
      let isLocal = (n) => pattern[n % pattern.length] === "L";
      if (typeof pattern !== "string" || /[^LG]/.test(pattern)) {
        const every = count(`${this.prefix}sliding_window_pattern`, pattern);
        isLocal = (n) => (n + 1) % every !== 0;
      }
      return Array.from({ length: layers }, (_, n) =>
        isLocal(n) ? "sliding_attention" : "full_attention");
    }
    layers() {
      const [own, bases, marks] = ["layer_types", "layer_rope_theta", "no_rope_layers"].map(
        (name) => get(this.config, name));
      const types = own ?? this.pattern();
      let layers = [];
      if (Array.isArray(types) && types.every((t) => typeof t === "string")) layers = types;
      else if (Array.isArray(marks) && marks.length) layers = marks.map(() => "all");
      else if (Array.isArray(bases) && bases.length) layers = bases.map(() => "all");
      const all = [marks, bases].filter((m) => Array.isArray(m) && m.length === layers.length);
      return layers.map((kind, n) => all.some((m) => !truthy(m[n])) ? "none" : kind);
    }
    rope(where, given, kind, layers) {
      const headDim = this.headDim(kind, layers);
      const longest = first(this.config, this.known.lengths);
      const { axes: own = 1, alternating = false, sections: fixed = [] } = this.family;
      const axes = Math.max(own, given.rope_type === "axial" ? 2 : 1);
      const made = makeRope(new Parameters({
        where,
        given: axes > 1 ? { ...given, rope_type: "default" } : given,
        headDim,
        width: this.width(given, headDim),
        longest: longest && count(this.prefix + longest[0], longest[1]),
        remarks: this.remarks,
        base: this.family.base,
      }, this.known), this.layout());
      made.softmax = this.softmax(where, given, made);
      if (axes === 1) return made;
      const equal = Array(axes).fill(Math.floor(Math.floor(made.width / 2) / axes));
      if (!alternating) return { ...made, sections: equal, order: "separate" };
      const sections = [made.sections, fixed, equal].find((s) => s.length);
      return { ...made, sections, order: "alternating" };
    }
    softmax(where, given, made) {
      const own = get(given, "mscale_all_dim");
      const isPlain = this.known.plainScales.includes(get(this.config, "model_type"));
      const isLatent = has(this.config, "qk_rope_head_dim");
      if (!isLatent || made.method !== "yarn" || !truthy(own) || isPlain) return 1;
      const growth = 0.1 * Math.log(Math.max(made.options.factor, 1));
      const scale = (number(`${where}.mscale_all_dim`, own) * growth + 1) ** 2;
      if (!Number.isFinite(scale)) {
        throw new ConfigError(`${where}.mscale_all_dim must give a finite scale of scores, ` +
          `got ${general(Number(own))}`);
      }
      this.remarks.push({ level: "note", text: `${where}.mscale_all_dim: latent attention of ` +
        `transformers 5.23 also multiplies the scale of its softmax by ${general(scale)}` });
      return scale;
    }
    headDim(kind, layers) {
      const byLayer = get(this.config, "per_layer_config");
      if (isObject(byLayer) && layers.includes(kind)) {
        const own = get(byLayer, String(layers.indexOf(kind)).padStart(2, "0"));
        if (isObject(own) && has(own, "head_dim")) {
          return count("per_layer_config.head_dim", own.head_dim);
        }
      }
      const found = first(this.config, ["qk_rope_head_dim", ...this.known.headDims]);
      if (found !== null) return count(this.prefix + found[0], found[1]);
      if (has(this.family, "head_dim") && !Object.hasOwn(this.config, "head_dim")) {
        return this.family.head_dim;
      }
      const [hidden, heads] = [this.known.hidden, this.known.heads].map((n) => first(this.config, n));
      if (hidden === null || heads === null) {
        throw new ConfigError(`${this.prefix}head_dim is needed, or hidden_size and ` +
          "num_attention_heads to compute it from");
      }
      const [a, b] = [hidden, heads].map(([n, v]) => count(this.prefix + n, v));
      return Math.floor(a / b);
    }
    width(given, headDim) {
      if (has(this.config, "qk_rope_head_dim")) return headDim;
      const found = first(this.config, this.known.widths);
      if (found === null) return null;
      const width = count(this.prefix + found[0], found[1]);
      if (!has(this.config, "rope_parameters")) return width;
      const share = Object.hasOwn(given, "partial_rotary_factor") ? given.partial_rotary_factor : 1;
      if (typeof share !== "number") return null;
      const rotated = features(headDim, share);
      if (rotated !== width) {
        this.warn(`${found[0]} is ${width}, which transformers 5 ignores: ` +
          `partial_rotary_factor gives ${rotated} rotated features`);
      }
      return null;
    }
    layout() {
      const isInterleaved = get(this.config, "rope_interleave");
      if (typeof isInterleaved === "boolean") return isInterleaved ? "interleaved" : "half";
      return this.family.layout || "";
    }
  }

  const same = (a, b) => {
    if (!isObject(a) || !isObject(b)) return JSON.stringify(a) === JSON.stringify(b);
    const keys = Object.keys(a);
    return keys.length === Object.keys(b).length &&
      keys.every((k) => Object.hasOwn(b, k) && same(a[k], b[k]));
  };
  const parts = (config, known) => Object.entries(config)
    .filter(([name, v]) => (name.endsWith("_config") || known.sides.includes(name)) && isObject(v))
    .flatMap(([name, v]) => [[name, v],
      ...parts(v, known).map(([inner, part]) => [`${name}.${inner}`, part])]);
  const familyOf = (type, known) =>
    (typeof type === "string" && get(known.families, type)) || {};
  const hasHeads = (config, known) =>
    [known.heads, known.hidden].every((names) => first(config, names) !== null)
    || first(config, ["qk_rope_head_dim", ...known.headDims]) !== null;

  const familyOfPart = (whole, name, part, known) => {
    const [outer, own] = [whole, part].map((config) => get(config, "model_type"));
    const { text } = familyOf(outer, known);
    const isText = name === known.text || (!name && !Object.hasOwn(whole, known.text));
    return familyOf(text && isText && [null, outer].includes(own) ? text : own, known);
  };
  const noRopeMessage = (every, known) => {
    const incomplete = every.filter(([, , family]) => family.base).map(([name, part]) =>
      (name || "this configuration")
      + (has(part, "model_type") ? ` (${part.model_type})` : ""));
    if (incomplete.length) {
      return `the head dimension is left to the class in ${incomplete.join(", ")}: give the ` +
        "configuration that transformers completes, AutoConfig.from_pretrained(folder)";
    }
    if (every[0][2].no_rotation) {
      return "this configuration has no RoPE parameters, and the code of " +
        `${get(every[0][1], "model_type")} in transformers has no rotation: it encodes ` +
        "positions in another way";
    }
    return "this configuration has no RoPE parameters: none of " +
      [...known.bases, "rope_parameters", "rope_scaling"].join(", ");
  };

  const readTransformers = (config, known) => {
    const keys = ["rope_parameters", "rope_scaling", ...known.bases, ...known.local];
    const remarks = [];
    const every = [["", config], ...parts(config, known)].map(
      ([name, part]) => [name, part, familyOfPart(config, name, part, known)]);
    let withRope = every.filter(([, part, family]) => keys.some((name) => has(part, name))
      || (family.base && (family.head_dim || hasHeads(part, known))));
    if (withRope.length > 1 && withRope[0][0] === "" && !hasHeads(config, known)) {
      withRope = withRope.slice(1);
      remarks.push({ level: "warning", text: "RoPE parameters outside the sub-configurations " +
        "are ignored, since the outer configuration has no heads" });
    }
    if (!withRope.length) throw new ConfigError(noRopeMessage(every, known));
    let [kinds, layers, temperature] = [{}, [], null];
    for (const [name, part, of] of withRope) {
      const own = new Part(name, part, of, remarks, known);
      const [found, ofLayers] = own.read();
      kinds = { ...kinds, ...found };
      layers = layers.length ? layers : ofLayers;
      temperature ??= own.temperature();
    }
    const isNew = withRope.some(([, part]) => Object.hasOwn(part, "rope_parameters"));
    const family = get(config, "model_type");
    return {
      format: `transformers ${isNew ? 5 : 4}`,
      family: typeof family === "string" ? family : "", layers, temperature, kinds, remarks,
    };
  };

  const TIMM = ["rope_temperature", "rope_rotate_half", "rope_grid_indexing", "rope_grid_offset",
    "use_rot_pos_emb", "rope_mrope_section"];
  const FOREIGN = [
    ["the metadata of a GGUF file", (has) => has("general.architecture")],
    ["an image model of timm", (has) => TIMM.some(has) || (has("rope_type") && has("embed_dim"))
      || (has("architecture") && (has("pretrained_cfg") || has("model_args")))],
    ["a transformer of diffusers",
      (has) => ["axes_dims_rope", "rope_axes_dim", "axes_dims"].some(has)],
    ["a ChatGLM whose code is in its repository",
      (has, config) => config.model_type === "chatglm" || has("rope_ratio")],
    ["Meta's params.json", (has) => has("dim") && has("n_heads") && !has("model_type")],
    ["GPT-NeoX's arguments",
      (has) => ["pos-emb", "pos_emb", "rotary-pct", "rotary-emb-base"].some(has)],
    ["Megatron-LM's arguments", (has) => ["rotary_base", "rotary_percent"].some(has)],
  ];

  return (config, known) => {
    if (!isObject(config)) {
      throw new ConfigError(`the configuration must be a JSON object {…}, got ` +
        shortRepr(config));
    }
    const format = FOREIGN.find(([, is]) => is((name) => Object.hasOwn(config, name), config));
    if (format) {
      throw new ConfigError(`this is ${format[0]}: python -m posedu.tools reads it, this ` +
        "page reads the config.json of transformers");
    }
    const own = [...known.bases, ...known.shares, "rope_parameters", "rope_scaling", "model_type"];
    if (!Object.keys(config).length) {
      throw new ConfigError("the configuration is empty; give a whole config.json");
    }
    if (!own.some((name) => Object.hasOwn(config, name)) && !parts(config, known).length) {
      const keys = Object.keys(config).map(shortRepr);
      const some = keys.slice(0, known.shownKeys);
      if (keys.length > some.length) some.push("…");
      throw new ConfigError(`config format not recognized (top-level keys: ${some.join(", ")}); ` +
        `supported: ${known.supported}`);
    }
    const reading = readTransformers(config, known);
    const seen = new Set();
    reading.remarks = reading.remarks.filter(({ level, text }) => {
      const isNew = !seen.has(level + text);
      seen.add(level + text);
      return isNew;
    });
    for (const rope of Object.values(reading.kinds)) {
      if (rope) rope.frequencies = frequencies(rope);
    }
    return reading;
  };
})();
