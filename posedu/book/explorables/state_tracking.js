posedu.live("state_tracking", ({ find, numbers }) => {
  const { streams, kappa, frequencies } = numbers;
  const d = 2 * frequencies.length;
  const range = [...Array(d).keys()];
  const letters = [...find(".letters").children];
  const boxes = [...find(".boxes").children];
  const cells = [...find(".cells").children];
  const bars = [...find(".bars").children];
  const slider = find('input[name="cup"]');
  const [positive, negative] = [
    bars[0].children[0].getAttribute("fill"),
    find(".asked").getAttribute("stroke"),
  ];

  const identity = () => range.map((i) => range.map((j) => +(i === j)));
  const transition = (encoding, [first, second], b) => {
    const matrix = identity();
    if (encoding === "path" || encoding === "beta") {
      const beta = encoding === "path" ? 2 : 2 / (1 + Math.exp(-b));
      matrix[first][first] = matrix[second][second] = 1 - beta / 2;
      matrix[first][second] = matrix[second][first] = beta / 2;
    } else if (encoding === "gate") {
      for (const c of range) {
        matrix[c][c] = 1 - 0.1 * (1 + ((first + 2 * second + c) % 4));
      }
    } else {
      const letter = encoding === "selective" ? 1 + first + 2 * second : 1;
      frequencies.forEach((frequency, p) => {
        const angle = letter * frequency;
        matrix[2 * p][2 * p] = matrix[2 * p + 1][2 * p + 1] = Math.cos(angle);
        matrix[2 * p][2 * p + 1] = -Math.sin(angle);
        matrix[2 * p + 1][2 * p] = Math.sin(angle);
      });
    }
    return matrix;
  };
  const times = (left, right) =>
    left.map((row) => range.map((j) => row.reduce((s, v, l) => s + v * right[l][j], 0)));

  return (values) => {
    const count = +values.cups;
    const stream = streams[values.cups].slice();
    if (values.exchanged) [stream[0], stream[1]] = [stream[1], stream[0]];
    slider.max = count - 1;
    const cup = Math.min(values.cup, count - 1);
    const read = stream.slice(0, values.step);

    const balls = [...Array(count).keys()];
    let product = identity();
    for (const swap of read) {
      const [a, b] = swap;
      [balls[a], balls[b]] = [balls[b], balls[a]];
      product = times(transition(values.encoding, swap, values.b), product);
    }
    const logits = product[cup].slice(0, count).map((v) => kappa * v);
    const most = Math.max(...logits);
    const powers = logits.map((z) => Math.exp(z - most));
    const total = powers.reduce((sum, v) => sum + v, 0);
    const weights = powers.map((v) => v / total);

    letters.forEach((text, n) => {
      text.textContent = stream[n].join("↔");
      text.setAttribute("opacity", n < values.step ? 1 : 0.6);
    });
    boxes.forEach((box, n) => {
      box.setAttribute("visibility", n < count ? "visible" : "hidden");
      box.querySelector(".ball").textContent = n < count ? balls[n] : "";
    });
    find(".asked").setAttribute("x", 22 + 74 * cup);
    cells.forEach((cell, n) => {
      const value = product[Math.floor(n / d)][n % d];
      cell.setAttribute("fill", value > -1e-9 ? positive : negative);
      cell.setAttribute("fill-opacity", Math.min(1, Math.abs(value)).toFixed(3));
    });
    bars.forEach((bar, n) => {
      bar.setAttribute("visibility", n < count ? "visible" : "hidden");
      const height = 120 * (weights[n] || 0);
      bar.children[0].setAttribute("y", (254 - height).toFixed(1));
      bar.children[0].setAttribute("height", height.toFixed(1));
    });
    const answer = weights.indexOf(Math.max(...weights));
    const verdict = answer === balls[cup]
      ? "right" : `wrong, the cup holds ${balls[cup]}`;
    return {
      step: String(values.step),
      cup: String(cup),
      b: String(values.b),
      summary: `After ${values.step} swaps the query of cup ${cup} has its largest ` +
        `weight, ${weights[answer].toFixed(2)}, on ball ${answer}: ${verdict}.`,
    };
  };
});
