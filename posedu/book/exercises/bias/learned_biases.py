"""The exercises on biases that are learned functions."""

import numpy as np
import sympy as sp
import torch
from torch.nn.functional import leaky_relu

from posedu.book.exercises.checker import Exercise, Misconception, Property, Sheet, draw

# learned-biases-1: the middle of the curve


def middle(c, n):
    """The distance at which FIRE reads 1/2, as an expression."""
    return (sp.sqrt(c * n + 1) - 1) / c


_C, _N = sp.symbols("c n", positive=True)

MIDDLE = Exercise(
    name="learned-biases-1",
    title="The middle of the curve",
    kind="by hand",
    minutes=8,
    lines=1,
    statement=r"""
On paper: FIRE reads $\psi(t)/\psi(n)$ with $\psi(t) = \log(1 + c\,t)$, $c > 0$, where $n = \max(\ell, i)$.
At which distance $t$ is that $\tfrac12$?
Return a SymPy expression of `c` and `n`.
Four times as long a text: how much farther is the middle?
""",
    hint=r"""
Twice a logarithm is the logarithm of a square.
""",
    cases=((sp.Integer(1), sp.Integer(8)), (sp.Integer(2), _N), (_C, _N)),
    solution=middle,
    misconceptions=(
        Misconception(
            "The middle of the text",
            "So it would be for ψ(t) = t. The logarithm is steep at the beginning.",
            lambda c, n: n / 2,
        ),
        Misconception(
            "The 1 is not subtracted",
            "1 + c t is the root. What is t?",
            lambda c, n: sp.sqrt(c * n + 1) / c,
        ),
        Misconception(
            "c is not divided out",
            "1 + c t is the root. What is t?",
            lambda c, n: sp.sqrt(c * n + 1) - 1,
        ),
        Misconception(
            "The 1 is subtracted after the division",
            "From 1 + c t the 1 goes first, then c.",
            lambda c, n: sp.sqrt(c * n + 1) / c - 1,
        ),
        Misconception(
            "Halved inside the logarithm",
            "log(1 + c t) is to be half as large, not 1 + c t.",
            lambda c, n: ((c * n + 1) / 2 - 1) / c,
        ),
        Misconception(
            "The root of the distance",
            "The 1 inside the logarithm is forgotten.",
            lambda c, n: sp.sqrt(n / c),
        ),
        Misconception(
            "The root of c n alone",
            "The 1 inside the logarithm is forgotten on one side.",
            lambda c, n: (sp.sqrt(c * n) - 1) / c,
        ),
        Misconception(
            "The square in place of the root",
            "t is smaller than n: half of the logarithm is the root.",
            lambda c, n: ((c * n + 1) ** 2 - 1) / c,
        ),
        Misconception(
            "This is the input, not the distance",
            "The input is 1/2; which distance has it?",
            lambda c, n: sp.log(1 + c * n) / 2,
        ),
        Misconception(
            "The geometric mean of 1 and n",
            "That would be right for ψ(t) = log t.",
            lambda c, n: sp.sqrt(n),
        ),
        Misconception(
            "Multiplied by c",
            "From c t you come to t by a division.",
            lambda c, n: c * (sp.sqrt(c * n + 1) - 1),
        ),
    ),
    properties=(
        Property(
            "The network reads 1/2 there",
            lambda answer, c, n: (
                sp.expand((1 + 3 * answer(sp.Integer(3), sp.Integer(5))) ** 2) == 16
            ),
        ),
    ),
)


# learned-biases-2: what the network reads


def inputs(tokens, c, threshold):
    """X of every query and key, [tokens, tokens], 0 for later keys."""
    i = np.arange(tokens)[:, None]
    t = np.maximum(i - np.arange(tokens), 0)
    return np.log1p(c * t) / np.log1p(c * np.maximum(threshold, i))


def _inputs(longest, psi=np.log1p, distance=None):
    """With another denominator, ψ or distance."""

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
The maximum is of the threshold and the query, so it has one number for each row.
""",
    cases=((3, 1.0, 1), (6, 0.1, 20), (12, 0.5, 4), (30, 2.0, 10)),
    solution=inputs,
    misconceptions=(
        Misconception(
            "The maximum is of the threshold and the distance",
            "Then every distance above the threshold reads 1. It is the query's position.",
            _inputs(lambda t, i, L, n: np.maximum(L, t)),
        ),
        Misconception(
            "The maximum is of the threshold and the length",
            "A token must not know how long the text will be: its own position is it.",
            _inputs(lambda t, i, L, n: max(L, n - 1)),
        ),
        Misconception(
            "The maximum is of the threshold and the number of tokens",
            "It is the query's position, from 0.",
            _inputs(lambda t, i, L, n: max(L, n)),
        ),
        Misconception(
            "No threshold",
            "In short texts the query's position alone would stretch the curve.",
            _inputs(lambda t, i, L, n: i + 0 * t),
        ),
        Misconception(
            "No query",
            "Beyond the threshold the inputs would leave [0, 1].",
            _inputs(lambda t, i, L, n: L + 0 * t),
        ),
        Misconception(
            "The smaller of both",
            "The larger one, so that inputs are at most 1.",
            _inputs(lambda t, i, L, n: np.minimum(L, i)),
        ),
        Misconception(
            "Positions from 1",
            "The first query is 0 and not 1.",
            _inputs(lambda t, i, L, n: np.maximum(L, i + 1)),
        ),
        Misconception(
            "c is forgotten",
            "Distances are multiplied by c inside both logarithms.",
            lambda tokens, c, threshold: inputs(tokens, 1.0, threshold),
        ),
        Misconception(
            "ψ is forgotten",
            "Distances are compared by their logarithms.",
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
            "Later keys have a distance",
            "Above the diagonal the exercise wants 0; |i − j| is the listing's way.",
            _inputs(
                lambda t, i, L, n: np.maximum(L, i),
                distance=lambda i, j: abs(i - j),
            ),
        ),
        Misconception(
            "The key's position below the line",
            "The query says how far the curve is stretched.",
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
            "Nothing leaves [0, 1]",
            lambda answer, tokens, c, threshold: bool(
                (answer(40, c, 7) >= 0).all() and (answer(40, c, 7) <= 1).all()
            ),
        ),
    ),
)


# learned-biases-3: a network through a table


def network(x, table):
    """The output weights of units [z − x_k]_+, k = 0 … n − 1."""
    slopes = np.diff(table) / np.diff(x)
    return np.diff(slopes, prepend=0.0)


def _case(n, seed=0):
    x = np.abs(draw(n, seed=seed)).cumsum()
    return (x - x[0]) / (x[-1] - x[0]), draw(n, seed=seed + 1)


NETWORK = Exercise(
    name="learned-biases-3",
    title="A network through a table",
    kind="NumPy",
    minutes=12,
    lines=2,
    statement=r"""
`x` are $n + 1$ inputs, $0 = x_0 < \dots < x_n = 1$, and `table` holds a bias for each.
Return weights $u_0, \dots, u_{n-1}$ such that $b_0 + \sum_{k=0}^{n-1} u_k\, [x - x_k]_+$ goes through all of them.
""",
    hint=r"""
Each unit changes the slope, at its kink. What is the slope before the first?
""",
    cases=(
        (np.array([0.0, 0.5, 1.0]), np.array([0.0, 1.0, 1.0])),
        _case(5),
        _case(12, seed=2),
    ),
    solution=network,
    misconceptions=(
        Misconception(
            "These are slopes",
            "A unit goes on for ever: the next one has to add the *change* of slope.",
            lambda x, table: np.diff(table) / np.diff(x),
        ),
        Misconception(
            "These are the steps of the table",
            "A unit grows by its slope times the way: divide by the gaps.",
            lambda x, table: np.diff(table),
        ),
        Misconception(
            "Changes of steps, not of slopes",
            "The inputs are not equally far apart: divide by the gaps first.",
            lambda x, table: np.diff(np.diff(table), prepend=0.0),
        ),
        Misconception(
            "The gaps are taken to be equal",
            "x_k are given, and logarithms are not equally far apart.",
            lambda x, table: np.diff(np.diff(table), prepend=0.0) * (len(x) - 1),
        ),
        Misconception(
            "Turned over",
            "A slope is a rise over a way.",
            lambda x, table: np.diff(
                np.diff(x) / np.where(np.diff(table) == 0, 1, np.diff(table)),
                prepend=0.0,
            ),
        ),
        Misconception(
            "The sign is wrong",
            "The slope after a kink, less the one before.",
            lambda x, table: -network(x, table),
        ),
        Misconception(
            "The first slope is left out",
            "Before the first kink the network is flat: its weight is the first slope.",
            lambda x, table: np.append(0.0, np.diff(np.diff(table) / np.diff(x))),
        ),
        Misconception(
            "The changes are one unit early",
            "Unit k changes the slope from x_k on.",
            lambda x, table: np.append(network(x, table)[1:], 0.0),
        ),
        Misconception(
            "b₀ is forgotten",
            "It stands before the sum: the units add what the table has beyond it.",
            lambda x, table: np.linalg.solve(
                np.maximum(x[1:, None] - x[:-1], 0), table[1:]
            ),
        ),
        Misconception(
            "The table itself",
            "Weights of ramps, not values.",
            lambda x, table: table[1:] + 0.0,
        ),
        Misconception(
            "The changes are divided by the gaps once more",
            "Slopes are divided already.",
            lambda x, table: network(x, table) / np.diff(x),
        ),
    ),
    properties=(
        Property(
            "The network says the table",
            lambda answer, x, table: bool(
                np.allclose(
                    table[0] + np.maximum(x[:, None] - x[:-1], 0) @ answer(x, table),
                    table,
                )
            ),
        ),
    ),
)


# learned-biases-4: the kinks of a table


def kinks(table):
    """How many kinks the broken line through the table has, an int."""
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
`table` holds its bias at the distances 0, 1, 2, …, and from each to the next it goes straight.
How many kinks has its line? Return an `int`; changes of slope below $10^{-9}$ are none.
Predict for ALiBi, for five random numbers, and for a histogram with two wide bins at its end.
May another broken line through the same points have fewer?
""",
    hint=r"""
Where three neighbors lie on a line, there is none.
""",
    cases=(
        (np.array([0.0, 1.0, 1.0]),),
        (-np.arange(9) / 4,),
        (draw(5),),
        (_HISTOGRAM,),
        (-np.minimum(np.arange(20.0), 7),),
        (np.array([0.0, 1.0, 0.0, 1.0, 2.0, 2.0]),),
        (np.array([0.0, 1.0, 3.0, 4.0]),),
    ),
    solution=kinks,
    misconceptions=(
        Misconception(
            "Steps are counted",
            "A straight line has a step at every distance, and no kink.",
            lambda table: int(np.count_nonzero(np.diff(table))),
        ),
        Misconception(
            "Different numbers are counted",
            "What counts is where the slope changes.",
            lambda table: len(np.unique(table)),
        ),
        Misconception(
            "Buckets are counted",
            "A ramp between two flat bins has a kink at either end.",
            lambda table: int(np.count_nonzero(np.diff(table))) - 1,
        ),
        Misconception(
            "One for each inner distance",
            "Where three neighbors lie on a line there is no kink.",
            lambda table: len(table) - 2,
        ),
        Misconception(
            "One for each piece",
            "n kinks make n + 1 pieces.",
            lambda table: kinks(table) + 1,
        ),
        Misconception(
            "Different slopes are counted",
            "The same slope may come back: count its changes.",
            lambda table: len(np.unique(np.diff(table).round(9))) - 1,
        ),
        Misconception(
            "Only turning points are counted",
            "A change of slope without a change of direction is a kink, too.",
            lambda table: int(np.count_nonzero(np.diff(np.sign(np.diff(table))))),
        ),
        Misconception(
            "Only upward kinks are counted",
            "The slope may fall as well.",
            lambda table: int(np.count_nonzero(np.diff(table, 2) > 1e-9)),
        ),
        Misconception(
            "Only downward kinks are counted",
            "The slope may grow as well.",
            lambda table: int(np.count_nonzero(np.diff(table, 2) < -1e-9)),
        ),
        Misconception(
            "Rounding is taken for a kink",
            "Numbers that lie on a line do so up to their last digits.",
            lambda table: int(np.count_nonzero(np.diff(table + np.pi * 1e-3, 2))),
        ),
    ),
    properties=(
        Property(
            "A line added changes nothing",
            lambda answer, table: (
                answer(table + 3.0 * np.arange(len(table))) == answer(table)
            ),
        ),
    ),
    tolerance=0.0,
)


# learned-biases-5: DAPE


def dape(s, b, w, a, u, residual):
    """The logits of all heads, [heads, queries, keys]."""
    read = torch.cat((s, b))
    hidden = leaky_relu(torch.einsum("kc,cij->kij", w, read) + a[:, None, None])
    said = torch.einsum("hk,kij->hij", u, hidden)
    return s + said + (b if residual else 0)


def _dape(read=None, act=leaky_relu, sum_up=None):
    """With another input, activation or sum."""

    def answer(s, b, w, a, u, residual):
        given = torch.cat((s, b)) if read is None else read(s, b)
        hidden = act(torch.einsum("kc,cij->kij", w, given) + a[:, None, None])
        said = torch.einsum("hk,kij->hij", u, hidden)
        if sum_up is not None:
            return sum_up(s, b, said, residual)
        return s + said + (b if residual else 0)

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
A network reads, at each query and key, the products of all heads and then their biases; `w` is `[width, 2 * heads]`, `a` is `[width]`, its activation a leaky ReLU of slope 0.01, and its last layer `u` is `[heads, width]`, without a bias.
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
            "The bias is always added",
            "Without residual, the network alone says what becomes of it.",
            lambda s, b, w, a, u, residual: dape(s, b, w, a, u, True),
        ),
        Misconception(
            "The bias is never added",
            "With residual, B stands beside the network.",
            lambda s, b, w, a, u, residual: dape(s, b, w, a, u, False),
        ),
        Misconception(
            "The network in place of the logits",
            "It corrects S, which stays.",
            _dape(sum_up=lambda s, b, said, r: said + (b if r else 0)),
        ),
        Misconception(
            "The network alone",
            "S stays, and with residual B.",
            _dape(sum_up=lambda s, b, said, r: said),
        ),
        Misconception(
            "Biases before products",
            "The first channels are the products.",
            _dape(read=lambda s, b: torch.cat((b, s))),
        ),
        Misconception(
            "Heads take turns",
            "First the products of all heads, then all biases.",
            _dape(read=lambda s, b: torch.stack((s, b), 1).flatten(0, 1)),
        ),
        Misconception(
            "The biases are read twice",
            "The first half of the channels are products.",
            _dape(read=lambda s, b: torch.cat((b, b))),
        ),
        Misconception(
            "The products are read twice",
            "The second half of the channels are biases.",
            _dape(read=lambda s, b: torch.cat((s, s))),
        ),
        Misconception(
            "The sum of both is read",
            "The network sees S and B apart, and can tell them apart.",
            _dape(read=lambda s, b: torch.cat((s + b, b))),
        ),
        Misconception(
            "A ReLU",
            "Below 0 the leaky one has the slope 0.01.",
            _dape(act=torch.relu),
        ),
        Misconception(
            "The leak is 0.1",
            "PyTorch's default, 0.01.",
            _dape(act=lambda z: leaky_relu(z, 0.1)),
        ),
        Misconception(
            "No activation",
            "Without one the network is a mixing of heads.",
            _dape(act=lambda z: z),
        ),
        Misconception(
            "An activation at the end, too",
            "The last layer is linear: what it says may be anything.",
            lambda s, b, w, a, u, residual: (
                s + (b if residual else 0) + leaky_relu(dape(s, b, w, a, u, False) - s)
            ),
        ),
        Misconception(
            "The first bias is forgotten",
            "a is added to the hidden units.",
            lambda s, b, w, a, u, residual: dape(s, b, w, 0 * a, u, residual),
        ),
        Misconception(
            "Masked inside",
            "The first version needs no mask inside: it reads one key at a time.",
            lambda s, b, w, a, u, residual: dape(s.tril(), b.tril(), w, a, u, residual),
        ),
        Misconception(
            "Queries and keys are exchanged",
            "Row i is query i.",
            lambda s, b, w, a, u, residual: dape(s.mT, b.mT, w, a, u, residual),
        ),
    ),
    properties=(
        Property(
            "Weights of 0 leave the logits",
            lambda answer, s, b, w, a, u, residual: bool(
                torch.allclose(answer(s, b, w, a, 0 * u, False), s)
            ),
        ),
    ),
)


# learned-biases-6: who reads the future


def reads(kernel, masked):
    """How many later keys a logit depends on, at most; an int."""
    return 0 if masked else 2 * (kernel // 2)


READS = Exercise(
    name="learned-biases-6",
    title="Who reads the future",
    kind="experiment",
    minutes=12,
    lines=1,
    statement=r"""
Two convolutions over the keys of a query, one after the other, each of an odd width `kernel` and centerd; `masked` says that all later keys are 0 in what the first reads.
Of how many *later* keys does the logit of a query and its own key depend, on their contents?
Return an `int`.
Try it before you compute: which gradients of a random network are not 0?
""",
    hint=r"""
One layer of width 3 reads one key to the right. What does it read of that one if it is itself a layer's word?
""",
    cases=((1, False), (3, False), (3, True), (5, False), (7, False), (1, True)),
    solution=reads,
    misconceptions=(
        Misconception(
            "One layer is counted",
            "The second layer reads what the first said of the neighbors.",
            lambda kernel, masked: 0 if masked else kernel // 2,
        ),
        Misconception(
            "The whole kernel reads ahead",
            "Half of a centerd kernel looks back.",
            lambda kernel, masked: 0 if masked else 2 * kernel,
        ),
        Misconception(
            "The key itself is counted",
            "Its own key is not later.",
            lambda kernel, masked: 0 if masked else 2 * (kernel // 2) + 1,
        ),
        Misconception(
            "The mask does nothing",
            "What is 0 for every text has no contents.",
            lambda kernel, masked: 2 * (kernel // 2),
        ),
        Misconception(
            "The mask shuts one layer alone",
            "The second layer reads the first one's word of later keys: but that is "
            "made of keys which are seen.",
            lambda kernel, masked: kernel // 2 if masked else 2 * (kernel // 2),
        ),
        Misconception(
            "A softmax that is masked reads nothing",
            "Its mask comes after the network: too late.",
            lambda kernel, masked: 0,
        ),
        Misconception(
            "The mask is the wrong way round",
            "masked means that later keys are 0.",
            lambda kernel, masked: 2 * (kernel // 2) if masked else 0,
        ),
        Misconception(
            "Widths are multiplied",
            "Two reaches are added.",
            lambda kernel, masked: 0 if masked else (kernel // 2) ** 2 * 2,
        ),
        Misconception(
            "One less than the kernel, once",
            "Two layers of width 3 reach as far as one of width 5: half of 4.",
            lambda kernel, masked: 0 if masked else 2 * (kernel - 1),
        ),
    ),
    properties=(
        Property(
            "A kernel of 1 reads no neighbor",
            lambda answer, kernel, masked: answer(1, False) == 0,
        ),
    ),
    tolerance=0.0,
)


SHEET = Sheet(
    title="Biases that are learned functions",
    conventions=r"""
Everywhere $i$ is the query and $j$ the key, counted from 0; $[z]_+ = \max(z, 0)$. FIRE's threshold is $\ell$. A bias is added to the logits before the softmax.
""",
    exercises=(MIDDLE, INPUTS, NETWORK, KINKS, DAPE, READS),
)
