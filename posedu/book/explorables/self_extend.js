posedu.live("self_extend", ({ find }) => {
  const trained = 24;
  const offsets = (method, n, window, size) => {
    const keys = Array.from({ length: n }, (_, key) => key), last = n - 1;
    if (method === "sinks") {
      const gap = Math.max(0, n - size - window);
      return keys.map((key) => key < size ? last - gap - key
        : key < size + gap ? null : last - key);
    }
    if (method === "rope") return keys.map((key) => last - key);
    if (method === "chunks") {
      const chunk = window + size, top = chunk + window, inside = last % chunk;
      return keys.map((key) => {
        const behind = Math.floor(last / chunk) - Math.floor(key / chunk);
        const query = behind === 0 ? inside
          : behind === 1 ? Math.min(inside + chunk, top) : Math.min(2 * chunk - 1, top);
        return query - key % chunk;
      });
    }
    const shift = window - Math.floor(window / size);
    return keys.map((key) => last - key < window ? last - key
      : method === "constant" ? window
      : Math.floor(last / size) - Math.floor(key / size) + shift);
  };

  return ({ method, tokens, window, size }) => {
    const found = offsets(method, tokens, window, size);
    find("path.offsets").setAttribute("d", found.map(
      (at, key) => at === null ? "" : `M${key},${at}h0.8`
    ).join(""));
    const visible = found.filter((at) => at !== null), largest = Math.max(...visible);
    return {
      tokens: String(tokens),
      window: String(window),
      size: String(size),
      summary: `Of ${tokens} tokens the last one sees ${visible.length}, at ` +
        `${new Set(visible).size} different offsets up to ${largest}: ` +
        `${largest < trained ? "within" : "beyond"} the ${trained - 1} of training.`,
    };
  };
});
