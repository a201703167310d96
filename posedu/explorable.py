"""A figure with sliders that needs no kernel: RoPE's pairs as the hands of clocks.

The static drawing is made here, from the reference face. Where scripts run, a short
one redraws it as the reader moves the sliders. The SVG holds plain data, a hand's
cosine and sine or an offset and its score; ``transform`` places them, so that the
script knows no layout.
"""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Complex, Float, Int

from posedu.figures import COLOURS
from posedu.numpy.frequencies import frequencies
from posedu.numpy.rotary import rope_complex

Array = np.ndarray

D = 16
LONGEST = 256  # the largest offset
OFFSET, BASE = 16, 10_000  # what is drawn where scripts do not run
SHADOW, QUERY = COLOURS[:2]

_STYLE = """<style>
.posedu-explorable {
  container-type: inline-size; margin: 1.5rem auto; max-width: 42rem; text-align: left;
}
.posedu-explorable .clocks { display: grid; grid-template-columns: repeat(4, 1fr); }
.posedu-explorable svg { display: block; width: 100%; height: auto; fill: none; }
.posedu-explorable svg * { stroke-width: 1; vector-effect: non-scaling-stroke; }
.posedu-explorable text { fill: currentColor; stroke: none; text-anchor: middle; }
.posedu-explorable .curve text { font-size: 15px; }
.posedu-explorable p { margin: 0.4rem 0; }
.posedu-explorable figcaption { color: inherit; text-align: left; }
.posedu-explorable sub { line-height: 0; }
.posedu-explorable .control { display: flex; align-items: center; }
.posedu-explorable label { display: flex; flex: 1; flex-wrap: wrap; margin: 0; }
.posedu-explorable label span { flex: 0 0 6rem; align-self: center; }
.posedu-explorable input { flex: 1 1 12rem; min-width: 0; height: 2rem; margin: 0; }
.posedu-explorable output { font-variant-numeric: tabular-nums; font-weight: bold; }
.posedu-explorable .control output { flex: 0 0 5rem; text-align: right; }
@container (min-width: 30rem) {
  .posedu-explorable .clocks { grid-template-columns: repeat(8, 1fr); }
  .posedu-explorable .curve text { font-size: 10px; }
}
</style>"""

_SCRIPT = """<script>
document.querySelectorAll(".posedu-explorable:not([data-live])").forEach((figure) => {
  figure.dataset.live = "";
  const find = (selector) => figure.querySelector(selector);
  const [offsetSlider, baseSlider] = figure.querySelectorAll("input");
  const clocks = [...figure.querySelectorAll(".clock")];

  const draw = () => {
    const offset = offsetSlider.valueAsNumber;
    const base = Number((10 ** baseSlider.valueAsNumber).toPrecision(3));
    const omega = clocks.map((_, p) => base ** (-p / clocks.length));
    const score = (t) =>
      omega.reduce((sum, w) => sum + Math.cos(w * t), 0) / omega.length;

    clocks.forEach((clock, p) => {
      const angle = omega[p] * offset;
      const [cos, sin] = [Math.cos(angle), Math.sin(angle)].map((x) => x.toFixed(4));
      const degrees = ((angle * 180 / Math.PI) % 360).toFixed(1);
      clock.querySelector(".query").setAttribute("d", `M0,0L${cos},${sin}`);
      clock.querySelector(".shadow").setAttribute("d", `M0,0H${cos}`);
      clock.querySelector(".angle").textContent = `${degrees}°`;
      clock.setAttribute("aria-label", `Pair ${p}: query ${degrees}° ahead of key`);
    });
    const points = Array.from(
      { length: Number(offsetSlider.max) + 1 }, (_, t) => `${t},${score(t).toFixed(4)}`
    );
    find(".scores").setAttribute("d", "M" + points.join("L"));
    find(".marker").setAttribute("d", `M${points[offset]}h0`);
    find(".guide").setAttribute("d", `M${offset},-1V1`);

    const shownBase = base.toLocaleString("en");
    const shownScore = score(offset).toFixed(3);
    const slow = omega.filter((w) => w * offset < Math.PI / 2).length;
    baseSlider.setAttribute("aria-valuetext", shownBase);
    find(".offset").value = offset;
    find(".base").value = shownBase;
    find(".score").value = shownScore;
    find(".summary").textContent =
      `At offset ${offset} and base ${shownBase} the score is ${shownScore}; ` +
      `still within their first quarter turn: ${slow} of ${omega.length} hands.`;
  };

  offsetSlider.addEventListener("input", draw);
  baseSlider.addEventListener("input", draw);
  find(".controls").hidden = false;
  find(".still").hidden = true;
  draw();
});
</script>"""


@dataclass(frozen=True)
class Explorable:
    """A figure with controls: one HTML fragment that asks for nothing outside it."""

    html: str = field(repr=False)

    def _repr_html_(self) -> str:
        return self.html


def rotation_explorable() -> Explorable:
    """Draw RoPE's pairs and score, with sliders for the offset and the base.

    The numbers are those of :func:`posedu.numpy.rotary.rope_complex` for d = 16.
    """
    hands = _hands(np.arange(LONGEST + 1))
    scores = hands.real.mean(axis=-1)
    slow = np.count_nonzero(OFFSET * frequencies(D, base=BASE) < np.pi / 2)
    clocks = "".join(_clock(p, hand) for p, hand in enumerate(hands[OFFSET]))
    score = f"{scores[OFFSET]:.3f}"
    return Explorable(f"""{_STYLE}<figure class="posedu-explorable">
<div class="clocks">{clocks}</div>
<p><span aria-hidden="true">┄</span> key
<span aria-hidden="true" style="color:{QUERY}">━</span> query
<span aria-hidden="true" style="color:{SHADOW}">▬</span> shadow of the query on the key
</p>
{_curve(scores)}
<div class="controls" hidden>
<div class="control"><label><span>offset i − j</span>
<input type="range" min="0" max="{LONGEST}" value="{OFFSET}" autocomplete="off"></label>
<output class="offset" aria-live="off">{OFFSET}</output></div>
<div class="control"><label><span>base</span>
<input type="range" min="1" max="6" step="0.05" value="{np.log10(BASE):g}"
 aria-valuetext="{BASE:,}" autocomplete="off"></label>
<output class="base" aria-live="off">{BASE:,}</output></div>
<p>score: <output class="score" aria-live="off">{score}</output></p>
</div>
<p class="summary" aria-live="polite">At offset {OFFSET} and base {BASE:,} the score is
{score}; still within their first quarter turn: {slow} of {D // 2} hands.</p>
<p class="still">This picture stands still; where scripts run, two sliders move it.</p>
<figcaption>Seen from the key, pair p of the query has turned by offset · ω<sub>p</sub>
wherever the two stand, and the score is the mean of the {D // 2} shadows (d = {D},
q = k with pairs of equal length, score 1 at offset 0).
A larger base slows every pair but the first.</figcaption>
</figure>{_SCRIPT}""")


def _hands(offsets: Int[Array, "offsets"]) -> Complex[Array, "offsets pairs"]:
    """Pairs (1, 0) turned by each offset, as complex numbers."""
    pairs = np.tile([1.0, 0.0], (len(offsets), D // 2))
    return rope_complex(pairs, offsets, layout="interleaved", base=BASE)


def _clock(p: int, hand: complex) -> str:
    degrees = f"{np.degrees(np.angle(hand)) % 360:.1f}"
    return f"""
<svg class="clock" viewBox="0 0 80 112" font-size="14" role="img"
 aria-label="Pair {p}: query {degrees}° ahead of key">
<text x="40" y="14">p = {p}</text>
<g transform="translate(40,56) scale(34,-34)">
<circle r="1" stroke="currentColor" stroke-opacity="0.4"/>
<path class="shadow" d="M0,0H{hand.real:.4f}" stroke="{SHADOW}" style="stroke-width:7"/>
<path d="M0,0H1" stroke="currentColor" stroke-dasharray="2 2"/>
<path class="query" d="M0,0L{hand.real:.4f},{hand.imag:.4f}" stroke="{QUERY}"
 style="stroke-width:2.5"/>
</g>
<text class="angle" x="40" y="106">{degrees}°</text>
</svg>"""


def _curve(scores: Float[Array, "offsets"]) -> str:
    points = [f"{offset},{score:.4f}" for offset, score in enumerate(scores)]
    x_scale = 340 / LONGEST
    x_ticks = "".join(
        f'<text x="{45 + x_scale * offset:g}" y="168">{offset}</text>'
        for offset in range(0, LONGEST + 1, LONGEST // 4)
    )
    y_ticks = "".join(
        f'<text x="28" y="{83 - 68 * score}">{label}</text>'
        for score, label in ((-1, "−1"), (0, "0"), (1, "1"))
    )
    return f"""
<svg class="curve" viewBox="0 0 400 192" role="img"
 aria-label="Curve of the score against the offset, a marker at the chosen offset">
{x_ticks}{y_ticks}
<text x="215" y="187">offset i − j</text>
<text transform="translate(15,78) rotate(-90)">score</text>
<g transform="translate(45,78) scale({x_scale:g},-68)">
<path d="M0,-1H{LONGEST}M0,0H{LONGEST}M0,1H{LONGEST}M0,-1V1" stroke="currentColor"
 stroke-opacity="0.3"/>
<path class="guide" d="M{OFFSET},-1V1" stroke="{QUERY}" stroke-dasharray="4 3"/>
<path class="scores" d="M{"L".join(points)}" stroke="{SHADOW}" style="stroke-width:2"/>
<path class="marker" d="M{points[OFFSET]}h0" stroke="{QUERY}" stroke-linecap="round"
 style="stroke-width:10"/>
</g>
</svg>"""
