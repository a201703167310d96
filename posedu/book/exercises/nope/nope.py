"""The exercises on attention without positions."""

import numpy as np
import sympy as sp
import torch

from posedu.book.exercises.checker import Exercise, Misconception, Property, Sheet, draw

# nope-1: the ruler


def ruler(i, tau, gap):
    """The weight of token 0 at position i, as an expression."""
    return 1 / (1 + i * sp.exp(-tau * gap))


_I, _TAU, _GAP, _A, _R = sp.symbols("i tau g a r", positive=True)

RULER = Exercise(
    name="nope-1",
    title="A ruler of one weight",
    kind="by hand",
    minutes=6,
    lines=1,
    statement=r"""
On paper: a causal layer without positions, with the factor $\tau$.
The score of token 0 is $g$ above those of all other tokens, which are equal.
Which weight does the query at position $i$ give to token 0?
Return a SymPy expression of `i`, `tau` and `gap`.
""",
    hint=r"""
How many *other* keys does the query at $i$ see? Give them the score 0.
""",
    cases=(
        (sp.Integer(3), sp.Integer(1), sp.Integer(0)),
        (sp.Integer(4), sp.Integer(2), sp.Integer(1)),
        (_I, _TAU, _GAP),
    ),
    solution=ruler,
    misconceptions=(
        Misconception(
            "Positions are counted from 1",
            "Positions count from 0: the query at i sees i others, and itself is one "
            "of them.",
            lambda i, tau, gap: 1 / (1 + (i - 1) * sp.exp(-tau * gap)),
        ),
        Misconception(
            "Token 0 is one of the others as well",
            "There are i + 1 keys, and one of them is the marked one.",
            lambda i, tau, gap: 1 / (1 + (i + 1) * sp.exp(-tau * gap)),
        ),
        Misconception(
            "The gap is below, not above",
            "The marked token's score is larger: its weight must grow with the gap.",
            lambda i, tau, gap: 1 / (1 + i * sp.exp(tau * gap)),
        ),
        Misconception(
            "The factor is forgotten",
            "Scores are multiplied by τ before the softmax.",
            lambda i, tau, gap: 1 / (1 + i * sp.exp(-gap)),
        ),
        Misconception(
            "The factor is a temperature",
            "Scores are multiplied by τ, not divided: a larger one is sharper.",
            lambda i, tau, gap: 1 / (1 + i * sp.exp(-gap / tau)),
        ),
        Misconception(
            "The weights are not made to sum to one",
            "Divide by the sum over all keys that are seen.",
            lambda i, tau, gap: sp.exp(tau * gap),
        ),
        Misconception(
            "This is the ratio of two weights",
            "The weight of token 0 over that of all others is the odds. The weight "
            "itself is below 1.",
            lambda i, tau, gap: sp.exp(tau * gap) / i,
        ),
        Misconception(
            "This is the weight of the others",
            "Together they get the rest. What is asked is token 0's.",
            lambda i, tau, gap: i / (i + sp.exp(tau * gap)),
        ),
        Misconception(
            "This is the weight of one other token",
            "Its numerator is e⁰. What is asked is token 0's.",
            lambda i, tau, gap: 1 / (i + sp.exp(tau * gap)),
        ),
        Misconception(
            "The factor multiplies the weight",
            "It multiplies scores, and the softmax comes after.",
            lambda i, tau, gap: tau / (1 + i * sp.exp(-gap)),
        ),
        Misconception(
            "All weights are equal",
            "So they are for a gap of 0.",
            lambda i, tau, gap: 1 / (1 + i),
        ),
        Misconception(
            "The factor is outside the exponent",
            "τ multiplies the score, which stands in the exponent.",
            lambda i, tau, gap: tau * sp.exp(gap) / (tau * sp.exp(gap) + i),
        ),
    ),
    properties=(
        Property(
            "Token 0 sees itself alone",
            lambda answer, i, tau, gap: (
                sp.simplify(answer(sp.Integer(0), sp.Integer(2), sp.Integer(3)) - 1)
                == 0
            ),
        ),
    ),
)


# nope-2: a factor for a length


def stretched(tau, gap, r):
    """The factor for a text r times as long, as an expression."""
    return tau + sp.log(r) / gap


STRETCHED = Exercise(
    name="nope-2",
    title="A factor for a longer text",
    kind="by hand",
    minutes=8,
    lines=1,
    statement=r"""
On paper: with the factor $\tau$ a head gives some weight to one key whose score is $g$ above those of $i$ others, which are equal.
Then there are $r\,i$ others.
With which factor does the key keep its weight?
Return a SymPy expression of `tau`, `gap` and `r`.
Why does $i$ not appear?
""",
    hint=r"""
The weight depends on $i\,e^{-\tau g}$ alone. What must become of it?
""",
    cases=(
        (sp.Integer(1), sp.Integer(2), sp.Integer(4)),
        (sp.Rational(3, 2), sp.Integer(1), sp.Integer(10)),
        (_TAU, _GAP, _R),
    ),
    solution=stretched,
    misconceptions=(
        Misconception(
            "The factor grows in proportion",
            "It stands in an exponent: r times as many need log r more there.",
            lambda tau, gap, r: tau * r,
        ),
        Misconception(
            "The logarithm multiplies",
            "What is the same is i e^(−τ g). A product in it is a sum in the exponent.",
            lambda tau, gap, r: tau * sp.log(r) / gap,
        ),
        Misconception(
            "The gap is forgotten",
            "A step of τ moves the logit by the gap: divide by it.",
            lambda tau, gap, r: tau + sp.log(r),
        ),
        Misconception(
            "The gap multiplies",
            "The larger the gap, the less factor is needed.",
            lambda tau, gap, r: tau + gap * sp.log(r),
        ),
        Misconception(
            "The text is shorter",
            "More others need a sharper weight, not a blunter one.",
            lambda tau, gap, r: tau - sp.log(r) / gap,
        ),
        Misconception(
            "The factor of the old text is forgotten",
            "This is what must be added.",
            lambda tau, gap, r: sp.log(r) / gap,
        ),
        Misconception(
            "One is added in place of the old factor",
            "The old factor need not be 1.",
            lambda tau, gap, r: 1 + sp.log(r) / gap,
        ),
        Misconception(
            "The logarithm counts one more",
            "There are r times as many *others*: the odds are exactly r times worse.",
            lambda tau, gap, r: tau + sp.log(1 + r) / gap,
        ),
        Misconception(
            "The logarithm is of base 2",
            "The softmax has e.",
            lambda tau, gap, r: tau + sp.log(r, 2) / gap,
        ),
        Misconception(
            "The logarithm is lost",
            "r stands before an exponential, the factor in its exponent.",
            lambda tau, gap, r: tau + r / gap,
        ),
        Misconception(
            "The factor keeps its relation to the logarithm of the text",
            "log(r i)/log i would be right only where the weight is one half.",
            lambda tau, gap, r: tau * (1 + sp.log(r)),
        ),
        Misconception(
            "The whole is multiplied",
            "log r over the gap is added to the factor; it does not multiply it.",
            lambda tau, gap, r: tau * (1 + sp.log(r) / gap),
        ),
    ),
    properties=(
        Property(
            "The same length needs the same factor",
            lambda answer, tau, gap, r: (
                sp.simplify(answer(sp.Integer(3), sp.Integer(2), sp.Integer(1)) - 3)
                == 0
            ),
        ),
    ),
)


# nope-3: a factor of each head


def weights(q, k, factors):
    """The causal weights of all heads, [heads, tokens, tokens]."""
    logits = factors[:, None, None] * q @ k.swapaxes(1, 2) / np.sqrt(q.shape[2])
    logits = np.where(np.tril(np.ones(logits.shape[1:], bool)), logits, -np.inf)
    a = np.exp(logits - logits.max(-1, keepdims=True))
    return a / a.sum(-1, keepdims=True)


def _weights(change=lambda z, f: f[:, None, None] * z, mask=0, after=None, root=True):
    """With another use of the factors or another mask."""

    def answer(q, k, factors):
        z = q @ k.swapaxes(1, 2) / (np.sqrt(q.shape[2]) if root else 1)
        logits = change(z, factors)
        seen = np.tril(np.ones(logits.shape[1:], bool), mask)
        a = np.where(seen, np.exp(logits - np.where(seen, logits, 0).max()), 0)
        a = a / np.maximum(a.sum(-1, keepdims=True), 1e-300)
        return a if after is None else after(a, factors)

    return answer


def _zeroed(q, k, factors):
    logits = np.tril(factors[:, None, None] * q @ k.swapaxes(1, 2))
    a = np.exp(logits / np.sqrt(q.shape[2]))
    return a / a.sum(-1, keepdims=True)


def _head_case(heads, tokens, d):
    q, k = draw(heads, tokens, d), draw(heads, tokens, d, seed=1)
    return q, k, 0.5 + np.arange(heads) * 0.75


WEIGHTS = Exercise(
    name="nope-3",
    title="A factor of each head",
    kind="NumPy",
    minutes=10,
    lines=4,
    statement=r"""
`q` and `k` are `[heads, tokens, d]`, `factors` is `[heads]`.
Return the causal attention weights, `[heads, tokens, tokens]`, of logits $\tau_h\, q_i^\top k_j/\sqrt d$.
No warning, please: no row is empty.
What would change if the factors multiplied keys?
""",
    hint=r"""
`factors[:, None, None]` has one number for each head.
""",
    cases=(_head_case(1, 2, 2), _head_case(2, 3, 4), _head_case(3, 3, 2)),
    solution=weights,
    misconceptions=(
        Misconception(
            "Divided by the factors",
            "They are inverse temperatures: they multiply.",
            _weights(lambda z, f: z / f[:, None, None]),
        ),
        Misconception(
            "The factors are left out",
            "Each head's logits are multiplied by its own.",
            _weights(lambda z, f: z),
        ),
        Misconception(
            "One factor for all heads",
            "Each head has its own.",
            _weights(lambda z, f: f[0] * z),
        ),
        Misconception(
            "The mean of the factors for all heads",
            "Each head has its own.",
            _weights(lambda z, f: f.mean() * z),
        ),
        Misconception(
            "Heads in reverse order",
            "The first factor is the first head's.",
            _weights(lambda z, f: f[::-1, None, None] * z),
        ),
        Misconception(
            "The factors multiply weights",
            "They multiply logits, and rows sum to one after that.",
            _weights(lambda z, f: z, after=lambda a, f: f[:, None, None] * a),
        ),
        Misconception(
            "Both queries and keys are multiplied",
            "Then the logits have the square.",
            _weights(lambda z, f: f[:, None, None] ** 2 * z),
        ),
        Misconception(
            "The root of the factors",
            "They multiply logits as they are.",
            _weights(lambda z, f: np.sqrt(f)[:, None, None] * z),
        ),
        Misconception(
            "Not divided by √d",
            "The factor comes besides 1/√d, not in its place.",
            _weights(root=False),
        ),
        Misconception(
            "No mask",
            "Later keys get 0.",
            _weights(mask=10**6),
        ),
        Misconception(
            "The own key is masked",
            "Key i is not later than query i.",
            _weights(mask=-1),
        ),
        Misconception(
            "The future is seen, the past is not",
            "Rows are queries.",
            lambda q, k, f: weights(q[:, ::-1], k[:, ::-1], f)[:, ::-1, ::-1],
        ),
        Misconception(
            "Queries and keys are exchanged",
            "Row i belongs to query i.",
            lambda q, k, f: weights(k, q, f),
        ),
        Misconception(
            "Later keys have the logit 0",
            "e⁰ is 1: they get −∞.",
            lambda q, k, f: _zeroed(q, k, f),
        ),
        Misconception(
            "Masked after the softmax",
            "Then rows do not sum to one.",
            _weights(mask=10**6, after=lambda a, f: np.tril(a)),
        ),
        Misconception(
            "Divided by d",
            "Logits are over √d.",
            lambda q, k, f: weights(q / np.sqrt(q.shape[2]), k, f),
        ),
    ),
    properties=(
        Property(
            "A factor of 0 looks at all keys alike",
            lambda answer, q, k, f: bool(
                np.allclose(answer(q, k, 0 * f)[:, -1], 1 / q.shape[1])
            ),
        ),
    ),
)


# nope-4: entropy and the factor


def slope(scores, tau):
    """The derivative of the entropy of softmax(τ s) by τ, a float."""
    a = np.exp(tau * scores - np.max(tau * scores))
    a /= a.sum()
    mean = a @ scores
    return -tau * (a @ (scores - mean) ** 2)


def _softmax(z):
    a = np.exp(z - z.max())
    return a / a.sum()


def _variance(weighed):
    return lambda s, tau: -tau * weighed(s, _softmax(tau * s))


SLOPE = Exercise(
    name="nope-4",
    title="Sharper by how much",
    kind="NumPy",
    minutes=10,
    lines=4,
    statement=r"""
`scores` are those of one query for the keys that it sees, `tau` is the factor.
Return $\partial \mathcal H/\partial \tau$ for the entropy $\mathcal H = -\sum_j a_j \log a_j$ of $a = \operatorname{softmax}(\tau s)$, as a `float`, exactly (no difference quotient).
When is it 0?
""",
    hint=r"""
The chapter has it: a factor before a variance *under the weights*.
""",
    cases=(
        (np.array([0.0, 1.0]), 1.0),
        (np.array([0.0, 1.0, 3.0]), 0.5),
        (np.array([2.0, 2.0, 2.0]), 2.0),
        (draw(6), 1.5),
        (draw(5) + 30.0, 2.0),
        (1000.0 * draw(5), 0.003),
    ),
    solution=slope,
    misconceptions=(
        Misconception(
            "The sign is lost",
            "Sharper weights have less entropy.",
            lambda s, tau: -slope(s, tau),
        ),
        Misconception(
            "The factor before the variance is lost",
            "At τ = 0 the entropy is largest: its slope is 0 there.",
            lambda s, tau: slope(s, tau) / tau,
        ),
        Misconception(
            "The factor counts twice",
            "The variance is that of s, not of τ s.",
            lambda s, tau: slope(s, tau) * tau,
        ),
        Misconception(
            "Keys count alike in the variance",
            "Each counts by its weight.",
            _variance(lambda s, a: np.var(s)),
        ),
        Misconception(
            "The weights are those without the factor",
            "a is the softmax of τ s.",
            lambda s, tau: -tau * (_softmax(s) @ s**2 - (_softmax(s) @ s) ** 2),
        ),
        Misconception(
            "The mean is not subtracted",
            "The second moment is no variance: try adding 30 to all scores.",
            _variance(lambda s, a: a @ s**2),
        ),
        Misconception(
            "The deviation in place of the variance",
            "It is the square.",
            _variance(lambda s, a: np.sqrt(a @ (s - a @ s) ** 2)),
        ),
        Misconception(
            "Deviations from the mean of all keys alike",
            "The mean is weighed, too.",
            _variance(lambda s, a: a @ (s - s.mean()) ** 2),
        ),
        Misconception(
            "This is the entropy, not its slope",
            "The derivative by τ is asked.",
            lambda s, tau: -(_softmax(tau * s) @ np.log(_softmax(tau * s))),
        ),
        Misconception(
            "This is the slope of the mean score",
            "That is the variance itself, and grows.",
            lambda s, tau: slope(s, tau) / -tau,
        ),
        Misconception(
            "The variance of the weights",
            "It is that of the scores, under the weights.",
            _variance(lambda s, a: np.var(a)),
        ),
        Misconception(
            "The mean score",
            "That is not the entropy's slope: add a constant to all scores.",
            _variance(lambda s, a: a @ s),
        ),
    ),
    properties=(
        Property(
            "A constant added to all scores changes nothing",
            lambda answer, s, tau: bool(
                np.isclose(answer(s + 7.0, tau), answer(s, tau), rtol=1e-6, atol=1e-9)
            ),
        ),
    ),
)


# nope-5: how often a token is counted


def counted(tokens, layers):
    """The weight of each token in the last output, [tokens], float64."""
    count = torch.arange(1, tokens + 1, dtype=torch.float64)
    average = torch.ones(tokens, tokens, dtype=torch.float64).tril() / count[:, None]
    return torch.linalg.matrix_power(average, layers)[-1]


def _counted(make, row=-1):
    """From another matrix of weights, or another row of it."""

    def answer(tokens, layers):
        count = torch.arange(1, tokens + 1, dtype=torch.float64)
        return make(torch.ones(tokens, tokens, dtype=torch.float64), count, layers)[row]

    return answer


def _power(ones, count, layers):
    return torch.linalg.matrix_power(ones.tril() / count[:, None], layers)


COUNTED = Exercise(
    name="nope-5",
    title="How often a token is counted",
    kind="PyTorch",
    minutes=10,
    lines=3,
    statement=r"""
`layers` causal layers one after the other, all logits equal, values and outputs passed on unchanged, no residual sum.
The last of `tokens` outputs is a weighted sum of the tokens that came in.
Return the weights, `[tokens]` in float64, token 0 first.
Which token counts most in one layer, in two, in ten?
""",
    hint=r"""
One layer is a lower triangular matrix. What are its rows, and what are two layers?
""",
    cases=((2, 1), (3, 2), (4, 3), (5, 0), (9, 10)),
    solution=counted,
    misconceptions=(
        Misconception(
            "Every layer is the last one's mean",
            "The second layer averages the outputs of the first, which are means of "
            "different lengths.",
            lambda tokens, layers: torch.full(
                (tokens,), 1 / tokens, dtype=torch.float64
            ),
        ),
        Misconception(
            "Every query sees every key",
            "The layers are causal.",
            _counted(
                lambda ones, count, n: torch.linalg.matrix_power(ones / len(ones), n)
            ),
        ),
        Misconception(
            "Columns sum to one",
            "The weights of a query, a row, do.",
            _counted(
                lambda ones, count, n: torch.linalg.matrix_power(
                    ones.tril() / count.flip(0), n
                )
            ),
        ),
        Misconception(
            "The weights are not divided by their number",
            "A softmax of equal logits is one over the number of keys.",
            _counted(lambda ones, count, n: torch.linalg.matrix_power(ones.tril(), n)),
        ),
        Misconception(
            "All rows are divided by the number of all tokens",
            "Query i sees i + 1 keys.",
            _counted(
                lambda ones, count, n: torch.linalg.matrix_power(
                    ones.tril() / len(ones), n
                )
            ),
        ),
        Misconception(
            "The order is reversed",
            "Token 0 comes first, and counts most.",
            lambda tokens, layers: counted(tokens, layers).flip(0),
        ),
        Misconception(
            "The first output's weights",
            "The last token's output is asked: the last row.",
            _counted(_power, row=0),
        ),
        Misconception(
            "The weights of the last token in all outputs",
            "That is a column.",
            lambda tokens, layers: _power(
                torch.ones(tokens, tokens, dtype=torch.float64),
                torch.arange(1, tokens + 1, dtype=torch.float64),
                layers,
            )[:, -1],
        ),
        Misconception(
            "One layer too many",
            "No layer leaves the tokens as they are.",
            lambda tokens, layers: counted(tokens, layers + 1),
        ),
        Misconception(
            "One layer too few",
            "One layer is one average.",
            lambda tokens, layers: counted(tokens, max(layers - 1, 0)),
        ),
        Misconception(
            "Each weight is raised to a power",
            "Layers multiply matrices, not entries.",
            _counted(lambda ones, count, n: (ones.tril() / count[:, None]) ** n),
        ),
        Misconception(
            "A residual sum is added",
            "Here there is none.",
            _counted(
                lambda ones, count, n: torch.linalg.matrix_power(
                    torch.eye(len(ones), dtype=torch.float64)
                    + ones.tril() / count[:, None],
                    n,
                )
            ),
        ),
        Misconception(
            "The own key is not seen",
            "A query sees itself.",
            _counted(
                lambda ones, count, n: torch.linalg.matrix_power(
                    ones.tril(-1) / (count[:, None] - 1).clamp(min=1), n
                )
            ),
        ),
        Misconception(
            "A column",
            "What the last token hears is a row.",
            lambda tokens, layers: _power(
                torch.ones(tokens, tokens, dtype=torch.float64),
                torch.arange(1, tokens + 1, dtype=torch.float64),
                layers,
            )[:, 0],
        ),
    ),
    properties=(
        Property(
            "The weights sum to one",
            lambda answer, tokens, layers: (
                abs(float(answer(tokens, layers).sum()) - 1) < 1e-9
            ),
        ),
    ),
)


# nope-6: what two models have in common


def told_apart(left, right, layers):
    """Whether averaging layers tell two texts apart by the last output."""

    def heard(text):
        count = np.arange(1, len(text) + 1)
        vectors = np.eye(256)[[ord(letter) for letter in text]]
        for _ in range(layers):
            vectors = np.cumsum(vectors, axis=0) / count[:, None]
        return vectors[-1]

    return bool(np.abs(heard(left) - heard(right)).max() > 1e-12)


def _shares(text):
    """How much of a text each letter is."""
    return {letter: text.count(letter) / len(text) for letter in set(text)}


APART = Exercise(
    name="nope-6",
    title="Which texts are told apart",
    kind="experiment",
    minutes=15,
    lines=6,
    statement=r"""
Two texts, `left` and `right`, of letters below 256; each letter is a unit vector of its own.
`layers` causal layers, all logits equal, values and outputs passed on unchanged, one after the other.
Are the last outputs of the two texts different, by more than $10^{-12}$? Return a `bool`.
Predict before you compute, with one layer and with two: `abc` and `bac`; `abc` and `abcabc`; `aa` and `aaa`; `aab` and `aba`.
""",
    hint=r"""
A causal average is a cumulative sum over the number of tokens so far.
""",
    cases=(
        ("ab", "ba", 1),
        ("ab", "ba", 2),
        ("abc", "bac", 1),
        ("abc", "bac", 2),
        ("ab", "abab", 1),
        ("ab", "abab", 2),
        ("aa", "aaa", 2),
        ("aac", "ac", 1),
        ("abc", "abd", 1),
        ("ab", "ab", 3),
        ("abc", "ab", 0),
        ("ab", "cb", 0),
        ("bca", "cba", 0),
    ),
    solution=told_apart,
    misconceptions=(
        Misconception(
            "A set is seen",
            "A letter that stands twice counts twice.",
            lambda left, right, layers: set(left) != set(right),
        ),
        Misconception(
            "A multiset is seen by any number of layers",
            "Two layers see order: early tokens are counted in more averages.",
            lambda left, right, layers: _shares(left) != _shares(right),
        ),
        Misconception(
            "The order is seen by one layer",
            "The last query of one layer sees a sum, which has no order.",
            lambda left, right, layers: left != right,
        ),
        Misconception(
            "Lengths are seen",
            "Without a mark among them, equal shares are the same however many there "
            "are.",
            lambda left, right, layers: (
                len(left) != len(right) or told_apart(left, right, layers)
            ),
        ),
        Misconception(
            "Letters are counted, not averaged",
            "Weights sum to one: twice as much of everything is the same.",
            lambda left, right, layers: (
                sorted(left) != sorted(right) or told_apart(left, right, layers)
            ),
        ),
        Misconception(
            "Only the last token is heard",
            "So it is without any layer.",
            lambda left, right, layers: left[-1] != right[-1],
        ),
        Misconception(
            "The last token cannot be told from the others",
            "With no layer it is all there is.",
            lambda left, right, layers: told_apart(left, right, max(layers, 1)),
        ),
        Misconception(
            "The first token is heard",
            "It sees itself alone; the *last* output is asked.",
            lambda left, right, layers: left[0] != right[0],
        ),
        Misconception(
            "One layer less",
            "One layer is one average.",
            lambda left, right, layers: told_apart(left, right, max(layers - 1, 0)),
        ),
        Misconception(
            "One layer more",
            "One layer is one average.",
            lambda left, right, layers: told_apart(left, right, layers + 1),
        ),
        Misconception(
            "Nothing is told apart without positions",
            "That is what an encoder's mean does. A causal mask is a beginning.",
            lambda left, right, layers: False,
        ),
        Misconception(
            "Everything is told apart",
            "Try one text twice.",
            lambda left, right, layers: True,
        ),
        Misconception(
            "The answer is the wrong way round",
            "True means different.",
            lambda left, right, layers: not told_apart(left, right, layers),
        ),
    ),
    properties=(
        Property(
            "A text is not told from itself",
            lambda answer, left, right, layers: answer(left, left, layers) is False,
        ),
    ),
    tolerance=0.0,
)


SHEET = Sheet(
    title="No position at all",
    conventions=r"""
Tokens count from 0; a causal query sees itself and all tokens before it. $\tau$ multiplies logits, besides $1/\sqrt d$. There is no encoding anywhere.
""",
    exercises=(RULER, STRETCHED, WEIGHTS, SLOPE, COUNTED, APART),
)
