"""Exercises on learned biases: FIRE and DAPE."""

import numpy as np
import sympy as sp
import torch
from torch.nn.functional import leaky_relu

from posedu.book.exercises.records import (
    Exercise,
    Hunt,
    Misconception,
    Prediction,
    Property,
    Sheet,
    draw,
)

# learned-biases-1: the distance of half the input


def middle(c, n):
    """Distance at which the input of FIRE's network is 1/2, an expression.

    The input at distance t is log(1 + ct)/log(1 + cn): ``c`` is FIRE's parameter, ``n``
    the distance by which FIRE normalizes.
    """
    return (sp.sqrt(c * n + 1) - 1) / c


_C, _N = sp.symbols("c n", positive=True)

MIDDLE = Exercise(
    name="learned-biases-1",
    title="The distance of half the input",
    kind="by hand",
    minutes=8,
    lines=1,
    statement=r"""
On paper: the input of FIRE's network is $\psi(t)/\psi(n)$ with $\psi(t) = \log(1 + c\,t)$, $c > 0$, where $n = \max(\ell, i)$.
At which distance $t$ is this input $\tfrac12$?
Return a SymPy expression of `c` and `n`.
In a text that is four times as long, how much farther is this distance?
""",
    hint=r"""
Twice a logarithm is the logarithm of a square.
""",
    cases=((sp.Integer(1), sp.Integer(8)), (sp.Integer(2), _N), (_C, _N)),
    solution=middle,
    misconceptions=(
        Misconception(
            "The middle of the text",
            "The middle is n/2 for ψ(t) = t. The logarithm is steep at the beginning.",
            lambda c, n: n / 2,
        ),
        Misconception(
            "1 not subtracted",
            "The root is 1 + c t. What is t?",
            lambda c, n: sp.sqrt(c * n + 1) / c,
        ),
        Misconception(
            "c not divided out",
            "The root is 1 + c t. What is t?",
            lambda c, n: sp.sqrt(c * n + 1) - 1,
        ),
        Misconception(
            "1 subtracted after the division",
            "Solve 1 + c t for t: subtract 1 first, then divide by c.",
            lambda c, n: sp.sqrt(c * n + 1) / c - 1,
        ),
        Misconception(
            "Halved inside the logarithm",
            "log(1 + c t) must be half as large, not 1 + c t.",
            lambda c, n: ((c * n + 1) / 2 - 1) / c,
        ),
        Misconception(
            "Root of the distance",
            "Your answer forgets the 1 inside the logarithm.",
            lambda c, n: sp.sqrt(n / c),
        ),
        Misconception(
            "Root of c n alone",
            "Your answer forgets the 1 inside one of the logarithms.",
            lambda c, n: (sp.sqrt(c * n) - 1) / c,
        ),
        Misconception(
            "Square in place of the root",
            "t is smaller than n, since half of a logarithm is the logarithm of the "
            "root.",
            lambda c, n: ((c * n + 1) ** 2 - 1) / c,
        ),
        Misconception(
            "Input in place of the distance",
            "The input is 1/2. Which distance has it?",
            lambda c, n: sp.log(1 + c * n) / 2,
        ),
        Misconception(
            "Geometric mean of 1 and n",
            "Your answer would be right for ψ(t) = log t.",
            lambda c, n: sp.sqrt(n),
        ),
        Misconception(
            "Multiplied by c",
            "Divide c t by c to get t.",
            lambda c, n: c * (sp.sqrt(c * n + 1) - 1),
        ),
    ),
    properties=(
        Property(
            "At this distance the input is 1/2",
            lambda answer, c, n: (
                sp.expand((1 + 3 * answer(sp.Integer(3), sp.Integer(5))) ** 2) == 16
            ),
        ),
    ),
    explanation=r"""
The input is ½ where $2 \log(1 + c\,t) = \log(1 + c\,n)$, that is where $(1 + c\,t)^2 = 1 + c\,n$.
The positive root gives $1 + c\,t = \sqrt{c\,n + 1}$, so $t = (\sqrt{c\,n + 1} - 1)/c$.
In a text four times as long this distance is about twice as far, once $c\,n$ is well above 1: it grows with the root of the length, by {prf:ref}`the theorem on the middle of FIRE's inputs <thm-fire-middle>`.
So half of the network's interval belongs to the nearest keys, and beyond the threshold these are a smaller share of all keys the longer the text is.
""",
    prediction=Prediction(
        "A FIRE head has $c = 1$ and normalizes by $n = 1023$. At which distance is its input ½?",
        lambda: float(middle(sp.Integer(1), sp.Integer(1023))),
        near=0.05,
    ),
)


# learned-biases-2: what the network reads


def inputs(tokens, c, threshold):
    """Input x of FIRE's network for every query and key, [tokens, tokens].

    ``c`` scales distances in FIRE's logarithm, ``threshold`` is the smallest distance
    by which FIRE normalizes. Keys after their query get 0.
    """
    i = np.arange(tokens)[:, None]
    t = np.maximum(i - np.arange(tokens), 0)
    return np.log1p(c * t) / np.log1p(c * np.maximum(threshold, i))


def _inputs(longest, psi=np.log1p, distance=None):
    """Make a wrong answer (a function) to the exercise ``inputs``.

    The exercise asks for the inputs of FIRE's network, log(1 + ct)/log(1 + c
    max(threshold, i)) for query i and distance t. In the wrong answer, ``longest(t, i,
    threshold, tokens)`` replaces max(threshold, i), ``psi`` replaces log(1 + x), and
    ``distance(i, j)`` replaces t. With None for ``distance``, t is right.
    """

    def answer(tokens, c, threshold):
        i = np.arange(tokens)[:, None]
        t = np.maximum(i - np.arange(tokens), 0)
        if distance is not None:
            t = distance(i, np.arange(tokens))
        below = psi(c * longest(t, i, threshold, tokens))
        return psi(c * t) / np.maximum(below, 1e-9)

    return answer


INPUTS = Exercise(
    name="learned-biases-2",
    title="What the network reads",
    kind="NumPy",
    minutes=10,
    lines=3,
    statement=r"""
Return $x_{ij} = \psi(i - j)/\psi(\max(\ell, i))$ with $\psi(t) = \log(1 + c\,t)$ for all queries $i$ and keys $j$ of `tokens` tokens, `threshold` being $\ell$.
Later keys, $j > i$, get 0.
In which rows of the matrix does the first column hold 1?
""",
    hint=r"""
The maximum of the threshold and the query's position is one number for each row.
""",
    cases=((3, 1.0, 1), (6, 0.1, 20), (12, 0.5, 4), (30, 2.0, 10)),
    solution=inputs,
    misconceptions=(
        Misconception(
            "Maximum of the threshold and the distance",
            "Every distance above the threshold then reads 1. The maximum is of the "
            "threshold and the query's position.",
            _inputs(lambda t, i, L, n: np.maximum(L, t)),
        ),
        Misconception(
            "Maximum of the threshold and the length",
            "A token must not know how long the text will be. The maximum is of the "
            "threshold and the query's own position.",
            _inputs(lambda t, i, L, n: max(L, n - 1)),
        ),
        Misconception(
            "Query's position counted from 1",
            "The query's position counts from 0.",
            _inputs(lambda t, i, L, n: max(L, n)),
        ),
        Misconception(
            "No threshold",
            "In short texts the query's position alone would stretch the curve.",
            _inputs(lambda t, i, L, n: i + 0 * t),
        ),
        Misconception(
            "Threshold alone, without the query",
            "Beyond the threshold the inputs would leave [0, 1].",
            _inputs(lambda t, i, L, n: L + 0 * t),
        ),
        Misconception(
            "Minimum in place of the maximum",
            "The denominator has the larger of both, so that inputs are at most 1.",
            _inputs(lambda t, i, L, n: np.minimum(L, i)),
        ),
        Misconception(
            "Positions from 1",
            "The first query is at position 0, not 1.",
            _inputs(lambda t, i, L, n: np.maximum(L, i + 1)),
        ),
        Misconception(
            "c forgotten",
            "Distances are multiplied by c inside both logarithms.",
            lambda tokens, c, threshold: inputs(tokens, 1.0, threshold),
        ),
        Misconception(
            "Missing ψ",
            "The input is a quotient of logarithms, not of distances.",
            _inputs(lambda t, i, L, n: np.maximum(L, i), psi=lambda t: t),
        ),
        Misconception(
            "Without the 1",
            "log(1 + c t) is 0 at distance 0.",
            _inputs(
                lambda t, i, L, n: np.maximum(L, i),
                psi=lambda t: np.log(np.maximum(t, 1e-3)),
            ),
        ),
        Misconception(
            "The logarithm of the quotient",
            "Two logarithms are divided, not their arguments.",
            lambda tokens, c, threshold: np.log1p(
                c
                * np.maximum(np.subtract.outer(np.arange(tokens), np.arange(tokens)), 0)
                / np.maximum(threshold, np.arange(tokens))[:, None]
            ),
        ),
        Misconception(
            "Distances for later keys",
            "Above the diagonal the exercise asks for 0. The paper's listing takes |i "
            "− j| there.",
            _inputs(
                lambda t, i, L, n: np.maximum(L, i),
                distance=lambda i, j: abs(i - j),
            ),
        ),
        Misconception(
            "Key's position in the denominator",
            "The query's position says how far the curve is stretched.",
            lambda tokens, c, threshold: (
                np.log1p(
                    c
                    * np.maximum(
                        np.subtract.outer(np.arange(tokens), np.arange(tokens)), 0
                    )
                )
                / np.log1p(c * np.maximum(threshold, np.arange(tokens)))
            ),
        ),
    ),
    properties=(
        Property(
            "All inputs are in [0, 1]",
            lambda answer, tokens, c, threshold: bool(
                (answer(40, c, 7) >= 0).all() and (answer(40, c, 7) <= 1).all()
            ),
        ),
    ),
    explanation=r"""
In the rows $i \ge \ell$: there $\max(\ell, i) = i$, and the first token's distance is $i$ as well, so its input is $\psi(i)/\psi(i) = 1$.
In the rows before, the denominator is $\psi(\ell)$, and the first column stays below 1.
{prf:ref}`The theorem on FIRE up to the threshold <thm-fire-toeplitz>` adds that up to row $\ell$ the matrix depends on the distance alone, and beyond it does not.
""",
)


# learned-biases-3: a network that reproduces a table


def network(x, table):
    """Output weights of n ReLU units [z − x_k]_+ that reproduce a table of biases.

    ``x`` and ``table`` are [n + 1]. Together with the first bias the network gives the
    biases ``table`` at the inputs ``x``.
    """
    slopes = np.diff(table) / np.diff(x)
    return np.diff(slopes, prepend=0.0)


def _case(n, seed=0):
    x = np.abs(draw(n, seed=seed)).cumsum()
    return (x - x[0]) / (x[-1] - x[0]), draw(n, seed=seed + 1)


NETWORK = Exercise(
    name="learned-biases-3",
    title="A network that reproduces a table",
    kind="NumPy",
    minutes=12,
    lines=2,
    statement=r"""
`x` are $n + 1$ inputs, $0 = x_0 < \dots < x_n = 1$, and `table` holds a bias for each.
Return weights $u_0, \dots, u_{n-1}$ such that $b_0 + \sum_{k=0}^{n-1} u_k\, [x - x_k]_+$ goes through all of them.
""",
    hint=r"""
Each unit changes the slope, at its kink.
What is the slope before the first?
""",
    cases=(
        (np.array([0.0, 0.5, 1.0]), np.array([0.0, 1.0, 1.0])),
        _case(5),
        _case(12, seed=2),
    ),
    solution=network,
    misconceptions=(
        Misconception(
            "Slopes in place of their changes",
            "A unit goes on for ever, so the next one must add the *change* of slope.",
            lambda x, table: np.diff(table) / np.diff(x),
        ),
        Misconception(
            "Steps of the table",
            "A unit grows by its weight times the length of the piece: divide by the "
            "gaps.",
            lambda x, table: np.diff(table),
        ),
        Misconception(
            "Changes of steps, not of slopes",
            "The inputs are not equally far apart: divide by the gaps first.",
            lambda x, table: np.diff(np.diff(table), prepend=0.0),
        ),
        Misconception(
            "Gaps taken to be equal",
            "The x_k are given, and they are not equally far apart.",
            lambda x, table: np.diff(np.diff(table), prepend=0.0) * (len(x) - 1),
        ),
        Misconception(
            "Reciprocals",
            "A slope is the rise divided by the gap.",
            lambda x, table: np.diff(
                np.diff(x) / np.where(np.diff(table) == 0, 1, np.diff(table)),
                prepend=0.0,
            ),
        ),
        Misconception(
            "Sign wrong",
            "The change is the slope after a kink minus the slope before it.",
            lambda x, table: -network(x, table),
        ),
        Misconception(
            "First slope left out",
            "Before the first kink the network is flat: its weight is the first slope.",
            lambda x, table: np.append(0.0, np.diff(np.diff(table) / np.diff(x))),
        ),
        Misconception(
            "Changes one unit too early",
            "Unit k changes the slope from x_k on.",
            lambda x, table: np.append(network(x, table)[1:], 0.0),
        ),
        Misconception(
            "b₀ forgotten",
            "b₀ stands before the sum. The units add the difference between the table "
            "and b₀.",
            lambda x, table: np.linalg.solve(
                np.maximum(x[1:, None] - x[:-1], 0), table[1:]
            ),
        ),
        Misconception(
            "Table itself",
            "Weights of ramps are asked for, not values of the table.",
            lambda x, table: table[1:] + 0.0,
        ),
        Misconception(
            "Changes divided by the gaps once more",
            "Slopes are already divided by the gaps.",
            lambda x, table: network(x, table) / np.diff(x),
        ),
        Misconception(
            "Changes of steps, divided afterwards",
            "The two pieces at a kink have different gaps. Divide each step by its own "
            "gap first, and then take the changes of the slopes.",
            lambda x, table: np.diff(np.diff(table), prepend=0.0) / np.diff(x),
        ),
        Misconception(
            "First slope minus b₀",
            "Before the first kink the network is flat: the slope there is 0, not b₀.",
            lambda x, table: np.diff(np.diff(table) / np.diff(x), prepend=table[0]),
        ),
        Misconception(
            "Biases as weights",
            "A weight is a change of slope, not a value of the table.",
            lambda x, table: table[:-1] + 0.0,
        ),
    ),
    properties=(
        Property(
            "The network gives the table at its inputs",
            lambda answer, x, table: bool(
                np.allclose(
                    table[0] + np.maximum(x[:, None] - x[:-1], 0) @ answer(x, table),
                    table,
                )
            ),
        ),
    ),
    explanation=r"""
Between $x_k$ and $x_{k+1}$ the units $0, \dots, k$ are active, so the slope there is $u_0 + \dots + u_k$.
It must be $\sigma_k = (b_{k+1} - b_k)/(x_{k+1} - x_k)$, with $b_k$ the entries of `table`; subtract the sum for the piece before, and $u_k = \sigma_k - \sigma_{k-1}$, with $\sigma_{-1} = 0$ before the first kink.
The first point is met because all units are 0 at $x_0 = 0$, where $b_0$ alone remains.
This is {prf:ref}`the theorem that FIRE contains any table <thm-fire-table>`; a unit whose slope does not change has weight 0 and can be left out.
""",
)


# learned-biases-4: the kinks of a table


def kinks(table):
    """Number of kinks of the broken line through biases by distance: an int.

    ``table`` has the bias of each distance 0, 1, ….
    """
    return int(np.count_nonzero(np.abs(np.diff(table, 2)) > 1e-9))


_HISTOGRAM = np.repeat(draw(5), (1, 1, 1, 3, 4))

KINKS = Exercise(
    name="learned-biases-4",
    title="The kinks of a table",
    kind="NumPy",
    minutes=8,
    lines=1,
    statement=r"""
Let a network of ramps read the distance itself, $\psi(t) = t$.
`table` holds its bias at the distances 0, 1, 2, …, and between two of them the bias is linear.
How many kinks does this broken line have?
A change of slope below $10^{-9}$ is no kink.
How many are there for ALiBi, for five random numbers, and for a histogram whose last two of five bins are wide?
May another broken line through the same points have fewer?
""",
    hint=r"""
Where three neighbors lie on a line, there is no kink.
""",
    cases=(
        (np.array([0.0, 1.0, 1.0]),),
        (-np.arange(9) / 4,),
        (draw(5),),
        (_HISTOGRAM,),
        (-np.minimum(np.arange(20.0), 7),),
        (np.array([0.0, 1.0, 0.0, 1.0, 2.0, 2.0]),),
        (np.array([0.0, 1.0, 3.0, 4.0]),),
        (-0.1 * np.arange(10),),
        (np.array([0.0, 0.0, 5e-10]),),
        (np.array([0.0, 4.9e-10, 1e-9]),),
        (np.array([0.0, 0.0, 3e-9]),),
    ),
    solution=kinks,
    misconceptions=(
        Misconception(
            "Steps counted",
            "A straight line has a step at every distance, and no kink.",
            lambda table: int(np.count_nonzero(np.diff(table))),
        ),
        Misconception(
            "Different numbers counted",
            "What counts is where the slope changes.",
            lambda table: len(np.unique(table)),
        ),
        Misconception(
            "Buckets counted",
            "A ramp between two flat bins has a kink at either end.",
            lambda table: int(np.count_nonzero(np.diff(table))) - 1,
        ),
        Misconception(
            "One for each inner distance",
            "Where three neighbors lie on a line, there is no kink.",
            lambda table: len(table) - 2,
        ),
        Misconception(
            "One kink for each piece",
            "n kinks make n + 1 pieces.",
            lambda table: kinks(table) + 1,
        ),
        Misconception(
            "Different slopes counted",
            "The same slope may come back. Count the changes of slope.",
            lambda table: len(np.unique(np.diff(table).round(9))) - 1,
        ),
        Misconception(
            "Only turning points counted",
            "A change of slope without a change of direction is a kink, too.",
            lambda table: int(np.count_nonzero(np.diff(np.sign(np.diff(table))))),
        ),
        Misconception(
            "Only upward kinks counted",
            "The slope may fall as well.",
            lambda table: int(np.count_nonzero(np.diff(table, 2) > 1e-9)),
        ),
        Misconception(
            "Only downward kinks counted",
            "The slope may grow as well.",
            lambda table: int(np.count_nonzero(np.diff(table, 2) < -1e-9)),
        ),
        Misconception(
            "Rounding taken for a kink",
            "Numbers that lie on a line do so up to their last digits, and a change of "
            "slope below 10⁻⁹ is no kink.",
            lambda table: int(np.count_nonzero(np.diff(table, 2))),
        ),
        Misconception(
            "Tolerance too large",
            "Changes of slope above 10⁻⁹ are kinks. `np.isclose` has a tolerance of "
            "its own, 10⁻⁸ and more, and so has a rounding to a few digits.",
            lambda table: int(np.count_nonzero(abs(np.diff(table, 2)) > 1e-6)),
        ),
        Misconception(
            "Tolerance too small",
            "A change of slope below 10⁻⁹ is no kink, however small the slopes are.",
            lambda table: int(np.count_nonzero(abs(np.diff(table, 2)) > 1e-12)),
        ),
        Misconception(
            "Slopes rounded before they are compared",
            "Two slopes that are nearly equal may be rounded to different numbers. "
            "Take their difference first.",
            lambda table: int(np.count_nonzero(np.diff(np.diff(table).round(9)))),
        ),
        Misconception(
            "Different slopes counted, up to the last digit",
            "The same slope may come back, and equal slopes differ in their last "
            "digits. Count the changes of slope above 10⁻⁹.",
            lambda table: len(np.unique(np.diff(table))) - 1,
        ),
        Misconception(
            "Slopes other than 0 counted",
            "A straight line has a slope at every distance, and no kink.",
            lambda table: int(np.count_nonzero(abs(np.diff(table)) > 1e-9)),
        ),
        Misconception(
            "Both ends counted",
            "The table's first and last entries are no kinks.",
            lambda table: kinks(table) + 2,
        ),
    ),
    properties=(
        Property(
            "Adding a straight line does not change the number of kinks",
            lambda answer, table: (
                answer(table + 3.0 * np.arange(len(table))) == answer(table)
            ),
        ),
    ),
    tolerance=0.0,
    explanation=r"""
ALiBi has none, since it is one line; five random numbers have 3, one at each inner distance.
The histogram has 5: the first three bins are single distances with a kink between any two slopes, and each of the two wide bins adds the kinks where a ramp meets its flat part.
Another broken line may have fewer, because its kinks may lie between the distances: for the biases 0, 1, 1, 0 this count is 2, and the two lines through the first two and the last two points meet at distance 1.5, with one kink.
By {prf:ref}`the theorem that FIRE contains any table <thm-fire-table>` a unit for each kink and one for the first slope are enough; it does not say that fewer cannot do.
""",
)


# learned-biases-5: DAPE


def dape(s, b, w, a, u, residual):
    """Attention logits of all heads with DAPE's network, [heads, queries, keys].

    ``s`` are the scaled products of queries and keys, and ``b`` are the biases, both
    [heads, queries, keys]; the network reads both. ``w`` and ``a`` are weights and
    biases of the network's first layer, ``u`` the weights of its last. ``residual``
    adds ``b`` to the logits.
    """
    channels = torch.cat((s, b))
    hidden = leaky_relu(torch.einsum("kc,cij->kij", w, channels) + a[:, None, None])
    output = torch.einsum("hk,kij->hij", u, hidden)
    return s + output + (b if residual else 0)


def _dape(read=None, act=leaky_relu, sum_up=None):
    """Make a wrong answer (a function) to the exercise ``dape``.

    The exercise asks for logits with DAPE's network. In the wrong answer, ``read(s,
    b)`` makes the network's input in place of ``s`` and ``b`` joined, ``act`` replaces
    leaky ReLU, and ``sum_up(s, b, output, residual)`` replaces the final sum. With None
    for ``read`` or ``sum_up``, this step is right.
    """

    def answer(s, b, w, a, u, residual):
        channels = torch.cat((s, b)) if read is None else read(s, b)
        hidden = act(torch.einsum("kc,cij->kij", w, channels) + a[:, None, None])
        output = torch.einsum("hk,kij->hij", u, hidden)
        if sum_up is not None:
            return sum_up(s, b, output, residual)
        return s + output + (b if residual else 0)

    return answer


def _logits(tokens, heads, residual, width=3):
    s, b = (torch.tensor(draw(heads, tokens, tokens, seed=n)) for n in (0, 1))
    w = torch.tensor(draw(width, 2 * heads, seed=2))
    a, u = torch.tensor(draw(width, seed=3)), torch.tensor(draw(heads, width, seed=4))
    return s, b, w, a, u, residual


DAPE = Exercise(
    name="learned-biases-5",
    title="A network of all heads",
    kind="PyTorch",
    minutes=15,
    lines=4,
    statement=r"""
`s` and `b` are the scaled products and the biases, `[heads, queries, keys]`.
At each query and key a network reads the products of all heads and then their biases.
Its first layer has the weights `w`, `[width, 2 * heads]`, and the bias `a`, `[width]`.
Its activation is a leaky ReLU of slope 0.01, and its last layer `u` is `[heads, width]`, without a bias.
Return $S + f(S, B)$, and with `residual` $S + B + f(S, B)$.
""",
    hint=r"""
`torch.cat((s, b))` has `2 * heads` channels; `torch.einsum` sums over them.
""",
    cases=(
        _logits(2, 1, False, width=1),
        _logits(3, 2, True),
        _logits(5, 3, False),
        _logits(4, 2, True, width=5),
    ),
    solution=dape,
    misconceptions=(
        Misconception(
            "Bias always added",
            "Without `residual`, B acts through the network alone.",
            lambda s, b, w, a, u, residual: dape(s, b, w, a, u, True),
        ),
        Misconception(
            "Bias never added",
            "With `residual`, B is added beside the network's output.",
            lambda s, b, w, a, u, residual: dape(s, b, w, a, u, False),
        ),
        Misconception(
            "Network in place of the logits",
            "The network corrects S, which is a term of the sum.",
            _dape(sum_up=lambda s, b, output, r: output + (b if r else 0)),
        ),
        Misconception(
            "Network alone",
            "S is a term of the sum, and with `residual` so is B.",
            _dape(sum_up=lambda s, b, output, r: output),
        ),
        Misconception(
            "Biases before products",
            "The first channels are the products.",
            _dape(read=lambda s, b: torch.cat((b, s))),
        ),
        Misconception(
            "Channels alternate between products and biases",
            "The products of all heads come first, then all biases.",
            _dape(read=lambda s, b: torch.stack((s, b), 1).flatten(0, 1)),
        ),
        Misconception(
            "Biases read twice",
            "The first half of the channels are products.",
            _dape(read=lambda s, b: torch.cat((b, b))),
        ),
        Misconception(
            "Products read twice",
            "The second half of the channels are biases.",
            _dape(read=lambda s, b: torch.cat((s, s))),
        ),
        Misconception(
            "Sum of both as input",
            "The network reads S and B in separate channels.",
            _dape(read=lambda s, b: torch.cat((s + b, b))),
        ),
        Misconception(
            "ReLU in place of the leaky ReLU",
            "Below 0 the leaky ReLU has the slope 0.01.",
            _dape(act=torch.relu),
        ),
        Misconception(
            "Leak 0.1",
            "PyTorch's default slope is 0.01.",
            _dape(act=lambda z: leaky_relu(z, 0.1)),
        ),
        Misconception(
            "No activation",
            "Without an activation the network only mixes heads.",
            _dape(act=lambda z: z),
        ),
        Misconception(
            "Activation after the last layer",
            "The last layer is linear: its output may be any number.",
            lambda s, b, w, a, u, residual: (
                s + (b if residual else 0) + leaky_relu(dape(s, b, w, a, u, False) - s)
            ),
        ),
        Misconception(
            "First bias forgotten",
            "a is added to the hidden units.",
            lambda s, b, w, a, u, residual: dape(s, b, w, 0 * a, u, residual),
        ),
        Misconception(
            "Later keys masked inside the network",
            "The first version needs no mask inside, since it reads one key at a time.",
            lambda s, b, w, a, u, residual: dape(s.tril(), b.tril(), w, a, u, residual),
        ),
        Misconception(
            "Queries and keys exchanged",
            "Row i is query i.",
            lambda s, b, w, a, u, residual: dape(s.mT, b.mT, w, a, u, residual),
        ),
        Misconception(
            "Network output transposed",
            "f(S, B) keeps [heads, queries, keys]: row i of its output is added to "
            "row i of S.",
            _dape(sum_up=lambda s, b, output, r: s + output.mT + (b if r else 0)),
        ),
        Misconception(
            "Weights in place of logits",
            "The logits before the softmax are asked for.",
            lambda *case: dape(*case).softmax(-1),
        ),
    ),
    properties=(
        Property(
            "If the last weights are 0, the logits are unchanged",
            lambda answer, s, b, w, a, u, residual: bool(
                torch.allclose(answer(s, b, w, a, 0 * u, False), s)
            ),
        ),
    ),
    level="optional",
    explanation=r"""
The network reads $2H$ channels at one query and one key, first the $H$ products and then the $H$ biases, and returns one number for each head.
No step mixes two keys or two queries, so the logit of a query and a key depends on no other key: {prf:ref}`DAPE's first version needs no mask inside <thm-dape-causal>`, and it can generate with a cache.
With $u = 0$ the logits are $S$, or $S + B$ with `residual`: training can start from the base encoding.
""",
)


# learned-biases-6: how many later keys are read


def later_keys(kernel, masked):
    """Number of keys after the query on which the logit of its own key depends.

    The number is an int. Two convolutions of width ``kernel`` run over the query's
    keys. With ``masked`` the later keys are set to 0 before the first convolution.
    """
    return 0 if masked else 2 * (kernel // 2)


LATER_KEYS = Exercise(
    name="learned-biases-6",
    title="How many later keys are read",
    kind="experiment",
    minutes=10,
    lines=1,
    statement=r"""
Two convolutions, one after the other, run over the keys of a query.
Each is centered and has the odd width `kernel`.
With `masked`, the input of the first convolution is 0 at all later keys.
On the contents of how many *later* keys does the logit of a query and its own key depend?
Try it before you compute: which gradients of a random network are not 0?
""",
    hint=r"""
A layer of width 3 reads one key to the right.
If its input there is the output of another such layer, what has that layer read?
""",
    cases=((1, False), (3, False), (3, True), (5, False), (7, False), (1, True)),
    solution=later_keys,
    misconceptions=(
        Misconception(
            "One layer counted",
            "The second layer reads the first layer's output at the neighboring keys.",
            lambda kernel, masked: 0 if masked else kernel // 2,
        ),
        Misconception(
            "Whole kernel looks ahead",
            "Half of a centered kernel looks back.",
            lambda kernel, masked: 0 if masked else 2 * kernel,
        ),
        Misconception(
            "Key itself counted",
            "Its own key is not later.",
            lambda kernel, masked: 0 if masked else 2 * (kernel // 2) + 1,
        ),
        Misconception(
            "Mask ignored",
            "A number that is 0 for every text does not depend on contents.",
            lambda kernel, masked: 2 * (kernel // 2),
        ),
        Misconception(
            "Mask for one layer alone",
            "The second layer reads the first layer's output at later keys, but that "
            "output is made of keys that the query may see.",
            lambda kernel, masked: kernel // 2 if masked else 2 * (kernel // 2),
        ),
        Misconception(
            "A masked softmax taken for a mask of the network",
            "The mask of the softmax comes after the network, which is too late.",
            lambda kernel, masked: 0,
        ),
        Misconception(
            "Mask read the wrong way round",
            "`masked` means that later keys are 0.",
            lambda kernel, masked: 2 * (kernel // 2) if masked else 0,
        ),
        Misconception(
            "Widths multiplied",
            "The reaches of the two layers are added.",
            lambda kernel, masked: 0 if masked else (kernel // 2) ** 2 * 2,
        ),
        Misconception(
            "One less than the kernel, once",
            "Two layers of width 3 reach as far as one of width 5: half of 4.",
            lambda kernel, masked: 0 if masked else 2 * (kernel - 1),
        ),
        Misconception(
            "Reaches multiplied",
            "The second layer reads outputs that have read as far again: add the "
            "reaches.",
            lambda kernel, masked: 0 if masked else (kernel // 2) ** 2,
        ),
        Misconception(
            "One layer counted, and the mask ignored",
            "The second layer reads as far again, and with `masked` all that both "
            "read at later keys is the same for every text.",
            lambda kernel, masked: kernel // 2,
        ),
        Misconception(
            "All keys that two layers read",
            "Two layers of width k read 2k − 1 keys. How many of them are later than "
            "the query?",
            lambda kernel, masked: 0 if masked else 2 * kernel - 1,
        ),
    ),
    properties=(
        Property(
            "With a kernel of 1 no other key is read",
            lambda answer, kernel, masked: answer(1, False) == 0,
        ),
    ),
    tolerance=0.0,
    level="optional",
    explanation=r"""
Without the mask there are $k - 1$ for the odd kernel width $k$: each centered layer reads $(k - 1)/2$ keys to the right, and the second layer reads outputs of the first that have read as far again.
The gradients with respect to the contents of the next $k - 1$ keys are not 0, and all later ones are.
With `masked` there are 0: the first layer's input at later keys is 0 for every text, so no content comes in there.
Its *output* at these keys is still not 0, and the second layer reads it; {ref}`that is why the published network sees whether a token follows <err-dape-end>`, though not which.
""",
)


# learned-biases-7: a text that is long enough


def colleagues_inputs(tokens, c, threshold):
    """Input of FIRE's network, [queries, keys]."""
    queries, keys = np.indices((tokens, tokens))
    distance = np.clip(queries - keys, 0, None)
    longest = np.clip(distance, threshold, None)
    return np.log1p(c * distance) / np.log1p(c * longest)


def text_that_differs():
    """Return `(tokens, c, threshold)`, few tokens with wrong `colleagues_inputs`."""
    return 3, 1.0, 1


LONG_TEXT = Exercise(
    name="learned-biases-7",
    title="Find the input: the threshold",
    kind="find the input",
    minutes=6,
    lines=1,
    statement=r"""
`colleagues_inputs` should do what exercise learned-biases-2 asks for.
Her tests have 6 and 21 tokens with the threshold 20, and 10 tokens with the threshold 9; they pass.
Return `(tokens, c, threshold)` with as few tokens as possible for which it is wrong; `c` and `threshold` are positive.
What is the rule for the number of tokens, given a threshold?
""",
    hint=r"""
Compare $\max(\ell, t)$ with $\max(\ell, i)$ at all the distances $t$ of one row $i$.
""",
    cases=((),),
    solution=text_that_differs,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_inputs,
        right=inputs,
        tested=((6, 0.1, 20), (21, 0.1, 20), (10, 2.0, 9)),
        refusal=lambda tokens, c, threshold: (
            ""
            if type(tokens) is int and 0 < tokens <= 1000 and c > 0 and threshold > 0
            else "tokens is an integer from 1 to 1000, and c and threshold are positive"
        ),
        size=lambda tokens, c, threshold: tokens,
        size_of="number of tokens",
    ),
    explanation=r"""
She normalizes by the larger of the threshold and the *distance*, not the query's position.
Up to the row $i = \ell$ both are $\ell$; in a later row they differ at the distances between 0 and $i$, which read too large an input, and 1 as soon as they reach the threshold.
So for a whole threshold $\ell$ at least $\ell + 2$ tokens are needed, 3 for $\ell = 1$; with 2 tokens the only distances are 0 and 1, the query's own position, and no threshold makes a difference.
A test of a rule with a maximum needs texts on both sides of it: hers were all no longer than $\ell + 1$.
""",
)


# learned-biases-8: a slope that comes back


def colleagues_kinks(table):
    """Number of kinks of the broken line through biases."""
    slopes = np.diff(table).round(9)
    return len(np.unique(slopes)) - 1


def table_that_differs():
    """Return a short array of integers for which `colleagues_kinks` is wrong."""
    return np.array([0, 1, 1, 2])


SAME_SLOPE = Exercise(
    name="learned-biases-8",
    title="Find the input: kinks",
    kind="find the input",
    minutes=5,
    lines=1,
    statement=r"""
`colleagues_kinks` should do what exercise learned-biases-4 asks for.
It counts one kink less than there are different slopes.
It is right for ALiBi, for a line that turns flat, and for the squares 0, 1, 4, 9, 16.
Return the shortest table for which it is wrong, an integer array of at least two entries.
Which kind of T5-like table will always mislead it?
""",
    hint=r"""
Which number of slopes can be smaller than the number of pieces?
""",
    cases=((),),
    solution=table_that_differs,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_kinks,
        right=kinks,
        tested=(
            (-np.arange(9),),
            (-np.minimum(np.arange(20), 7),),
            (np.arange(5) ** 2,),
        ),
        refusal=lambda table: (
            ""
            if table.ndim == 1 and table.dtype.kind == "i" and 1 < len(table) <= 100
            else "the table is an integer array of 2 to 100 entries"
        ),
        size=lambda table: len(table),
        size_of="number of entries",
    ),
    explanation=r"""
A slope that comes back is counted once.
With two or three entries there are at most two pieces, and no slope can come back after another, so the count is right; with four entries the slopes may be 1, 0, 1, as for 0, 1, 1, 2: two kinks, and she counts one.
A histogram with two wide bins of different heights always misleads her: the slope 0 of each bin comes back after the ramp between them.
Her tests were all concave or convex, and there no slope returns.
""",
    level="optional",
)


SHEET = Sheet(
    title="Learned biases: FIRE and DAPE",
    conventions=r"""
Everywhere $i$ is the query and $j$ the key, counted from 0; $[z]_+ = \max(z, 0)$.
FIRE's threshold is $\ell$.
A bias is added to the logits before the softmax.
""",
    example=r"""
from posedu.numpy.bias import fire_inputs

offsets, options = [3, 2, 1, 0], dict(c=1.0, threshold=7.0)
x = fire_inputs(offsets, 3.0, **options, later="distance")
print(np.round(x, 3))  # query 3, keys 0 to 3
""",
    figure="fire_explorable",
    exercises=(MIDDLE, INPUTS, NETWORK, KINKS, DAPE, LATER_KEYS, LONG_TEXT, SAME_SLOPE),
)
