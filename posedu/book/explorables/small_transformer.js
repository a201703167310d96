// The small character models of the book, letter by letter with a cache of keys and values.
// posedu.models[encoding] has the weights of a model, once its file is loaded.
posedu.models ??= {};

// RoPE's frequencies ω_p, as a method of context extension scales them by the factor s.
posedu.ropeFrequencies = (method, { d, base, s, trained }) => {
  const pairs = d / 2, turn = 2 * Math.PI;
  const clip = (x, low, high) => Math.min(Math.max(x, low), high);
  const index = (turns) => pairs * Math.log(trained / (turn * turns)) / Math.log(base);
  const first = clip(Math.floor(index(32)), 0, d - 1);
  let last = clip(Math.ceil(index(1)), 0, d - 1);
  if (first === last) last += 0.001;
  const share = { // of its own frequency that a pair keeps
    rope: () => 1,
    pi: () => 0,
    llama3: (w) => clip((trained * w / turn - 1) / 3, 0, 1),
    yarn: (w, p) => 1 - clip((p - first) / (last - first), 0, 1),
  };
  return Float64Array.from({ length: pairs }, (_, p) => {
    const w = base ** (-p / pairs);
    if (method === "ntk") return w * s ** (-p / (pairs - 1));
    const kept = share[method](w, p);
    return (1 - kept) * w / s + kept * w;
  });
};

posedu.SmallTransformer = class {
  constructor({ encoding, settings, shapes, data }, capacity) {
    const { heads, d, layers, length } = settings;
    Object.assign(this, { encoding, heads, d, layers, trained: length, width: heads * d });
    this.weights = posedu.SmallTransformer.unpack(shapes, data);
    this.shapes = shapes;
    const floats = (size) => Array.from({ length: layers }, () => new Float32Array(size));
    this.keys = floats(capacity * this.width);
    this.values = floats(capacity * this.width);
    this.attention = floats(heads * capacity); // of the last query, head after head
    this.gates = Array.from({ length: layers }, () => new Float64Array((capacity + 1) * heads));
    this.capacity = capacity;
    this.count = 0; // of characters read
    this.sinusoids = posedu.ropeFrequencies(
      "rope", { d: this.width, base: 10000, s: 1, trained: length });
    this.set({});
  }

  static unpack(shapes, data) {
    const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
    const rows = ([count, columns]) => columns ? count : 1;
    const all = Object.values(shapes).reduce((sum, shape) => sum + rows(shape), 0);
    const scales = new Float32Array(bytes.buffer, 0, all);
    const integers = new Int8Array(bytes.buffer, 4 * all);
    let row = 0, at = 0;
    return Object.fromEntries(Object.entries(shapes).map(([name, shape]) => {
      const size = shape.reduce((a, b) => a * b), columns = size / rows(shape);
      const [firstRow, start] = [row, at];
      row += rows(shape);
      at += size;
      return [name, Float32Array.from({ length: size },
        (_, n) => integers[start + n] * scales[firstRow + Math.floor(n / columns)])];
    }));
  }

  // Settings that need no training: RoPE's method, s and base; a factor of ALiBi's slopes.
  set({ method = "rope", s = 1, base = 10000, slopes = 1 }) {
    this.omega = posedu.ropeFrequencies(method, { d: this.d, base, s, trained: this.trained });
    this.factor = method === "yarn" ? 0.1 * Math.log(s) + 1 : 1;
    this.slopes = Array.from({ length: this.heads },
      (_, h) => slopes * 2 ** (-8 * (h + 1) / this.heads));
    this.count = 0;
  }

  // Forget all characters but the first `count`.
  cut(count) {
    this.count = Math.min(this.count, count);
  }

  // Read a character; return the logits of the next one.
  step(token) {
    const { width, weights } = this;
    const x = weights["embedding.weight"].slice(token * width, (token + 1) * width);
    this.embed(x);
    for (let layer = 0; layer < this.layers; layer++) {
      const name = `trunk.blocks.${layer}.`;
      this.add(x, this.attend(layer, this.norm(x, `${name}before_attention`)));
      const hidden = this.linear(this.norm(x, `${name}MLP.0`), `${name}MLP.1`);
      this.add(x, this.linear(hidden.map(posedu.SmallTransformer.gelu), `${name}MLP.3`));
    }
    this.count += 1;
    return this.linear(this.norm(x, "trunk.norm"), "answer");
  }

  // Position vectors, added to the input.
  embed(x) {
    const at = this.count;
    if (this.encoding === "sinusoidal") {
      this.sinusoids.forEach((w, p) => {
        x[2 * p] += Math.sin(at * w);
        x[2 * p + 1] += Math.cos(at * w);
      });
    } else if (this.encoding === "learned" && at < this.trained) {
      const table = this.weights["trunk.input.table"]; // later rows were not trained: zeros
      this.add(x, table.subarray(at * this.width, (at + 1) * this.width));
    }
  }

  attend(layer, x) {
    const { width, heads, d, count, capacity } = this;
    const name = `trunk.blocks.${layer}.attention.`;
    const [q, k, v] = ["q", "k", "v"].map((part) => this.linear(x, name + part));
    if (this.encoding === "rope") [q, k].forEach((vector) => this.rotate(vector));
    const keys = this.keys[layer], values = this.values[layer];
    keys.set(k, count * width);
    values.set(v, count * width);
    if (this.encoding === "fox") this.forget(layer, x);
    const scale = this.encoding === "t5" ? 1 : 1 / Math.sqrt(d);
    const output = new Float32Array(width);
    for (let h = 0; h < heads; h++) {
      const a = this.attention[layer].subarray(h * capacity, h * capacity + count + 1);
      const bias = this.bias(layer, h);
      let largest = -Infinity;
      for (let j = 0; j <= count; j++) {
        let product = 0;
        for (let c = h * d, key = j * width + c; c < (h + 1) * d; c++, key++) {
          product += q[c] * keys[key];
        }
        a[j] = product * scale + bias(j);
        if (a[j] > largest) largest = a[j];
      }
      let sum = 0;
      for (let j = 0; j <= count; j++) sum += a[j] = Math.exp(a[j] - largest);
      for (let j = 0; j <= count; j++) {
        a[j] /= sum;
        for (let c = h * d, value = j * width + c; c < (h + 1) * d; c++, value++) {
          output[c] += a[j] * values[value];
        }
      }
    }
    return this.linear(output, `${name}o`);
  }

  // The bias of key j for the last query, as a function of j.
  bias(layer, h) {
    const { count, heads } = this;
    if (this.encoding === "alibi") return (j) => -this.slopes[h] * (count - j);
    if (this.encoding === "t5") {
      const name = `trunk.blocks.${layer}.attention.encoding.table`;
      const table = this.weights[name], buckets = this.shapes[name][1];
      return (j) => table[h * buckets + posedu.SmallTransformer.bucket(count - j, buckets)];
    }
    if (this.encoding === "fox") {
      const sums = this.gates[layer], own = sums[(count + 1) * heads + h];
      return (j) => own - sums[(j + 1) * heads + h];
    }
    return () => 0;
  }

  // Rotate the pairs (p, p + d/2) of every head by the angles of this position.
  rotate(vector) {
    const half = this.d / 2;
    this.omega.forEach((w, p) => {
      const cos = this.factor * Math.cos(this.count * w);
      const sin = this.factor * Math.sin(this.count * w);
      for (let c = p; c < this.width; c += this.d) {
        const [one, other] = [vector[c], vector[c + half]];
        vector[c] = one * cos - other * sin;
        vector[c + half] = one * sin + other * cos;
      }
    });
  }

  // FoX: the sum of log f over all characters up to this one, for each head.
  forget(layer, x) {
    const { heads, count } = this, name = `trunk.blocks.${layer}.attention.encoding.gate_`;
    const bias = this.weights[`${name}bias`];
    const logits = this.linear(x, `${name}weight`, bias);
    logits.forEach((logit, h) => {
      const log = Math.min(logit, 0) - Math.log1p(Math.exp(-Math.abs(logit)));
      this.gates[layer][(count + 1) * heads + h] = this.gates[layer][count * heads + h] + log;
    });
  }

  // T5's bucket of a distance: 8 single distances, then 8 that grow up to 32.
  static bucket(distance, buckets) {
    const single = buckets / 2;
    if (distance < single) return distance;
    const share = Math.log(distance / single) / Math.log(32 / single) * single;
    return single + Math.min(Math.floor(share + 1e-9), single - 1);
  }

  add(x, other) {
    for (let n = 0; n < x.length; n++) x[n] += other[n];
  }

  norm(x, name) {
    const gain = this.weights[`${name}.weight`], shift = this.weights[`${name}.bias`];
    const mean = x.reduce((sum, value) => sum + value, 0) / x.length;
    const variance = x.reduce((sum, value) => sum + (value - mean) ** 2, 0) / x.length;
    const scale = 1 / Math.sqrt(variance + 1e-5);
    return x.map((value, n) => (value - mean) * scale * gain[n] + shift[n]);
  }

  linear(x, name, bias = this.weights[`${name}.bias`]) {
    const matrix = this.weights[name] ?? this.weights[`${name}.weight`];
    const output = new Float32Array(matrix.length / x.length);
    for (let row = 0, at = 0; row < output.length; row++) {
      let sum = bias ? bias[row] : 0;
      for (let column = 0; column < x.length; column++, at++) sum += matrix[at] * x[column];
      output[row] = sum;
    }
    return output;
  }

  // x Φ(x), with erf to 2e-7 (Abramowitz and Stegun, 7.1.26).
  static gelu(x) {
    const z = Math.abs(x) / Math.SQRT2, t = 1 / (1 + 0.3275911 * z);
    const series = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t
      - 0.284496736) * t + 0.254829592) * t;
    const erf = Math.sign(x) * (1 - series * Math.exp(-z * z));
    return 0.5 * x * (1 + erf);
  }
};
