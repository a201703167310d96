"""Interactive figure of attention temperature: one key's weight by number of keys."""

import math
from collections.abc import Mapping

import numpy as np

from posedu.book.explorables.frame import Choice, Explorable, Slider, explorable
from posedu.book.figures import INKS
from posedu.numpy.scaling import log_n_temperature

LOW, HIGH = 4, 20  # keys, in doublings
AT, GAP = 20, 10.0  # drawn where scripts do not run
WIDTH = 20  # of a doubling
SOFT = 4096.0  # keys at which our trained temperature is 1
FORMULAS: Mapping[str, str] = {
    "llama4": "Llama 4",
    "ministral": "Ministral 3's, Llama 4's numbers",
    "inkling": "Inkling-2",
    "beam": "Beam",
    "learned": "trained: ln n/ln 4096",
    "none": "none",
}
NUMBERS: Mapping[str, tuple[str, int, float]] = {
    "llama4": ("steps", 1, 8192.0),
    "ministral": ("steps", 0, 8192.0),
    "inkling": ("floor", 1, 128000.0),
    "beam": ("power", 1, 2048.0),
}
ALPHA = 0.1


def temperature_explorable() -> Explorable:
    """Draw one key's weight and the weights' entropy over the number of keys.

    A temperature multiplies the logits. Temperatures are computed by
    :func:`posedu.numpy.scaling.log_n_temperature`.
    """
    first = next(iter(FORMULAS))
    marks = "".join(
        f'<text x="{46 + WIDTH * (n - LOW)}" y="176">{2**n:,}</text>'
        for n in (4, 8, 12, 16, 20)
    )
    weight, entropy = paths(first, GAP)
    plain, _ = paths("none", GAP)
    picture = f"""
<svg class="plot" viewBox="0 0 416 204" role="img" aria-label="Over the number of keys,
 which doubles: the weight of the key that is ahead, with a temperature and without, and
 the entropy of all weights over its largest value">
{marks}<text x="210" y="198">keys</text>
<text x="36" y="26" style="text-anchor:end">1</text>
<text x="36" y="92" style="text-anchor:end">½</text>
<text x="36" y="158" style="text-anchor:end">0</text>
<g transform="translate(46,154) scale({WIDTH},-132)">
<path d="M0,0H{HIGH - LOW}M0,0.5H{HIGH - LOW}M0,0V1" stroke="currentColor"
 stroke-opacity="0.3"/>
<path class="start" d="{start(first)}" stroke="currentColor" stroke-opacity="0.6"
 stroke-dasharray="4 4"/>
<path class="plain" d="{plain}" stroke="currentColor" style="stroke-width:2"
 stroke-dasharray="5 4"/>
<path class="entropy" d="{entropy}" stroke="{INKS[1]}" style="stroke-width:2"/>
<path class="weight" d="{weight}" stroke="{INKS[0]}" style="stroke-width:2"/>
</g>
</svg>
<p><span style="white-space:nowrap"><span aria-hidden="true"
 style="color:{INKS[0]}">━</span> weight of the key ahead</span> ·
 <span style="white-space:nowrap"><span aria-hidden="true">┄</span> without a
 temperature</span> · <span style="white-space:nowrap"><span aria-hidden="true"
 style="color:{INKS[1]}">━</span> entropy over ln n</span> ·
 <span style="white-space:nowrap"><span aria-hidden="true">┆</span> length in the
 formula</span></p>"""
    return explorable(
        "temperature",
        picture,
        (
            Choice("formula", "temperature", FORMULAS),
            Slider("gap", "ahead by", 1, 16, GAP, 0.5, f"{GAP:.1f}"),
            Slider("doublings", "keys", LOW, HIGH, AT, 1, f"{2**AT:,}"),
        ),
        summary=summary_text(first, GAP, AT),
        caption="One key’s score is ahead of all others, which are equal. Without a "
        "temperature it loses its weight as the number of keys grows. A formula with a "
        "logarithm preserves the weight of certain gaps: the gap 10 with the factor "
        "0.1 before its logarithm.",
    )


def temperature(formula: str, keys: int) -> float:
    """Return the factor by which a formula multiplies the logits of a query.

    ``formula`` is a key of ``FORMULAS``, such as ``"llama4"``; the query is the last of
    ``keys`` tokens. The factor is 1 for ``"none"``.
    """
    if formula == "none":
        return 1.0
    at = np.array([keys - 1])
    if formula == "learned":
        slope = np.array([1 / math.log(SOFT)])
        tau = log_n_temperature(
            at, growth="learned", index_from=1, slope=slope, offset=np.zeros(1)
        )
        return float(tau[0, 0])
    growth, index_from, length = NUMBERS[formula]
    tau = log_n_temperature(
        at, growth=growth, index_from=index_from, alpha=ALPHA, length=length
    )
    return float(tau[0])


def weight_and_entropy(formula: str, gap: float, keys: int) -> tuple[float, float]:
    """Return the largest attention weight, and the entropy of all weights in nats.

    Before the temperature, which multiplies the logits, one key's logit is ``gap``
    above all others. ``formula`` gives the temperature for ``keys`` keys.
    """
    logit = temperature(formula, keys) * gap
    odds = (keys - 1) * math.exp(-logit)
    weight, rest = 1 / (1 + odds), odds / (1 + odds)
    entropy = math.log1p(odds) + rest * logit
    return weight, entropy


def paths(formula: str, gap: float) -> tuple[str, str]:
    """Return SVG paths of one key's weight and of the entropy, by the number of keys.

    The key's logit is ``gap`` above all others; the entropy of all weights is divided
    by its largest possible value. ``formula``, a key of ``FORMULAS``, gives the
    temperature, which multiplies the logits.
    """
    points = [2**n for n in range(LOW, HIGH + 1)]
    values = [weight_and_entropy(formula, gap, n) for n in points]
    curves = (
        [weight for weight, _ in values],
        [entropy / math.log(n) for n, (_, entropy) in zip(points, values, strict=True)],
    )
    first, second = (
        "M" + "L".join(f"{x},{y:.4f}" for x, y in enumerate(curve)) for curve in curves
    )
    return first, second


def start(formula: str) -> str:
    """Return the SVG path of a mark at the text length in a temperature's formula.

    The mark's abscissa is this length, as a number of keys. The path is empty for a
    ``formula`` (a key of ``FORMULAS``) without a length.
    """
    length = SOFT if formula == "learned" else NUMBERS.get(formula, ("", 0, 0.0))[2]
    return f"M{math.log2(length) - LOW:.3f},0V1" if length else ""


def summary_text(formula: str, gap: float, doublings: int) -> str:
    """Describe in one sentence the temperature, one key's weight and the entropy.

    The temperature multiplies the logits; ``formula`` is a key of ``FORMULAS``. The
    key's logit is ``gap`` above all others, among ``2**doublings`` keys.
    """
    keys = 2**doublings
    weight, entropy = weight_and_entropy(formula, gap, keys)
    return (
        f"Among {keys:,} keys the temperature is {temperature(formula, keys):.3f}: a "
        f"key that is ahead by {gap:.1f} has {100 * weight:.1f} % of the weight, and "
        f"the entropy is {entropy:.2f} of at most {math.log(keys):.2f} nats."
    )
