posedu.live("liere", ({ find, numbers }) => {
  const { eye, start, steps, spins } = numbers;
  const dot = (a, b) => a.reduce((sum, value, n) => sum + value * b[n], 0);
  const cross = (a, b) => [0, 1, 2].map((n) =>
    a[(n + 1) % 3] * b[(n + 2) % 3] - a[(n + 2) % 3] * b[(n + 1) % 3]);
  const degrees = (angle) => `${(angle * 180 / Math.PI).toFixed(0)}°`;

  const turned = (spin, vector) => {  // by Rodrigues' formula
    const angle = Math.hypot(...spin);
    if (angle === 0) return vector;
    const axle = spin.map((part) => part / angle);
    const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
    const along = (1 - cos) * dot(axle, vector);
    const across = cross(axle, vector);
    return vector.map((part, n) => cos * part + sin * across[n] + along * axle[n]);
  };
  const way = (...parts) => parts.reduce((points, spin) => {
    const from = points.at(-1);
    const next = Array.from({ length: steps }, (_, n) =>
      turned(spin.map((part) => part * (n + 1) / steps), from));
    return points.concat(next);
  }, [start]);

  const draw = (name, points) => {
    const seen = points.map((point) => eye.map((row) => dot(row, point)));
    const at = ([x, y]) => `${x.toFixed(3)},${(-y).toFixed(3)}`;
    const paths = ["", ""];
    let last;
    seen.slice(1).forEach((point, n) => {
      const behind = Number(seen[n][2] + point[2] < 0);
      if (behind !== last) paths[behind] += `M${at(seen[n])}`;
      paths[behind] += `L${at(point)}`;
      last = behind;
    });
    find(`.${name} .front`).setAttribute("d", paths[0]);
    find(`.${name} .back`).setAttribute("d", paths[1]);
    const [x, y] = seen.at(-1).map((value) => (120 * value).toFixed(1));
    find(`.${name} .end`).setAttribute("transform", `translate(${x},${-y})`);
  };

  const one = ({ column, row }) => {
    const spin = start.map((_, n) => column * spins[0][n] + row * spins[1][n]);
    const angle = Math.hypot(...spin);
    const points = way(spin);
    draw("first", points);
    const [x, y] = eye.map((line) => 1.3 * dot(line, spin) / (angle || 1));
    const [x0, y0, x1, y1] = [-x, y, x, -y].map((value) => value.toFixed(3));
    find(".axle").setAttribute("d", `M${x0},${y0}L${x1},${y1}`);
    const values = points.at(-1).map((value) => value.toFixed(2).replace("-", "−")).join(", ");
    const place = { column: column.toFixed(2), row: row.toFixed(2) };
    return {
      ...place, values,
      length: Math.hypot(...points.at(-1)).toFixed(2),
      summary: `At column ${place.column}, row ${place.row} the vector is rotated by ` +
        `${degrees(angle)}; its features are ${values}.`,
    };
  };

  const two = ({ turn, guess, look }) => {
    const angle = turn * Math.PI / 180;
    const [column, row] = [[0, 0, angle], [angle, 0, 0]];
    const [first, second] = [way(column, row), way(row, column)];
    const ends = {
      A: turned([0, 0, -angle], turned(row, start)), B: second.at(-1), C: first.at(-1),
    };
    const apart = (a, b) => Math.acos(Math.min(1, Math.max(-1, dot(a, b))));
    draw("first", first);
    draw("second", second);
    find(".second")[look ? "removeAttribute" : "setAttribute"]("visibility", "hidden");
    for (const [name, point] of Object.entries(ends)) {
      const [x, y] = eye.map((line) => 120 * dot(line, point));
      const mark = find(`.${name}`);
      mark.setAttribute("transform", `translate(${x.toFixed(1)},${(-y).toFixed(1)})`);
      mark.firstElementChild.style.strokeWidth = name === guess ? 4 : 2;
    }
    const gap = degrees(apart(ends.B, ends.C));
    const beginning = `Two rotations by ${turn}°: `;
    if (!look) {
      return {
        turn: `${turn}°`, gap: "?",
        summary: beginning + "column, then row ends at C. Where does row, then column end? " +
          (guess ? `You guess ${guess}.` : "Guess, then look."),
      };
    }
    const off = guess && degrees(apart(ends[guess], ends.B));
    const verdict = guess && (off === "0°"
      ? ` Your guess ${guess} is right.` : ` Your guess ${guess} is ${off} off.`);
    return {
      turn: `${turn}°`, gap,
      summary: `${beginning}row, then column ends at B, ${gap} from C, ` +
        `where column, then row ends.${verdict}`,
    };
  };
  return spins ? one : two;
});
