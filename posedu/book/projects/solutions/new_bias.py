"""Reference solution of the project "new bias", and answers that do not suffice."""

import numpy as np
import sympy as sp

from posedu.book.exercises.bias.distance_biases import slopes
from posedu.book.projects.records import Rubric

FALL = 7


def bias(distances, heads):
    """Return half of ALiBi's line, less a part that saturates: −7 t/(t + c_h)."""
    t = distances
    c = 2.0 ** np.arange(1, heads + 1)
    line = -slopes(heads)[:, None] * t / 2
    return line - FALL * t / (t + c[:, None])


def mixture(s, heads):
    """Return the mixtures: ∫ (1 − e^(−s t)) c e^(−c s) ds = t/(t + c)."""
    return [
        (sp.nsimplify(m) / 2, {}, FALL * 2**h * sp.exp(-(2**h) * s))
        for h, m in enumerate(slopes(heads), start=1)
    ]


def kerple(distances, heads):
    """Return KERPLE's logarithm −r log(1 + t), steep in the first head."""
    r = np.arange(heads, 0, -1.0)
    return -r[:, None] * np.log1p(distances)


def kerple_mixture(s, heads):
    """Return KERPLE's mixtures: log(1 + t) = ∫ (1 − e^(−s t)) e^(−s)/s ds."""
    return [(0, {}, r * sp.exp(-s) / s) for r in range(heads, 0, -1)]


def bounded(distances, heads):
    """Return −2 t/(t + c_h), which falls slowly and is bounded by 2."""
    c = 2.0 ** np.arange(2, heads + 2)
    return -2 * distances / (distances + c[:, None])


def bounded_mixture(s, heads):
    """Return the mixtures of the bounded bias."""
    return [(0, {}, 2 * 2**h * sp.exp(-(2**h) * s)) for h in range(2, heads + 2)]


ANSWERS = (bias, mixture)

INSUFFICIENT = {
    "kerple": (kerple, kerple_mixture),
    "bounded": (bounded, bounded_mixture),
}

RUBRIC = Rubric(
    full=r"""
The answer starts from a density or from rates and weights and integrates, by SymPy or by hand, so that the curve follows from the proof.
It names the theorems that carry it: exponentials are inner products of features, $-t$ is the power 1, and positive mixtures of kernels are kernels.
The numbers of the heads have a reason: a steep head for the last few characters, a flat one for the context, and enough of a fall that a longer text does not dilute the near keys, measured as in distance-biases-8.
The control is done and believed: ALiBi with steeper slopes has as few bits or fewer, so the gain is due to steepness, not to the curve, and still less to its being a kernel.
The write-up says for what the comparison speaks: this text, this size, these few steps.
""",
    partial=r"""
The bias is proved and new, but found by trial: a sum of exponentials whose weights were varied until the bits fell, without an idea of what each head looks at.
The proof is right and its theorem is missing: “all weights are positive, so it is a kernel”.
Or the curve is good and the mixture was fitted to it afterwards, which shows in rounded numbers and an error near the bound.
The bits are reported for one seed, or at the training length alone, so that nothing is said of longer texts.
There is no control, and the write-up believes that the curve, or the kernel property, causes the gain.
""",
    none=r"""
The bias is one of the catalog's with other letters: a logarithm with another factor, a line with other slopes, a sum of a few exponentials that copies KERPLE.
Or it is any falling curve, a step, a parabola or a Gaussian, for which no mixture exists, and the second function returns numbers that do not belong to it.
A smallest eigenvalue above 0 for 128 tokens is taken for a proof for all lengths.
No reason is given for the numbers of the heads, and all heads have the same bias.
""",
)
