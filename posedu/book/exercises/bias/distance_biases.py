"""Exercises on distance biases: T5, ALiBi, KERPLE, Sandwich, BAM, priors."""

import numpy as np
import sympy as sp
import torch

from posedu.book.exercises.records import (
    Exercise,
    Hunt,
    Misconception,
    Prediction,
    Property,
    Sheet,
    draw,
)

# distance-biases-1: the share of the far keys


def far_share(m, W):
    """Share of an ALiBi head's weight on keys farther than W, as an expression.

    The head has slope ``m`` and infinitely many keys of equal content.
    """
    return sp.exp(-m * (W + 1))


_SLOPE = sp.Symbol("m", positive=True)
_WEIGHT = 1 - sp.exp(-_SLOPE)

FAR = Exercise(
    name="distance-biases-1",
    title="The share of the far keys",
    kind="by hand",
    minutes=6,
    lines=1,
    statement=r"""
On paper: an ALiBi head of slope $m$ looks back at infinitely many keys of equal content.
Which share of its weight is on the keys *farther* than $W$, at distances $W + 1, W + 2, \dots$?
Return a SymPy expression of `m` and the integer `W`.
""",
    hint=r"""
A geometric series divided by a geometric series: what do they differ by?
""",
    cases=((_SLOPE, 0), (_SLOPE, 1), (_SLOPE, 7), (sp.Rational(1, 16), 20)),
    solution=far_share,
    misconceptions=(
        Misconception(
            "Key at distance W counted",
            "The keys farther than W begin at W + 1. For W = 0 only the query's own "
            "key is near: is all of the weight farther?",
            lambda m, W: sp.exp(-m * W),
        ),
        Misconception(
            "Share of the near keys",
            "The share of the other keys is asked for.",
            lambda m, W: 1 - sp.exp(-m * (W + 1)),
        ),
        Misconception(
            "Share of the near keys, one key short",
            "Distances 0 to W are W + 1 keys, and the share of the other keys is "
            "asked for.",
            lambda m, W: 1 - sp.exp(-m * W),
        ),
        Misconception(
            "A single key",
            "Your answer is the weight of the first of the far keys. Add up all that "
            "follow.",
            lambda m, W: sp.exp(-m * (W + 1)) * (1 - sp.exp(-m)),
        ),
        Misconception(
            "Only the key at distance W",
            "Your answer is a single weight, and that key is not far: the series "
            "begins at W + 1.",
            lambda m, W: sp.exp(-m * W) * (1 - sp.exp(-m)),
        ),
        Misconception(
            "Sum not divided by the whole",
            "The weights of a softmax sum to 1: divide by the series from 0 on.",
            lambda m, W: sp.exp(-m * (W + 1)) / (1 - sp.exp(-m)),
        ),
        Misconception(
            "Sum from W on, not divided by the whole",
            "The keys farther than W begin at W + 1, and the weights sum to 1.",
            lambda m, W: sp.exp(-m * W) / (1 - sp.exp(-m)),
        ),
        Misconception(
            "An integral in place of the sum",
            "Keys stand at whole distances. The integral of e^(−mx) from W on is "
            "another number than the sum.",
            lambda m, W: sp.exp(-m * W) / m,
        ),
        Misconception(
            "Sign of the slope lost",
            "A share is below 1, and falls with W.",
            lambda m, W: sp.exp(m * (W + 1)),
        ),
        Misconception(
            "Logit in place of the weight",
            "−m (W + 1) is the bias of the first far key. Weights are exponentials.",
            lambda m, W: -m * (W + 1),
        ),
        Misconception(
            "Base 2 in place of e",
            "The slopes are powers of 2, but the softmax takes powers of e.",
            lambda m, W: 2 ** (-m * (W + 1)),
        ),
        Misconception(
            "One token too far",
            "After W come W + 1, W + 2, …: the first of them is W + 1.",
            lambda m, W: sp.exp(-m * (W + 2)),
        ),
    ),
    properties=(
        Property(
            "The far share for W = 0 and the own key's share sum to 1",
            lambda answer, m, W: sp.simplify(answer(m, 0) + 1 - sp.exp(-m)) == 1,
        ),
        Property(
            "For two windows in a row the far shares multiply",
            lambda answer, m, W: sp.simplify(answer(m, 5) - answer(m, 2) ** 2) == 0,
        ),
    ),
    explanation=r"""
The weights are $e^{-mt} / \sum_{s \ge 0} e^{-ms}$, and $\sum_{s \ge 0} e^{-ms} = 1/(1 - e^{-m})$.
The far keys have the numerator $\sum_{t \ge W+1} e^{-mt} = e^{-m(W+1)} / (1 - e^{-m})$: the same series with the factor $e^{-m(W+1)}$ taken out of every term.
The quotient is $e^{-m(W+1)}$; in a finite text the share is smaller.
{prf:ref}`The theorem that ALiBi cannot look far <thm-alibi-window>` has this number as a bound for a text of any length, and for unequal contents with one more factor $e^R$.
For $m = 1/16$ and $W = 15$ it is $1/e$, about 37 %.
""",
)


# distance-biases-2: the integral of KERPLE's logarithmic prior


def total(r1, r2):
    """Integral of KERPLE's prior (1 + r2 x)^(−r1) over x > 0, as an expression.

    ``r1`` > 1 and ``r2`` > 0 are KERPLE's two parameters, x is the distance.
    """
    return 1 / (r2 * (r1 - 1))


_R2 = sp.Symbol("r_2", positive=True)
_ABOVE = 1 + sp.Symbol("s", positive=True)

TOTAL = Exercise(
    name="distance-biases-2",
    title="The integral of KERPLE's logarithmic prior",
    kind="SymPy",
    minutes=8,
    lines=1,
    statement=r"""
The prior of KERPLE's logarithm is $(1 + r_2 x)^{-r_1}$.
For $r_1 > 1$ its integral over all $x > 0$ is finite, so the near keys keep a share of the weight in any text.
Return the integral as a SymPy expression of `r1` and `r2`.
For which $r_1$ is it no longer finite?
""",
    hint=r"""
Differentiate $(1 + r_2 x)^{1 - r_1}$.
""",
    cases=((sp.Integer(2), sp.Integer(1)), (_ABOVE, sp.Integer(3)), (_ABOVE, _R2)),
    solution=total,
    misconceptions=(
        Misconception(
            "r2 forgotten",
            "Your answer is right for r2 = 1. Substitute y = r2 x: what becomes of dx?",
            lambda r1, r2: 1 / (r1 - 1),
        ),
        Misconception(
            "r2 on the wrong side",
            "A larger r2 falls faster, so less is left.",
            lambda r1, r2: r2 / (r1 - 1),
        ),
        Misconception(
            "Exponent grown in the wrong direction",
            "The integral of y^(−r1) has the exponent 1 − r1, not −1 − r1.",
            lambda r1, r2: 1 / (r2 * (r1 + 1)),
        ),
        Misconception(
            "Sign lost",
            "The value at 0 is subtracted. The integral of a positive function is "
            "positive.",
            lambda r1, r2: 1 / (r2 * (1 - r1)),
        ),
        Misconception(
            "r1 in place of r1 − 1",
            "The new exponent is 1 − r1, and the power is divided by it.",
            lambda r1, r2: 1 / (r2 * r1),
        ),
        Misconception(
            "r2 as a power outside the parentheses",
            "r2 stands inside the parentheses with x, once. It comes out as a factor "
            "1/r2.",
            lambda r1, r2: 1 / (r2**r1 * (r1 - 1)),
        ),
        Misconception(
            "Antiderivative in place of its value",
            "At infinity it vanishes, and at x = 0 the parentheses are 1.",
            lambda r1, r2: r2 ** (1 - r1) / (r1 - 1),
        ),
        Misconception(
            "Reciprocal of the integral",
            "Check r1 = 3, r2 = 1: the area under (1 + x)^(−3) is below 1.",
            lambda r1, r2: r2 * (r1 - 1),
        ),
    ),
    properties=(
        Property(
            "At r1 = 1.001 and r2 = 1 the integral is 1000",
            lambda answer, r1, r2: (
                answer(sp.Rational(1001, 1000), sp.Integer(1)) == 1000
            ),
        ),
    ),
    level="optional",
    explanation=r"""
The function $(1 + r_2 x)^{1 - r_1} / (r_2 (1 - r_1))$ has the prior as its derivative.
At infinity it is 0, since $1 - r_1 < 0$, and at 0 it is $1/(r_2 (1 - r_1))$; the difference is $1/(r_2 (r_1 - 1))$.
For $r_1 \le 1$ the integral is infinite: at $r_1 = 1$ it grows like $\log(1 + r_2 x) / r_2$, below that like a power of $x$.
{prf:ref}`The theorem on KERPLE's total weight <thm-kerple-line>` draws the same line for the sum over whole distances.
""",
)


# distance-biases-3: buckets of integers


def buckets(t, E, T):
    """Index of T5's bucket for each distance t, an integer array.

    The first ``E`` buckets hold one distance each. ``E`` more reach up to the distance
    ``T``, and the last bucket holds all larger distances, too.
    """
    starts, n = list(range(E)), E
    for k in range(E):
        while n**E * E**k < E**E * T**k:
            n += 1
        starts.append(n)
    return np.searchsorted(starts, t, side="right") - 1


@np.errstate(all="ignore")
def _by_logarithm(
    t, E, T, *, whole=np.floor, inside=None, last=None, plus=None, room=1e-9
):
    inside = t / E if inside is None else inside
    share = np.log(np.maximum(inside, 1e-9)) / np.log(T / E) * E
    far = (E if plus is None else plus) + whole(share + room)
    last = 2 * E - 1 if last is None else last
    return np.where(t < E, t, np.minimum(far, last)).astype(int)


def _rounded_down(share):
    """Make a wrong answer (a function) to the exercise ``buckets``.

    The exercise asks for T5's buckets. In the wrong answer, ``share(t, E, T)`` is E
    times the logarithm of t/E to the base T/E, computed and rounded down.
    """

    def answer(t, E, T):
        far = E + np.floor(share(np.maximum(t, E), E, T)).astype(int)
        return np.where(t < E, t, np.minimum(far, 2 * E - 1))

    return answer


def _after_boundary(t, E, T):
    far = [sum(int(x) ** E * E**k > E**E * T**k for k in range(1, E)) for x in t]
    return np.where(t < E, t, E + np.array(far))


def _from_starts(t, starts):
    return np.searchsorted(starts, t, side="right") - 1


_DISTANCES = np.arange(150)

BUCKETS = Exercise(
    name="distance-biases-3",
    title="T5's buckets",
    kind="NumPy",
    minutes=15,
    lines=6,
    statement=r"""
`t` holds distances, integers from 0 to 5000, and $E \le 64$, $E < T \le 5000$.
The first `E` buckets hold one distance each.
Bucket $E + k$ begins at the first $t$ with $t \ge E\,(T/E)^{k/E}$, for $k < E$, and the last one holds all larger distances, too.
Return the bucket of each distance, an integer array.
A computed logarithm may fall a little short of the whole number that it should be.
Can you do without logarithms?
""",
    hint=r"""
Raise both sides to the power $E$, and multiply out: $t^E E^k$ and $E^E T^k$ are integers.
Python's integers have no largest one.
""",
    cases=(
        (np.arange(6), 2, 8),
        (_DISTANCES, 16, 128),
        (_DISTANCES, 8, 128),
        (np.arange(70), 3, 64),
        (np.arange(165), 5, 160),
        (np.arange(101), 4, 100),
        (np.arange(76), 3, 375),
        (np.arange(49), 6, 384),
        (np.arange(100), 9, 243),
        (np.arange(29), 8, 98),
        (np.arange(29), 16, 49),
        (np.arange(406), 5, 1215),
    ),
    solution=buckets,
    misconceptions=(
        Misconception(
            "Logarithmic buckets counted from 0",
            "The first E buckets are in use: count on from E.",
            lambda t, E, T: _by_logarithm(t, E, T, plus=0),
        ),
        Misconception(
            "A whole logarithm rounded down",
            "Where t is exactly E (T/E)^(k/E), float64 may come out a little less, as "
            "for E = 5 and T = 160. Compare integers.",
            lambda t, E, T: _by_logarithm(t, E, T, room=0.0),
        ),
        Misconception(
            "A whole power rounded up",
            "E (T/E)^(k/E) may come out a little more than the whole number that it "
            "is, as for E = 5 and T = 160. Compare integers.",
            lambda t, E, T: _from_starts(
                t, [*range(E), *(E * (T / E) ** (k / E) for k in range(E))]
            ),
        ),
        Misconception(
            "Integers too large for an array",
            "NumPy's integers end below 2^63 and wrap around silently. Python's do "
            "not: compare one distance at a time.",
            lambda t, E, T: np.where(
                t < E, t, E + sum(t**E * E**k >= E**E * T**k for k in range(1, E))
            ),
        ),
        Misconception(
            "A bucket left out",
            "Bucket E is the one of k = 0: t = E is in it, and not in E + 1.",
            lambda t, E, T: np.where(t < E, t, buckets(t, E, T) + 1),
        ),
        Misconception(
            "Rounded up",
            "Bucket E + k *begins* where the power is reached, so round down. "
            "DeBERTa's buckets are rounded up.",
            lambda t, E, T: _by_logarithm(t, E, T, whole=np.ceil),
        ),
        Misconception(
            "Rounded to the nearest",
            "Bucket E + k begins where the power is reached: round down.",
            lambda t, E, T: _by_logarithm(t, E, T, whole=np.round),
        ),
        Misconception(
            "One bucket too many",
            "From 0 on there are 2E buckets, so the last one is 2E − 1.",
            lambda t, E, T: _by_logarithm(t, E, T, last=2 * E),
        ),
        Misconception(
            "Last bucket with an end",
            "Distances of T and more share the last bucket. There are no buckets "
            "after it.",
            lambda t, E, T: _by_logarithm(t, E, T, last=10**6),
        ),
        Misconception(
            "Logarithm of t, not of t/E",
            "At t = E it must be 0.",
            lambda t, E, T: _by_logarithm(t, E, T, inside=np.maximum(t, 1)),
        ),
        Misconception(
            "The simplified form",
            "min(t, 2E − 1) has one distance in each bucket, to the end. T5's second "
            "half is logarithmic.",
            lambda t, E, T: np.minimum(t, 2 * E - 1),
        ),
        Misconception(
            "Second half linear",
            "Your buckets have equal widths. The boundaries of T5's grow by a constant factor, before rounding.",
            lambda t, E, T: np.where(
                t < E, t, np.minimum(2 * E - 1, E + (t - E) * E // (T - E))
            ),
        ),
        Misconception(
            "One distance too late",
            "A bucket begins *at* the power, not after it.",
            lambda t, E, T: np.where(t < E, t, np.maximum(buckets(t - 1, E, T), E)),
        ),
        Misconception(
            "One distance too early",
            "A bucket begins where the power is reached, not one before.",
            lambda t, E, T: np.where(t < E, t, buckets(t + 1, E, T)),
        ),
        Misconception(
            "Exponent k, not k/E",
            "E steps lead from E to T, each by the E-th root of T/E.",
            lambda t, E, T: np.where(
                t < E,
                t,
                np.minimum(
                    2 * E - 1, E + (np.log(np.maximum(t, E) / E) / np.log(T / E)) // 1
                ),
            ).astype(int),
        ),
        Misconception(
            "All distances on the logarithmic scale",
            "The first E have a bucket each.",
            lambda t, E, T: np.minimum(
                2 * E - 1, (2 * E * np.log1p(t) / np.log1p(T)).astype(int)
            ),
        ),
        Misconception(
            "A whole logarithm rounded down, times E first",
            "Where t is exactly E (T/E)^(k/E), float64 may come out a little less, in "
            "this order of the operations, too. Compare integers.",
            _rounded_down(lambda t, E, T: E * np.log(t / E) / np.log(T / E)),
        ),
        Misconception(
            "A whole logarithm of base 2 rounded down",
            "Where t is exactly E (T/E)^(k/E), float64 may come out a little less, in "
            "this order of the operations, too. Compare integers.",
            _rounded_down(lambda t, E, T: E * np.log2(t / E) / np.log2(T / E)),
        ),
        Misconception(
            "A whole quotient of differences rounded down",
            "Where t is exactly E (T/E)^(k/E), float64 may come out a little less, in "
            "this order of the operations, too. Compare integers.",
            _rounded_down(
                lambda t, E, T: E * (np.log(t) - np.log(E)) / (np.log(T) - np.log(E))
            ),
        ),
        Misconception(
            "Boundary in the earlier bucket",
            "A bucket begins *at* the power, ≥, so a distance that is equal to it "
            "belongs to the new bucket.",
            _after_boundary,
        ),
        Misconception(
            "T in place of T/E",
            "The logarithm of t/E is divided by that of T/E: from E to T there are E "
            "steps.",
            lambda t, E, T: np.where(
                t < E,
                t,
                np.minimum(
                    2 * E - 1,
                    E
                    + np.floor(E * np.log(np.maximum(t, 1)) / np.log(T) + 1e-9).astype(
                        int
                    ),
                ),
            ),
        ),
        Misconception(
            "Last bucket after T",
            "The last bucket begins like the others, at E (T/E)^((E − 1)/E), which is "
            "before T.",
            lambda t, E, T: np.where(
                t > T, 2 * E - 1, np.minimum(buckets(t, E, T), 2 * E - 2)
            ),
        ),
    ),
    properties=(
        Property(
            "A farther key is never in an earlier bucket",
            lambda answer, t, E, T: bool((np.diff(answer(t, E, T)) >= 0).all()),
        ),
    ),
    tolerance=0.0,
    level="hard",
    explanation=r"""
Yes: $t \ge E\,(T/E)^{k/E}$ holds exactly if $t^E E^k \ge E^E T^k$, since both sides are positive and raising to the power $E$ keeps their order; these are integers, and Python's have no rounding.
With a logarithm, the distances to fear are those where the power is a whole number: for $E = 5$ and $T = 160$ bucket 6 begins at $t = 10$, and `np.log(10/5) / np.log(160/5) * 5` may be just below 1.
Another order of the same operations fails elsewhere, as `5 * log2(15/5) / log2(1215/5)` does, so neither is safe.
With $10^{-9}$ added before it is rounded down, the logarithm is right for all $E \le 64$ and $T \le 5000$, and wrong for $E = 41$, $T = 5810$ at $t = 2210$.
""",
)


# distance-biases-4: the authors' slopes


def slopes(heads):
    """ALiBi's slopes for any number of heads, an array [heads]."""
    power = 2 ** int(np.log2(heads))
    own = 2.0 ** (-8 * np.arange(1, power + 1) / power)
    finer = 2.0 ** (-8 * np.arange(1, 2 * power + 1) / (2 * power))
    return np.append(own, finer[::2][: heads - power])


def _powers(heads):
    return 2.0 ** (-8 * np.arange(1, heads + 1) / heads)


def _with(own, more):
    """Make a wrong answer (a function) to the exercise ``slopes``.

    The exercise asks for ALiBi's slopes. The wrong answer's slopes are ``own(power)``
    for the first ``power`` heads, then the first entries of ``more(power)`` for the
    remaining heads; ``power`` is the largest power of two up to ``heads``.
    """

    def answer(heads):
        power = 2 ** int(np.log2(heads))
        return np.append(own(power), more(power)[: heads - power])

    return answer


def _with_flattest(heads):
    power = 2 ** int(np.log2(heads))
    return np.append(_powers(power), _powers(2 * power)[::2][2 * power - heads :])


SLOPES = Exercise(
    name="distance-biases-4",
    title="Slopes for any number of heads",
    kind="NumPy",
    minutes=10,
    lines=4,
    statement=r"""
For $H$ a power of two, head $h = 1, \dots, H$ has the slope $2^{-8h/H}$.
For another number of heads the authors of ALiBi take the slopes of the next lower power of two $H'$.
After them they put every other slope of $2H'$ heads, from the first on, until there are enough.
Return the slopes of `heads` heads.
Are the slopes that are added for 12 heads steep or flat?
""",
    hint=r"""
`[::2]` takes every other entry, the first included.
""",
    cases=((1,), (8,), (12,), (6,), (7,), (16,), (71,)),
    solution=slopes,
    misconceptions=(
        Misconception(
            "Closed formula for every number",
            "The formula is right for powers of two. Models with 12 heads were "
            "trained with the two lists.",
            _powers,
        ),
        Misconception(
            "Slopes in reverse order",
            "The first head has the steepest slope.",
            lambda heads: slopes(heads)[::-1].copy(),
        ),
        Misconception(
            "n as the head, not as the number of heads",
            "For head n, 2^(−8/n) begins with the flattest slope, and its slopes have no "
            "common ratio. n is the number of heads.",
            lambda heads: 2.0 ** (-8 / np.arange(1, heads + 1)),
        ),
        Misconception(
            "Every other slope, from the second on",
            "The slopes of 2H′ with an even number are those of H′, which are in the "
            "list already.",
            _with(_powers, lambda power: _powers(2 * power)[1::2]),
        ),
        Misconception(
            "Every slope of 2H′, not every other",
            "The first slopes of 2H′ in a row contain some of H′ again.",
            _with(_powers, lambda power: _powers(2 * power)),
        ),
        Misconception(
            "Closed formula from h = 0 on",
            "h counts from 1, and the formula is for powers of two.",
            lambda heads: 2.0 ** (-8 * np.arange(heads) / heads),
        ),
        Misconception(
            "First slope 1",
            "h counts from 1, so the first slope is the ratio itself.",
            lambda heads: slopes(heads) * 2.0 ** (8 / 2 ** int(np.log2(heads))),
        ),
        Misconception(
            "Slopes sorted",
            "The new slopes stand after the others. Which head has which slope is "
            "part of a trained model.",
            lambda heads: np.sort(slopes(heads))[::-1].copy(),
        ),
        Misconception(
            "Slopes of the next higher power of two, cut off",
            "The slopes of the lower power come first, complete.",
            lambda heads: _powers(2 ** int(np.ceil(np.log2(heads))))[:heads],
        ),
        Misconception(
            "The slopes of 8 heads, for any number",
            "2^(−h) is right for 8 heads only.",
            lambda heads: 2.0 ** -np.arange(1.0, heads + 1),
        ),
        Misconception(
            "New slopes from the flat end",
            "Take every other one *from the first on*: the first is the steepest.",
            _with(_powers, lambda power: _powers(2 * power)[::2][::-1]),
        ),
        Misconception(
            "Exponents in place of slopes",
            "Your answer is the exponent. The slope is 2 to this power.",
            lambda heads: np.log2(slopes(heads)),
        ),
        Misconception(
            "Slopes negative",
            "The slope is positive; the bias is minus slope times distance.",
            lambda heads: -slopes(heads),
        ),
        Misconception(
            "Heads counted from 0",
            "h runs from 1 to H, so the first of H heads has the slope 2^(−8/H).",
            _with(
                lambda H: 2.0 ** (-8 * np.arange(H) / H),
                lambda H: 2.0 ** (-4 * np.arange(0, 2 * H, 2) / H),
            ),
        ),
        Misconception(
            "Flattest slopes added",
            "Take every other slope *from the first on*: the added slopes are the "
            "steepest.",
            _with_flattest,
        ),
        Misconception(
            "h below the fraction",
            "The exponent is −8 h/H: it grows with h.",
            _with(
                lambda H: 2.0 ** (-8 / np.arange(1, H + 1)),
                lambda H: 2.0 ** (-8 / np.arange(1, 2 * H + 1, 2)),
            ),
        ),
    ),
    properties=(
        Property(
            "The slopes of 12 heads contain those of 8",
            lambda answer, heads: bool(np.allclose(answer(12)[:8], answer(8))),
        ),
    ),
    explanation=r"""
The four slopes added for 12 heads are those of 16 heads with an odd number $h = 1, 3, 5, 7$: $2^{-1/2}, 2^{-3/2}, 2^{-5/2}, 2^{-7/2}$.
They are steep: the first is steeper than any slope of 8 heads, the others lie between the four steepest of those.
So the added heads look at near keys; the flattest slope stays $2^{-8}$.
With $2^{-8h/12}$ every head would have another slope than the trained model: the two lists are part of the weights' meaning.
""",
    prediction=Prediction(
        "How many of the slopes of 12 heads are above ¼?",
        lambda: int((slopes(12) > 0.25).sum()),
    ),
)


# distance-biases-5: a matrix from one row


def from_row(row):
    """Matrix ``[tokens, tokens]`` of a bias that depends on the offset alone.

    ``row``, ``[2 · tokens − 1]``, has the bias of each offset, the largest offset
    first. Entry (i, j) is the bias that ``row`` holds for the offset i − j.
    """
    tokens = (len(row) + 1) // 2
    i, j = np.indices((tokens, tokens))
    return row[tokens - 1 - (i - j)]


def _looked_up(index):
    """Make a wrong answer (a function) to the exercise ``from_row``.

    The exercise asks for the matrix of a bias that depends on the offset i − j. In the
    wrong answer, ``index(i, j, tokens)`` replaces tokens − 1 − (i − j), the place in
    ``row`` at which entry (i, j) is read.
    """

    def answer(row):
        tokens = (len(row) + 1) // 2
        i, j = np.indices((tokens, tokens))
        return row[index(i, j, tokens) % len(row)]

    return answer


ROW = Exercise(
    name="distance-biases-5",
    title="A matrix from one row",
    kind="NumPy",
    minutes=10,
    lines=3,
    statement=r"""
A bias that depends on the offset alone is stored as $2L - 1$ numbers, one for each of the offsets $L - 1, \dots, 1, 0, -1, \dots, 1 - L$, in this order.
Return the matrix `[tokens, tokens]` whose entry $(i, j)$ is the number of the offset $i - j$.
""",
    hint=r"""
At which index of the row is the number of the offset 0?
And that of the offset 1?
""",
    cases=((draw(1),), (draw(5),), (np.arange(7.0),), (draw(31),)),
    solution=from_row,
    misconceptions=(
        Misconception(
            "Offsets j − i",
            "Row i of the matrix is query i. Below the diagonal the offset i − j is "
            "positive, and the numbers of positive offsets come first.",
            _looked_up(lambda i, j, n: n - 1 + i - j),
        ),
        Misconception(
            "Offset 0 at the first place",
            "The offset 0 stands in the middle of the row, after the L − 1 positive "
            "ones.",
            _looked_up(lambda i, j, n: i - j),
        ),
        Misconception(
            "One place too far",
            "The offset 0 stands at place L − 1, counted from 0.",
            _looked_up(lambda i, j, n: n - (i - j)),
        ),
        Misconception(
            "One place too early",
            "Counted from 0, the offset L − 1 stands at 0 and the offset 0 at L − 1.",
            _looked_up(lambda i, j, n: n - 2 - (i - j)),
        ),
        Misconception(
            "Distances in place of offsets",
            "The two directions have numbers of their own here.",
            _looked_up(lambda i, j, n: n - 1 - abs(i - j)),
        ),
        Misconception(
            "Every row the same",
            "The window shifts by one from row to row.",
            _looked_up(lambda i, j, n: n - 1 + j),
        ),
        Misconception(
            "i + j in place of i − j",
            "i + j is constant along the other diagonals.",
            _looked_up(lambda i, j, n: i + j),
        ),
        Misconception(
            "Rows read newest first",
            "Row 0 is the oldest query, and no key is older.",
            _looked_up(lambda i, j, n: i[::-1] + 0 * j + n - 1 - j),
        ),
        Misconception(
            "Later keys hidden",
            "The mask is applied elsewhere. Here both directions have numbers.",
            lambda row: np.tril(from_row(row)),
        ),
    ),
    properties=(
        Property(
            "Diagonals are constant",
            lambda answer, row: bool(
                np.array_equal(
                    answer(np.arange(9.0))[1:, 1:], answer(np.arange(9.0))[:-1, :-1]
                )
            ),
        ),
    ),
    explanation=r"""
The number of the offset 0 stands behind the $L - 1$ positive offsets, at index $L - 1$, and each step of the offset by one is a step of the index by one the other way: the index is $L - 1 - (i - j)$.
So row 0 of the matrix is the right half of `row`, from index $L - 1$ to the end, and each further row begins one place earlier.
The matrix is constant along its diagonals, a Toeplitz matrix: $L^2$ entries, but only $2L - 1$ numbers to store.
""",
)


# distance-biases-6: Sandwich's bias


def sandwich(distances, width, heads):
    """Sandwich's bias of each head at each distance, ``[heads, distances]``.

    ``distances`` are the distances, an array; ``heads`` is the number of heads, and
    ``width`` is twice the number of cosines in the sum over frequencies.
    """
    k = np.arange(1, width // 2 + 1)
    waves = np.cos(distances[:, None] / 10000.0 ** (2 * k / width)).sum(axis=1)
    ratio = 8 * np.arange(1, heads + 1) / heads
    return waves / ratio[:, None]


def _waves(distances, width, heads, *, k=None, wave=np.cos, exponent=2, ratio=None):
    k = np.arange(1, width // 2 + 1) if k is None else k
    total_ = wave(distances[:, None] * 10000.0 ** (-exponent * k / width)).sum(axis=1)
    ratio = 8 * np.arange(1, heads + 1) / heads if ratio is None else ratio
    return total_ / ratio[:, None]


SANDWICH = Exercise(
    name="distance-biases-6",
    title="Sandwich's bias",
    kind="NumPy",
    minutes=10,
    lines=4,
    statement=r"""
Return Sandwich's bias $\frac{H}{8h} \sum_{k=1}^{\bar d/2} \cos \bigl( t / 10000^{2k/\bar d} \bigr)$ for the `distances` $t$ and each head $h = 1, \dots, H$ of $H$ = `heads` heads, `[heads, distances]`; $\bar d$ is `width`.
Which head looks farthest?
""",
    hint=r"""
All heads have the same sum.
""",
    cases=(
        (np.array([0.0, 1.0]), 2, 1),
        (np.array([0.0, 1.0, 5.0]), 8, 2),
        (np.arange(40.0), 64, 8),
        (100 * np.arange(7.0), 128, 12),
    ),
    solution=sandwich,
    misconceptions=(
        Misconception(
            "k from 0 on",
            "Sinusoidal tables count from k = 0. In this formula the fastest wave is "
            "k = 1.",
            lambda t, width, heads: _waves(t, width, heads, k=np.arange(width // 2)),
        ),
        Misconception(
            "Missing cosines",
            "A sum of angles is a straight line, as ALiBi's is, and it rises.",
            lambda t, width, heads: _waves(t, width, heads, wave=lambda z: z),
        ),
        Misconception(
            "Sines in place of cosines",
            "At distance 0 the bias is largest: all cosines are 1 there.",
            lambda t, width, heads: _waves(t, width, heads, wave=np.sin),
        ),
        Misconception(
            "Exponent k over the width",
            "The exponent is 2k over the width, so that the last wave has the "
            "frequency 1/10000.",
            lambda t, width, heads: _waves(t, width, heads, exponent=1),
        ),
        Misconception(
            "As many waves as features",
            "Two features make a wave, so the sum ends at half of the width.",
            lambda t, width, heads: _waves(t, width, heads, k=np.arange(1, width + 1)),
        ),
        Misconception(
            "Multiplied by the ratio",
            "Heads *divide* by 8h/H. The last head is the flattest.",
            lambda t, width, heads: _waves(
                t, width, heads, ratio=heads / (8 * np.arange(1.0, heads + 1))
            ),
        ),
        Misconception(
            "h beside the fraction, not below it",
            "`heads / 8 * h` is (H/8) h. The last head is the flattest.",
            lambda t, width, heads: _waves(
                t, width, heads, ratio=8 / heads / np.arange(1.0, heads + 1)
            ),
        ),
        Misconception(
            "Missing last wave",
            "k runs to half of the width, which is included.",
            lambda t, width, heads: _waves(t, width, heads, k=np.arange(1, width // 2)),
        ),
        Misconception(
            "Ratio left out",
            "Each head divides the sum by its ratio, 8h/H.",
            lambda t, width, heads: _waves(t, width, heads, ratio=np.ones(heads)),
        ),
        Misconception(
            "All heads alike",
            "Each head divides by a ratio of its own.",
            lambda t, width, heads: _waves(t, width, heads, ratio=np.full(heads, 8.0)),
        ),
        Misconception(
            "Ratio h",
            "The ratio is 8h/H, which is h for 8 heads only.",
            lambda t, width, heads: _waves(
                t, width, heads, ratio=np.arange(1.0, heads + 1)
            ),
        ),
        Misconception(
            "Heads in reverse order",
            "The first head has the steepest bias.",
            lambda t, width, heads: sandwich(t, width, heads)[::-1].copy(),
        ),
        Misconception(
            "Half of the width subtracted",
            "Softmax sees no difference, and one library subtracts it. The formula "
            "does not.",
            lambda t, width, heads: (
                sandwich(t, width, heads) - sandwich(0 * t, width, heads)
            ),
        ),
        Misconception(
            "Slopes of ALiBi",
            "Sandwich's heads divide by 8h/H. ALiBi's 2^(−8h/H) are slopes of a line.",
            lambda t, width, heads: _waves(
                t, width, heads, ratio=2.0 ** (8 * np.arange(1, heads + 1) / heads)
            ),
        ),
        Misconception(
            "Mean of the waves",
            "The formula has their sum.",
            lambda t, width, heads: sandwich(t, width, heads) / (width // 2),
        ),
        Misconception(
            "Frequencies that grow",
            "The distance is divided by the power: waves get slower with k.",
            lambda t, width, heads: _waves(t, width, heads, exponent=-2),
        ),
        Misconception(
            "H forgotten",
            "The ratio is 8h/H: the sum is multiplied by H, the number of heads, and "
            "divided by 8h.",
            lambda t, width, heads: sandwich(t, width, heads) / heads,
        ),
        Misconception(
            "Whole division in the exponent",
            "The exponent is 2k over the width with `/`. `//` rounds down to whole "
            "numbers.",
            lambda t, width, heads: _waves(
                t, width, heads, k=2 * np.arange(1, width // 2 + 1) // width * width / 2
            ),
        ),
    ),
    level="optional",
    explanation=r"""
The last head, $h = H$, looks farthest: its sum is divided by 8, the largest ratio, so its bias falls most slowly with the distance.
The first head of 8 divides by 1 and falls 8 times as fast.
By {prf:ref}`the theorem that many waves make a logarithm <thm-sandwich-log>` the sum follows a logarithm of the distance, and the ratio sets how steep it is.
""",
)


# distance-biases-7: KERPLE's logits


def kerple(q, k, r1, r2, scaling):
    """Attention logits with KERPLE's bias, a tensor ``[heads, tokens, tokens]``.

    ``q`` and ``k`` are ``[heads, tokens, d]``; ``r1`` and ``r2`` are each head's
    parameters. ``scaling`` is "paper" (products and bias are divided by √d) or "code"
    (the products alone).
    """
    place = torch.arange(q.shape[1])
    distance = (place[:, None] - place).abs()
    bias = -r1[:, None, None] * torch.log(1 + r2[:, None, None] * distance)
    root = q.shape[2] ** 0.5
    if scaling == "paper":
        return (q @ k.mT + bias) / root
    return q @ k.mT / root + bias


def _distances(q):
    place = torch.arange(q.shape[1], dtype=q.dtype)
    return (place[:, None] - place).abs()


def _kerple(bias):
    """Make a wrong answer (a function) to the exercise ``kerple``.

    The exercise asks for logits with KERPLE's bias. In the wrong answer,
    ``bias(distance, r1, r2)`` replaces KERPLE's −r1 log(1 + r2 · distance).
    """

    def answer(q, k, r1, r2, scaling):
        root = q.shape[2] ** 0.5
        b = bias(_distances(q), r1[:, None, None], r2[:, None, None])
        return q @ k.mT / root + (b / root if scaling == "paper" else b)

    return answer


def _kerple_case(tokens, d, scaling, heads=2):
    q, k = (torch.tensor(t) for t in draw(2, heads, tokens, d))
    r1, r2 = (torch.tensor(0.1 + np.abs(t)) for t in draw(2, heads, seed=1))
    return q, k, r1, r2, scaling


KERPLE = Exercise(
    name="distance-biases-7",
    title="KERPLE's bias, divided or not",
    kind="PyTorch",
    minutes=12,
    lines=6,
    statement=r"""
`q` and `k` are `[heads, tokens, d]`, `r1` and `r2` are `[heads]`.
Return the logits `[heads, tokens, tokens]` with KERPLE's bias $-r_1 \log(1 + r_2 |i - j|)$.
With `scaling="paper"` products and bias are divided by $\sqrt d$, with `scaling="code"` the products alone.
""",
    hint=r"""
`r1[:, None, None]` has an axis for queries and one for keys.
""",
    cases=(
        _kerple_case(2, 4, "code", heads=1),
        _kerple_case(3, 4, "paper"),
        _kerple_case(8, 16, "code"),
        _kerple_case(8, 16, "paper"),
    ),
    solution=kerple,
    misconceptions=(
        Misconception(
            "Two conventions exchanged",
            "In the paper's convention products and bias are divided by √d. In the "
            "code's the bias is not.",
            lambda q, k, r1, r2, scaling: kerple(
                q, k, r1, r2, {"paper": "code", "code": "paper"}[scaling]
            ),
        ),
        Misconception(
            "The code's convention for both",
            "With the paper's convention the bias is divided by √d, too.",
            lambda q, k, r1, r2, scaling: kerple(q, k, r1, r2, "code"),
        ),
        Misconception(
            "The paper's convention for both",
            "With the code's convention the bias is not divided.",
            lambda q, k, r1, r2, scaling: kerple(q, k, r1, r2, "paper"),
        ),
        Misconception(
            "Bias added, not subtracted",
            "Far keys lose weight: r1 is positive, and a minus stands before it.",
            _kerple(lambda t, r1, r2: r1 * torch.log(1 + r2 * t)),
        ),
        Misconception(
            "Distance with a sign",
            "The bias uses |i − j|. Above the diagonal 1 + r2 (i − j) can be negative.",
            _kerple(lambda t, r1, r2: -r1 * torch.log(1 + r2 * (t.tril() - t.triu()))),
        ),
        Misconception(
            "Later keys at distance 0",
            "The bias uses |i − j|: a later key is as far away as an earlier one.",
            _kerple(lambda t, r1, r2: -r1 * torch.log(1 + r2 * t.tril())),
        ),
        Misconception(
            "r2 outside the logarithm",
            "r2 multiplies the distance inside the logarithm. Outside, it could be "
            "merged with r1.",
            _kerple(lambda t, r1, r2: -r1 * r2 * torch.log(1 + t)),
        ),
        Misconception(
            "r1 and r2 exchanged",
            "r1 stands before the logarithm, r2 before the distance.",
            _kerple(lambda t, r1, r2: -r2 * torch.log(1 + r1 * t)),
        ),
        Misconception(
            "KERPLE's power in place of its logarithm",
            "−r1 t^r2 is KERPLE's other form.",
            _kerple(lambda t, r1, r2: -r1 * t**r2),
        ),
        Misconception(
            "A line in place of the logarithm",
            "Your bias is ALiBi's with the slope r1 r2, which the logarithm resembles "
            "only near distance 0.",
            _kerple(lambda t, r1, r2: -r1 * r2 * t),
        ),
        Misconception(
            "Another base of the logarithm",
            "KERPLE takes the natural logarithm.",
            _kerple(lambda t, r1, r2: -r1 * torch.log2(1 + r2 * t)),
        ),
        Misconception(
            "r2 multiplies the 1, too",
            "1 + r2 t makes the bias 0 at distance 0. Your bias there is −r1 log r2.",
            _kerple(lambda t, r1, r2: -r1 * torch.log(r2 * (1 + t))),
        ),
        Misconception(
            "Products not divided",
            "Both conventions divide them by √d.",
            lambda q, k, r1, r2, scaling: kerple(
                q * q.shape[2] ** 0.5, k, r1, r2, scaling
            ),
        ),
        Misconception(
            "Later keys hidden",
            "The mask is applied elsewhere. Here both directions have a bias.",
            lambda q, k, r1, r2, scaling: kerple(q, k, r1, r2, scaling).masked_fill(
                torch.ones(q.shape[1], q.shape[1], dtype=torch.bool).triu(1), -torch.inf
            ),
        ),
        Misconception(
            "Products divided by d",
            "The products are divided by the root of d.",
            lambda q, k, r1, r2, scaling: kerple(
                q / q.shape[2] ** 0.5, k, r1, r2, scaling
            ),
        ),
        Misconception(
            "Distance counted from 1",
            "A token's own key is at distance 0.",
            _kerple(lambda t, r1, r2: -r1 * torch.log(1 + r2 * (t + 1))),
        ),
        Misconception(
            "Bias alone",
            "Add the products.",
            lambda q, k, r1, r2, scaling: kerple(0 * q, k, r1, r2, scaling),
        ),
        Misconception(
            "Queries and keys exchanged",
            "Row i is query i.",
            lambda q, k, r1, r2, scaling: kerple(k, q, r1, r2, scaling),
        ),
        Misconception(
            "Products divided in the paper's convention only",
            "Both conventions divide the products by √d. They differ in the bias.",
            lambda q, k, r1, r2, scaling: (
                kerple(q, k, r1, r2, "paper")
                * (q.shape[2] ** 0.5 if scaling == "code" else 1)
            ),
        ),
        Misconception(
            "Nothing divided",
            "Both conventions divide the products by √d, and the paper's the bias, "
            "too.",
            lambda q, k, r1, r2, scaling: (
                kerple(q, k, r1, r2, "paper") * q.shape[2] ** 0.5
            ),
        ),
        Misconception(
            "Everything divided by d",
            "Divide by the root of d, and the bias in the paper's convention only.",
            lambda q, k, r1, r2, scaling: (
                kerple(q, k, r1, r2, "paper") / q.shape[2] ** 0.5
            ),
        ),
        Misconception(
            "Products not divided in the code's convention, bias in neither",
            'Both conventions divide the products by √d. With scaling="paper" the '
            "bias is divided as well.",
            lambda q, k, r1, r2, scaling: kerple(
                q * (q.shape[2] ** 0.5 if scaling == "code" else 1), k, r1, r2, "code"
            ),
        ),
        Misconception(
            "Softmax applied",
            "The logits are asked for, not the weights.",
            lambda *case: kerple(*case).softmax(-1),
        ),
    ),
    properties=(
        Property(
            "On the diagonal stands q · k/√d alone",
            lambda answer, q, k, r1, r2, scaling: bool(
                torch.allclose(
                    answer(q, k, r1, r2, scaling).diagonal(dim1=1, dim2=2),
                    (q * k).sum(-1) / q.shape[2] ** 0.5,
                )
            ),
        ),
    ),
    explanation=r"""
In the paper's convention the logits are $(q_i^\top k_j - r_1 \log(1 + r_2 |i - j|)) / \sqrt d$, in the code's $q_i^\top k_j / \sqrt d - r_1 \log(1 + r_2 |i - j|)$.
The two differ in the bias by the factor $\sqrt d$: with heads of 64 dimensions the paper's bias is 8 times as flat for the same $r_1$.
So weights trained with one convention run with the other only after $r_1$ is multiplied or divided by $\sqrt d$; $r_2$ stays.
""",
)


# distance-biases-8: when the near keys lose half of the weight


def until_lost(bias, near):
    """Number of keys at which the nearest ``near`` have less than half of the weight.

    The number is an int. The weight is the attention weight of one query. ``bias[t]``
    is the bias at distance t, and all keys have equal content. The number is 0 if
    ``len(bias)`` keys are not enough.
    """
    weights = np.exp(bias)
    share = weights[:near].sum() / weights.cumsum()
    lost = np.flatnonzero(share[near:] < 0.5)
    return int(near + lost[0] + 1) if lost.size else 0


def _count(bias, near, share):
    """Smallest number of keys n > near with ``share[n − 1]`` below ½, or 0 if none has.

    ``share[n − 1]`` is the share of the attention weight on the nearest ``near`` of n
    keys. ``bias``, the bias by distance, is not read.
    """
    lost = np.flatnonzero(share[near:] < 0.5)
    return int(near + lost[0] + 1) if lost.size else 0


_LONG = np.arange(4000.0)

LOST = Exercise(
    name="distance-biases-8",
    title="When the near keys lose half of the weight",
    kind="experiment",
    minutes=15,
    lines=4,
    statement=r"""
`bias[t]`, a number between −200 and 200, is added to the logit of a key at distance $t$, and all keys have the same content.
How many keys must there be until the nearest `near` of them, the query's own included, *together* have less than half of the weight?
Return that number, and 0 if `len(bias)` keys are not enough.
What is it for 16 near keys and ALiBi with $m = 1/16$?
And for KERPLE's logarithm with $r_2 = 1$ and $r_1$ = 0.5, 1 and 1.5?
""",
    hint=r"""
`np.cumsum` of the weights gives the denominator for every number of keys at once.
""",
    cases=(
        (np.zeros(5), 2),
        (np.zeros(9), 3),
        (-_LONG[:64] / 16, 16),
        (-0.5 * np.log1p(_LONG), 16),
        (-np.log1p(_LONG), 16),
        (-1.5 * np.log1p(_LONG), 16),
        (-np.minimum(_LONG, 31) / 8, 8),
    ),
    solution=until_lost,
    misconceptions=(
        Misconception(
            "One key too few",
            "Counting from 0, index n is the (n + 1)-th key.",
            lambda bias, near: max(until_lost(bias, near) - 1, 0),
        ),
        Misconception(
            "A half enough",
            "*Less* than half is asked for. With two of four equal keys it is exactly "
            "half.",
            lambda bias, near: (
                lambda lost: int(near + lost[0] + 1) if lost.size else 0
            )(
                np.flatnonzero(
                    (np.exp(bias)[:near].sum() / np.exp(bias).cumsum())[near:] <= 0.5
                )
            ),
        ),
        Misconception(
            "Last number of keys not tried",
            "len(bias) keys are allowed, too.",
            lambda bias, near: until_lost(bias[:-1], near),
        ),
        Misconception(
            "−1 for never",
            "If the keys are not enough, return 0.",
            lambda bias, near: until_lost(bias, near) or -1,
        ),
        Misconception(
            "Single weights compared",
            "One far key need not outweigh the near ones: all of them together do.",
            lambda bias, near: _count(bias, near, np.exp(bias - bias[0])),
        ),
        Misconception(
            "Bias not exponentiated",
            "The bias is part of a logit. Weights are exponentials.",
            lambda bias, near: (
                _count(bias, near, bias[:near].sum() / bias.cumsum())
                if (bias != 0).any()
                else 0
            ),
        ),
        Misconception(
            "Far keys counted, not all of them",
            "The number of all keys is asked for.",
            lambda bias, near: max(until_lost(bias, near) - near, 0),
        ),
        Misconception(
            "Length of `bias` for never",
            "If the keys are not enough, return 0.",
            lambda bias, near: until_lost(bias, near) or len(bias),
        ),
        Misconception(
            "One near key too many",
            "The nearest `near` keys include the query's own: distances 0 to near − 1.",
            lambda bias, near: _count(
                bias, near, np.exp(bias)[: near + 1].sum() / np.exp(bias).cumsum()
            ),
        ),
        Misconception(
            "Query's own key left out",
            "The key at distance 0 is one of the near keys.",
            lambda bias, near: _count(
                bias, near, np.exp(bias)[1:near].sum() / np.exp(bias).cumsum()
            ),
        ),
        Misconception(
            "Near keys compared with all others of the longest text",
            "The denominator grows with the number of keys; ask at each of them.",
            lambda bias, near: (
                len(bias) if np.exp(bias)[:near].sum() < np.exp(bias).sum() / 2 else 0
            ),
        ),
        Misconception(
            "Twice as many keys, always",
            "That is right without a bias. Here far keys weigh less.",
            lambda bias, near: 2 * near + 1,
        ),
        Misconception(
            "Sign of the bias lost",
            "A negative bias makes a far key weigh less.",
            lambda bias, near: until_lost(-bias, near),
        ),
    ),
    properties=(
        Property(
            "With 16 near keys and ALiBi's slope 1/16 the near keys keep at least "
            "half of the weight",
            lambda answer, bias, near: answer(-np.arange(2000.0) / 16, 16) == 0,
        ),
    ),
    tolerance=0.0,
    explanation=r"""
With ALiBi and $m = 1/16$ there is no such number: the near keys keep at least $1 - e^{-1}$, about 63 %, in a text of any length, by {prf:ref}`the theorem that ALiBi cannot look far <thm-alibi-window>`.
With KERPLE's logarithm and $r_1 = 0.5$ it is 55 keys, with $r_1 = 1$ it is 485.
With $r_1 = 1.5$ there is none: the far keys have a finite sum, and the near ones keep more than 80 %.
{prf:ref}`The theorem on KERPLE's total weight <thm-kerple-line>` says why: for $r_1 \le 1$ the sum over all keys grows without end, so any near keys lose half of the weight at last.
""",
    prediction=Prediction(
        "With KERPLE's logarithm, $r_1 = r_2 = 1$, how many keys are there when the nearest 16 have lost half of the weight?",
        lambda: until_lost(-np.log1p(_LONG), 16),
        near=0.1,
    ),
)


# distance-biases-9: the number of heads that a test needs


def colleagues_slopes(heads):
    """ALiBi's slopes for any number of heads."""
    power = 2 ** int(np.ceil(np.log2(heads)))
    numbers = np.arange(1, power + 1)
    return 2.0 ** (-8 * numbers / power)[:heads]


def heads_that_differ():
    """Return the smallest number of heads for which `colleagues_slopes` is wrong."""
    return 3


HEADS = Exercise(
    name="distance-biases-9",
    title="Find the input: slopes",
    kind="find the input",
    minutes=5,
    lines=1,
    statement=r"""
`colleagues_slopes` should do what exercise distance-biases-4 asks for.
Her test compares it with the published slopes of 2, 4 and 8 heads, and passes.
For which number of heads, the smallest, is it wrong?
What should her test have contained?
""",
    hint=r"""
For which numbers is the next higher power of two the number itself?
""",
    cases=((),),
    solution=heads_that_differ,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_slopes,
        right=slopes,
        tested=((2,), (4,), (8,)),
        refusal=lambda heads: (
            "" if type(heads) is int and heads > 0 else "heads is a positive integer"
        ),
        size=lambda heads: heads,
        size_of="number of heads",
    ),
    explanation=r"""
For a power of two both lists are the same.
For 3 heads the right slopes are those of 2 heads and the first of 4 heads; she takes the first three of 4 heads, so no head has the right slope, and the flattest, $2^{-8}$, is missing.
A test of a rule with two cases needs an input of each: a number of heads that is no power of two, such as 12, which published models have.
""",
)


# distance-biases-10: the prior of a bias


def prior(bias):
    """Prior of each query over its keys, ``[queries, keys]``, from the bias alone.

    ``bias`` is ``[tokens, tokens]``, query by key. A query sees no later key. The rows
    of the array returned sum to 1; it is 0 above the diagonal.
    """
    later = ~np.tri(len(bias), dtype=bool)
    seen = np.where(later, -np.inf, bias)
    weights = np.exp(seen - seen.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def _prior(bias, seen=None, axis=1):
    """The softmax of ``bias`` along an axis, over the keys that ``seen`` allows."""
    seen = np.tri(len(bias), dtype=bool) if seen is None else seen
    held = np.where(seen, bias, -np.inf)
    weights = np.exp(held - held.max(axis=axis, keepdims=True))
    return weights / weights.sum(axis=axis, keepdims=True)


_APART = np.subtract.outer(np.arange(6.0), np.arange(6.0))

PRIOR = Exercise(
    name="distance-biases-10",
    title="The prior of a bias",
    kind="NumPy",
    minutes=8,
    lines=5,
    statement=r"""
A softmax of products plus a bias is Bayes' rule, whose prior is made of the bias alone.
Return it for every query of a causal layer.
Which numbers may be added to the bias without a change of the prior?
Biases may be as large as 10⁵ in size, as BAM's are at a negative exponent.
""",
    hint=r"""
It is the softmax of the bias over the keys that the query sees.
Take the largest bias *of these keys* away first: what does the exponential of the others do then?
""",
    cases=(
        (np.array([[0.0, 1.0], [2.0, 1.0]]),),
        (-np.abs(_APART) / 2,),
        (draw(1, 5, 5, seed=10)[0],),
        (1000.0 + draw(1, 4, 4, seed=11)[0],),
        (np.array([[-1e5, 3.0], [-1.0, -1e5]]),),
        (np.array([[-1000.0, 1000.0], [-1000.0, -1001.0]]),),
        (np.zeros((1, 1)),),
    ),
    solution=prior,
    misconceptions=(
        Misconception(
            "Later keys seen",
            "A query of a causal layer sees no later key, so its prior there is 0.",
            lambda bias: _prior(bias, np.ones(bias.shape, dtype=bool)),
        ),
        Misconception(
            "A query's own key left out",
            "A query sees its own key.",
            lambda bias: (
                lambda rest: rest / np.where(rest.sum(1) > 0, rest.sum(1), 1.0)[:, None]
            )(np.tril(_prior(bias), -1)),
        ),
        Misconception(
            "Normalized over the queries",
            "A prior is of one query over its keys: rows sum to 1.",
            lambda bias: _prior(bias, axis=0),
        ),
        Misconception(
            "Normalized over all pairs",
            "Each query has a prior of its own, which sums to 1.",
            lambda bias: (lambda e: e / e.sum())(
                np.tril(np.exp(np.minimum(bias, 700.0)))
            ),
        ),
        Misconception(
            "Hidden keys in the denominator",
            "The later keys get 0, and the others must sum to 1 without them.",
            lambda bias: np.tril(_prior(bias, np.ones(bias.shape, dtype=bool))),
        ),
        Misconception(
            "Not normalized",
            "A prior sums to 1.",
            lambda bias: np.tril(np.exp(np.minimum(bias, 700.0))),
        ),
        Misconception(
            "The bias for its exponential",
            "The bias is the logarithm of the prior, not the prior.",
            lambda bias: (
                lambda row: row / np.where(row.sum(1) == 0, 1.0, row.sum(1))[:, None]
            )(np.tril(bias)),
        ),
        Misconception(
            "Exponential of the bias itself",
            "e¹⁰⁰⁰ overflows. Only differences of biases matter: take the largest of "
            "the row away first.",
            lambda bias: (lambda e: e / e.sum(axis=1, keepdims=True))(
                np.tril(np.exp(bias))
            ),
        ),
        Misconception(
            "Largest bias of a hidden key taken away",
            "A hidden key may have a far larger bias than all that are seen; then all "
            "their exponentials are 0. Take the largest bias *that the query sees*.",
            lambda bias: (lambda e: e / e.sum(axis=1, keepdims=True))(
                np.tril(np.exp(bias - bias.max(axis=1, keepdims=True)))
            ),
        ),
        Misconception(
            "Sign of the bias lost",
            "A key with a larger bias has a larger prior.",
            lambda bias: _prior(-bias),
        ),
        Misconception(
            "Logarithm of the prior",
            "The prior is asked for, not its logarithm.",
            lambda bias: np.log(np.maximum(_prior(bias), 1e-300)),
        ),
    ),
    properties=(
        Property(
            "A number added to all biases of a query changes nothing",
            lambda answer, bias: np.allclose(
                answer(bias + np.arange(float(len(bias)))[:, None]), answer(bias)
            ),
        ),
    ),
    explanation=r"""
Any number that depends on the *query* alone may be added: it multiplies numerator and denominator of a row alike.
So the largest bias that a query sees may be taken away, after which no exponential overflows and one of them is 1.
{prf:ref}`The theorem on the posterior <thm-prior-posterior>` says that nothing else may be added: two biases with one prior differ by a number that depends on the query alone.
""",
)


# distance-biases-11: BAM with scalable softmax


def bam(q, k, alpha, beta, mu, slope):
    """Logits of BAM with scalable softmax, ``[heads, queries, keys]``.

    ``q`` and ``k`` are ``[heads, tokens, d]`` at positions 0, 1, …; ``alpha``,
    ``beta``, ``mu`` and ``slope`` are ``[heads]``.
    """
    at = torch.arange(q.shape[1], dtype=q.dtype)
    ahead = at[None, :] - at[:, None]  # j − i
    alpha, beta, mu, slope = (p[:, None, None] for p in (alpha, beta, mu, slope))
    bias = -alpha * ((ahead - mu).abs() + 1e-5) ** beta
    temperature = slope * torch.log(at + 1)[:, None]
    return temperature * (q @ k.mT) / q.shape[2] ** 0.5 + bias


def _bam(
    q,
    k,
    alpha,
    beta,
    mu,
    slope,
    *,
    bias=lambda z, a, b: -a * (z.abs() + 1e-5) ** b,
    n=lambda at: torch.log(at + 1),
):
    """BAM's logits with another bias or temperature."""
    at = torch.arange(q.shape[1], dtype=q.dtype)
    a, b, m, s = (p[:, None, None] for p in (alpha, beta, mu, slope))
    products = (q @ k.mT) / q.shape[2] ** 0.5
    return s * n(at)[:, None] * products + bias(at - at[:, None] - m, a, b)


def _bam_case(heads, tokens, d, seed, beta, mu):
    q, k = (torch.tensor(draw(heads, tokens, d, seed=seed + n)) for n in range(2))
    spread = torch.linspace(0.5, 1.5, heads, dtype=q.dtype)
    given = (torch.tensor(x, dtype=q.dtype) for x in (beta, mu))
    return (q, k, spread / 2, *given, 1.25 * spread)


BAM = Exercise(
    name="distance-biases-11",
    title="BAM with scalable softmax",
    kind="PyTorch",
    minutes=15,
    lines=6,
    statement=r"""
For every pair of query $i$ and key $j$ return the logit
$\sigma \log(i + 1)\, q_i^\top k_j / \sqrt d - \alpha\, (|j - i - \mu| + \varepsilon)^\beta$
with $\varepsilon = 10^{-5}$; $\sigma$ is `slope`.
Each head has its own numbers, and all keys have a logit: the mask is applied elsewhere.
What does the bias of a head with $\beta < 0$ say of the token itself if $\mu = 0$?
""",
    hint=r"""
$j - i$ is a matrix with one row for each query; $\log(i + 1)$ is a column.
Numbers of a head need two more axes behind.
""",
    cases=(
        _bam_case(1, 2, 1, 0, [1.0], [0.0]),
        _bam_case(2, 3, 2, 1, [2.0, 0.5], [0.0, -1.0]),
        _bam_case(2, 5, 4, 2, [-1.0, 1.0], [0.0, 2.5]),
        _bam_case(3, 6, 4, 3, [0.0, 3.0, -0.5], [-2.0, 0.5, 1.0]),
    ),
    solution=bam,
    misconceptions=(
        Misconception(
            "Center on the other side",
            "The code has j − i − μ. With i − j − μ a center in the past becomes one "
            "in the future.",
            lambda *case: _bam(*case[:4], -case[4], case[5]),
        ),
        Misconception(
            "Bias multiplied as well",
            "Only the products are multiplied by σ log(i + 1): the prior stays.",
            lambda q, k, a, b, m, s: (
                s[:, None, None]
                * torch.log(torch.arange(q.shape[1], dtype=q.dtype) + 1)[:, None]
                * _bam(q, k, a, b, m, s, n=torch.ones_like)
            ),
        ),
        Misconception(
            "Products not multiplied",
            "Scalable softmax multiplies the products by σ log(i + 1).",
            lambda q, k, a, b, m, s: _bam(
                q, k, a, b, m, torch.ones_like(s), n=torch.ones_like
            ),
        ),
        Misconception(
            "Multiplied by the key's position",
            "The temperature is the query's: a number of the row.",
            lambda q, k, a, b, m, s: (
                s[:, None, None]
                * torch.log(torch.arange(q.shape[1], dtype=q.dtype) + 1)
                * (q @ k.mT)
                / q.shape[2] ** 0.5
                + _bam(0 * q, k, a, b, m, s)
            ),
        ),
        Misconception(
            "Positions counted from 0 in the logarithm",
            "Query i sees i + 1 keys; log 0 is −∞.",
            lambda *case: _bam(*case, n=lambda at: torch.log(at)),
        ),
        Misconception(
            "Number of all tokens for that of the keys",
            "Each query has its own factor, by the keys that it sees.",
            lambda *case: _bam(
                *case, n=lambda at: torch.log(torch.full_like(at, len(at)))
            ),
        ),
        Misconception(
            "σ left out",
            "σ is trained, one for each head.",
            lambda q, k, a, b, m, s: _bam(q, k, a, b, m, torch.ones_like(s)),
        ),
        Misconception(
            "ε outside the power",
            "ε is inside: it keeps the power finite where |j − i − μ| is 0.",
            lambda *case: _bam(*case, bias=lambda z, a, b: -a * (z.abs() ** b + 1e-5)),
        ),
        Misconception(
            "No ε",
            "Without ε a negative exponent divides by 0 at the center.",
            lambda *case: _bam(*case, bias=lambda z, a, b: -a * z.abs() ** b),
        ),
        Misconception(
            "α inside the power",
            "α multiplies the power. Inside, it would be α^β.",
            lambda *case: _bam(
                *case, bias=lambda z, a, b: -((a * z.abs() + 1e-5) ** b)
            ),
        ),
        Misconception(
            "Bias added, not subtracted",
            "A minus stands before α: with β > 0 far keys lose weight.",
            lambda *case: _bam(*case, bias=lambda z, a, b: a * (z.abs() + 1e-5) ** b),
        ),
        Misconception(
            "No absolute value",
            "A power of a negative number is not a number for most exponents; the "
            "distance from the center counts.",
            lambda *case: _bam(*case, bias=lambda z, a, b: -a * (z + 1e-5) ** b),
        ),
        Misconception(
            "ALiBi's line",
            "Your bias is BAM's at β = 1.",
            lambda *case: _bam(*case, bias=lambda z, a, b: -a * (z.abs() + 1e-5)),
        ),
        Misconception(
            "Size of the exponent",
            "β may be negative; then the bias is lowest at the center.",
            lambda *case: _bam(
                *case, bias=lambda z, a, b: -a * (z.abs() + 1e-5) ** b.abs()
            ),
        ),
        Misconception(
            "Products not divided",
            "Divide the products by √d.",
            lambda q, k, *rest: _bam(q * q.shape[2] ** 0.5, k, *rest),
        ),
        Misconception(
            "Products divided by d",
            "The products are divided by the root of d.",
            lambda q, k, *rest: _bam(q / q.shape[2] ** 0.5, k, *rest),
        ),
        Misconception(
            "Queries and keys exchanged",
            "Row i is query i.",
            lambda q, k, *rest: _bam(k, q, *rest),
        ),
        Misconception(
            "Later keys hidden",
            "The mask is applied elsewhere. Here all pairs have a logit.",
            lambda q, *rest: _bam(q, *rest).masked_fill(
                torch.ones(q.shape[1], q.shape[1], dtype=torch.bool).triu(1), -torch.inf
            ),
        ),
        Misconception(
            "Softmax applied",
            "The logits are asked for, not the weights.",
            lambda *case: bam(*case).softmax(-1),
        ),
    ),
    properties=(
        Property(
            "The first query's row is the bias alone",
            lambda answer, q, k, *rest: bool(
                torch.allclose(answer(q, k, *rest)[:, 0], answer(0 * q, k, *rest)[:, 0])
            ),
        ),
    ),
    explanation=r"""
With $\beta < 0$ and $\mu = 0$ the token itself has the lowest bias of all, $-\alpha\, \varepsilon^\beta$: for $\beta = -1$ that is $-100{,}000\, \alpha$.
There far keys have a bias near 0, and the head looks everywhere but at its own token; no bound on $\beta$ keeps training out of there.
The factor $\log(i + 1)$ multiplies the evidence and not the prior, and the first query, with the factor 0, has the bias alone.
By {prf:ref}`the theorem on BAM's members <thm-bam-members>` the bias alone, for $\mu = 0$, is ALiBi's at $\beta = 1$ and no encoding at $\beta = 0$.
""",
)


# distance-biases-12: an input on which a colleague's prior is wrong


def colleagues_prior(bias):
    """Prior of each query over its keys."""
    weights = np.tril(np.exp(bias - bias.max(1)[:, None]))
    return weights / weights.sum(1)[:, None]


def bias_without_prior():
    """Return a smallest ``bias`` on which `colleagues_prior` is wrong, as a tuple."""
    return (np.array([[0.0, 1000.0], [0.0, 0.0]]),)


def _prior_refusal(bias):
    if not isinstance(bias, np.ndarray) or bias.dtype != np.float64:
        return "bias must be a NumPy array of floats"
    if bias.ndim != 2 or bias.shape[0] != bias.shape[1] or not bias.size:
        return f"bias must be [tokens, tokens], got shape {list(bias.shape)}"
    if not (np.abs(bias) <= 1e5).all():
        return "biases must be finite and at most 10⁵ in size"
    return ""


HIDDEN = Exercise(
    name="distance-biases-12",
    title="Find the input: a prior",
    kind="find the input",
    minutes=5,
    lines=1,
    level="optional",
    statement=r"""
`colleagues_prior` should do what exercise distance-biases-10 asks for.
She takes the largest bias of each row away, so nothing overflows, and her tests pass: ALiBi on both sides, and small biases.
On which bias of the fewest tokens is it wrong?
Which of this book's biases leads there in a layer without a bug in sight?
""",
    hint=r"""
Which keys does her maximum look at, and which are left afterwards?
""",
    cases=((),),
    solution=bias_without_prior,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_prior,
        right=prior,
        tested=(
            (np.zeros((1, 1)),),
            (-np.abs(_APART) / 2,),
            (draw(1, 5, 5, seed=10)[0],),
        ),
        refusal=_prior_refusal,
        size=len,
        size_of="number of tokens",
    ),
    explanation=r"""
Her maximum looks at the later keys too, which the mask hides afterwards.
If a hidden key has a bias that is larger by 746 or more, the exponentials of all keys that are seen are 0, and the row is 0/0.
The first of two tokens sees itself alone, so one large number above the diagonal is enough.
BAM at $\beta = -1$ leads there: the first token's only key has the bias $-100{,}000\, \alpha$, and its hidden neighbor has $-\alpha$.
So a mask belongs into the softmax, before the maximum.
""",
)


SHEET = Sheet(
    title="Distance biases",
    conventions=r"""
Everywhere $i$ is the query and $j$ the key, counted from 0; $t = |i - j|$ is their distance, $m$ a slope of ALiBi, $r_1$ and $r_2$ are KERPLE's numbers.
A bias is added to the logits before the softmax.
""",
    example=r"""
from posedu.numpy.attention import causal_mask, steps
from posedu.numpy.bias import alibi

q, mask = np.zeros((2, 3, 4)), causal_mask(3)
hooks = alibi(heads=2, slopes=np.array([1.0, 0.5]))
logits = steps(q, q, q, hooks, mask=mask).logits
print(logits[:, 2])  # query 2 of both heads: [heads, keys]
""",
    figure="distance_biases_explorable",
    exercises=(
        *(FAR, TOTAL, BUCKETS, SLOPES, ROW, SANDWICH, KERPLE, LOST, HEADS),
        *(PRIOR, BAM, HIDDEN),
    ),
)
