posedu.live("bam", ({ find }) => {
  const epsilon = 1e-5;
  const near = 16;

  const prior = ({ beta, scale, center }, keys) => {
    const bias = Float64Array.from({ length: keys }, (_, t) =>
      -(2 ** scale) * (Math.abs(t - center) + epsilon) ** beta);
    const top = bias.reduce((a, b) => Math.max(a, b));
    const weights = bias.map((b) => Math.exp(b - top));
    const total = weights.reduce((a, b) => a + b);
    return weights.map((w) => w / total);
  };
  const sum = (weights) => weights.slice(0, near).reduce((a, b) => a + b);
  const percent = (share) => `${(Math.floor(1000 * share + 0.5) / 10).toFixed(1)} %`;

  return (values) => {
    const few = prior(values, 33);
    const highest = few.reduce((a, b) => Math.max(a, b));
    const heights = Array.from(few, (w) => Math.floor(1e4 * w / highest + 0.5) / 1e4);
    find(".prior").setAttribute(
      "d", heights.map((h, t) => `M${t},0V${h.toFixed(4)}`).join(""));
    const shown = {
      top: percent(highest),
      own: percent(few[0]),
      near: percent(sum(few)),
      far: percent(sum(prior(values, 65536))),
    };
    const beta = `${values.beta}`.replace("-", "−");
    const proper = values.beta > 0 ? "proper" : "improper";
    const power = 2 ** Math.abs(values.scale);
    return {
      ...shown,
      beta,
      scale: values.scale >= 0 ? `${power}` : `1/${power}`,
      center: `${values.center}`,
      summary: `With β = ${beta} the prior is ${proper}: the nearest ${near} of 33 ` +
        `keys have ${shown.near} of the weight, of 65,536 keys ${shown.far}.`,
    };
  };
});
