posedu.live("cope", ({ find, numbers: reads }) => {
  const bars = [...find(".bars").children];
  const heights = [...find(".heights").children];
  const buttons = bars.map((_, j) => find(`button[name="gate${j}"]`));
  const words = buttons.map((button) => button.textContent);

  const read = (p) => {
    const low = Math.floor(p), high = Math.ceil(p);
    return (p - low) * reads[high] + (1 - p + low) * reads[low];
  };

  return (values) => {
    const gates = words.map((_, j) => (values[`gate${j}`] ? values.open : 0));
    const count = (j) => gates.slice(j).reduceRight((sum, g) => sum + g, 0);
    const positions = words.map((_, j) => Math.min(reads.length - 1, count(j)));
    const added = positions.map(read);

    positions.forEach((p, j) => {
      bars[j].setAttribute("d", `M${+(j - 0.36).toFixed(2)},0V${p.toFixed(3)}h.72V0z`);
      bars[j].setAttribute("fill-opacity", values[`gate${j}`] ? 1 : 0);
      heights[j].setAttribute("y", (172 - 36 * p).toFixed(1));
      heights[j].textContent = String(+p.toFixed(2));
    });
    const dots = positions.map((p, j) => `M${added[j].toFixed(3)},${p.toFixed(3)}h.001`);
    find(".dots").setAttribute("d", dots.join(""));

    const reached = words.filter((_, j) => Math.abs(positions[j] - 2) < 1e-9);
    const found = reached.map((word) => `“${word}”`).join(", ") || "nothing";
    return {
      open: values.open.toFixed(2),
      summary: `“${words[0]}” has position ${heights[0].textContent}. ` +
        `At position 2: ${found}.`,
    };
  };
});
