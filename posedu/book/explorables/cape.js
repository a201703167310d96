posedu.live("cape", ({ find, numbers: signs }) => {
  const x = (at) => (128 + 12.5 * at).toFixed(2);
  const signed = (number) =>
    number.toFixed(2).replace("-0.00", "0.00").replace("-", "−");

  return ({ jitter, shift, level }) => {
    const scale = 1.4 ** (level / 4);
    const at = signs.map((sign, n) => scale * (n + shift + jitter * sign));
    const dots = at.map((place) => `M${x(place)},138h.001`);
    const lines = at.map((place, n) => `M${x(n)},52L${x(place)},138`);
    find("path.after").setAttribute("d", dots.join(""));
    find(".lines").setAttribute("d", lines.join(""));
    const steps = at.slice(1).map((place, n) => place - at[n]);
    const count = steps.filter((step) => Math.round(step * 1e9) < 0).length;
    return {
      jitter: jitter.toFixed(2),
      shift: shift.toFixed(1).replace("-", "−"),
      level: scale.toFixed(2),
      summary: `Neighbors that have changed their order: ${count}. Steps of any sample ` +
        `with this jitter and scale are at least ${signed(scale * (1 - 2 * jitter))} ` +
        "long.",
    };
  };
});
