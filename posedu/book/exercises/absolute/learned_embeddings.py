"""Exercises on learned absolute embeddings."""

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

# learned-embeddings-1: which rows get a gradient


def row_gradients(positions, gradients, rows):
    """Gradient of a position table, as a SymPy matrix of ``rows`` rows.

    ``positions`` has the position of each token, which is the table row that the token
    reads. Row n of ``gradients`` is the gradient of the input vector of token n.
    """
    total = sp.zeros(rows, gradients.cols)
    for token, position in enumerate(positions):
        total[position, :] += gradients[token, :]
    return total


def _gradients(of_token):
    """Make a wrong answer (a function) to the exercise ``row_gradients``.

    The exercise asks for the gradient of a position table: the sum of the gradients of
    the tokens that read each row. The wrong answer calls ``of_token(total, position,
    row, token)`` for each token to change ``total``, the gradient of the table; ``row``
    is the token's gradient, ``token`` its number.
    """

    def answer(positions, gradients, rows):
        total = sp.zeros(rows, gradients.cols)
        for token, position in enumerate(positions):
            of_token(total, position, gradients[token, :], token)
        return total

    return answer


def _last_only(total, position, row, token):
    total[position, :] = row


def _first_only(total, position, row, token):
    if not any(total[position, :]):
        total[position, :] = row


def _by_token(total, position, row, token):
    if token < total.rows:
        total[token, :] += row


def _late(total, position, row, token):
    if position + 1 < total.rows:
        total[position + 1, :] += row


def _early(total, position, row, token):
    total[position - 1, :] += row


def _from_the_end(total, position, row, token):
    total[total.rows - 1 - position, :] += row


def _mean(positions, gradients, rows):
    total = row_gradients(positions, gradients, rows)
    for position in set(positions):
        total[position, :] /= positions.count(position)
    return total


def _everywhere(positions, gradients, rows):
    return sp.Matrix.vstack(*[sp.ones(1, len(positions)) * gradients] * rows)


ROW_GRADIENTS = Exercise(
    name="learned-embeddings-1",
    title="Which rows get a gradient",
    kind="by hand",
    minutes=6,
    lines=4,
    statement=r"""
The tokens of a batch are at `positions`.
`gradients` has a row for each token: the gradient of a loss with respect to the token's input vector.
Return the gradient with respect to the table of `rows` rows, as a SymPy matrix.
Do the first case on paper: positions 0, 2, 2 and a table of 4 rows.
""",
    hint=r"""
$x = u + H P$, and $H$ has a 1 for each token.
What is the gradient of a row of $P$ that two tokens read?
""",
    cases=(
        ((0, 2, 2), sp.Matrix([[1, 2], [3, 4], [5, 7]]), 4),
        ((1,), sp.Matrix([[3, -1, 2]]), 3),
        ((4, 0, 4, 4, 1), sp.Matrix(5, 2, lambda r, c: 3 * r - 5 * c + 1), 6),
        ((0, 1, 0), sp.Matrix([[1, 2], [3, 4], [5, 7]]) / 4, 3),
    ),
    solution=row_gradients,
    misconceptions=(
        Misconception(
            "Only the last token at a position",
            "Both tokens read the same row, so both contribute to its gradient.",
            _gradients(_last_only),
        ),
        Misconception(
            "Only the first token at a position",
            "Both tokens read the same row, so both contribute to its gradient.",
            _gradients(_first_only),
        ),
        Misconception(
            "Mean over the tokens at a position",
            "The chain rule adds. It does not divide by the number of tokens.",
            _mean,
        ),
        Misconception(
            "Rows by token, not by position",
            "A token with index 1 may be at another position than 1.",
            _gradients(_by_token),
        ),
        Misconception(
            "Positions from 1",
            "Row 0 belongs to position 0.",
            _gradients(_late),
        ),
        Misconception(
            "Rows counted from the end",
            "Row 0 belongs to position 0, and comes first.",
            _gradients(_from_the_end),
        ),
        Misconception(
            "Sum of all gradients in every row",
            "A row that no token reads does not change the loss.",
            _everywhere,
        ),
        Misconception(
            "Step in place of the gradient",
            "The gradient points uphill. A step of descent goes against it.",
            lambda p, g, n: -row_gradients(p, g, n),
        ),
        Misconception(
            "Counts of the positions",
            "The counts say how often a row is read, not what each reading "
            "contributes.",
            lambda p, g, n: sp.Matrix(n, g.cols, lambda r, c: p.count(r)),
        ),
        Misconception(
            "Gradients counted twice",
            "A token reads its row once.",
            lambda p, g, n: 2 * row_gradients(p, g, n),
        ),
        Misconception(
            "Each position in the row before",
            "Row 0 belongs to position 0.",
            _gradients(_early),
        ),
        Misconception(
            "Divided by the number of tokens",
            "The chain rule adds. It does not divide by the number of tokens.",
            lambda p, g, n: row_gradients(p, g, n) / len(p),
        ),
        Misconception(
            "Gradients cut to whole numbers",
            "Gradients may be any numbers, and the table must hold them.",
            lambda p, g, n: row_gradients(p, g.applyfunc(int), n),
        ),
        Misconception(
            "Multiplied by the counts",
            "The sum contains each token once already.",
            lambda p, g, n: sp.Matrix(
                n, g.cols, lambda r, c: p.count(r) * row_gradients(p, g, n)[r, c]
            ),
        ),
    ),
    properties=(
        Property(
            "The rows of the gradient and the gradients of the tokens have the same "
            "sum",
            lambda answer, p, g, n: (
                sp.ones(1, n) * answer(p, g, n) == sp.ones(1, len(p)) * g
            ),
        ),
    ),
    explanation=r"""
Every token at position $r$ reads row $r$, so by the chain rule the gradient of the row is the sum of these tokens' gradients: $G = H^\top g$, where $H$ has a row with a single 1 for each token.
For the positions 0, 2, 2 the gradients of tokens 1 and 2 are added in row 2: $(3, 4) + (5, 7) = (8, 11)$.
Row 0 gets $(1, 2)$, and rows 1 and 3, which no token reads, get zeros, the reason for {prf:ref}`the theorem on rows of unseen positions <thm-learned-unseen>`.
""",
)


# learned-embeddings-2: rows, and zeros beyond the table


def rows_or_zeros(table, positions):
    """Table row of each position, zeros outside the table: [tokens, d].

    ``table`` has a vector for each position from 0 on; ``positions``, [tokens], are
    integers.
    """
    inside = (positions >= 0) & (positions < len(table))
    nearest = np.clip(positions, 0, len(table) - 1)
    return np.where(inside[:, None], table[nearest], 0.0)


def _rows(index, keep=lambda p, n: (p >= 0) & (p < n)):
    def answer(table, positions):
        n = len(table)
        at = np.clip(index(positions, n), 0, n - 1)
        return np.where(keep(positions, n)[:, None], table[at], 0.0)

    return answer


ROWS = Exercise(
    name="learned-embeddings-2",
    title="Rows, and zeros beyond the table",
    kind="NumPy",
    minutes=8,
    lines=3,
    statement=r"""
`positions` holds whole numbers of either sign.
Return the row of `table` for each of them, and zeros for positions before the first row or after the last, as an array of the table's dtype.
""",
    hint=r"""
The one-hot row of a position without a row in the table is all zeros.
NumPy's `table[-1]` is not.
""",
    cases=(
        (np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0, 1, 2, -1])),
        (draw(4, 3), np.array([3, 0, 4, -1, -4, 9, 2])),
        (draw(1, 2), np.array([0, 1, -2])),
        (draw(5, 2, seed=1), np.array([5, -5, -6, 6, 4])),
        (np.ones((2, 1), dtype=np.float32), np.array([1, 2])),
    ),
    solution=rows_or_zeros,
    misconceptions=(
        Misconception(
            "Negative positions count from the end",
            "NumPy's index counts negative numbers from the end, but position −1 has "
            "no row.",
            _rows(lambda p, n: p % n, lambda p, n: (p >= -n) & (p < n)),
        ),
        Misconception(
            "Positions modulo the number of rows",
            "Position n is not position 0.",
            lambda table, p: table[p % len(table)],
        ),
        Misconception(
            "Nearest row for other positions",
            "Transformer-XL takes the nearest row; here zeros are asked for.",
            lambda table, p: table[np.clip(p, 0, len(table) - 1)],
        ),
        Misconception(
            "First row for positions before it",
            "Positions before the first row have no row either.",
            _rows(lambda p, n: p, lambda p, n: p < n),
        ),
        Misconception(
            "Last row for positions after it",
            "Positions after the last row have no row either.",
            _rows(lambda p, n: p, lambda p, n: p >= 0),
        ),
        Misconception(
            "Last row left out",
            "Rows are 0 … n − 1, and n − 1 is one of them.",
            _rows(lambda p, n: p, lambda p, n: (p >= 0) & (p < n - 1)),
        ),
        Misconception(
            "Position 0 left out",
            "Positions count from 0, and position 0 has a row.",
            _rows(lambda p, n: p, lambda p, n: (p > 0) & (p < n)),
        ),
        Misconception(
            "A row for position n",
            "A table of n rows ends with position n − 1.",
            _rows(lambda p, n: p, lambda p, n: (p >= 0) & (p <= n)),
        ),
        Misconception(
            "Positions from 1",
            "Row 0 belongs to position 0.",
            _rows(lambda p, n: p - 1, lambda p, n: (p >= 1) & (p <= n)),
        ),
        Misconception(
            "Sign forgotten",
            "Position −1 is not position 1.",
            _rows(lambda p, n: abs(p), lambda p, n: abs(p) < n),
        ),
        Misconception(
            "Ones in place of zeros",
            "An addition of zeros changes nothing.",
            lambda table, p: np.where(
                ((p >= 0) & (p < len(table)))[:, None], rows_or_zeros(table, p), 1.0
            ),
        ),
        Misconception(
            "Token indices in place of positions",
            "Row n of the table belongs to position n, whatever token is there.",
            lambda table, p: rows_or_zeros(table, np.arange(len(p))),
        ),
    ),
    properties=(
        Property(
            "For a table of ones the result is ones where there is a row and zeros "
            "elsewhere",
            lambda answer, table, p: bool(
                (
                    answer(np.ones_like(table), p)[:, 0]
                    == ((p >= 0) & (p < len(table)))
                ).all()
            ),
        ),
    ),
    explanation=r"""
The indices are clipped into the table first, so that each of them names a row, and the rows of positions outside are then replaced by zeros.
`table[positions]` alone would give position $-1$ the last row, and raise an error beyond the table.
This is the convention `beyond="zero"` of the chapter: a position without a row in {prf:ref}`the table of learned embeddings <dfn-learned>` adds nothing.
""",
)


# learned-embeddings-3: a row that no token reads


def entry_after(row, rate, decay, steps):
    """Number in a position table's row that no token reads, after AdamW's steps.

    The number is an expression. ``row`` is its value before the steps, ``rate`` the
    learning rate, ``decay`` the weight decay, and ``steps`` the number of steps.
    """
    return row * (1 - rate * decay) ** steps


_P, _RATE, _DECAY, _T = sp.symbols("p alpha lambda T", positive=True)

ENTRY_AFTER = Exercise(
    name="learned-embeddings-3",
    title="A row that no token reads",
    kind="by hand",
    minutes=5,
    lines=1,
    statement=r"""
On paper: a step of AdamW is $p \leftarrow p - \alpha \lambda p - \alpha\, \hat m / (\sqrt{\hat v} + \varepsilon)$, where $\hat m$ and $\hat v$ are means of the gradient and of its square.
No token ever reads a certain row.
Return the value, after `steps` steps, of an entry that starts as `row`, for the rate $\alpha$ (`rate`) and the decay $\lambda$ (`decay`).
All arguments may be SymPy symbols.
""",
    hint=r"""
What are the means of a gradient that is always 0?
With these means every step multiplies the entry by the same factor.
""",
    cases=(
        (sp.Integer(3), sp.Rational(1, 10), sp.Rational(1, 2), 2),
        (_P, sp.Rational(1, 100), sp.Integer(0), 5),
        (_P, _RATE, _DECAY, 3),
        (_P, _RATE, _DECAY, _T),
    ),
    solution=entry_after,
    misconceptions=(
        Misconception(
            "Number unchanged",
            "Without decay the number stays the same. What does the second term of a "
            "step do?",
            lambda p, a, d, T: p + sp.Integer(0),
        ),
        Misconception(
            "Number 0",
            "A gradient of 0 does not make the number 0.",
            lambda p, a, d, T: sp.Integer(0),
        ),
        Misconception(
            "The same amount in each step",
            "Each step subtracts a share of the number that is still there.",
            lambda p, a, d, T: p * (1 - T * a * d),
        ),
        Misconception(
            "A single step",
            "There are `steps` steps.",
            lambda p, a, d, T: p * (1 - a * d),
        ),
        Misconception(
            "One step too few",
            "After one step the factor stands once.",
            lambda p, a, d, T: p * (1 - a * d) ** (T - 1),
        ),
        Misconception(
            "One step too many",
            "After one step the factor stands once.",
            lambda p, a, d, T: p * (1 - a * d) ** (T + 1),
        ),
        Misconception(
            "Rate forgotten",
            "The decay is multiplied by the rate.",
            lambda p, a, d, T: p * (1 - d) ** T,
        ),
        Misconception(
            "Decay forgotten",
            "The rate is multiplied by the decay.",
            lambda p, a, d, T: p * (1 - a) ** T,
        ),
        Misconception(
            "Number that grows",
            "The decay is subtracted.",
            lambda p, a, d, T: p * (1 + a * d) ** T,
        ),
        Misconception(
            "Exponential in place of the power",
            "The exponential is nearly right for small rates. A step multiplies by 1 "
            "− αλ exactly.",
            lambda p, a, d, T: p * sp.exp(-a * d * T),
        ),
        Misconception(
            "Factor alone",
            "The number at the start is multiplied by the factor.",
            lambda p, a, d, T: (1 - a * d) ** T,
        ),
        Misconception(
            "Decay subtracted, not multiplied",
            "αλp is a share of p.",
            lambda p, a, d, T: p - a * d * T,
        ),
        Misconception(
            "Powers of α and λ",
            "The product αλ is subtracted from 1 before the power.",
            lambda p, a, d, T: p * (1 - (a * d) ** T),
        ),
        Misconception(
            "Step of Adam",
            "The means of zeros are zeros, so Adam's own step is 0.",
            lambda p, a, d, T: p * (1 - a * d) ** T - a * T,
        ),
        Misconception(
            "Divided by the growth",
            "A step takes its share of the old number, not of the new one.",
            lambda p, a, d, T: p / (1 + a * d) ** T,
        ),
        Misconception(
            "Powers of the rate and of the decay",
            "A step subtracts one share, αλ, not one share for each of the two.",
            lambda p, a, d, T: p * ((1 - a) * (1 - d)) ** T,
        ),
        Misconception(
            "Three terms of the power",
            "Your answer is right for up to two steps. The power has T + 1 terms.",
            lambda p, a, d, T: (
                p * (1 - T * a * d + sp.Integer(1) * T * (T - 1) / 2 * (a * d) ** 2)
            ),
        ),
        Misconception(
            "Decay and rate as separate factors",
            "Rate and decay are multiplied: αλ.",
            lambda p, a, d, T: p * (1 - a - d) ** T,
        ),
    ),
    properties=(
        Property(
            "Two runs, one after the other, are like one run of all their steps",
            lambda answer, p, a, d, T: (
                sp.simplify(answer(answer(p, a, d, 2), a, d, 3) - answer(p, a, d, 5))
                == 0
            ),
        ),
    ),
    explanation=r"""
The gradient of the row is 0 in every step, so its mean $\hat m$ and the mean of its square $\hat v$ are 0, and the last term of a step is $0/\varepsilon = 0$.
What is left is $p \leftarrow p - \alpha \lambda p = (1 - \alpha \lambda)\, p$, so after $T$ steps the entry is $(1 - \alpha \lambda)^T$ times its first value.
This is {prf:ref}`the theorem on rows of unseen positions <thm-learned-unseen>`: without decay the row keeps its initial random numbers, and with decay it shrinks towards 0, whatever the texts say.
""",
)


# learned-embeddings-4: how many features


def features_needed(rows, epsilon, delta):
    """Smallest width d at which a random position table's rows are nearly orthogonal.

    A bound on the probability that any two of the ``rows`` rows have a cosine of
    absolute value ≥ ``epsilon`` is at most ``delta``.
    """
    return int(np.ceil(2 / epsilon**2 * np.log(rows * (rows - 1) / delta)))


def _needed(formula):
    return lambda rows, epsilon, delta: int(np.ceil(formula(rows, epsilon, delta)))


FEATURES_NEEDED = Exercise(
    name="learned-embeddings-4",
    title="How many features",
    kind="NumPy",
    minutes=8,
    lines=1,
    statement=r"""
The probability that any two of $n$ random rows have a cosine with an absolute value of $\varepsilon$ or more is at most $n (n - 1)\, e^{-d \varepsilon^2/2}$.
Return the smallest whole number $d$ for which this bound is at most `delta` (equality is enough); `rows` is $n \ge 2$ and `epsilon` is $\varepsilon$.
By how much does $d$ grow when `rows` becomes a thousand times as large?
""",
    hint=r"""
Take the logarithm of both sides, and round to the side on which the bound still holds.
""",
    cases=(
        (2, 1.0, 0.5),
        (2, 1.0, 0.7),
        (2, 1.0, 0.7357588823428847),  # 2/e, rounded up
        (512, 0.2, 0.01),
        (100, 0.5, 0.1),
        (100_000, 0.1, 1e-6),
    ),
    solution=features_needed,
    misconceptions=(
        Misconception(
            "Rounded down",
            "With fewer features the bound is above delta.",
            lambda n, e, d: int(2 / e**2 * np.log(n * (n - 1) / d)),
        ),
        Misconception(
            "One more than needed",
            "The smallest number is asked for.",
            lambda n, e, d: features_needed(n, e, d) + 1,
        ),
        Misconception(
            "Floor plus one",
            "One feature too many where the bound is met exactly.",
            lambda n, e, d: int(2 / e**2 * np.log(n * (n - 1) / d)) + 1,
        ),
        Misconception(
            "2 forgotten",
            "In the exponent d ε² is halved.",
            _needed(lambda n, e, d: np.log(n * (n - 1) / d) / e**2),
        ),
        Misconception(
            "2 on the wrong side",
            "d ε²/2 is equal to the logarithm. Solve for d.",
            _needed(lambda n, e, d: np.log(n * (n - 1) / d) / (2 * e**2)),
        ),
        Misconception(
            "ε not squared",
            "The exponent has ε².",
            _needed(lambda n, e, d: 2 / e * np.log(n * (n - 1) / d)),
        ),
        Misconception(
            "A single pair",
            "Each pair has its own probability, so the number of pairs stands before "
            "the exponential.",
            _needed(lambda n, e, d: 2 / e**2 * np.log(2 / d)),
        ),
        Misconception(
            "As many pairs as rows",
            "Of n rows there are n (n − 1)/2 pairs.",
            _needed(lambda n, e, d: 2 / e**2 * np.log(2 * n / d)),
        ),
        Misconception(
            "Number of pairs in place of twice that number",
            "Both signs of a cosine count, so there is a 2 in the bound of each pair.",
            _needed(lambda n, e, d: 2 / e**2 * np.log(n * (n - 1) / 2 / d)),
        ),
        Misconception(
            "Multiplied by δ",
            "A smaller delta needs more features.",
            _needed(lambda n, e, d: 2 / e**2 * np.log(n * (n - 1) * d)),
        ),
        Misconception(
            "δ forgotten",
            "The bound must be delta, not 1.",
            _needed(lambda n, e, d: 2 / e**2 * np.log(n * (n - 1))),
        ),
        Misconception(
            "The logarithm to base 10",
            "The bound has a power of e.",
            _needed(lambda n, e, d: 2 / e**2 * np.log10(n * (n - 1) / d)),
        ),
        Misconception(
            "The logarithm to base 2",
            "The bound has a power of e.",
            _needed(lambda n, e, d: 2 / e**2 * np.log2(n * (n - 1) / d)),
        ),
        Misconception(
            "One feature for each row",
            "With that many all cosines could be 0, but random rows are not orthogonal.",
            lambda n, e, d: int(n),
        ),
        Misconception(
            "Multiplied by ε²",
            "A smaller ε needs more features.",
            _needed(lambda n, e, d: 2 * e**2 * np.log(n * (n - 1) / d)),
        ),
        Misconception(
            "Logarithm forgotten",
            "d ε²/2 is an exponent, so it is compared with a logarithm.",
            _needed(lambda n, e, d: 2 / e**2 * n * (n - 1) / d),
        ),
    ),
    properties=(
        Property(
            "With that many features the bound is at most delta, with one fewer it is "
            "not",
            lambda answer, n, e, d: bool(
                n * (n - 1) * np.exp(-answer(n, e, d) * e**2 / 2)
                <= d * (1 + 1e-9)
                < n * (n - 1) * np.exp(-(answer(n, e, d) - 1) * e**2 / 2)
            ),
        ),
    ),
    explanation=r"""
$n (n - 1)\, e^{-d \varepsilon^2/2} \le \delta$ means $d \ge \frac{2}{\varepsilon^2} \log \frac{n (n - 1)}{\delta}$, and the smallest whole number is this one rounded up, as in {prf:ref}`the corollary on the number of features <cor-learned-union>`.
If $n$ becomes a thousand times as large, $n (n - 1)$ grows by a factor of about $10^6$, and $d$ grows by about $\frac{2}{\varepsilon^2} \log 10^6 \approx 27.6/\varepsilon^2$, whatever $n$ was: by 691 features for $\varepsilon = 0.2$.
""",
    prediction=Prediction(
        "How many features make 100,000 random rows nearly orthogonal, with "
        "$\\varepsilon = 0.1$ and $\\delta = 10^{-6}$?",
        lambda: features_needed(100_000, 0.1, 1e-6),
        near=0.2,
    ),
)


# learned-embeddings-5: positions as RoBERTa counts them


def roberta_positions(tokens, padding):
    """Position that RoBERTa gives to every token, an int64 array like ``tokens``.

    ``tokens``, [rows, tokens], are token ids; ``padding`` is the id of the padding
    token.
    """
    real = tokens != padding
    return real.cumsum(1) * real + padding


def _counted(positions):
    return lambda tokens, padding: positions(tokens != padding, padding).long()


def _restarted(tokens, padding):
    positions = torch.full_like(tokens, padding)
    for n in range(tokens.shape[1]):
        before = positions[:, n - 1] if n else padding
        real = tokens[:, n] != padding
        positions[:, n] = torch.where(real, before + 1, padding)
    return positions


_TOKENS = torch.tensor([[7, 5, 9, 1, 1], [1, 1, 4, 4, 6], [3, 8, 8, 2, 0]])

ROBERTA = Exercise(
    name="learned-embeddings-5",
    title="Positions as RoBERTa counts them",
    kind="PyTorch",
    minutes=8,
    lines=2,
    statement=r"""
`tokens` holds token indices, `[batch, tokens]`, and the index `padding` marks padding.
RoBERTa gives padding the position `padding`, and all other tokens `padding + 1`, `padding + 2`, … in their order, without counting padding between or before them.
Return the positions.
How many rows must the table have for texts of 512 tokens, with `padding = 1`?
""",
    hint=r"""
A running sum of the mask of all tokens that are not padding counts them.
""",
    cases=(
        (torch.tensor([[7, 5, 1]]), 1),
        (_TOKENS, 1),
        (_TOKENS, 8),
        (torch.tensor([[0, 3, 0, 4]]), 0),
    ),
    solution=roberta_positions,
    misconceptions=(
        Misconception(
            "Positions from 0, whatever the padding",
            "The first token's position is padding + 1.",
            _counted(lambda real, p: (real.cumsum(1) - 1) * real),
        ),
        Misconception(
            "Running sum alone",
            "Padding has the position `padding`, and the count begins after it.",
            _counted(lambda real, p: real.cumsum(1) * real),
        ),
        Misconception(
            "Positions of padding that go on counting",
            "Padding has the position `padding`.",
            _counted(lambda real, p: real.cumsum(1) + p),
        ),
        Misconception(
            "Padding counted",
            "A token after padding has the position that it would have without the "
            "padding.",
            _counted(
                lambda real, p: torch.where(
                    real, torch.arange(real.shape[1]) + p + 1, p
                )
            ),
        ),
        Misconception(
            "Padding at position 0",
            "Padding has the position `padding`.",
            _counted(lambda real, p: (real.cumsum(1) + p) * real),
        ),
        Misconception(
            "First token at `padding`",
            "The row `padding` belongs to padding. The first token has the next one.",
            _counted(lambda real, p: torch.where(real, real.cumsum(1) + p - 1, p)),
        ),
        Misconception(
            "Always 2, 3, 4, …",
            "2 is padding + 1 only for RoBERTa's own padding.",
            _counted(lambda real, p: torch.where(real, real.cumsum(1) + 1, 1)),
        ),
        Misconception(
            "Counted from the end",
            "The first token has the smallest position.",
            _counted(lambda real, p: real.flip(1).cumsum(1).flip(1) * real + p),
        ),
        Misconception(
            "Count over the whole batch",
            "Each row of the batch is a text of its own.",
            _counted(
                lambda real, p: real.flatten().cumsum(0).view(real.shape) * real + p
            ),
        ),
        Misconception(
            "Running sum along the batch",
            "Axis 1 is that of the tokens.",
            _counted(lambda real, p: real.cumsum(0) * real + p),
        ),
        Misconception(
            "Mask inverted",
            "Tokens that are *not* padding are counted.",
            _counted(lambda real, p: (~real).cumsum(1) * ~real + p),
        ),
        Misconception(
            "Token indices added up",
            "Take the running sum of the mask, not of the tokens.",
            lambda tokens, p: tokens.cumsum(1) * (tokens != p) + p,
        ),
        Misconception(
            "Token indices added up, without padding",
            "Take the running sum of the mask, not of the tokens.",
            lambda tokens, p: (tokens * (tokens != p)).cumsum(1) + p,
        ),
        Misconception(
            "Smaller indices taken for padding",
            "Padding has the index `padding` and no other.",
            lambda tokens, p: (tokens > p).cumsum(1) * (tokens > p) + p,
        ),
        Misconception(
            "Count that starts again after padding",
            "The count goes on after padding. Each text is counted once.",
            _restarted,
        ),
        Misconception(
            "First token always at 2",
            "2 is padding + 1 only for RoBERTa's own padding.",
            _counted(lambda real, p: torch.where(real, real.cumsum(1) + 1, p)),
        ),
        Misconception(
            "Tokens counted from 0",
            "The first token's position is padding + 1.",
            _counted(lambda real, p: torch.where(real, real.cumsum(1) - 1, p)),
        ),
        Misconception(
            "All positions one too large",
            "The first token's position is padding + 1.",
            _counted(lambda real, p: torch.where(real, real.cumsum(1) + p + 1, p)),
        ),
        Misconception(
            "Padding treated like other tokens",
            "Padding has the position `padding`, wherever it stands.",
            _counted(
                lambda real, p: (torch.arange(real.shape[1]) + p + 1).expand(real.shape)
            ),
        ),
    ),
    properties=(
        Property(
            "Padding at the front changes no position",
            lambda answer, tokens, p: torch.equal(
                answer(torch.cat((torch.full_like(tokens[:, :1], p), tokens), 1), p)[
                    :, 1:
                ],
                answer(tokens, p),
            ),
        ),
    ),
    explanation=r"""
The running sum of the mask counts the tokens that are not padding; multiplied by the mask it is 0 for padding, and `padding` is added to everything.
A text of 512 tokens with `padding = 1` has the positions 2 to 513, so the table needs the rows 0 to 513, which are 514: RoBERTa's `max_position_embeddings` is 514 for texts of 512 tokens.
Row 0 is never used, and row 1 belongs to padding.
""",
)


# learned-embeddings-6: the input of each layer


def layer_inputs(u, tables):
    """Input of each layer if attention and MLP add zero: [layers, tokens, d].

    Each layer adds a position table of its own, an entry of ``tables``, [layers,
    positions, d]. ``u``, [tokens, d], is the model's input without positions.
    """
    return u + np.cumsum(tables[:, : len(u)], axis=0)


LAYER_INPUTS = Exercise(
    name="learned-embeddings-6",
    title="The input of each layer",
    kind="NumPy",
    minutes=5,
    lines=1,
    statement=r"""
A model has a table for each layer: `tables` is `[layers, rows, d]`.
The residual stream keeps what a table adds, and attention and MLP add nothing here.
For an input `u`, `[tokens, d]`, at the positions 0, 1, 2, …, return the *input* of each layer, with the layer's own table added: `[layers, tokens, d]`.
If only the input of the last layer matters, could one table replace two?
""",
    hint=r"""
The input of layer 1 is that of layer 0 plus one more table.
""",
    cases=(
        (
            np.array([[1.0, 0.0]]),
            np.array([[[1.0, 2.0], [0.0, 0.0]], [[10.0, 0.0], [0.0, 0.0]]]),
        ),
        (draw(3, 2), draw(4, 5, 2)),
        (draw(4, 3, seed=1), draw(1, 4, 3)),
        (draw(2, 2, seed=2), draw(2, 2, 2)),
    ),
    solution=layer_inputs,
    misconceptions=(
        Misconception(
            "Each layer with its own table alone",
            "The residual stream keeps what a table adds.",
            lambda u, t: u + t[:, : len(u)],
        ),
        Misconception(
            "First table alone",
            "Your answer has a table at the input only. Every layer adds its own.",
            lambda u, t: u + np.repeat(t[:1, : len(u)], len(t), 0),
        ),
        Misconception(
            "Inputs before the layer's own table",
            "The input of a layer contains the layer's own table.",
            lambda u, t: u + np.cumsum(t[:, : len(u)], 0) - t[:, : len(u)],
        ),
        Misconception(
            "All tables in all layers",
            "A table acts from its own layer on.",
            lambda u, t: u + np.repeat(t[:, : len(u)].sum(0)[None], len(t), 0),
        ),
        Misconception(
            "Last rows of the tables",
            "Positions count from 0. Transformer-XL's code counts from the end.",
            lambda u, t: u + np.cumsum(t[:, t.shape[1] - len(u) :], 0),
        ),
        Misconception(
            "Sum over positions",
            "The sum runs over layers, which are axis 0.",
            lambda u, t: u + np.cumsum(t[:, : len(u)], 1),
        ),
        Misconception(
            "Input added in every layer",
            "The stream contains the input from the beginning, once.",
            lambda u, t: np.cumsum(u + t[:, : len(u)], 0),
        ),
        Misconception(
            "Tables alone",
            "They are added to the input.",
            lambda u, t: np.cumsum(t[:, : len(u)], 0),
        ),
        Misconception(
            "Layers counted from the last",
            "Layer 0 comes first, and has one table.",
            lambda u, t: u + np.cumsum(t[::-1, : len(u)], 0),
        ),
        Misconception(
            "Layers in reverse order",
            "Your sums are right, but layer 0 comes first.",
            lambda u, t: (u + np.cumsum(t[:, : len(u)], 0))[::-1],
        ),
        Misconception(
            "Mean of the tables",
            "The tables are added and not divided by anything.",
            lambda u, t: (
                u
                + np.cumsum(t[:, : len(u)], 0) / np.arange(1, len(t) + 1)[:, None, None]
            ),
        ),
        Misconception(
            "Every token at position 0",
            "Token i reads row i.",
            lambda u, t: u + np.cumsum(np.repeat(t[:, :1], len(u), 1), 0),
        ),
        Misconception(
            "Tables subtracted",
            "Tables are added to the stream.",
            lambda u, t: u - np.cumsum(t[:, : len(u)], 0),
        ),
    ),
    properties=(
        Property(
            "From one layer to the next one table is added",
            lambda answer, u, t: bool(
                np.allclose(np.diff(answer(u, t), axis=0), t[1:, : len(u)])
            ),
        ),
    ),
    explanation=r"""
The residual stream adds up what each layer's table has added, so the input of layer $l$ is $u$ plus the tables of the layers $0, \dots, l$: a running sum along the first axis.
If only the input of the last layer matters, a single table, the sum of the two, at the input of the first layer gives the same numbers.
In a real model the layers change the stream in between, and may remove what the first table added; then the second table is needed, by {prf:ref}`the theorem on tables in every layer <thm-learned-layers>`.
""",
)


# learned-embeddings-7: how often the bound is broken


def share_outside(rows, d, limit, seeds):
    """Share of random position tables in which two rows are close, from 0 to 1.

    A table has ``rows`` rows of ``d`` standard normal numbers. Two rows are close if
    the absolute value of their cosine is ``limit`` or more. One table is drawn with
    each seed from 0 to ``seeds`` − 1.
    """
    outside = 0
    for seed in range(seeds):
        table = np.random.default_rng(seed).normal(size=(rows, d))
        unit = table / np.linalg.norm(table, axis=1, keepdims=True)
        outside += np.abs(unit @ unit.T - np.eye(rows)).max() >= limit
    return outside / seeds


def _share(largest, first_seed=0):
    def answer(rows, d, limit, seeds):
        found = [
            largest(np.random.default_rng(seed).normal(size=(rows, d)))
            for seed in range(first_seed, first_seed + seeds)
        ]
        return float(np.mean(np.array(found) >= limit))

    return answer


def _cosines(table):
    unit = table / np.linalg.norm(table, axis=1, keepdims=True)
    return unit @ unit.T


def _tables(rows, d, seeds):
    return [np.random.default_rng(s).normal(size=(rows, d)) for s in range(seeds)]


def _continued(rows, d, seeds):
    rng = np.random.default_rng(0)
    return [rng.normal(size=(rows, d)) for _ in range(seeds)]


def _drawn(tables):
    """Make a wrong answer (a function) to the exercise ``share_outside``.

    The exercise asks for the share of tables with two close rows. In the wrong answer,
    ``tables(rows, d, seeds)`` are drawn in place of the right ones.
    """

    def answer(rows, d, limit, seeds):
        largest = [
            np.abs(_off_diagonal(_cosines(table))).max()
            for table in tables(rows, d, seeds)
        ]
        return float(np.mean(np.array(largest) >= limit))

    return answer


def _off_diagonal(c):
    return c[~np.eye(len(c), dtype=bool)]


SHARE_OUTSIDE = Exercise(
    name="learned-embeddings-7",
    title="How often a pair is close",
    kind="experiment",
    minutes=12,
    lines=6,
    statement=r"""
For each seed 0, 1, … below `seeds` draw a table by `np.random.default_rng(seed).normal(size=(rows, d))`.
Return the share of the tables in which some two different rows have a cosine with an absolute value of `limit` or more.
Compare the share with $n (n - 1)\, e^{-d \varepsilon^2/2}$: is the bound close?
""",
    hint=r"""
The inner products of rows of length 1 are cosines.
A row with itself does not count.
""",
    cases=(
        (2, 3, 0.5, 8),
        (6, 12, 0.6, 60),
        (12, 30, 0.55, 60),
        (5, 8, 0.8, 40),
        (4, 4, 0.3, 40),
        (2, 10, 0.5, 40),
    ),
    solution=share_outside,
    misconceptions=(
        Misconception(
            "A row compared with itself",
            "Its cosine with itself is 1, in every table. Leave the diagonal out.",
            _share(lambda t: np.abs(_cosines(t)).max()),
        ),
        Misconception(
            "Opposite rows not counted",
            "A cosine near −1 is as far from orthogonal as one near 1.",
            _share(lambda t: _off_diagonal(_cosines(t)).max()),
        ),
        Misconception(
            "Inner products, not cosines",
            "Divide by the lengths of both rows.",
            _share(lambda t: np.abs(_off_diagonal(t @ t.T)).max()),
        ),
        Misconception(
            "Divided by d",
            "d is only the mean of a squared length. Each row has its own length.",
            _share(lambda t: np.abs(_off_diagonal(t @ t.T)).max() / t.shape[1]),
        ),
        Misconception(
            "Columns, not rows",
            "A position is a row of the table.",
            _share(lambda t: np.abs(_off_diagonal(_cosines(t.T))).max()),
        ),
        Misconception(
            "Mean of the cosines",
            "One pair is enough, so look at the largest.",
            _share(lambda t: np.abs(_off_diagonal(_cosines(t))).mean()),
        ),
        Misconception(
            "Smallest of the cosines",
            "One pair is enough, so look at the largest.",
            _share(lambda t: np.abs(_off_diagonal(_cosines(t))).min()),
        ),
        Misconception(
            "Neighbors alone",
            "Any two rows count.",
            _share(lambda t: np.abs(np.diagonal(_cosines(t), 1)).max()),
        ),
        Misconception(
            "First row with all others",
            "Any two rows count.",
            _share(lambda t: np.abs(_cosines(t)[0, 1:]).max()),
        ),
        Misconception(
            "Seeds counted from 1",
            "The first seed is 0.",
            _share(lambda t: np.abs(_off_diagonal(_cosines(t))).max(), 1),
        ),
        Misconception(
            "Tables within the limit",
            "The tables outside the limit are counted.",
            lambda *case: 1 - share_outside(*case),
        ),
        Misconception(
            "Number of tables",
            "The share is asked for: divide by the number of tables.",
            lambda *case: share_outside(*case) * case[-1],
        ),
        Misconception(
            "Share of the pairs",
            "The tables are counted, not the pairs in them.",
            lambda rows, d, limit, seeds: float(
                np.mean(
                    [
                        np.abs(
                            _off_diagonal(
                                _cosines(
                                    np.random.default_rng(s).normal(size=(rows, d))
                                )
                            )
                        )
                        >= limit
                        for s in range(seeds)
                    ]
                )
            ),
        ),
        Misconception(
            "Bound in place of the share",
            "Draw tables, and count.",
            lambda rows, d, limit, seeds: float(
                rows * (rows - 1) * np.exp(-d * limit**2 / 2)
            ),
        ),
        Misconception(
            "Bound in place of the share, at most 1",
            "Draw tables, and count.",
            lambda rows, d, limit, seeds: float(
                min(1, rows * (rows - 1) * np.exp(-d * limit**2 / 2))
            ),
        ),
        Misconception(
            "Number of close pairs for each table",
            "A table counts once, however many of its pairs are close.",
            lambda rows, d, limit, seeds: float(
                np.mean(
                    [
                        (np.abs(_off_diagonal(_cosines(t))) >= limit).sum() / 2
                        for t in _tables(rows, d, seeds)
                    ]
                )
            ),
        ),
        Misconception(
            "Mean of the largest cosines",
            "Compare each table's largest cosine with `limit`, and count.",
            lambda rows, d, limit, seeds: float(
                np.mean(
                    [
                        np.abs(_off_diagonal(_cosines(t))).max()
                        for t in _tables(rows, d, seeds)
                    ]
                )
            ),
        ),
        Misconception(
            "One generator for all tables",
            "Each table is drawn with a seed of its own.",
            _drawn(_continued),
        ),
        Misconception(
            "NumPy's old generator",
            "`np.random.seed` and `RandomState` draw other numbers than `default_rng`.",
            _drawn(
                lambda rows, d, seeds: [
                    np.random.RandomState(seed).normal(size=(rows, d))
                    for seed in range(seeds)
                ]
            ),
        ),
        Misconception(
            "Uniform numbers",
            "The numbers are standard normal. Uniform ones are all positive, so that "
            "rows point in similar directions.",
            _drawn(
                lambda rows, d, seeds: [
                    np.random.default_rng(seed).random(size=(rows, d))
                    for seed in range(seeds)
                ]
            ),
        ),
        Misconception(
            "Divided by one squared length",
            "A cosine is divided by the lengths of both rows, not by the square of one.",
            _share(
                lambda t: np.abs(
                    np.triu(t @ t.T, 1) / (t**2).sum(1, keepdims=True)
                ).max()
            ),
        ),
        Misconception(
            "Correlations, not cosines",
            "The cosine of two rows is computed without subtracting their means.",
            _share(lambda t: np.abs(_off_diagonal(np.corrcoef(t))).max()),
        ),
        Misconception(
            "Columns of length 1",
            "The rows must have length 1. The features of a row are along axis 1.",
            _share(
                lambda t: np.abs(
                    _off_diagonal(
                        (t / np.linalg.norm(t, axis=0))
                        @ (t / np.linalg.norm(t, axis=0)).T
                    )
                ).max()
            ),
        ),
    ),
    properties=(
        Property(
            "A larger limit is reached by no more tables",
            lambda answer, rows, d, limit, seeds: (
                answer(rows, d, 0.9, seeds) <= answer(rows, d, 0.3, seeds)
            ),
        ),
    ),
    level="optional",
    explanation=r"""
The bound adds up the probabilities of all pairs, each of them bounded from above, so it is never below the probability, by {prf:ref}`the corollary on the number of features <cor-learned-union>`.
It is not close: with 12 rows of 30 features and a limit of 0.55 the share among 60 tables is 0.15, and the bound is 1.41, more than a probability can be.
It is useful where it is small, because then it proves that no pair is close; its logarithm falls in proportion to $d$.
""",
)


# learned-embeddings-8: gradients that are added by index


def colleagues_gradients(positions, gradients, rows):
    """Gradient of a position table of ``rows`` rows.

    It is a SymPy matrix.
    """
    table = np.zeros((rows, gradients.cols), dtype=object)
    table[list(positions)] += np.array(gradients)
    return sp.Matrix(table)


def batch_that_differs():
    """Return a smallest batch on which `colleagues_gradients` is wrong."""
    return (0, 0), sp.Matrix([[1], [1]]), 1


def _no_batch(positions, gradients, rows):
    if not isinstance(gradients, sp.MatrixBase) or not gradients.cols:
        return "gradients is a SymPy matrix"
    if len(positions) != gradients.rows or not positions:
        return "there are as many positions as rows of gradients, and at least one"
    if type(rows) is not int or rows > 100:
        return "rows is an int up to 100"
    inside = all(type(p) is int and 0 <= p < rows for p in positions)
    return "" if inside else "positions are ints from 0 to rows − 1"


BATCH = Exercise(
    name="learned-embeddings-8",
    title="Find the input: gradients by index",
    kind="find the input",
    minutes=8,
    lines=1,
    statement=r"""
`colleagues_gradients` should do what exercise learned-embeddings-1 asks for.
She has tested it with one text of four tokens, and with a text whose tokens are stored in another order; both tests pass.
Find `positions`, `gradients` and `rows` for which it is wrong, with as few tokens as possible.
What does NumPy's `table[index] += values` do where an index occurs twice?
""",
    hint=r"""
Every text of her tests has each position once. What has a batch of two texts?
""",
    cases=((),),
    solution=batch_that_differs,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_gradients,
        right=row_gradients,
        tested=(
            ((0, 1, 2, 3), sp.Matrix([[1, 2], [3, 4], [5, 6], [7, 8]]), 4),
            ((2, 0, 1), sp.Matrix([[1], [2], [3]]), 5),
        ),
        refusal=_no_batch,
        size=lambda positions, gradients, rows: len(positions),
        size_of="number of tokens",
    ),
    explanation=r"""
Two tokens at the same position are enough.
`table[index] += values` reads all rows, adds, and writes all rows back; where an index occurs twice, both sums start from the old row and the last one written stays, so all but one of the gradients are lost.
`np.add.at(table, index, values)` adds each of them, as the chain rule demands: $G = H^\top g$.
A batch of two texts has position 0 twice, and a single text has no position twice, so a test with one cannot show the mistake.
""",
)


# learned-embeddings-9: padding on the left


def colleagues_positions(tokens, padding):
    """Position that RoBERTa gives to every token.

    The result is an int64 tensor like ``tokens``.
    """
    places = padding + 1 + torch.arange(tokens.shape[1])
    return torch.where(tokens == padding, padding, places)


def text_that_differs():
    """Return token indices and a padding index for which the function is wrong."""
    return torch.tensor([[1, 5]]), 1


def _no_tokens(tokens, padding):
    is_dense = tokens.layout == torch.strided and tokens.dtype == torch.int64
    if not is_dense or tokens.ndim != 2 or not tokens.numel():
        return "tokens is an int64 tensor [batch, tokens]"
    is_index = type(padding) is int and 0 <= padding < 10**6
    return "" if is_index else "padding is an int from 0, below a million"


PADDED = Exercise(
    name="learned-embeddings-9",
    title="Find the input: padding",
    kind="find the input",
    minutes=5,
    lines=1,
    level="optional",
    statement=r"""
`colleagues_positions` should do what exercise learned-embeddings-5 asks for.
She has tested it with a batch of texts of different lengths, padded as her tokenizer pads, and with `padding = 0`; both tests pass.
Find `tokens` and `padding` for which it is wrong, with as few tokens as possible in the batch, padding included.
Which setting of a tokenizer makes such batches?
""",
    hint=r"""
Where does padding stand in her tests?
""",
    cases=((),),
    solution=text_that_differs,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_positions,
        right=roberta_positions,
        tested=(
            (torch.tensor([[7, 5, 9], [4, 1, 1]]), 1),
            (torch.tensor([[7, 5, 0]]), 0),
        ),
        refusal=_no_tokens,
        size=lambda tokens, padding: tokens.numel(),
        size_of="number of tokens",
    ),
    explanation=r"""
One padding token in front of one other token is enough: right is position `padding + 1`, and she gives `padding + 2`, since her count includes the padding.
As long as all padding stands at the end, both ways of counting agree.
`padding_side="left"`, as it is usual for generating text in batches, makes such batches; with her function the tokens then get other positions than the same text without padding, and the outputs change.
""",
)


SHEET = Sheet(
    title="Learned absolute embeddings",
    conventions=r"""
Positions, rows and layers count from 0; a table has a row for each position.
""",
    example=r"""
from posedu.numpy.absolute import embed_learned

x, table = np.ones((2, 3)), np.arange(12.0).reshape(4, 3)
print(embed_learned(x, [2, 0], table=table, beyond="raise"))
""",
    figure="learned_embeddings_explorable",
    exercises=(
        ROW_GRADIENTS,
        ROWS,
        ENTRY_AFTER,
        FEATURES_NEEDED,
        ROBERTA,
        LAYER_INPUTS,
        SHARE_OUTSIDE,
        BATCH,
        PADDED,
    ),
)
