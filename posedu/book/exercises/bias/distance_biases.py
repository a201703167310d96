"""The exercises on biases of distance."""

import numpy as np
import sympy as sp
import torch

from posedu.book.exercises.checker import Exercise, Misconception, Property, Sheet, draw

# distance-biases-1: the share of the far


def far_share(m, W):
    """The share of all keys farther than W, as an expression."""
    return sp.exp(-m * (W + 1))


_SLOPE = sp.Symbol("m", positive=True)
_WEIGHT = 1 - sp.exp(-_SLOPE)

FAR = Exercise(
    name="distance-biases-1",
    title="The share of the far",
    kind="by hand",
    minutes=6,
    lines=1,
    statement=r"""
On paper: an ALiBi head of slope $m$ looks back at keys of equal content, without end.
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
            "The key at distance W is counted",
            "Farther than W begins at W + 1. For W = 0 only the query's own key is "
            "near: is all of the weight farther?",
            lambda m, W: sp.exp(-m * W),
        ),
        Misconception(
            "This is the share of the near",
            "It is what is left that is asked for.",
            lambda m, W: 1 - sp.exp(-m * (W + 1)),
        ),
        Misconception(
            "This is the near share, one key short",
            "Distances 0 to W are W + 1 keys; and their share is what is *not* asked.",
            lambda m, W: 1 - sp.exp(-m * W),
        ),
        Misconception(
            "This is one key",
            "The weight of the first of them. Add up all that follow.",
            lambda m, W: sp.exp(-m * (W + 1)) * (1 - sp.exp(-m)),
        ),
        Misconception(
            "This is the key at distance W",
            "One weight, and not even a far one: the series begins at W + 1.",
            lambda m, W: sp.exp(-m * W) * (1 - sp.exp(-m)),
        ),
        Misconception(
            "The sum is not divided by the whole",
            "The weights of a softmax sum to 1: divide by the series from 0 on.",
            lambda m, W: sp.exp(-m * (W + 1)) / (1 - sp.exp(-m)),
        ),
        Misconception(
            "The sum from W on, and not divided by the whole",
            "Farther than W begins at W + 1, and the weights sum to 1.",
            lambda m, W: sp.exp(-m * W) / (1 - sp.exp(-m)),
        ),
        Misconception(
            "This is an integral",
            "Keys stand at whole distances. The integral of e^(−mx) from W on is this; "
            "the sum is another number.",
            lambda m, W: sp.exp(-m * W) / m,
        ),
        Misconception(
            "The sign of the slope is lost",
            "A share is below 1, and falls with W.",
            lambda m, W: sp.exp(m * (W + 1)),
        ),
        Misconception(
            "These are logits",
            "−m (W + 1) is the bias of the first far key. Weights are exponentials.",
            lambda m, W: -m * (W + 1),
        ),
        Misconception(
            "The base of the slopes is taken for that of the weights",
            "Slopes are powers of 2; the softmax takes powers of e.",
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
            "With the query's own key the shares sum to 1",
            lambda answer, m, W: sp.simplify(answer(m, 0) + 1 - sp.exp(-m)) == 1,
        ),
        Property(
            "Two windows in a row leave the product of what each leaves",
            lambda answer, m, W: sp.simplify(answer(m, 5) - answer(m, 2) ** 2) == 0,
        ),
    ),
)


# distance-biases-2: the edge of the logarithm


def total(r1, r2):
    """The integral of (1 + r2 x)^(−r1) over x > 0, as an expression."""
    return 1 / (r2 * (r1 - 1))


_R2 = sp.Symbol("r_2", positive=True)
_ABOVE = 1 + sp.Symbol("s", positive=True)

TOTAL = Exercise(
    name="distance-biases-2",
    title="The edge of the logarithm",
    kind="SymPy",
    minutes=8,
    lines=1,
    statement=r"""
The prior of KERPLE's logarithm is $(1 + r_2 x)^{-r_1}$.
For $r_1 > 1$ its integral over all $x > 0$ is finite, so the near keys keep a share of the weight in any text.
What is it?
Return a SymPy expression of `r1` and `r2`.
Where does it stop being finite?
""",
    hint=r"""
Differentiate $(1 + r_2 x)^{1 - r_1}$.
""",
    cases=((sp.Integer(2), sp.Integer(1)), (_ABOVE, sp.Integer(3)), (_ABOVE, _R2)),
    solution=total,
    misconceptions=(
        Misconception(
            "r2 is forgotten",
            "Right for r2 = 1. Substitute y = r2 x: what becomes of dx?",
            lambda r1, r2: 1 / (r1 - 1),
        ),
        Misconception(
            "r2 is on the wrong side",
            "A larger r2 falls faster, so less is left.",
            lambda r1, r2: r2 / (r1 - 1),
        ),
        Misconception(
            "The exponent grows by one in the wrong direction",
            "The integral of y^(−r1) has the exponent 1 − r1, not −1 − r1.",
            lambda r1, r2: 1 / (r2 * (r1 + 1)),
        ),
        Misconception(
            "The sign is lost",
            "What is inserted at 0 is subtracted. An integral of what is positive is "
            "positive.",
            lambda r1, r2: 1 / (r2 * (1 - r1)),
        ),
        Misconception(
            "r1 in place of r1 − 1",
            "The new exponent is 1 − r1, and by that you divide.",
            lambda r1, r2: 1 / (r2 * r1),
        ),
        Misconception(
            "The power is r2 outside the parenthesis",
            "r2 stands inside with x, once. It comes out as a factor 1/r2.",
            lambda r1, r2: 1 / (r2**r1 * (r1 - 1)),
        ),
        Misconception(
            "This is what is inserted, not its value",
            "At the far end it vanishes, and at x = 0 the parenthesis is 1.",
            lambda r1, r2: r2 ** (1 - r1) / (r1 - 1),
        ),
        Misconception(
            "The integral is turned over",
            "Check r1 = 3, r2 = 1: the area under (1 + x)^(−3) is below 1.",
            lambda r1, r2: r2 * (r1 - 1),
        ),
    ),
    properties=(
        Property(
            "Near r1 = 1 it grows without end",
            lambda answer, r1, r2: (
                answer(sp.Rational(1001, 1000), sp.Integer(1)) == 1000
            ),
        ),
    ),
)


# distance-biases-3: buckets of integers


def buckets(t, E, T):
    """The bucket of each distance, an integer array."""
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
`t` holds distances, integers from 0.
The first `E` buckets hold one distance each; bucket $E + k$ begins at the first $t$ with $t \ge E\,(T/E)^{k/E}$, for $k < E$, and the last has no end.
Return the bucket of each distance, an integer array.
A logarithm may be rounded where it is whole; is there a way without one?
""",
    hint=r"""
Raise both sides to the power $E$, and multiply out: $t^E E^k$ and $E^E T^k$ are integers. Python's have no largest one.
""",
    cases=(
        (np.arange(6), 2, 8),
        (_DISTANCES, 16, 128),
        (_DISTANCES, 8, 128),
        (np.arange(70), 3, 64),
        (np.arange(165), 5, 160),
    ),
    solution=buckets,
    misconceptions=(
        Misconception(
            "The logarithmic buckets start again at 0",
            "The first E are taken: count on from E.",
            lambda t, E, T: _by_logarithm(t, E, T, plus=0),
        ),
        Misconception(
            "A whole logarithm is rounded down",
            "Where t is exactly E (T/E)^(k/E), float64 may come out a little less, as "
            "for E = 5 and T = 160. Compare integers.",
            lambda t, E, T: _by_logarithm(t, E, T, room=0.0),
        ),
        Misconception(
            "A whole power is rounded up",
            "E (T/E)^(k/E) may come out a little more than the whole number that it "
            "is, as for E = 5 and T = 160. Compare integers.",
            lambda t, E, T: _from_starts(
                t, [*range(E), *(E * (T / E) ** (k / E) for k in range(E))]
            ),
        ),
        Misconception(
            "These integers are too large for an array",
            "NumPy's end below 2^63 and go on from the other end, without a word. "
            "Python's do not: compare one distance at a time.",
            lambda t, E, T: np.where(
                t < E, t, E + sum(t**E * E**k >= E**E * T**k for k in range(1, E))
            ),
        ),
        Misconception(
            "A bucket is left out",
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
            "There is a bucket too many",
            "From 0 on there are 2E buckets, so the last one is 2E − 1.",
            lambda t, E, T: _by_logarithm(t, E, T, last=2 * E),
        ),
        Misconception(
            "The last bucket has an end",
            "Distances of T and more share the last bucket; more buckets there are "
            "none.",
            lambda t, E, T: _by_logarithm(t, E, T, last=10**6),
        ),
        Misconception(
            "The logarithm is of t, not of t/E",
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
            "The second half is linear",
            "Buckets of equal width; T5's grow by a factor each.",
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
            "The exponent is k, not k/E",
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
            "All distances are on the logarithmic scale",
            "The first E have a bucket each.",
            lambda t, E, T: np.minimum(
                2 * E - 1, (2 * E * np.log1p(t) / np.log1p(T)).astype(int)
            ),
        ),
    ),
    properties=(
        Property(
            "Farther is never in an earlier bucket",
            lambda answer, t, E, T: bool((np.diff(answer(t, E, T)) >= 0).all()),
        ),
    ),
    tolerance=0.0,
)


# distance-biases-4: the authors' slopes


def slopes(heads):
    """The slopes of the heads, an array."""
    power = 2 ** int(np.log2(heads))
    own = 2.0 ** (-8 * np.arange(1, power + 1) / power)
    finer = 2.0 ** (-8 * np.arange(1, 2 * power + 1) / (2 * power))
    return np.append(own, finer[::2][: heads - power])


def _powers(heads):
    return 2.0 ** (-8 * np.arange(1, heads + 1) / heads)


def _with(own, more):
    """The slopes of the lower power, and what is put behind them."""

    def answer(heads):
        power = 2 ** int(np.log2(heads))
        return np.append(own(power), more(power)[: heads - power])

    return answer


SLOPES = Exercise(
    name="distance-biases-4",
    title="Slopes for any number of heads",
    kind="NumPy",
    minutes=10,
    lines=4,
    statement=r"""
For $H$ a power of two, head $h = 1, \dots, H$ has the slope $2^{-8h/H}$.
For other numbers the authors of ALiBi take the slopes of the next lower power of two $H'$, and behind them, from the first on, every other one of those of $2H'$, until there are enough.
Return the slopes of `heads` heads.
Which new slopes come in for 12 heads: steep ones or flat ones?
""",
    hint=r"""
`[::2]` takes every other, the first included.
""",
    cases=((1,), (8,), (12,), (6,), (16,), (71,)),
    solution=slopes,
    misconceptions=(
        Misconception(
            "The closed formula for every number",
            "For powers of two it is right. Models with 12 heads were trained with the "
            "two lists.",
            _powers,
        ),
        Misconception(
            "The slopes are in reverse order",
            "The first head is the steepest.",
            lambda heads: slopes(heads)[::-1].copy(),
        ),
        Misconception(
            "n is the head, not the number of heads",
            "2^(−8/n) has the same ends and another order. n is the number of heads.",
            lambda heads: 2.0 ** (-8 / np.arange(1, heads + 1)),
        ),
        Misconception(
            "Every other slope, from the second on",
            "Those of 2H′ with an even number are those of H′: they are there already.",
            _with(_powers, lambda power: _powers(2 * power)[1::2]),
        ),
        Misconception(
            "Not every other",
            "The first of 2H′ in a row contain some of H′ again.",
            _with(_powers, lambda power: _powers(2 * power)),
        ),
        Misconception(
            "The closed formula, from h = 0 on",
            "h counts from 1, and the formula is for powers of two.",
            lambda heads: 2.0 ** (-8 * np.arange(heads) / heads),
        ),
        Misconception(
            "The first slope is 1",
            "h counts from 1: the first slope is the ratio itself.",
            lambda heads: slopes(heads) * 2.0 ** (8 / 2 ** int(np.log2(heads))),
        ),
        Misconception(
            "The slopes are sorted",
            "The new ones stand behind the others, and which head has which slope is "
            "part of a trained model.",
            lambda heads: np.sort(slopes(heads))[::-1].copy(),
        ),
        Misconception(
            "The next higher power of two, cut off",
            "The lower power comes first, complete.",
            lambda heads: _powers(2 ** int(np.ceil(np.log2(heads))))[:heads],
        ),
        Misconception(
            "The slopes of 8 heads, for any number",
            "2^(−h) is right for 8 heads only.",
            lambda heads: 2.0 ** -np.arange(1.0, heads + 1),
        ),
        Misconception(
            "The new slopes come from the flat end",
            "Every other one *from the first on*: the first is the steepest.",
            _with(_powers, lambda power: _powers(2 * power)[::2][::-1]),
        ),
        Misconception(
            "These are exponents",
            "The slope is 2 to this power.",
            lambda heads: np.log2(slopes(heads)),
        ),
        Misconception(
            "The slopes are negative",
            "The slope is positive; the bias is minus slope times distance.",
            lambda heads: -slopes(heads),
        ),
    ),
    properties=(
        Property(
            "Twelve heads contain the eight",
            lambda answer, heads: bool(np.allclose(answer(12)[:8], answer(8))),
        ),
    ),
)


# distance-biases-5: one row


def from_row(row):
    """The matrix ``[tokens, tokens]`` of the numbers by offset."""
    tokens = (len(row) + 1) // 2
    i, j = np.indices((tokens, tokens))
    return row[tokens - 1 - (i - j)]


def _looked_up(index):
    """The matrix whose entries are found at ``index(i, j, tokens)``."""

    def answer(row):
        tokens = (len(row) + 1) // 2
        i, j = np.indices((tokens, tokens))
        return row[index(i, j, tokens) % len(row)]

    return answer


ROW = Exercise(
    name="distance-biases-5",
    title="One row",
    kind="NumPy",
    minutes=10,
    lines=3,
    statement=r"""
A bias of the offset alone is stored as $2L - 1$ numbers: those of the offsets $L - 1, \dots, 1, 0, -1, \dots, 1 - L$, in this order.
Return the matrix `[tokens, tokens]`, whose entry $(i, j)$ is the number of the offset $i - j$.
""",
    hint=r"""
At which place of the row does the offset 0 stand? And the offset 1?
""",
    cases=((draw(1),), (draw(5),), (np.arange(7.0),), (draw(31),)),
    solution=from_row,
    misconceptions=(
        Misconception(
            "Offsets are j − i",
            "Row i of the matrix is query i: below the diagonal the offset i − j is "
            "positive, and those numbers come first.",
            _looked_up(lambda i, j, n: n - 1 + i - j),
        ),
        Misconception(
            "The place of the offset 0 is not the first",
            "It stands in the middle, behind the L − 1 positive ones.",
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
            "A bias of the distance",
            "The two directions have numbers of their own here.",
            _looked_up(lambda i, j, n: n - 1 - abs(i - j)),
        ),
        Misconception(
            "Every row is the same",
            "The window moves by one from row to row.",
            _looked_up(lambda i, j, n: n - 1 + j),
        ),
        Misconception(
            "A bias of the sum",
            "i + j is constant along the other diagonals.",
            _looked_up(lambda i, j, n: i + j),
        ),
        Misconception(
            "The rows are read newest first",
            "Row 0 is the oldest query, for which no key is older.",
            _looked_up(lambda i, j, n: i[::-1] + 0 * j + n - 1 - j),
        ),
        Misconception(
            "Later keys are hidden",
            "A mask is another thing; here both directions have numbers.",
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
)


# distance-biases-6: the waves of a sandwich


def sandwich(distances, width, heads):
    """The biases ``[heads, distances]``."""
    k = np.arange(1, width // 2 + 1)
    waves = np.cos(distances[:, None] / 10000.0 ** (2 * k / width)).sum(axis=1)
    ratio = 8 * np.arange(1, heads + 1) / heads
    return waves / ratio[:, None]


def _waves(distances, width, heads, *, k=None, wave=np.cos, exponent=2, ratio=None):
    k = np.arange(1, width // 2 + 1) if k is None else k
    total_ = wave(distances[:, None] / 10000.0 ** (exponent * k / width)).sum(axis=1)
    ratio = 8 * np.arange(1, heads + 1) / heads if ratio is None else ratio
    return total_ / ratio[:, None]


SANDWICH = Exercise(
    name="distance-biases-6",
    title="The waves of a sandwich",
    kind="NumPy",
    minutes=10,
    lines=4,
    statement=r"""
Return Sandwich's bias $\frac{H}{8h} \sum_{k=1}^{\bar d/2} \cos \bigl( t / 10000^{2k/\bar d} \bigr)$ for the `distances` $t$ and each of $H$ = `heads` heads, `[heads, distances]`; $\bar d$ is `width`.
Which head looks farthest?
""",
    hint=r"""
One sum serves all heads.
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
            "k counts from 0",
            "So sinusoidal tables do. In this formula the fastest wave is k = 1.",
            lambda t, width, heads: _waves(t, width, heads, k=np.arange(width // 2)),
        ),
        Misconception(
            "The cosines are missing",
            "A sum of angles is a straight line, as ALiBi's, and rises.",
            lambda t, width, heads: _waves(t, width, heads, wave=lambda z: z),
        ),
        Misconception(
            "These are sines",
            "At distance 0 the bias is largest: all cosines are 1 there.",
            lambda t, width, heads: _waves(t, width, heads, wave=np.sin),
        ),
        Misconception(
            "The exponent is k over the width",
            "2k over the width, so that the last wave has the frequency 1/10000.",
            lambda t, width, heads: _waves(t, width, heads, exponent=1),
        ),
        Misconception(
            "As many waves as features",
            "Two features make a wave: the sum ends at half of the width.",
            lambda t, width, heads: _waves(t, width, heads, k=np.arange(1, width + 1)),
        ),
        Misconception(
            "The ratio multiplies",
            "Heads *divide* by 8h/H: the last is the flattest.",
            lambda t, width, heads: _waves(
                t, width, heads, ratio=heads / (8 * np.arange(1.0, heads + 1))
            ),
        ),
        Misconception(
            "8h stands beside the fraction, not below it",
            "heads / 8 * h is (H/8) h: the last head is the flattest.",
            lambda t, width, heads: _waves(
                t, width, heads, ratio=8 / heads / np.arange(1.0, heads + 1)
            ),
        ),
        Misconception(
            "The last wave is missing",
            "k runs to half of the width, and that is included.",
            lambda t, width, heads: _waves(t, width, heads, k=np.arange(1, width // 2)),
        ),
        Misconception(
            "All heads alike",
            "Each head divides by a ratio of its own.",
            lambda t, width, heads: _waves(t, width, heads, ratio=np.full(heads, 8.0)),
        ),
        Misconception(
            "The ratio is h",
            "8h/H; that is h for 8 heads only.",
            lambda t, width, heads: _waves(
                t, width, heads, ratio=np.arange(1.0, heads + 1)
            ),
        ),
        Misconception(
            "The heads are in reverse order",
            "The first head is the steepest.",
            lambda t, width, heads: sandwich(t, width, heads)[::-1].copy(),
        ),
        Misconception(
            "Half of the width is subtracted",
            "A softmax can't tell, and one library does it. The formula does not.",
            lambda t, width, heads: (
                sandwich(t, width, heads) - sandwich(0 * t, width, heads)
            ),
        ),
        Misconception(
            "The slopes of ALiBi",
            "Sandwich's heads divide by 8h/H; 2^(−8h/H) are slopes of a line.",
            lambda t, width, heads: _waves(
                t, width, heads, ratio=2.0 ** (8 * np.arange(1, heads + 1) / heads)
            ),
        ),
        Misconception(
            "The mean of the waves",
            "Their sum.",
            lambda t, width, heads: sandwich(t, width, heads) / (width // 2),
        ),
        Misconception(
            "Frequencies grow",
            "The distance is divided by the power: waves get slower with k.",
            lambda t, width, heads: _waves(t, width, heads, exponent=-2),
        ),
    ),
)


# distance-biases-7: KERPLE's logits


def kerple(q, k, r1, r2, scaling):
    """The logits ``[heads, tokens, tokens]``, a tensor."""
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
    """Logits with a bias of distance, r1 and r2, by either scaling."""

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
    title="Inside the root or outside",
    kind="PyTorch",
    minutes=12,
    lines=6,
    statement=r"""
`q` and `k` are `[heads, tokens, d]`, `r1` and `r2` are `[heads]`.
Return the logits `[heads, tokens, tokens]` with KERPLE's bias $-r_1 \log(1 + r_2 |i - j|)$.
With `scaling="paper"` products and bias are divided by $\sqrt d$, with `"code"` the products alone.
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
            "The two conventions are exchanged",
            "Paper: all inside the division. Code: the bias outside.",
            lambda q, k, r1, r2, scaling: kerple(
                q, k, r1, r2, {"paper": "code", "code": "paper"}[scaling]
            ),
        ),
        Misconception(
            "Always as the code",
            "With the paper's convention the bias is divided by √d, too.",
            lambda q, k, r1, r2, scaling: kerple(q, k, r1, r2, "code"),
        ),
        Misconception(
            "Always as the paper",
            "With the code's convention the bias is not divided.",
            lambda q, k, r1, r2, scaling: kerple(q, k, r1, r2, "paper"),
        ),
        Misconception(
            "The bias is added, not subtracted",
            "Far keys are to lose: r1 is positive, and a minus stands before it.",
            _kerple(lambda t, r1, r2: r1 * torch.log(1 + r2 * t)),
        ),
        Misconception(
            "The distance has a sign",
            "|i − j|: above the diagonal the logarithm would be of what may be "
            "negative.",
            lambda q, k, r1, r2, scaling: _kerple(
                lambda t, r1, r2: -r1 * torch.log(1 + r2 * t.tril())
            )(q, k, r1, r2, scaling),
        ),
        Misconception(
            "r2 is outside the logarithm",
            "It multiplies the distance. Outside, it could be merged with r1.",
            _kerple(lambda t, r1, r2: -r1 * r2 * torch.log(1 + t)),
        ),
        Misconception(
            "r1 and r2 are exchanged",
            "r1 stands before the logarithm, r2 before the distance.",
            _kerple(lambda t, r1, r2: -r2 * torch.log(1 + r1 * t)),
        ),
        Misconception(
            "The power",
            "−r1 t^r2 is KERPLE's other form.",
            _kerple(lambda t, r1, r2: -r1 * t**r2),
        ),
        Misconception(
            "A line",
            "This is ALiBi with the slope r1 r2, which the logarithm resembles at its "
            "beginning only.",
            _kerple(lambda t, r1, r2: -r1 * r2 * t),
        ),
        Misconception(
            "Another base",
            "The natural logarithm.",
            _kerple(lambda t, r1, r2: -r1 * torch.log2(1 + r2 * t)),
        ),
        Misconception(
            "r2 multiplies the 1, too",
            "1 + r2 t, so that distance 0 has the bias 0; this has −r1 log(r2 + r2 t).",
            _kerple(lambda t, r1, r2: -r1 * torch.log(r2 * (1 + t))),
        ),
        Misconception(
            "The products are not divided",
            "Both conventions divide them by √d.",
            lambda q, k, r1, r2, scaling: kerple(
                q * q.shape[2] ** 0.5, k, r1, r2, scaling
            ),
        ),
        Misconception(
            "Later keys are hidden",
            "A mask is another thing; here both directions have a bias.",
            lambda q, k, r1, r2, scaling: kerple(q, k, r1, r2, scaling).masked_fill(
                torch.ones(q.shape[1], q.shape[1], dtype=torch.bool).triu(1), -torch.inf
            ),
        ),
        Misconception(
            "The products are divided by d",
            "By its root.",
            lambda q, k, r1, r2, scaling: kerple(
                q / q.shape[2] ** 0.5, k, r1, r2, scaling
            ),
        ),
        Misconception(
            "The distance counts from 1",
            "A token's own key is at distance 0.",
            _kerple(lambda t, r1, r2: -r1 * torch.log(1 + r2 * (t + 1))),
        ),
        Misconception(
            "The bias alone",
            "Add the products.",
            lambda q, k, r1, r2, scaling: kerple(0 * q, k, r1, r2, scaling),
        ),
        Misconception(
            "Queries and keys are exchanged",
            "Row i is query i.",
            lambda q, k, r1, r2, scaling: kerple(k, q, r1, r2, scaling),
        ),
    ),
    properties=(
        Property(
            "A token's own key gets no bias",
            lambda answer, q, k, r1, r2, scaling: bool(
                torch.allclose(
                    answer(q, k, r1, r2, scaling).diagonal(dim1=1, dim2=2),
                    (q * k).sum(-1) / q.shape[2] ** 0.5,
                )
            ),
        ),
    ),
)


# distance-biases-8: when the near keys lose


def until_lost(bias, near):
    """How many keys it takes, an int; 0 if these are too few."""
    weights = np.exp(bias)
    share = weights[:near].sum() / weights.cumsum()
    lost = np.flatnonzero(share[near:] < 0.5)
    return int(near + lost[0] + 1) if lost.size else 0


def _count(bias, near, share):
    """The first number of keys beyond the near ones whose share is below a half."""
    lost = np.flatnonzero(share[near:] < 0.5)
    return int(near + lost[0] + 1) if lost.size else 0


_LONG = np.arange(4000.0)

LOST = Exercise(
    name="distance-biases-8",
    title="When the near keys lose",
    kind="experiment",
    minutes=15,
    lines=4,
    statement=r"""
`bias[t]` is added to the logit of a key at distance $t$; contents are equal.
How many keys must there be until the nearest `near` of them, the query's own included, have less than half of the weight *together*?
Return that number as an `int`, and 0 if `len(bias)` keys are not enough.
Predict before you run: for 16 near keys and ALiBi with $m = 1/16$? For KERPLE's logarithm with $r_2 = 1$ and $r_1$ = 0.5, 1 and 1.5?
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
            "Counting from 0, place n is the (n + 1)-th key.",
            lambda bias, near: max(until_lost(bias, near) - 1, 0),
        ),
        Misconception(
            "A half is enough",
            "*Less* than half is asked for: with two of four equal keys it is exactly "
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
            "The last number of keys is not tried",
            "len(bias) keys are allowed, too.",
            lambda bias, near: until_lost(bias[:-1], near),
        ),
        Misconception(
            "−1 stands for never",
            "If the keys are not enough, return 0.",
            lambda bias, near: until_lost(bias, near) or -1,
        ),
        Misconception(
            "Single weights are compared",
            "One far key need not outweigh the near ones: all of them together do.",
            lambda bias, near: _count(bias, near, np.exp(bias - bias[0])),
        ),
        Misconception(
            "The bias is not exponentiated",
            "The bias is part of a logit. Weights are exponentials.",
            lambda bias, near: (
                _count(bias, near, bias[:near].sum() / bias.cumsum())
                if (bias != 0).any()
                else 0
            ),
        ),
        Misconception(
            "The far keys are counted, not all of them",
            "How many keys there are in all is asked for.",
            lambda bias, near: max(until_lost(bias, near) - near, 0),
        ),
        Misconception(
            "The length stands for never",
            "If the keys are not enough, return 0.",
            lambda bias, near: until_lost(bias, near) or len(bias),
        ),
        Misconception(
            "One near key too many",
            "The nearest `near` keys, the query's own included: distances 0 to "
            "near − 1.",
            lambda bias, near: _count(
                bias, near, np.exp(bias)[: near + 1].sum() / np.exp(bias).cumsum()
            ),
        ),
        Misconception(
            "The query's own key is left out",
            "Distance 0 is near, too.",
            lambda bias, near: _count(
                bias, near, np.exp(bias)[1:near].sum() / np.exp(bias).cumsum()
            ),
        ),
        Misconception(
            "The near keys are compared with all others of the longest text",
            "The denominator grows with the number of keys; ask at each of them.",
            lambda bias, near: (
                len(bias) if np.exp(bias)[:near].sum() < np.exp(bias).sum() / 2 else 0
            ),
        ),
        Misconception(
            "Twice as many keys always",
            "So it is without a bias. Far keys weigh less here.",
            lambda bias, near: 2 * near + 1,
        ),
        Misconception(
            "The sign of the bias is lost",
            "A negative bias makes a far key weigh less.",
            lambda bias, near: until_lost(-bias, near),
        ),
    ),
    properties=(
        Property(
            "ALiBi's near keys never lose",
            lambda answer, bias, near: answer(-np.arange(2000.0) / 16, 16) == 0,
        ),
    ),
    tolerance=0.0,
)


SHEET = Sheet(
    title="Biases of distance",
    conventions=r"""
Everywhere $i$ is the query and $j$ the key, counted from 0; $t = |i - j|$ is their distance, $m$ a slope of ALiBi, $r_1$ and $r_2$ are KERPLE's numbers. A bias is added to the logits before the softmax.
""",
    exercises=(FAR, TOTAL, BUCKETS, SLOPES, ROW, SANDWICH, KERPLE, LOST),
)
