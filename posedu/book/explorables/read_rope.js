// posedu.readRope(config, known): the numbers of posedu.tools.read_rope for the config.json of
// a common Hugging Face model, with one RoPE of five types for all layers. Anything else
// throws an Error that names the command: no key that concerns positions is ignored here.
// `known` is what posedu.book.explorables.config_reader.known returns.
window.posedu.readRope = (() => {
  const TYPES = {  // with the parameters of each
    default: [],
    linear: ["factor"],
    dynamic: ["factor"],
    yarn: ["factor", "original_max_position_embeddings", "attention_factor", "beta_fast",
      "beta_slow"],
    llama3: ["factor", "original_max_position_embeddings", "low_freq_factor",
      "high_freq_factor"],
  };
  const USED = ["rope_parameters", "rope_scaling", "rope_theta", "max_position_embeddings",
    // A window limits the keys that a query sees and changes no angle.
    "sliding_window", "use_sliding_window", "max_window_layers"];
  const CONCERNS_POSITIONS = new RegExp("[rn]ope|rpe|rotar|yarn|ntk|mscale|alibi|pos(?!t)|" +
    "temperature|window|theta|partial|freq|layer_types|per_layer|layers_|relative|bucket|" +
    "ax[ei]s|context|(^|_)seq(_|$)|attention_chunk|logn|llama_4|fourier|sinusoid|" +
    "architecture$|kv_channels|.head_dim|head_size|^(embed_dim|dim|n_heads)$", "i");
  const [LARGEST, LARGEST_HEAD] = [2 ** 31, 2 ** 16];
  const LOOSE = 1.01;  // for lengths that are not quite the factor times the training length

  const refer = (reason) => {
    throw new Error(`${reason}; this page reads a config.json of Hugging Face with the RoPE type ` +
      `${Object.keys(TYPES).join(", ")}, and posedu config config.json reads the rest`);
  };
  const isObject = (v) => typeof v === "object" && v !== null && !Array.isArray(v);
  const isKey = (name, o) => typeof name === "string" && Object.hasOwn(o, name);
  const number = (name, v) =>
    typeof v === "number" && v > 0 && v < Infinity ? v : refer(`${name} is not a number above 0`);
  const count = (name, v) => Number.isInteger(number(name, v)) && v <= LARGEST
    ? v : refer(`${name} is not a whole number up to 2^31`);
  const namesWithin = (v) => typeof v !== "object" || v === null ? []
    : Object.entries(v).flatMap(([name, inner]) => [name, ...namesWithin(inner)]);

  const clip = (x, low, high) => Math.min(Math.max(x, low), high);
  const blend = (all, s, gamma) => all.map((w, p) => (1 - gamma[p]) * w / s + gamma[p] * w);
  const yarn = (all, { factor, fast, slow, trained }) => {
    const pairOf = (turns) =>
      Math.log(all[0] * trained / (2 * Math.PI * turns)) / Math.log(all[0] / all[1]);
    let [low, high] = [Math.floor(pairOf(fast)), Math.ceil(pairOf(slow))].map(
      (end) => clip(end, 0, 2 * all.length - 1));
    if (low === high) high += 0.001;
    return blend(all, factor, all.map((_, p) => 1 - clip((p - low) / (high - low), 0, 1)));
  };
  const llama3 = (all, { factor, fast, slow, trained }) => blend(all, factor, all.map((w) => {
    const turns = trained * w / (2 * Math.PI);
    return fast === slow ? Number(turns > fast) : clip((turns - slow) / (fast - slow), 0, 1);
  }));

  const requireNoOtherKey = (config) => {
    for (const [name, value] of Object.entries(config)) {
      if (USED.includes(name) || value === null) continue;
      const inner = namesWithin(value).find(
        (n) => n === "model_type" || CONCERNS_POSITIONS.test(n));
      if (CONCERNS_POSITIONS.test(name)) refer(`${name} is not read here`);
      if (inner !== undefined) refer(`${name} with ${inner} is not read here`);
    }
  };
  const ropeObject = (config) => {
    const [now, old] = [config.rope_parameters ?? null, config.rope_scaling ?? null];
    if (now !== null && old !== null) refer("rope_parameters and rope_scaling are both given");
    const where = now === null && old !== null ? "rope_scaling" : "rope_parameters";
    const given = now ?? old ?? {};
    if (!isObject(given)) refer(`${where} is not an object`);
    const type = given.rope_type ?? given.type ?? "default";
    if (!isKey(type, TYPES) || (given.type ?? type) !== type) refer(`${where} has another type`);
    const other = Object.keys(given).find(
      (name) => !["rope_type", "type", "rope_theta", ...TYPES[type]].includes(name));
    if (other !== undefined) refer(`${where}.${other} is not read with the type ${type}`);
    const [base, beside] = [given.rope_theta ?? null, config.rope_theta ?? null];
    if (base !== null && beside !== null && base !== beside) refer("two rope_theta differ");
    return [where, given, type];
  };
  const familyOf = (type, known) => {
    if (type === undefined) return {};
    return isKey(type, known.families) ? known.families[type]
      : refer(`the model_type is not one of ${Object.keys(known.families).join(", ")}`);
  };
  const headDimOf = (config, family) => {
    if ((config.head_dim ?? null) !== null) return count("head_dim", config.head_dim);
    if (family.head_dim && !Object.hasOwn(config, "head_dim")) return family.head_dim;
    const [hidden, heads] = ["hidden_size", "num_attention_heads"].map(
      (name) => count(name, config[name]));
    return Math.floor(hidden / heads);
  };

  return (config, known) => {
    if (!isObject(config)) refer("the text is not a JSON object {…}");
    requireNoOtherKey(config);
    const family = familyOf(config.model_type, known);
    const [where, given, type] = ropeObject(config);
    const value = (name, otherwise) => number(`${where}.${name}`, given[name] ?? otherwise);

    const headDim = headDimOf(config, family);
    if (headDim < 2 || headDim > LARGEST_HEAD) refer(`a head has ${headDim} features`);
    const base = value("rope_theta", config.rope_theta ?? family.base);
    if (base < 2) refer("rope_theta is below 2");
    const plain = Array.from(
      { length: Math.ceil(headDim / 2) }, (_, p) => base ** (-2 * p / headDim));
    const hasLongest = (config.max_position_embeddings ?? null) !== null || type === "dynamic";
    const longest = hasLongest
      ? count("max_position_embeddings", config.max_position_embeddings) : null;
    const reading = {
      format: `transformers ${Object.hasOwn(config, "rope_parameters") ? 5 : 4}`,
      family: config.model_type ?? "", method: type, base, head_dim: headDim,
      trained: longest, attention_factor: 1, layout: family.layout ?? "",
      unscaled: plain, frequencies: plain, remarks: [],
    };
    const factor = type === "default" ? 1 : value("factor");
    if (factor < 1) refer(`${where}.factor is below 1`);
    if (type === "linear") reading.frequencies = plain.map((w) => w / factor);
    if (type === "dynamic") {  // They are plain up to the training length.
      reading.remarks = [`warning [stale-keys]: ${where}: under 'dynamic' ${known.staleKeys}`];
    }
    if (type === "yarn" || type === "llama3") {
      const name = "original_max_position_embeddings";
      const trained = count(`${where}.${name}`, given[name]);
      const reach = type === "yarn" ? LOOSE * factor * trained : Infinity;
      if (longest !== null && (trained > longest || longest > reach)) {
        refer(`${name}, factor and max_position_embeddings do not fit`);
      }
      const [fast, slow] = type === "yarn" ? [value("beta_fast", 32), value("beta_slow", 1)]
        : [value("high_freq_factor"), value("low_freq_factor")];
      if (fast < slow) refer(`the bounds of ${type} are in the wrong order`);
      const found = (type === "yarn" ? yarn : llama3)(plain, { factor, fast, slow, trained });
      Object.assign(reading, { trained, frequencies: found });
    }
    if (type === "yarn") {
      const growth = 0.1 * Math.log(factor);
      reading.attention_factor = value("attention_factor", growth + 1);
    }
    if (!reading.frequencies.every(Number.isFinite)) refer(`${type} gives no finite frequencies`);
    return reading;
  };
})();
