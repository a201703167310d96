(() => {
  const find = (s) => document.querySelector(".posedu-hero " + s);
  const all = (s) => [...document.querySelectorAll(".posedu-hero " + s)];
  const slider = find("[type=range]"), button = find("button");
  const words = all("fieldset label, fieldset .query"), numbers = all("fieldset small");
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const omega = (p) => 10000 ** (-p / 32);
  const key = () => +find(":checked").value;
  const name = (n) => words[n].childNodes[+(n < words.length - 1)].data.trim();
  let start = slider.valueAsNumber, playing = !still.matches, moving = false;

  function turn() {
    all("g").forEach((ring) => {
      const angle = (start + key()) * omega(ring.dataset.p) * 180 / Math.PI;
      ring.setAttribute("transform", `rotate(${-(angle % 360).toFixed(2)})`);
    });
  }

  function choose() {
    const distance = words.length - 1 - key();
    all("g").forEach((ring) => {
      const { p, r } = ring.dataset, angle = distance * omega(p);
      const [x, y] = [r * Math.cos(angle), -r * Math.sin(angle)].map((v) => v.toFixed(2));
      const long = +(angle > Math.PI);
      ring.querySelector("path").setAttribute("d", `M${r} 0A${r} ${r} 0 ${long} 0 ${x} ${y}`);
      const dot = ring.querySelector(".query");
      dot.setAttribute("cx", x);
      dot.setAttribute("cy", y);
    });
    let score = 0;
    for (let p = 0; p < 32; p++) score += Math.cos(distance * omega(p)) / 32;
    find(".score").textContent = score.toFixed(3);
    find(".status").textContent = `Distance from “${name(key())}” to “${name(words.length - 1)}”: ${distance}`;
    turn();
  }

  function move() {
    const wanted = slider.valueAsNumber, gap = wanted - start;
    start = still.matches || Math.abs(gap) < .01 || gap < -9 ? wanted : start + gap / 8;
    turn();
    moving = start !== wanted;
    if (moving) requestAnimationFrame(move);
  }

  function follow() {
    const first = slider.valueAsNumber;
    numbers.forEach((number, n) => number.textContent = first + n);
    const at = (n) => `${name(n)} at ${first + n}`;
    slider.setAttribute("aria-valuetext", `${at(key())}, ${at(words.length - 1)}`);
    if (!moving) move();
  }

  function play(on) {
    playing = on;
    button.textContent = on ? "Pause" : "Play";
  }

  setInterval(() => {
    const { top, bottom } = find("svg").getBoundingClientRect();
    if (!playing || document.hidden || bottom < 0 || top > innerHeight) return;
    slider.value = (slider.valueAsNumber + 1) % (+slider.max + 1);
    follow();
  }, 1200);
  button.addEventListener("click", () => play(!playing));
  slider.addEventListener("input", () => { play(false); follow(); });
  find("fieldset").addEventListener("input", () => { choose(); follow(); });
  find("fieldset").disabled = find(".controls").hidden = false;
  play(playing);
  choose();
  follow();
})();
