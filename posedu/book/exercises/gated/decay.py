"""Exercises on decay as position: what ALiBi, FoX, CoPE and stick-breaking share."""

import warnings

import numpy as np
import sympy as sp
import torch
from torch.nn.attention.flex_attention import flex_attention

from posedu.book.exercises.records import (
    Exercise,
    Hunt,
    Misconception,
    Prediction,
    Property,
    Sheet,
    draw,
)
from posedu.numpy.attention import softmax
from posedu.numpy.gated.cope import contextual_positions
from posedu.numpy.gated.fox import forget_bias
from posedu.numpy.stickbreaking import break_stick

# FlexAttention warns that it is slow without compilation, which does not matter here.
warnings.filterwarnings("ignore", "flex_attention called without")

# decay-1: a gate for a slope


def gate_of_slope(m):
    """Logit b of a FoX gate σ(b) = e^(−m), and the tokens until half the past is lost.

    ``m`` is the slope of an equivalent ALiBi head. The logit and the number of tokens
    are SymPy expressions.
    """
    return -sp.log(sp.exp(m) - 1), sp.log(2) / m


GATE = Exercise(
    name="decay-1",
    title="A gate for an ALiBi slope",
    kind="by hand",
    minutes=6,
    lines=1,
    statement=r"""
A head of FoX has the same gate $f = \sigma(b)$ at every token.
Which $b$ makes it ALiBi of slope $m$, that is $f = e^{-m}$?
After how many tokens $t$ is half of the past forgotten, $f^t = \frac12$?
Return both, $(b, t)$, exactly: `m` is a SymPy number.
""",
    hint=r"""
$1/f = 1 + e^{-b}$; and $\log f = -m$.
""",
    cases=tuple((sp.log(x),) for x in (2, 3, sp.Rational(5, 4))),
    solution=gate_of_slope,
    misconceptions=(
        Misconception(
            "Logit taken for the logarithm of the gate",
            "Your log f = −m is right, but the gate is σ(b), not e^b.",
            lambda m: (-m, gate_of_slope(m)[1]),
        ),
        Misconception(
            "1 − e^(−m) in place of the gate",
            "A gate f keeps the share f of the past. Your b loses e^(−m) and keeps "
            "the rest: what is σ(−b)?",
            lambda m: (sp.log(sp.exp(m) - 1), gate_of_slope(m)[1]),
        ),
        Misconception(
            "One of the signs lost",
            "The odds of f are f over 1 − f. Solve 1 + e^(−b) = e^m: the 1 goes to "
            "the other side.",
            lambda m: (-sp.log(sp.exp(m) + 1), gate_of_slope(m)[1]),
        ),
        Misconception(
            "Time scale in place of the half-life",
            "After 1/m tokens the share 1/e is left. When is a half left?",
            lambda m: (gate_of_slope(m)[0], 1 / m),
        ),
        Misconception(
            "Half-life that grows with the slope",
            "A steeper slope forgets sooner. Solve e^(−m t) = ½ for t.",
            lambda m: (gate_of_slope(m)[0], m / sp.log(2)),
        ),
        Misconception(
            "Gate in place of its logit",
            "e^(−m) is f. What goes into the sigmoid so that f comes out?",
            lambda m: (sp.exp(-m), gate_of_slope(m)[1]),
        ),
        Misconception(
            "Sigmoid applied once more",
            "b goes into the sigmoid, and f comes out. Your answer goes forwards.",
            lambda m: (1 / (1 + sp.exp(m)), gate_of_slope(m)[1]),
        ),
        Misconception(
            "Minus of the exponent lost",
            "f = e^(−m), and 1/f = e^m. With f/1 in its place 1 is subtracted from "
            "too little.",
            lambda m: (-sp.log(sp.exp(-m) - 1), gate_of_slope(m)[1]),
        ),
        Misconception(
            "An approximation for gentle slopes",
            "−log m is the limit for small m. What is e^m − 1 in place of m?",
            lambda m: (-sp.log(m), gate_of_slope(m)[1]),
        ),
        Misconception(
            "Logarithm of the fraction that is lost",
            "A token forgets 1 − e^(−m). The logarithm of that is not yet a logit.",
            lambda m: (sp.log(1 - sp.exp(-m)), gate_of_slope(m)[1]),
        ),
        Misconception(
            "Logit of the slope",
            "The gate is e^(−m), not m. The logit of the gate is asked for.",
            lambda m: (sp.log(m / (1 - m)), gate_of_slope(m)[1]),
        ),
        Misconception(
            "Half-life without the slope",
            "A steeper slope forgets sooner. Solve e^(−m t) = ½ for t.",
            lambda m: (gate_of_slope(m)[0], sp.log(2)),
        ),
        Misconception(
            "Half-life multiplied by the slope",
            "A steeper slope forgets sooner. Solve e^(−m t) = ½ for t.",
            lambda m: (gate_of_slope(m)[0], m * sp.log(2)),
        ),
        Misconception(
            "Negative half-life",
            "log ½ = −log 2, and the exponent has a minus of its own.",
            lambda m: (gate_of_slope(m)[0], -sp.log(2) / m),
        ),
        Misconception(
            "Half-life of a straight line",
            "The past does not fall by the same amount at every token, but by the "
            "same factor.",
            lambda m: (gate_of_slope(m)[0], 1 / (2 * m)),
        ),
        Misconception(
            "Two results exchanged",
            "The logit b comes first, then the number of tokens t.",
            lambda m: gate_of_slope(m)[::-1],
        ),
        Misconception(
            "Minus the logarithm of the fraction that is lost",
            "The logit is log f − log(1 − f): one of the two terms is missing.",
            lambda m: (-sp.log(1 - sp.exp(-m)), gate_of_slope(m)[1]),
        ),
        Misconception(
            "Sigmoid of the slope",
            "b goes into the sigmoid, and e^(−m) comes out. Your answer goes forwards.",
            lambda m: (1 / (1 + sp.exp(-m)), gate_of_slope(m)[1]),
        ),
        Misconception(
            "Logarithm of the slope halved",
            "Solve e^(−m t) = ½ for t. Of which number is the logarithm taken?",
            lambda m: (gate_of_slope(m)[0], sp.log(m) / 2),
        ),
        Misconception(
            "Rounded up to whole tokens",
            "t is asked for exactly, and it need not be whole.",
            lambda m: (gate_of_slope(m)[0], sp.ceiling(gate_of_slope(m)[1])),
        ),
    ),
    properties=(
        Property(
            "The results are exact, without floats",
            lambda answer, m: not sp.Tuple(*answer(m)).has(sp.Float),
        ),
        Property(
            "The gate σ(b) is e^(−m)",
            lambda answer, m: (
                sp.simplify(1 / (1 + sp.exp(-answer(m)[0])) - sp.exp(-m)) == 0
            ),
        ),
        Property(
            "The share left after t tokens, e^(−m t), is ½",
            lambda answer, m: (
                sp.simplify(sp.exp(-m * answer(m)[1]) - sp.Rational(1, 2)) == 0
            ),
        ),
    ),
    explanation=r"""
$\sigma(b) = 1/(1 + e^{-b}) = e^{-m}$ gives $1 + e^{-b} = e^m$, so $b = -\log(e^m - 1)$.
$f^t = e^{-mt} = \tfrac12$ gives $t = \log 2 / m$: half of the past is forgotten after $\log 2/m$ tokens.
{prf:ref}`The theorem on FoX's special cases <thm-fox-alibi>` has the same $b$, and says that no other one has this gate.
For the slope $m = \log 2$ it is $b = 0$ and one token.
""",
)


# decay-2: a stick for a slope


def stick_breaking_slope(m, i):
    """Stick-breaking share β for an ALiBi slope m, and the sum of the weights.

    With the share β at every key the weights fall by e^(−m) per token; the sum is over
    the keys 0 … i − 1 of query i.
    """
    return 1 - sp.exp(-m), 1 - sp.exp(-m * i)


_M = sp.Symbol("m", positive=True)
_I = sp.Symbol("i", positive=True, integer=True)


def _stick(total, beta=lambda m: 1 - sp.exp(-m)):
    return lambda m, i: (beta(m), total(m, i))


STICK = Exercise(
    name="decay-2",
    title="Stick-breaking for an ALiBi slope",
    kind="SymPy",
    minutes=8,
    lines=2,
    statement=r"""
With the same logit at every key, stick-breaking weights fall geometrically with the distance.
Return two SymPy expressions: the share $\beta$ for which the weights fall by $e^{-m}$ per token, as those of ALiBi with slope `m` do, and the sum of the weights of query `i` on the keys $0 … i - 1$ (its own key takes no part).
Both `m` and `i` can be symbols.
Divided by that sum, the weights are softmax of $-m(i - j)$ over these keys.
""",
    hint=r"""
What is left of the stick after one key?
And after all $i$ keys?
""",
    cases=((sp.log(2), 1), (sp.log(2), 3), (_M, 2), (_M, 5), (_M, _I)),
    solution=stick_breaking_slope,
    misconceptions=(
        Misconception(
            "β taken for the part that is left",
            "Each key breaks off β. The part that falls by e^(−m) per token is the "
            "rest of the stick, 1 − β.",
            _stick(lambda m, i: 1 - sp.exp(-m * i), beta=lambda m: sp.exp(-m)),
        ),
        Misconception(
            "Row assumed to sum to 1",
            "A stick that is broken i times has a rest. Softmax has none.",
            _stick(lambda m, i: sp.Integer(1)),
        ),
        Misconception(
            "Rest of the stick in place of the sum",
            "(1 − β)^i is the part that no key gets. What do the keys get together?",
            _stick(lambda m, i: sp.exp(-m * i)),
        ),
        Misconception(
            "One key too many",
            "The query's own key takes no part here: the keys are 0 … i − 1.",
            _stick(lambda m, i: 1 - sp.exp(-m * (i + 1))),
        ),
        Misconception(
            "One key too few",
            "Counting from 0, there are i keys before query i, and the nearest breaks "
            "the whole stick.",
            _stick(lambda m, i: 1 - sp.exp(-m * (i - 1))),
        ),
        Misconception(
            "Softmax's own denominator",
            "Σ e^(−m(i−j)) divides the exponentials. The stick's weights contain the "
            "factor β: add those up.",
            _stick(lambda m, i: sp.exp(-m) * (1 - sp.exp(-m * i)) / (1 - sp.exp(-m))),
        ),
        Misconception(
            "Slope in place of β",
            "−log(1 − β) is about β only for small shares. Here it must be m exactly.",
            _stick(lambda m, i: 1 - (1 - m) ** i, beta=lambda m: m),
        ),
        Misconception(
            "σ of the slope in place of β",
            "β is a share itself, and what it leaves must be e^(−m).",
            _stick(
                lambda m, i: 1 - sp.exp(-m * i), beta=lambda m: 1 / (1 + sp.exp(-m))
            ),
        ),
        Misconception(
            "Minus of the exponent lost",
            "e^m is above 1, so β would be negative.",
            _stick(lambda m, i: 1 - sp.exp(m * i), beta=lambda m: 1 - sp.exp(m)),
        ),
        Misconception(
            "Shares of the whole stick",
            "Each share is of the part that nearer keys have left, so the shares do "
            "not add up to i β.",
            _stick(lambda m, i: i * (1 - sp.exp(-m))),
        ),
        Misconception(
            "Shares multiplied",
            "The parts that are *left* are multiplied: (1 − β)^i.",
            _stick(lambda m, i: (1 - sp.exp(-m)) ** i),
        ),
        Misconception(
            "Rest taken for β^i",
            "After i keys (1 − β)^i is left.",
            _stick(lambda m, i: 1 - (1 - sp.exp(-m)) ** i),
        ),
        Misconception(
            "Weight of the oldest key",
            "It is one term of the sum.",
            _stick(lambda m, i: (1 - sp.exp(-m)) * sp.exp(-m * (i - 1))),
        ),
        Misconception(
            "Slope used once, whatever the number of keys",
            "Each key leaves e^(−m) of the part that it finds.",
            _stick(lambda m, i: 1 - sp.exp(-m)),
        ),
        Misconception(
            "Infinite sum",
            "There are only i keys.",
            _stick(lambda m, i: 1 / (1 - sp.exp(-m))),
        ),
        Misconception(
            "One key too far",
            "The nearest key has the weight β, not β e^(−m).",
            _stick(lambda m, i: sp.exp(-m) * (1 - sp.exp(-m * i))),
        ),
        Misconception(
            "Rest taken for m^i",
            "Each key leaves e^(−m) of the part that it finds.",
            _stick(lambda m, i: 1 - m**i),
        ),
        Misconception(
            "Sigmoid of a slope",
            "σ is for logits. Here β itself is asked for: the part left after a key, "
            "1 − β, must be e^(−m).",
            _stick(
                lambda m, i: 1 - (1 + sp.exp(-m)) ** -i,
                beta=lambda m: 1 / (1 + sp.exp(m)),
            ),
        ),
        Misconception(
            "Two results exchanged",
            "The share β comes first, then the sum of the weights.",
            lambda m, i: stick_breaking_slope(m, i)[::-1],
        ),
        Misconception(
            "Rest multiplied by the number of keys",
            "The part that is left after one key is left once more for each further "
            "key: a power, not a multiple.",
            _stick(lambda m, i: 1 - i * sp.exp(-m)),
        ),
    ),
    properties=(
        Property(
            "With a single key the sum is β",
            lambda answer, m, i: sp.simplify(answer(m, 1)[1] - answer(m, 1)[0]) == 0,
        ),
    ),
    explanation=r"""
After a key with the share $\beta$ the part $1 - \beta$ of the stick is left, so the weights of two neighbors have the ratio $1 - \beta$: set it to $e^{-m}$, and $\beta = 1 - e^{-m}$.
After all $i$ keys $(1 - \beta)^i = e^{-mi}$ is left, so the weights sum to $1 - e^{-mi}$, not to 1.
{prf:ref}`The theorem that constant logits give geometric weights <thm-stick-geometric>` is the same statement for any constant logit.
""",
)


# decay-3: a constant added to all logits


def weight_changes(z, c):
    """Largest change of an attention weight when c is added to all logits z.

    ``z``, [keys], are the logits of one query. The change is a pair of numbers: of
    softmax weights, then of stick-breaking weights.
    """

    def softmax(z):
        return np.exp(z) / np.exp(z).sum()

    def stick(z):
        beta = 1 / (1 + np.exp(-z))
        left = np.cumprod(1 - beta[::-1])[::-1]  # after key j has taken its share
        return beta / (1 - beta) * left

    return tuple(np.abs(w(z + c) - w(z)).max() for w in (softmax, stick))


def _shares(z):
    return 1 / (1 + np.exp(-z))


def _break(z):
    return break_stick(z[None], attend_current=True)[0][0]


def _break_reversed(z):
    return _break(z[::-1])[::-1]


def _weight_changes(soft, stick, size=np.max):
    def answer(z, c):
        return tuple(size(np.abs(w(z + c) - w(z))) for w in (soft, stick))

    return answer


def _stick_with_own_factor(z):
    beta = _shares(z)
    return beta * np.cumprod(1 - beta[::-1])[::-1]


def _stick_with_swapped_shares(z):
    """Wrong stick-breaking weights: each key leaves the part σ(z) of the stick.

    ``z`` are the logits. Right is that a key with the logit z takes the part σ(z).
    """
    return _break(-z)


def _stick_by(products):
    """Make a function of logits that returns wrong stick-breaking weights.

    ``products``, a function of the shares β, replaces the part of the stick that each
    key finds: the product of 1 − β over the keys nearer to the query, which come
    *later* in the array.
    """
    return lambda z: _shares(z) * products(_shares(z))


def _nearer(beta, function, after=1):
    """Return ``function`` of the shares of the keys from ``after`` keys later on."""
    return np.array([function(beta[j + after :]) for j in range(len(beta))])


def _rest_to_the_oldest(z):
    w = _break(z)
    return w + (1 - w.sum()) * (np.arange(len(z)) == 0)


def _relative(w):
    return lambda z, c: float((np.abs(w(z + c) - w(z)) / w(z)).max())


CHANGES = Exercise(
    name="decay-3",
    title="A constant added to all logits",
    kind="experiment",
    minutes=10,
    lines=6,
    statement=r"""
`z` holds a query's logits on its keys, the nearest key *last*.
Compute the weights of the keys twice: by softmax, and by stick-breaking, the nearest key first.
Then add `c` to all logits.
Return two numbers: the largest absolute change of a weight, for softmax and then for stick-breaking.
All logits are small enough for `np.exp`.
Which of the two numbers is 0, and why?
""",
    hint=r"""
A key gets $\beta_j$ times the product of $1 - \beta_l$ over the *later* entries.
`np.cumprod` of the reversed array has these products, with the key's own factor included.
""",
    cases=(
        (np.array([0.0]), 1.0),
        (np.array([1.0, -1.0, 0.5]), 2.0),
        (np.array([0.0, 1.0, -8.0]), 3.0),
        (draw(6), -3.0),
    ),
    solution=weight_changes,
    misconceptions=(
        Misconception(
            "Stick broken from the wrong end",
            "The nearest key is last here and breaks first. Key j gets a share of the "
            "part that *nearer* keys left.",
            _weight_changes(softmax, _break_reversed),
        ),
        Misconception(
            "Stick's weights normalized",
            "The rest of a stick is not divided among the keys. Keep the rest: a "
            "constant changes it, too.",
            _weight_changes(softmax, lambda z: _break(z) / _break(z).sum()),
        ),
        Misconception(
            "Shares of the whole stick",
            "σ(z) is a share of the part that nearer keys left, not of the whole "
            "stick.",
            _weight_changes(softmax, _shares),
        ),
        Misconception(
            "Softmax not divided by its sum",
            "Only the division cancels a constant.",
            _weight_changes(np.exp, _break),
        ),
        Misconception(
            "Logits compared in place of weights",
            "All logits change by c. Do the weights change?",
            lambda z, c: (abs(c), abs(c)),
        ),
        Misconception(
            "Changes added up",
            "The largest change of one weight is asked for.",
            _weight_changes(softmax, _break, size=np.sum),
        ),
        Misconception(
            "A key's own 1 − β in its product",
            "A key breaks the part that *nearer* keys have left.",
            _weight_changes(softmax, _stick_with_own_factor),
        ),
        Misconception(
            "σ and 1 − σ exchanged",
            "A key takes β = σ(z) and leaves 1 − β.",
            _weight_changes(softmax, _stick_with_swapped_shares),
        ),
        Misconception(
            "Two results exchanged",
            "Softmax comes first, then the stick.",
            lambda z, c: weight_changes(z, c)[::-1],
        ),
        Misconception(
            "Changes averaged",
            "The largest change of one weight is asked for.",
            _weight_changes(softmax, _break, size=np.mean),
        ),
        Misconception(
            "Sign of the change kept",
            "A weight that falls changes, too. Take absolute values before the "
            "maximum.",
            lambda z, c: tuple((w(z + c) - w(z)).max() for w in (softmax, _break)),
        ),
        Misconception(
            "Relative changes",
            "The largest difference is asked for, not the largest ratio.",
            lambda z, c: tuple(_relative(w)(z, c) for w in (softmax, _break)),
        ),
        Misconception(
            "Logits multiplied by c",
            "c is added to all logits.",
            lambda z, c: tuple(
                np.abs(w(z * c) - w(z)).max() for w in (softmax, _break)
            ),
        ),
        Misconception(
            "Only the last logit changed",
            "c is added to all logits.",
            lambda z, c: tuple(
                np.abs(w(z + c * (np.arange(len(z)) == len(z) - 1)) - w(z)).max()
                for w in (softmax, _break)
            ),
        ),
        Misconception(
            "Nearest key gets everything that is left",
            "The nearest key breaks the stick first, and it takes the share β.",
            _weight_changes(softmax, lambda z: np.cumprod(1 - _shares(z)[::-1])[::-1]),
        ),
        Misconception(
            "Keys that take everything they find",
            "A key takes the share β of the part that it finds.",
            _weight_changes(softmax, lambda z: _break(z) / _shares(z)),
        ),
        Misconception(
            "Stick broken from the wrong end, with each key's own 1 − β",
            "The nearest key is last here and breaks first, and its own 1 − β is not "
            "in its product.",
            _weight_changes(softmax, lambda z: _shares(z) * np.cumprod(1 - _shares(z))),
        ),
        Misconception(
            "No change of the stick's weights",
            "A constant cancels only if weights are divided by their sum. "
            "Stick-breaking divides by no sum: its shares are σ(z), not softmax's.",
            _weight_changes(softmax, softmax),
        ),
        Misconception(
            "Stick-breaking for both",
            "The first number is about softmax's weights.",
            _weight_changes(_break, _break),
        ),
        Misconception(
            "β multiplied in place of 1 − β",
            "A nearer key takes β and *leaves* 1 − β.",
            _weight_changes(softmax, _stick_by(lambda beta: _nearer(beta, np.prod))),
        ),
        Misconception(
            "1 − β added up",
            "What nearer keys leave is a product: each leaves a part of the part "
            "that it finds.",
            _weight_changes(softmax, _stick_by(lambda beta: _nearer(1 - beta, np.sum))),
        ),
        Misconception(
            "Last product moved to the front",
            "`np.roll` gives the nearest key the product over all keys. It finds the "
            "whole stick: its product has no factor.",
            _weight_changes(
                softmax,
                _stick_by(lambda beta: np.roll(np.cumprod(1 - beta[::-1]), 1)[::-1]),
            ),
        ),
        Misconception(
            "One factor too few",
            "All keys nearer than key j are in its product, its neighbor included.",
            _weight_changes(
                softmax, _stick_by(lambda beta: _nearer(1 - beta, np.prod, after=2))
            ),
        ),
        Misconception(
            "Rest given to the oldest key",
            "The oldest key takes its share, too. What it leaves belongs to no key.",
            _weight_changes(softmax, _rest_to_the_oldest),
        ),
        Misconception(
            "Denominator without c",
            "The constant is added to all logits, those in the sum included.",
            lambda z, c: (
                np.abs(np.exp(z + c) / np.exp(z).sum() - softmax(z)).max(),
                weight_changes(z, c)[1],
            ),
        ),
        Misconception(
            "Changes of the logarithms",
            "The weights' own changes are asked for, not those of their logarithms.",
            lambda z, c: tuple(
                np.abs(np.log(w(z + c) / w(z))).max() for w in (softmax, _break)
            ),
        ),
        Misconception(
            "Change of the sum",
            "In a sum of weights, changes of opposite signs cancel. Look at each "
            "weight.",
            lambda z, c: tuple(
                abs(w(z + c).sum() - w(z).sum()) for w in (softmax, _break)
            ),
        ),
        Misconception(
            "Change of the largest weight",
            "The weight that changes most need not be the largest, and another one "
            "may be the largest after the change.",
            lambda z, c: tuple(
                abs(w(z + c).max() - w(z).max()) for w in (softmax, _break)
            ),
        ),
        Misconception(
            "Root mean square of the changes",
            "The largest change of one weight is asked for.",
            _weight_changes(softmax, _break, size=lambda x: np.sqrt(np.mean(x**2))),
        ),
    ),
    properties=(
        Property(
            "Adding c = 0 changes no weight",
            lambda answer, z, c: np.allclose(answer(z, 0.0), 0),
        ),
    ),
    explanation=r"""
The softmax's is 0, up to rounding: the factor $e^c$ is in every exponential and in their sum, and cancels.
Stick-breaking has no such sum: a larger logit makes every key break off a larger share, so weight moves to the nearest keys, and the remainder shrinks.
A single key with the logit 0 has the weight ½ before and $\sigma(c)$ after.
So the absolute size of stick-breaking's logits has a meaning, how much of the stick is used, that a softmax does not have.
""",
    prediction=Prediction(
        "A query has a single key, with the logit 0, and $c = 1$. By how much does the key's stick-breaking weight change?",
        lambda: float(weight_changes(np.array([0.0]), 1.0)[1]),
        near=0.1,
    ),
)


# decay-4: Toeplitz or not


def is_toeplitz(a):
    """Return whether the entries a[i, j], j ≤ i, depend on i − j alone, up to 1e-9.

    ``a`` is a square array, such as a head's attention biases by query i and key j.
    """
    diagonals = [np.diagonal(a, -offset) for offset in range(len(a))]
    return all(bool(np.ptp(x) <= 1e-9) for x in diagonals)


def _same(a, key):
    """Return whether all entries a[i, j], j ≤ i, with equal ``key(i, j)`` are equal.

    ``a`` is a square array. Differences up to 1e-9 do not count.
    """
    groups = {}
    for i in range(len(a)):
        for j in range(i + 1):
            groups.setdefault(key(i, j), []).append(a[i, j])
    return all(bool(np.ptp(x) <= 1e-9) for x in groups.values())


def _everywhere(a):
    return is_toeplitz(a) and is_toeplitz(a.T)


def _attention(bias):
    return softmax(bias, np.tri(len(bias), dtype=bool))


_line = forget_bias(np.full(6, -0.1))  # ALiBi of slope 0.1, as a sum of equal gates
_other = draw(6, 6)
# Pairs of equal numbers that rounding to 6, 7 or 8 decimals separates
_near = np.add.outer(3e-10 * (-1.0) ** np.arange(4), np.zeros(4)) * np.tri(4)
_near += sum(np.diag(np.full(4 - t, 5 * 10.0 ** (-7 - t)), -t) for t in range(3))


def _on_diagonals(a, offsets):
    return all(bool(np.ptp(np.diagonal(a, -t)) <= 1e-9) for t in offsets)


def _diagonals_with(condition):
    """Make a wrong answer (a function) to the exercise ``is_toeplitz``.

    The exercise asks whether all entries of each diagonal of the causal triangle are
    equal. In the wrong answer each diagonal x has to satisfy ``condition(x)``.
    """
    return lambda a: all(bool(condition(np.diagonal(a, -t))) for t in range(len(a)))


def _rounded_to(*decimals):
    """Return a condition: rounding to any of ``decimals`` leaves one distinct number."""
    return lambda x: all(len(np.unique(np.round(x, n))) == 1 for n in decimals)


_ARRAYS = (
    np.array([[1.0, 0.0], [2.0, 1.0]]),
    np.array([[1.0, 0.0], [2.0, 3.0]]),
    np.array([[1.0, 2.0], [2.0, 1.0]]),
    np.array([[1.0, 0.0], [1.0, 0.0]]),
    np.tri(2),
    np.array([[1.0, 7.0, 8.0], [2.0, 1.0, 9.0], [3.0, 2.0, 1.0]]),
    np.diag([0.0, 1.0, 0.0]),
    np.diag([0.0, 0.0, 1.0]),
    np.diag([1.0, 0.0, 0.0]),
    np.diag([0.0, 1.0, -1.0]),
    np.diag([1.0, 1 + 4e-6, 1.0]),
    np.diag([0.0, 1.1e-6]),
    np.diag([0.0, 1e-9]),
    _near,
    np.where(np.tri(4, dtype=bool), _line[:4, :4], -np.inf),
    np.tri(4) + np.diag([2.0, 3.0], -2),
    np.diag([0.0, 1.0, 0.0, 1.0, 0.0]),
    np.tri(9) + np.diag([2.0, 3.0], -7),
    np.add.outer(np.arange(3.0), np.arange(3.0)),
    _line,
    np.broadcast_to(0.1 * np.arange(6), (6, 6)),  # ALiBi as a bias of the key
    np.broadcast_to(-0.1 * np.arange(6)[:, None], (6, 6)),  # ALiBi's part of the query
    _attention(_line),
    break_stick(np.zeros((6, 6)), attend_current=False)[0],
    forget_bias(-np.abs(_other[0])),
    contextual_positions(np.full((6, 6), 40.0), largest=3),
    contextual_positions(_other, largest=3),
)

TOEPLITZ = Exercise(
    name="decay-4",
    title="Toeplitz or not",
    kind="NumPy",
    minutes=8,
    lines=2,
    statement=r"""
Decide whether `a[i, j]` depends on $i - j$ alone for $j \le i$, that is whether the causal triangle is Toeplitz.
Entries above the diagonal are masked and do not count.
Numbers that differ by at most 1e-9 are equal, and all others differ by more than 1e-6.
Return `True` or `False`.
The check tries biases and weights of the chapter, too.
The last eight arrays that it tries are: ALiBi's bias; its two parts, $m j$ of the key and $-m i$ of the query; ALiBi's softmax weights; stick-breaking with equal logits; FoX with different gates at all tokens; CoPE's positions with all gates open, and with other gates.
Which of them depend on the offset alone?
""",
    hint=r"""
`np.diagonal(a, -offset)` and `np.ptp`.
""",
    cases=tuple((a,) for a in _ARRAYS),
    solution=is_toeplitz,
    misconceptions=(
        Misconception(
            "Entries above the diagonal compared",
            "Entries above the diagonal are masked, so they need not be constant.",
            _everywhere,
        ),
        Misconception(
            "Only the main diagonal compared",
            "All offsets count, not just 0.",
            lambda a: bool(np.ptp(np.diagonal(a)) <= 1e-9),
        ),
        Misconception(
            "Only two diagonals compared",
            "The diagonals of the offsets 0 and 1 say nothing of the others.",
            lambda a: all(bool(np.ptp(np.diagonal(a, -t)) <= 1e-9) for t in (0, 1)),
        ),
        Misconception(
            "Diagonals in the wrong direction",
            "i + j is constant along your diagonals. The offset is i − j.",
            lambda a: _same(a, lambda i, j: i + j),
        ),
        Misconception(
            "Columns compared",
            "A matrix that is constant along columns depends on the key alone, not on "
            "the offset.",
            lambda a: _same(a, lambda i, j: j),
        ),
        Misconception(
            "Rows compared",
            "A matrix that is constant along rows depends on the query alone, and "
            "softmax ignores it.",
            lambda a: _same(a, lambda i, j: i),
        ),
        Misconception(
            "A constant for each row ignored",
            "Softmax ignores it, so two biases may give the same weights though only "
            "one of them is Toeplitz. Look at the matrix itself.",
            lambda a: is_toeplitz(a - np.diagonal(a)[:, None]),
        ),
        Misconception(
            "Rounding taken for a difference",
            "Sums of equal gates differ in their last bit. Compare up to 1e-9.",
            lambda a: all(
                bool(np.ptp(np.diagonal(a, -offset)) == 0) for offset in range(len(a))
            ),
        ),
        Misconception(
            "Main diagonal left out",
            "Offset 0 counts as well.",
            lambda a: _on_diagonals(a, range(1, len(a))),
        ),
        Misconception(
            "Diagonals above the main one",
            "They are masked. `np.diagonal(a, offset)` takes a diagonal above the "
            "main one for a positive offset.",
            lambda a: _on_diagonals(a, range(0, -len(a), -1)),
        ),
        Misconception(
            "Rows of the lower triangle compared without moving a column",
            "The next entry of a diagonal is one row down and one column to the right. "
            "You compare the same column, with the zeros above the diagonal.",
            lambda a: bool(np.allclose(np.tril(a)[1:], np.tril(a)[:-1])),
        ),
        Misconception(
            "Whole matrix constant",
            "Different offsets may have different values.",
            lambda a: bool(np.ptp(a[np.tril_indices(len(a))]) <= 1e-9),
        ),
        Misconception(
            "Symmetry tested",
            "Symmetry, a[i, j] = a[j, i], is another property, and it uses masked "
            "entries.",
            lambda a: bool(np.allclose(a, a.T, rtol=0, atol=1e-9)),
        ),
        Misconception(
            "A relative tolerance besides the absolute one",
            "`np.allclose` adds 1e-5 of the numbers' size to its atol, "
            "unless rtol is 0.",
            lambda a: all(
                np.allclose(np.diagonal(a, -t), a[t, 0], rtol=1e-5, atol=1e-9)
                for t in range(len(a))
            ),
        ),
        Misconception(
            "Only the ends of the diagonals compared",
            "Signed differences of neighbors cancel: their sum is the last entry "
            "minus the first, whatever is between.",
            lambda a: all(
                abs(a[-1, len(a) - 1 - t] - a[t, 0]) <= 1e-9 for t in range(len(a))
            ),
        ),
        Misconception(
            "Mask multiplied by the entries",
            "−∞ times 0 is NaN. Do not use entries above the diagonal at all.",
            lambda a: bool(is_toeplitz(a) and np.isfinite(a).all()),
        ),
        Misconception(
            "Only the first two entries of the diagonals compared",
            "A later entry of a diagonal may differ from these two.",
            _diagonals_with(lambda x: np.ptp(x[:2]) <= 1e-9),
        ),
        Misconception(
            "Only the last two entries of the diagonals compared",
            "An earlier entry of a diagonal may differ from these two.",
            _diagonals_with(lambda x: np.ptp(x[-2:]) <= 1e-9),
        ),
        Misconception(
            "Only some entries of the diagonals compared",
            "An entry between those that you compare may differ.",
            _diagonals_with(lambda x: np.ptp(x[[0, len(x) // 2, -1]]) <= 1e-9),
        ),
        Misconception(
            "Only the first few diagonals compared",
            "The offsets go up to n − 1, where n is the number of rows.",
            lambda a: _on_diagonals(a, range(min(4, len(a)))),
        ),
        Misconception(
            "Mean of a diagonal compared with its first entry",
            "Entries above and below the mean cancel in it.",
            _diagonals_with(lambda x: abs(x.mean() - x[0]) <= 1e-9),
        ),
        Misconception(
            "Median of a diagonal compared with its first entry",
            "An entry that differs need not move the median.",
            _diagonals_with(lambda x: abs(np.median(x) - x[0]) <= 1e-9),
        ),
        Misconception(
            "Differences with their sign",
            "A difference of neighbors may be far below 0. Compare its absolute value "
            "with 1e-9.",
            _diagonals_with(lambda x: (np.diff(x) <= 1e-9).all()),
        ),
        Misconception(
            "Differences with their sign, the earlier entry minus the later",
            "A difference of neighbors may be far below 0. Compare its absolute value "
            "with 1e-9.",
            _diagonals_with(lambda x: (np.diff(x) >= -1e-9).all()),
        ),
        Misconception(
            "Standard deviation below 1e-6",
            "A standard deviation is smaller than the largest difference, which the "
            "statement bounds.",
            _diagonals_with(lambda x: np.std(x) < 1e-6),
        ),
        Misconception(
            "A tolerance that is too large",
            "Your answer counts some numbers as equal that differ by more than 1e-6.",
            _diagonals_with(lambda x: np.ptp(x) <= 1e-4),
        ),
        Misconception(
            "A relative tolerance alone",
            "Up to a relative tolerance only 0 itself equals 0. The statement's 1e-9 "
            "is absolute.",
            _diagonals_with(lambda x: (abs(x - x[0]) <= 1e-9 * abs(x[0])).all()),
        ),
        Misconception(
            "Rounded before the comparison",
            "Two numbers that differ by less than 1e-9 may be rounded to different "
            "ones. Compare their difference.",
            _diagonals_with(_rounded_to(6, 7, 8)),
        ),
        Misconception(
            "Rounded to nine decimals before the comparison",
            "Two numbers that differ by less than 1e-9 may be rounded to different "
            "ones. Compare their difference.",
            _diagonals_with(_rounded_to(9)),
        ),
        Misconception(
            "Rows compared after a cyclic shift",
            "A cyclic shift moves an entry from the end of a row to its front, and "
            "this entry is no neighbor along a diagonal.",
            lambda a: bool(np.allclose(a[1:], np.roll(a[:-1], 1, 1), 0, 1e-9)),
        ),
        Misconception(
            "Antidiagonals of the whole matrix",
            "i + j is constant along your diagonals. The offset is i − j, and entries "
            "above the diagonal are masked.",
            lambda a: all(
                bool(np.ptp(np.diagonal(a[:, ::-1], t)) <= 1e-9)
                for t in range(1 - len(a), len(a))
            ),
        ),
        Misconception(
            "Whole matrix compared with itself, moved by one row and column",
            "Entries above the diagonal are masked, so they need not be constant.",
            lambda a: bool(np.allclose(a[1:, 1:], a[:-1, :-1], 0, 1e-9)),
        ),
    ),
    explanation=r"""
Three of the eight: ALiBi's bias, stick-breaking with equal logits, and CoPE's positions with all gates open.
ALiBi's two parts each depend on one index, and only their sum is a function of $i - j$; {prf:ref}`only a straight line splits in this way <thm-decay-line>`.
ALiBi's softmax weights are not Toeplitz: each row has a sum of its own, over more keys in later rows.
FoX with different gates and CoPE with other gates depend on the tokens between key and query, which is what they are for.
""",
    prediction=Prediction(
        "Of the eight arrays named at the end, how many depend on $i - j$ alone?",
        lambda: sum(is_toeplitz(a) for a in _ARRAYS[-8:]),
    ),
)


# decay-5: FoX in a line of FlexAttention


def fox(q, k, v, log_gates):
    """Attention outputs of FoX ``[batch, heads, n, d]``, by FlexAttention.

    ``q``, ``k`` and ``v`` have the shape of the outputs; ``log_gates``, ``[batch,
    heads, n]``, are the logarithms of the forget gates.
    """
    c = log_gates.cumsum(-1)
    return flex_attention(
        q,
        k,
        v,
        lambda s, b, h, i, j: (s + c[b, h, i] - c[b, h, j]).where(j <= i, -torch.inf),
    )


def _with_bias(bias, is_causal=True):
    """Make a wrong answer (a function) to the exercise ``fox``.

    The exercise asks for FoX's attention outputs. In the wrong answer,
    ``bias(log_gates, d)`` is added to the logits q · k/√d in place of FoX's bias, sums
    of log gates. Without ``is_causal`` queries also see later keys.
    """

    def answer(q, k, v, log_gates):
        d = q.shape[-1]
        logits = q @ k.mT / d**0.5 + bias(log_gates, d)
        if is_causal:
            future = torch.ones_like(logits, dtype=torch.bool).triu(1)
            logits = logits.masked_fill(future, -torch.inf)
        return logits.softmax(-1) @ v

    return answer


def _forget(log_gates):
    c = log_gates.cumsum(-1)
    return c[..., :, None] - c[..., None, :]


def _fox_case(batch, heads, n, d):
    q, k, v = torch.tensor(draw(3, batch, heads, n, d))
    logits = torch.tensor(draw(batch, heads, n))
    return q, k, v, torch.nn.functional.logsigmoid(logits)


def _far_apart():
    """Return arguments with scores below −10⁵ in one row and above 10⁵ in another."""
    _, _, v, log_gates = _fox_case(1, 1, 2, 2)
    k = torch.full_like(v, 300.0)
    return k * torch.tensor([[-1.0], [1.0]]), k, v, log_gates


def _closed_gates():
    """Return arguments with gates of e^(−300), and a first key that all scores favor."""
    _, _, v, _ = _fox_case(1, 1, 3, 1)
    k = torch.zeros_like(v)
    k[..., 0, :] = 200
    return torch.ones_like(v), k, v, torch.full_like(v[..., 0], -300)


def _steps(log_f):
    """Return i − j for each pair of tokens, those whose gates are ``log_f``."""
    at = torch.arange(log_f.shape[-1])
    return at[:, None] - at


def _with_sums(sums):
    """Make a wrong answer (a function) to the exercise ``fox``.

    The exercise asks for FoX's attention outputs. In the wrong answer,
    ``sums(log_gates)`` replaces the cumulative sums of the log gates along the tokens.
    """

    def bias(log_f, d):
        c = sums(log_f)
        return c[..., :, None] - c[..., None, :]

    return _with_bias(bias)


def _with_logits(change):
    """Make a wrong answer (a function) to the exercise ``fox``.

    The exercise asks for FoX's attention outputs. In the wrong answer, the logits
    before the causal mask are ``change(z, log_f)``, where z is q · k/√d and ``log_f``
    the log gates. Right are z plus sums of log gates.
    """

    def answer(q, k, v, log_gates):
        logits = change(q @ k.mT / q.shape[-1] ** 0.5, log_gates)
        future = torch.ones_like(logits, dtype=torch.bool).triu(1)
        return logits.masked_fill(future, -torch.inf).softmax(-1) @ v

    return answer


FOX = Exercise(
    name="decay-5",
    title="FoX in FlexAttention",
    kind="PyTorch",
    minutes=10,
    lines=5,
    statement=r"""
Write FoX with FlexAttention.
`q`, `k` and `v` are `[batch, heads, n, d]`, `log_gates` is $\log f$, `[batch, heads, n]`.
A `score_mod` gets one score, already divided by $\sqrt d$, and its four indices: batch, head, query, key.
It may read tensors from outside, and can mask the future as well.
""",
    hint=r"""
`lambda score, b, h, i, j: …` returns a score; `.where(j <= i, -torch.inf)` masks it.
Which tensor must you read at $i$ and at $j$, so that the difference is $\sum_{l=j+1}^{i} \log f_l$?
""",
    cases=(
        _fox_case(1, 1, 2, 2),
        _fox_case(2, 2, 5, 4),
        _far_apart(),
        _closed_gates(),
    ),
    solution=fox,
    misconceptions=(
        Misconception(
            "Bias divided by √d",
            "A score_mod gets the score after the division. Add the bias as it is: a "
            "gate f must multiply the weight by f, not by its √d-th root.",
            _with_bias(lambda log_f, d: _forget(log_f) / d**0.5),
        ),
        Misconception(
            "Sign wrong: old keys gain",
            "c falls from token to token. For j < i, is c_i − c_j above or below 0?",
            _with_bias(lambda log_f, d: -_forget(log_f)),
        ),
        Misconception(
            "Key's own gate included",
            "A token's gate forgets the tokens before it, so f_j does not act on key "
            "j. Cumulative sums without their own token are wrong in the same way: "
            "they also leave out f_i, which softmax does not see.",
            _with_bias(lambda log_f, d: _forget(log_f) + log_f[..., None, :]),
        ),
        Misconception(
            "Key's own gate alone",
            "Each gate between the key and the query forgets once more, so their "
            "logarithms must be summed.",
            _with_bias(lambda log_f, d: log_f[..., None, :]),
        ),
        Misconception(
            "Gates summed, not their logarithms",
            "Gates multiply, so their logarithms add up. A sum of the gates grows "
            "from token to token, and old keys would gain.",
            _with_bias(lambda log_f, d: _forget(log_f.exp())),
        ),
        Misconception(
            "Query's part of the bias alone",
            "c_i is the same for all keys of a row, and softmax does not see it: your "
            "answer is plain attention. Which part makes the difference?",
            _with_bias(lambda log_f, d: 0.0),
        ),
        Misconception(
            "Keys after the query visible",
            "For later keys c_i − c_j is above 0, so they would gain most. Mask them, "
            "in score_mod or in a block mask.",
            _with_bias(lambda log_f, d: _forget(log_f), is_causal=False),
        ),
        Misconception(
            "Sums over the heads",
            "The gates of one head are summed along its tokens, the last axis.",
            _with_sums(lambda log_f: log_f.cumsum(1)),
        ),
        Misconception(
            "Sums over the batch",
            "The gates of one head are summed along its tokens, the last axis.",
            _with_sums(lambda log_f: log_f.cumsum(0)),
        ),
        Misconception(
            "No sum",
            "c is the cumulative sum of log f, not log f itself.",
            _with_sums(lambda log_f: log_f),
        ),
        Misconception(
            "Gates of the first head for all heads",
            "The third argument of score_mod is the head.",
            _with_sums(lambda log_f: log_f[:, :1].expand_as(log_f).cumsum(-1)),
        ),
        Misconception(
            "Gates of the first sequence for the whole batch",
            "The second argument of score_mod is the sequence of the batch.",
            _with_sums(lambda log_f: log_f[:1].expand_as(log_f).cumsum(-1)),
        ),
        Misconception(
            "Missing query's own gate",
            "The last step, to the query, has a gate as well.",
            _with_bias(
                lambda log_f, d: (
                    _forget(log_f)
                    - torch.where(
                        torch.eye(log_f.shape[-1], dtype=torch.bool),
                        0.0,
                        log_f[..., :, None],
                    )
                )
            ),
        ),
        Misconception(
            "Score multiplied by F",
            "A score times F does not forget: a negative score even gains. What must "
            "be *added* so that the exponential is multiplied?",
            _with_logits(lambda z, log_f: z * _forget(log_f).exp()),
        ),
        Misconception(
            "Score multiplied by D",
            "D is added.",
            _with_logits(lambda z, log_f: z * _forget(log_f)),
        ),
        Misconception(
            "F added in place of its logarithm",
            "F is between 0 and 1, so even a forgotten key would gain. The added term "
            "must be able to reach −∞.",
            _with_logits(lambda z, log_f: z + _forget(log_f).exp()),
        ),
        Misconception(
            "Score divided by √d once more",
            "FlexAttention has already done so.",
            lambda q, k, v, log_gates: _with_bias(lambda log_f, d: _forget(log_f))(
                q / q.shape[-1] ** 0.5, k, v, log_gates
            ),
        ),
        Misconception(
            "Masked scores of 0",
            "e^0 = 1, so masked keys get weight. The mask is −∞.",
            lambda q, k, v, log_gates: (
                (q @ k.mT / q.shape[-1] ** 0.5 + _forget(log_gates)).tril().softmax(-1)
                @ v
            ),
        ),
        Misconception(
            "Past masked, not the future",
            "Your mask hides the past. The condition of visible keys is j <= i.",
            lambda q, k, v, log_gates: (
                (q @ k.mT / q.shape[-1] ** 0.5 + _forget(log_gates))
                .masked_fill(
                    torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool).tril(-1),
                    -torch.inf,
                )
                .softmax(-1)
                @ v
            ),
        ),
        Misconception(
            "Division by √d undone",
            "FlexAttention divides: score_mod gets the score after the division.",
            lambda q, k, v, log_gates: _with_bias(lambda log_f, d: _forget(log_f))(
                q * q.shape[-1] ** 0.5, k, v, log_gates
            ),
        ),
        Misconception(
            "Logarithm of a product of gates",
            "The product of many gates is 0 in floats, and 0/0 and the difference of "
            "two log 0 are NaN. Add the logarithms.",
            _with_sums(lambda log_f: log_f.exp().cumprod(-1).log()),
        ),
        Misconception(
            "Bias bounded from below",
            "The bias may fall without a bound. A key that is forgotten may have the "
            "largest score.",
            _with_bias(lambda log_f, d: _forget(log_f).clamp(min=-10)),
        ),
        Misconception(
            "Batch and head exchanged",
            "The four indices are batch, head, query and key, in this order.",
            _with_sums(lambda log_f: log_f.transpose(0, 1).cumsum(-1)),
        ),
        Misconception(
            "Gates of the first head of the first sequence",
            "The gates are those of the score's own sequence and head, the second and "
            "third argument of score_mod.",
            _with_sums(lambda log_f: log_f[:1, :1].expand_as(log_f).cumsum(-1)),
        ),
        Misconception(
            "Mean gates of all heads",
            "Each head has its own gates.",
            _with_sums(lambda log_f: log_f.mean(1, True).expand_as(log_f).cumsum(-1)),
        ),
        Misconception(
            "Sigmoid applied once more",
            "`log_gates` are log f already, not logits.",
            _with_sums(lambda log_f: torch.nn.functional.logsigmoid(log_f).cumsum(-1)),
        ),
        Misconception(
            "Query's own gate for all steps",
            "Each token between the key and the query forgets by its own gate.",
            _with_bias(lambda log_f, d: log_f[..., :, None] * _steps(log_f)),
        ),
    ),
    properties=(
        Property(
            "The first query attends to its own token",
            lambda answer, q, k, v, log_gates: torch.allclose(
                answer(q, k, v, log_gates)[..., 0, :], v[..., 0, :]
            ),
        ),
        Property(
            "The first gate has no effect",
            lambda answer, q, k, v, log_gates: torch.allclose(
                answer(q, k, v, log_gates),
                answer(
                    q, k, v, torch.cat((log_gates[..., :1] - 1, log_gates[..., 1:]), -1)
                ),
            ),
        ),
    ),
    explanation=r"""
The sum of $\log f_l$ from $j + 1$ to $i$ is the difference $c_i - c_j$ of two cumulative sums, so read `c` at the query and at the key, by {prf:ref}`the theorem on differences of sums <thm-fox-sums>`.
The part $c_i$ is the same for all keys of a row and {prf:ref}`may be left out <thm-fox-key>`: the softmax does not see it.
A `score_mod` changes one score from its own value and indices; {prf:ref}`the odds of two keys then do not depend on a third <thm-decay-odds>`, which FoX satisfies and stick-breaking does not.
""",
)


# decay-6: in front of the exponential or inside


def weights_of_old(s0, s1, f):
    """Softmax weight of an old key with logit s0 beside a new key with logit s1.

    Two expressions: in the first the gate ``f`` multiplies the old key's exponential,
    in the second its logit.
    """
    a, b, inside = sp.exp(s0), sp.exp(s1), sp.exp(f * s0)
    return f * a / (f * a + b), inside / (inside + b)


def _old(front, inside):
    """Make a wrong answer (a function) to the exercise ``weights_of_old``.

    The exercise asks for two softmax weights of an old key. In the wrong answer,
    ``front(s0, f)`` replaces f e^s0, where the gate f is in front of the exponential,
    and ``inside(s0, f)`` replaces e^(f s0).
    """

    def answer(s0, s1, f):
        return tuple(x / (x + sp.exp(s1)) for x in (front(s0, f), inside(s0, f)))

    return answer


def _in_front(s, f):
    return f * sp.exp(s)


def _inside(s, f):
    return sp.exp(f * s)


_S0, _S1 = sp.symbols("s0 s1", real=True)
_F = sp.Symbol("f", positive=True)

INSIDE = Exercise(
    name="decay-6",
    title="In front of the exponential, or inside",
    kind="SymPy",
    minutes=8,
    lines=2,
    statement=r"""
A query sees two keys: its own, with the logit $s_1$, and an older one, with $s_0$, that a gate $f$ forgets.
FoX multiplies the older key's *exponential* by $f$; one could multiply its *logit*.
Return the older key's weight in both designs, FoX's first, as SymPy expressions.
Then let $f \to 0$ on paper: in which design is the older key forgotten?
""",
    hint=r"""
A weight is an exponential divided by the sum of both exponentials.
Each design changes the older key's exponential in both places.
""",
    cases=(
        (sp.Integer(0), sp.Integer(0), sp.Rational(1, 2)),
        (sp.log(8), sp.log(2), sp.Rational(1, 3)),
        (_S0, _S1, _F),
    ),
    solution=weights_of_old,
    misconceptions=(
        Misconception(
            "The two designs exchanged",
            "In front of the exponential: f e^s. Inside it: e^(f s).",
            _old(_inside, _in_front),
        ),
        Misconception(
            "Sum without the gate",
            "The weight that a forgotten key loses must go to the other, so the gate "
            "stands in the denominator as well.",
            lambda s0, s1, f: tuple(
                x / (sp.exp(s0) + sp.exp(s1))
                for x in (_in_front(s0, f), _inside(s0, f))
            ),
        ),
        Misconception(
            "Gate added to the logit",
            "A factor f in front of the exponential is a term log f inside it, not f.",
            _old(lambda s, f: sp.exp(s + f), _inside),
        ),
        Misconception(
            "Gate on both keys",
            "The last token forgets the tokens before it, not itself: f acts on the "
            "old key only.",
            lambda s0, s1, f: (
                sp.exp(s0) / (sp.exp(s0) + sp.exp(s1)),
                _inside(s0, f) / (_inside(s0, f) + _inside(s1, f)),
            ),
        ),
        Misconception(
            "Weight of the new key",
            "The weight of the old key is asked for, on which the gate acts.",
            lambda s0, s1, f: tuple(1 - w for w in weights_of_old(s0, s1, f)),
        ),
        Misconception(
            "Old key gains as the gate closes",
            "f multiplies the old key's exponential. Your first weight is the one "
            "with f at the new key's, or with 1/f at the old key's: at f = 0 it is 1.",
            lambda s0, s1, f: (
                sp.exp(s0) / (sp.exp(s0) + f * sp.exp(s1)),
                sp.exp(s0) / (sp.exp(s0) + sp.exp(f * s1)),
            ),
        ),
        Misconception(
            "f taken for the forgotten share",
            "f = 1 is an open gate, 0 a closed one.",
            lambda s0, s1, f: weights_of_old(s0, s1, 1 - f),
        ),
        Misconception(
            "Gate in the numerator only, in the second design",
            "The old key's exponential is in the denominator as well.",
            lambda s0, s1, f: (
                weights_of_old(s0, s1, f)[0],
                sp.exp(f * s0) / (sp.exp(s0) + sp.exp(s1)),
            ),
        ),
        Misconception(
            "Gate in the numerator only, in the first design",
            "The old key's exponential is in the denominator as well.",
            lambda s0, s1, f: (
                f * sp.exp(s0) / (sp.exp(s0) + sp.exp(s1)),
                weights_of_old(s0, s1, f)[1],
            ),
        ),
        Misconception(
            "The first design for both",
            "One design multiplies the exponential, the other its exponent.",
            lambda s0, s1, f: (weights_of_old(s0, s1, f)[0],) * 2,
        ),
        Misconception(
            "The second design for both",
            "One design multiplies the exponential, the other its exponent.",
            lambda s0, s1, f: (weights_of_old(s0, s1, f)[1],) * 2,
        ),
        Misconception(
            "Ratios of the two keys",
            "A weight is an exponential divided by the sum of *both*.",
            lambda s0, s1, f: (f * sp.exp(s0 - s1), sp.exp(f * s0 - s1)),
        ),
        Misconception(
            "Divided by the gate",
            "A closed gate must make the weight 0.",
            _old(lambda s, f: sp.exp(s) / f, lambda s, f: sp.exp(s / f)),
        ),
        Misconception(
            "Gate added to the logit in the second design",
            "The second design *multiplies* the logit by f. An open gate, f = 1, must "
            "change nothing.",
            _old(_in_front, lambda s, f: sp.exp(s + f)),
        ),
        Misconception(
            "Gate in the denominator only",
            "The gate changes the old key's exponential in the numerator as well.",
            lambda s0, s1, f: tuple(
                sp.exp(s0) / (x + sp.exp(s1))
                for x in (_in_front(s0, f), _inside(s0, f))
            ),
        ),
        Misconception(
            "Weight multiplied by the gate in the second design",
            "The second design multiplies the *logit*, before the softmax.",
            lambda s0, s1, f: (
                weights_of_old(s0, s1, f)[0],
                f * sp.exp(s0) / (sp.exp(s0) + sp.exp(s1)),
            ),
        ),
        Misconception(
            "Newer key multiplied by 1 − f in the first design",
            "Your answer is a moving average. FoX's gate acts on the older key alone.",
            lambda s0, s1, f: (
                f * sp.exp(s0) / (f * sp.exp(s0) + (1 - f) * sp.exp(s1)),
                weights_of_old(s0, s1, f)[1],
            ),
        ),
    ),
    properties=(
        Property(
            "An open gate, f = 1, leaves the softmax as it is",
            lambda answer, s0, s1, f: all(
                sp.simplify(w - 1 / (1 + sp.exp(s1 - s0))) == 0
                for w in answer(s0, s1, sp.Integer(1))
            ),
        ),
    ),
    level="optional",
    explanation=r"""
In FoX's design the weight is $f e^{s_0} / (f e^{s_0} + e^{s_1})$, which goes to 0 with $f$: the older key is forgotten.
In the other design it goes to $1/(1 + e^{s_1})$: a logit of 0 is a logit like any other, and for $s_1 < 0$ the "forgotten" key has more weight than the query's own.
It even gains weight on the way if $s_0 < 0$.
A gate belongs in front of the exponential, which is the same as adding $\log f$ to the logit; the chapter on FoX derives it in {prf:ref}`its definition of forgetting attention <def-fox-box>`.
""",
)


# decay-7: FoX as gated linear attention


def gated_linear_attention(q, k, v, f):
    """FoX's outputs ``[n, d_v]`` without exponential and normalizer.

    ``q`` and ``k`` are ``[n, d]``, ``v`` is ``[n, d_v]``, and ``f``, ``[n]``, are the
    gates. One state matrix is updated token by token.
    """
    state = np.zeros((k.shape[1], v.shape[1]))
    out = []
    for i in range(len(q)):
        state = f[i] * state + np.outer(k[i], v[i])
        out.append(q[i] @ state)
    return np.array(out)


def _decay(f):
    return np.exp(forget_bias(np.log(f)))


def _linear(weights):
    """Make a wrong answer (a function) to the exercise ``gated_linear_attention``.

    The exercise asks for FoX's outputs without exponential and normalizer. The wrong
    answer's outputs are sums of the values with the weights ``weights(scores, f)``,
    which are set to 0 for later keys; ``scores`` are q · k, ``f`` the gates. Right are
    the scores times the products of the gates between key and query.
    """
    return lambda q, k, v, f: np.tril(weights(q @ k.T, f)) @ v


def _linear_case(n, d, d_v):
    f = np.random.default_rng((n, d, d_v)).uniform(0.2, 1, size=n)
    return *draw(2, n, d), draw(n, d_v), f


def _state(step, read=lambda q, before, after: q @ after):
    """Make a wrong answer (a function) to the exercise ``gated_linear_attention``.

    The exercise asks for FoX's outputs without exponential and normalizer. In the wrong
    answer, ``step(state, f, k, v)`` replaces f · state + k vᵀ, by which each token
    updates the state. ``read(q, before, after)`` makes the output from the states
    before and after the update; by default it reads the state after, which is right.
    """

    def answer(q, k, v, f):
        state, out = np.zeros((k.shape[1], v.shape[1])), []
        for i in range(len(q)):
            before, state = state, step(state, f[i], k[i], v[i])
            out.append(read(q[i], before, state))
        return np.array(out)

    return answer


def _step(state, f, k, v):
    return f * state + np.outer(k, v)


@np.errstate(all="ignore")
def _by_products(q, k, v, f):
    products = np.cumprod(f)[:, None]
    keys = (k / products)[:, :, None] * v[:, None, :]
    return products * np.einsum("nd,nde->ne", q, keys.cumsum(0))


GATED_LINEAR_ATTENTION = Exercise(
    name="decay-7",
    title="FoX as gated linear attention",
    kind="NumPy",
    minutes=10,
    lines=6,
    statement=r"""
Without exponential and normalizer FoX becomes $o_i = \sum_{j \le i} F_{ij} (q_i^\top k_j) v_j$ with $F_{ij} = f_{j+1} \cdots f_i$.
Compute it token by token, with one matrix $M$ of the size $d \times d_v$ in place of all keys and values.
`q` and `k` are `[n, d]`, `v` is `[n, d_v]`, `f` is `[n]`; return `[n, d_v]`.
""",
    hint=r"""
$o_i = q_i^\top M_i$.
How does $M_i$ follow from $M_{i-1}$, and what is added?
`np.outer` is $k v^\top$.
""",
    cases=(
        *(_linear_case(*size) for size in ((2, 1, 1), (4, 3, 2), (6, 4, 4))),
        (*draw(2, 40, 2), draw(40, 2), np.full(40, 1e-9)),
    ),
    solution=gated_linear_attention,
    misconceptions=(
        Misconception(
            "Gate on its own token",
            "Forget first, then write: the new token is added after the old state has "
            "been multiplied.",
            _linear(lambda s, f: s * _decay(f) * f),
        ),
        Misconception(
            "Gate of the token before used",
            "The gate that acts when token i arrives is f_i.",
            _linear(lambda s, f: s * _decay(np.concatenate(([1.0], f[:-1])))),
        ),
        Misconception(
            "Nothing forgotten",
            "Your answer is linear attention without a gate.",
            _linear(lambda s, f: s),
        ),
        Misconception(
            "New token multiplied by 1 − f",
            "Your answer is a moving average. This exercise writes each token with "
            "its full weight.",
            _linear(lambda s, f: s * _decay(f) * (1 - f)[None]),
        ),
        Misconception(
            "FoX itself",
            "Linear attention has no softmax: a query only takes an inner product "
            "with the state.",
            lambda q, k, v, f: _attention(q @ k.T + forget_bias(np.log(f))) @ v,
        ),
        Misconception(
            "Exponential kept",
            "e^(q · k) is not an inner product of q with a state of this size. Drop "
            "it along with the normalizer.",
            _linear(lambda s, f: np.exp(s) * _decay(f)),
        ),
        Misconception(
            "Scores divided by √d",
            "There is no softmax, so nothing is divided by √d.",
            lambda q, k, v, f: gated_linear_attention(q, k, v, f) / q.shape[1] ** 0.5,
        ),
        Misconception(
            "Own token not read",
            "Write first, then read: k_i and v_i are in the sum of token i.",
            _state(_step, read=lambda q, before, after: q @ before),
        ),
        Misconception(
            "State read after forgetting and before writing",
            "Write first, then read: k_i and v_i are in the sum of token i.",
            _linear(lambda s, f: np.tril(s * _decay(f), -1)),
        ),
        Misconception(
            "State overwritten at each token",
            "The old state is multiplied by the gate and kept.",
            _linear(lambda s, f: np.diag(np.diagonal(s))),
        ),
        Misconception(
            "Gates counted from the first token",
            "F_ij begins after key j.",
            _linear(lambda s, f: s * np.cumprod(f)[:, None]),
        ),
        Misconception(
            "Rows made to sum to one",
            "There is no normalizer.",
            lambda q, k, v, f: (lambda a: a / a.sum(1, keepdims=True) @ v)(
                np.tril(q @ k.T * _decay(f))
            ),
        ),
        Misconception(
            "Query gated, too",
            "Only the state is multiplied by the gate.",
            lambda q, k, v, f: f[:, None] * gated_linear_attention(q, k, v, f),
        ),
        Misconception(
            "Queries and keys exchanged",
            "Keys and values are written, and queries read.",
            lambda q, k, v, f: gated_linear_attention(k, q, v, f),
        ),
        Misconception(
            "Forgotten part kept",
            "The old state is multiplied by f, not by 1 − f.",
            _state(lambda state, f, k, v: (1 - f) * state + np.outer(k, v)),
        ),
        Misconception(
            "One gate for all steps",
            "Each token on the way multiplies by its own gate.",
            _linear(
                lambda s, f: (
                    s
                    * f[:, None]
                    ** np.maximum(
                        np.subtract.outer(np.arange(len(f)), np.arange(len(f))), 0
                    )
                )
            ),
        ),
        Misconception(
            "Gates added",
            "F_ij is a product of gates.",
            _linear(lambda s, f: s * np.subtract.outer(np.cumsum(f), np.cumsum(f))),
        ),
        Misconception(
            "All tokens read, later ones included",
            "o_i sums over j ≤ i.",
            lambda q, k, v, f: q @ k.T @ v,
        ),
        Misconception(
            "Later keys read, too",
            "o_i sums over j ≤ i. Above the diagonal F would be above 1.",
            lambda q, k, v, f: (
                (q @ k.T * np.divide.outer(np.cumprod(f), np.cumprod(f))) @ v
            ),
        ),
        Misconception(
            "State divided by the product of all gates",
            "A product of many gates is 0 in floating point, and 0/0 is NaN. Let the "
            "state forget at each token.",
            _by_products,
        ),
        Misconception(
            "Logarithm of the gate as the factor",
            "The old state is multiplied by the gate itself. Logarithms of gates are "
            "added to logits, and there are none here.",
            _state(lambda state, f, k, v: np.log(f) * state + np.outer(k, v)),
        ),
        Misconception(
            "Exponential of the gate as the factor",
            "`f` is the gate itself, not its logarithm.",
            _state(lambda state, f, k, v: np.exp(f) * state + np.outer(k, v)),
        ),
        Misconception(
            "Gate of the next token used",
            "The gate that acts when token i arrives is f_i.",
            lambda q, k, v, f: gated_linear_attention(
                q, k, v, np.concatenate((f[1:], f[-1:]))
            ),
        ),
        Misconception(
            "Divided by the number of tokens",
            "There is no normalizer.",
            lambda q, k, v, f: (
                gated_linear_attention(q, k, v, f) / np.arange(1, len(q) + 1)[:, None]
            ),
        ),
        Misconception(
            "ReLU of queries and keys",
            "The products of queries and keys are taken as they are, also below 0.",
            lambda q, k, v, f: gated_linear_attention(
                np.maximum(q, 0), np.maximum(k, 0), v, f
            ),
        ),
        Misconception(
            "First token not written",
            "The first token is written, too; only its gate has nothing to forget.",
            lambda q, k, v, f: gated_linear_attention(
                q, k * (np.arange(len(k)) > 0)[:, None], v, f
            ),
        ),
        Misconception(
            "Delta rule",
            "k vᵀ is added as it is. The delta rule first subtracts what the state "
            "already holds for k.",
            _state(lambda state, f, k, v: f * state + np.outer(k, v - k @ state)),
        ),
    ),
    properties=(
        Property(
            "The first gate has no effect",
            lambda answer, q, k, v, f: np.allclose(
                answer(q, k, v, f), answer(q, k, v, np.concatenate(([0.5], f[1:])))
            ),
        ),
    ),
    level="optional",
    explanation=r"""
$M_i = f_i\, M_{i-1} + k_i v_i^\top$: what older keys have written is multiplied by the gate of the new token, and the new key is written whole.
Then $M_i^\top q_i$ is the sum, since key $j$ has been multiplied by $f_{j+1}, \dots, f_i$, and not by its own gate: {prf:ref}`the theorem on a state that decays <thm-fox-linear>`.
The state has $d \times d_v$ numbers at every length, where softmax attention needs all keys and values.
Dividing by the product of all gates to use one cumulative product fails in floats: one input of the check has 40 gates of $10^{-9}$, whose product is 0.
""",
)

# decay-8: the ends of the diagonals


def colleagues_check(a):
    """Return whether ``a`` is Toeplitz where it is causal.

    It compares the two ends of each diagonal of the causal
    triangle.
    """
    for offset in range(len(a)):
        line = np.diag(a, -offset)
        if abs(line[-1] - line[0]) > 1e-9:
            return False
    return True


def array_that_differs():
    """Return a small integer array for which `colleagues_check` is wrong."""
    return np.diag([0, 1, 0])


DIAGONAL_ENDS = Exercise(
    name="decay-8",
    title="Find the input: the ends of the diagonals",
    kind="find the input",
    minutes=5,
    lines=1,
    statement=r"""
`colleagues_check` should do what exercise decay-4 asks for.
Her tests are ALiBi's bias of 6 tokens, the sums $i + j$, and products $i\,j$ of 4 tokens; they pass.
Return the smallest square array for which it is wrong, of integers between −99 and 99.
Which biases of this chapter are safe with her check, and why?
""",
    hint=r"""
How many entries must a diagonal have so that its ends do not decide?
""",
    cases=((),),
    solution=array_that_differs,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_check,
        right=is_toeplitz,
        tested=(
            (-np.subtract.outer(np.arange(6), np.arange(6)),),
            (np.add.outer(np.arange(4), np.arange(4)),),
            (np.multiply.outer(np.arange(4), np.arange(4)),),
        ),
        refusal=lambda a: (
            ""
            if a.dtype.kind == "i"
            and a.shape == (len(a), len(a))
            and 0 < len(a) <= 50
            and abs(a).max() < 100
            else "a is a square integer array of at most 50 rows, with entries between "
            "−99 and 99"
        ),
        size=len,
        size_of="number of rows",
    ),
    explanation=r"""
A diagonal of one or two entries is decided by its ends, so arrays of one or two rows are safe; with three rows the main diagonal may be 0, 1, 0.
Her tests grow or are constant along each diagonal, and there equal ends mean equal entries.
So a bias of the form $a_i + b_j$ that rises or falls along the diagonals is safe, as are ALiBi's two parts; FoX with different gates or CoPE's positions may return to the same number by chance.
A test needs an input that is wrong in the middle only.
""",
)


SHEET = Sheet(
    title="Decay as position",
    conventions=r"""
Queries $i$ and keys $j$ count from 0; $\sigma$ is the sigmoid; ALiBi of slope $m > 0$ adds $-m(i - j)$ to the logits; $\beta = \sigma(z)$ is the share that a key breaks off the stick.
""",
    example=r"""
from posedu.numpy.gated import forget_bias

bias = forget_bias(np.log([0.5, 0.25, 0.5]))
left = np.tril(np.exp(bias))  # keys j up to the query i
print(np.round(left, 3))
""",
    figure="decay_explorable",
    exercises=(
        GATE,
        STICK,
        CHANGES,
        TOEPLITZ,
        FOX,
        INSIDE,
        GATED_LINEAR_ATTENTION,
        DIAGONAL_ENDS,
    ),
)
