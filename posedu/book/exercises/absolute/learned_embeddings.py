"""The exercises on tables of positions."""

import numpy as np
import sympy as sp
import torch

from posedu.book.exercises.checker import Exercise, Misconception, Property, Sheet, draw

# learned-embeddings-1: which rows get a gradient


def row_gradients(positions, gradients, rows):
    """The gradient of the table, as a SymPy matrix of ``rows`` rows."""
    total = sp.zeros(rows, gradients.cols)
    for token, position in enumerate(positions):
        total[position, :] += gradients[token, :]
    return total


def _gradients(of_token):
    """Where ``of_token(total, position, row, token)`` says what a token does."""

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
A batch of tokens stands at `positions`, and `gradients` has the gradient of a loss with respect to the input vector of each, a row a token.
Return the gradient with respect to the table of `rows` rows, as a SymPy matrix.
Do the first case on paper: positions 0, 2, 2 and a table of 4 rows.
""",
    hint=r"""
$x = u + H P$, and $H$ has a 1 for each token. What does a row of $P$ share with two tokens?
""",
    cases=(
        ((0, 2, 2), sp.Matrix([[1, 2], [3, 4], [5, 7]]), 4),
        ((1,), sp.Matrix([[3, -1, 2]]), 3),
        ((4, 0, 4, 4, 1), sp.Matrix(5, 2, lambda r, c: 3 * r - 5 * c + 1), 6),
    ),
    solution=row_gradients,
    misconceptions=(
        Misconception(
            "The last token at a position counts",
            "Both tokens read the same row, so both have a say in its gradient.",
            _gradients(_last_only),
        ),
        Misconception(
            "The first token at a position counts",
            "Both tokens read the same row, so both have a say in its gradient.",
            _gradients(_first_only),
        ),
        Misconception(
            "The mean over the tokens at a position",
            "The chain rule adds; it does not divide by how many there are.",
            _mean,
        ),
        Misconception(
            "Rows by token, not by position",
            "Token 1 stands at another position than 1.",
            _gradients(_by_token),
        ),
        Misconception(
            "Positions from 1",
            "Row 0 is that of position 0.",
            _gradients(_late),
        ),
        Misconception(
            "Rows from the end",
            "Row 0 is that of position 0, and comes first.",
            _gradients(_from_the_end),
        ),
        Misconception(
            "Every row gets the sum of all",
            "A row that no token reads does not move the loss.",
            _everywhere,
        ),
        Misconception(
            "A step, not a gradient",
            "What is asked for points uphill; a step goes against it.",
            lambda p, g, n: -row_gradients(p, g, n),
        ),
        Misconception(
            "The counts of the positions",
            "How often a row is read is one thing, what each reading says another.",
            lambda p, g, n: sp.Matrix(n, g.cols, lambda r, c: p.count(r)),
        ),
        Misconception(
            "Counted twice",
            "A token reads its row once.",
            lambda p, g, n: 2 * row_gradients(p, g, n),
        ),
        Misconception(
            "Multiplied by the counts",
            "The sum has each token once already.",
            lambda p, g, n: sp.Matrix(
                n, g.cols, lambda r, c: p.count(r) * row_gradients(p, g, n)[r, c]
            ),
        ),
    ),
    properties=(
        Property(
            "What rows get is what tokens have, in sum",
            lambda answer, p, g, n: (
                sp.ones(1, n) * answer(p, g, n) == sp.ones(1, len(p)) * g
            ),
        ),
    ),
)


# learned-embeddings-2: rows, and none beyond


def rows_or_nothing(table, positions):
    """The row of each whole position, zeros where there is none: [tokens, d]."""
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
    title="Rows, and none beyond",
    kind="NumPy",
    minutes=8,
    lines=3,
    statement=r"""
Return the row of `table` for each of the whole numbers in `positions`, and zeros where the table has none, on either side.
""",
    hint=r"""
A one-hot of a position that has no column is a row of zeros. NumPy's `table[-1]` is not.
""",
    cases=(
        (np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0, 1, 2, -1])),
        (draw(4, 3), np.array([3, 0, 4, -1, -4, 9, 2])),
        (draw(1, 2), np.array([0, 1, -2])),
        (draw(5, 2, seed=1), np.array([5, -5, -6, 6, 4])),
    ),
    solution=rows_or_nothing,
    misconceptions=(
        Misconception(
            "Negative positions count from the end",
            "That is NumPy's index; position −1 has no row.",
            _rows(lambda p, n: p % n, lambda p, n: (p >= -n) & (p < n)),
        ),
        Misconception(
            "All positions go round",
            "A table is no circle: position n is not position 0.",
            lambda table, p: table[p % len(table)],
        ),
        Misconception(
            "The nearest row",
            "So is Transformer-XL's memory served; here zeros are asked for.",
            lambda table, p: table[np.clip(p, 0, len(table) - 1)],
        ),
        Misconception(
            "The nearest row before the first",
            "There is none before the first row, either.",
            _rows(lambda p, n: p, lambda p, n: p < n),
        ),
        Misconception(
            "The nearest row after the last",
            "There is none after the last row, either.",
            _rows(lambda p, n: p, lambda p, n: p >= 0),
        ),
        Misconception(
            "The last row is left out",
            "Rows are 0 … n − 1, and n − 1 is one of them.",
            _rows(lambda p, n: p, lambda p, n: (p >= 0) & (p < n - 1)),
        ),
        Misconception(
            "Position 0 is left out",
            "Positions count from 0, and 0 has a row.",
            _rows(lambda p, n: p, lambda p, n: (p > 0) & (p < n)),
        ),
        Misconception(
            "Position n has a row, too",
            "A table of n rows ends with n − 1.",
            _rows(lambda p, n: p, lambda p, n: (p >= 0) & (p <= n)),
        ),
        Misconception(
            "Positions from 1",
            "Row 0 is that of position 0.",
            _rows(lambda p, n: p - 1, lambda p, n: (p >= 1) & (p <= n)),
        ),
        Misconception(
            "The sign is forgotten",
            "Position −1 is not position 1.",
            _rows(lambda p, n: abs(p), lambda p, n: abs(p) < n),
        ),
        Misconception(
            "Ones in place of zeros",
            "What is added should change nothing.",
            lambda table, p: np.where(
                ((p >= 0) & (p < len(table)))[:, None], rows_or_nothing(table, p), 1.0
            ),
        ),
        Misconception(
            "Indices and positions are exchanged",
            "The table's row n belongs to position n, wherever that token stands.",
            lambda table, p: rows_or_nothing(table, np.arange(len(p))),
        ),
    ),
    properties=(
        Property(
            "Ones come back where there is a row, zeros elsewhere",
            lambda answer, table, p: bool(
                (
                    answer(np.ones_like(table), p)[:, 0]
                    == ((p >= 0) & (p < len(table)))
                ).all()
            ),
        ),
    ),
)


# learned-embeddings-3: what an optimizer leaves


def left(row, rate, decay, steps):
    """A number of a row that no token reads, after AdamW: an expression."""
    return row * (1 - rate * decay) ** steps


_P, _RATE, _DECAY, _T = sp.symbols("p alpha lambda T", positive=True)

LEFT = Exercise(
    name="learned-embeddings-3",
    title="What is left of a row",
    kind="by hand",
    minutes=6,
    lines=1,
    statement=r"""
On paper: a step of AdamW is $p \leftarrow p - \alpha \lambda p - \alpha\, \hat m / (\sqrt{\hat v} + \varepsilon)$, where $\hat m$ and $\hat v$ are means of the gradient and of its square.
A row is read by no token, ever.
Return what a number `row` of it has become after `steps` steps, for the rate $\alpha$ (`rate`) and the decay $\lambda$ (`decay`).
""",
    hint=r"""
What are the means of a gradient that is always 0? Then each step does the same.
""",
    cases=(
        (sp.Integer(3), sp.Rational(1, 10), sp.Rational(1, 2), 2),
        (_P, sp.Rational(1, 100), sp.Integer(0), 5),
        (_P, _RATE, _DECAY, 3),
        (_P, _RATE, _DECAY, _T),
    ),
    solution=left,
    misconceptions=(
        Misconception(
            "It stays as it was",
            "Without decay it does. What does the second term of a step do?",
            lambda p, a, d, T: p + sp.Integer(0),
        ),
        Misconception(
            "It is 0",
            "The gradient is 0. That changes nothing of the number by itself.",
            lambda p, a, d, T: sp.Integer(0),
        ),
        Misconception(
            "The same amount in each step",
            "What is taken away is a share of what is still there.",
            lambda p, a, d, T: p * (1 - T * a * d),
        ),
        Misconception(
            "One step",
            "There are `steps` of them.",
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
            "The rate is forgotten",
            "The decay is multiplied by the rate.",
            lambda p, a, d, T: p * (1 - d) ** T,
        ),
        Misconception(
            "The decay is forgotten",
            "The rate is multiplied by the decay.",
            lambda p, a, d, T: p * (1 - a) ** T,
        ),
        Misconception(
            "It grows",
            "The decay is subtracted.",
            lambda p, a, d, T: p * (1 + a * d) ** T,
        ),
        Misconception(
            "An exponential",
            "Nearly so for small rates. A step multiplies by 1 − αλ exactly.",
            lambda p, a, d, T: p * sp.exp(-a * d * T),
        ),
        Misconception(
            "Only the factor",
            "The number at the start is multiplied by it.",
            lambda p, a, d, T: (1 - a * d) ** T,
        ),
        Misconception(
            "The decay is subtracted, not multiplied",
            "αλp is a share of p.",
            lambda p, a, d, T: p - a * d * T,
        ),
        Misconception(
            "Powers of each",
            "The product αλ is subtracted from 1 before the power.",
            lambda p, a, d, T: p * (1 - (a * d) ** T),
        ),
        Misconception(
            "The step of a gradient",
            "The means of zeros are zeros: Adam's own step is 0.",
            lambda p, a, d, T: p * (1 - a * d) ** T - a * T,
        ),
        Misconception(
            "The decay without the rate, and the rate without the decay",
            "They are multiplied: αλ.",
            lambda p, a, d, T: p * (1 - a - d) ** T,
        ),
    ),
    properties=(
        Property(
            "Two runs one after the other are one",
            lambda answer, p, a, d, T: (
                sp.simplify(answer(answer(p, a, d, 2), a, d, 3) - answer(p, a, d, 5))
                == 0
            ),
        ),
    ),
)


# learned-embeddings-4: how many features


def features_needed(rows, epsilon, delta):
    """The least whole d for which the bound is at most delta: an int."""
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
The chance that some two of $n$ random rows have a cosine of $\varepsilon$ or more in size is at most $n (n - 1)\, e^{-d \varepsilon^2/2}$.
Return the least whole $d$ for which this bound is at most `delta`.
How much does it grow when `rows` becomes a thousand times as large?
""",
    hint=r"""
Take the logarithm of both sides, and round to the side on which the bound still holds.
""",
    cases=(
        (2, 1.0, 0.5),
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
            "The least one is asked for.",
            lambda n, e, d: features_needed(n, e, d) + 1,
        ),
        Misconception(
            "The 2 is forgotten",
            "In the exponent d ε² is halved.",
            _needed(lambda n, e, d: np.log(n * (n - 1) / d) / e**2),
        ),
        Misconception(
            "The 2 is on the wrong side",
            "d ε²/2 is the logarithm; solve for d.",
            _needed(lambda n, e, d: np.log(n * (n - 1) / d) / (2 * e**2)),
        ),
        Misconception(
            "ε is not squared",
            "The exponent has ε².",
            _needed(lambda n, e, d: 2 / e * np.log(n * (n - 1) / d)),
        ),
        Misconception(
            "One pair",
            "Every pair has a chance of its own: their number stands before the e.",
            _needed(lambda n, e, d: 2 / e**2 * np.log(2 / d)),
        ),
        Misconception(
            "As many pairs as rows",
            "Of n rows there are n (n − 1)/2 pairs.",
            _needed(lambda n, e, d: 2 / e**2 * np.log(2 * n / d)),
        ),
        Misconception(
            "Pairs for twice the pairs",
            "Both signs of a cosine count: there is a 2 in the bound of each pair.",
            _needed(lambda n, e, d: 2 / e**2 * np.log(n * (n - 1) / 2 / d)),
        ),
        Misconception(
            "δ is multiplied",
            "A smaller delta needs more features.",
            _needed(lambda n, e, d: 2 / e**2 * np.log(n * (n - 1) * d)),
        ),
        Misconception(
            "δ is forgotten",
            "The bound is to be delta, not 1.",
            _needed(lambda n, e, d: 2 / e**2 * np.log(n * (n - 1))),
        ),
        Misconception(
            "The logarithm to base 10",
            "The bound has the power of e.",
            _needed(lambda n, e, d: 2 / e**2 * np.log10(n * (n - 1) / d)),
        ),
        Misconception(
            "The logarithm to base 2",
            "The bound has the power of e.",
            _needed(lambda n, e, d: 2 / e**2 * np.log2(n * (n - 1) / d)),
        ),
        Misconception(
            "A feature for each row",
            "That many would allow all cosines to be 0. Nearly orthogonal is cheaper.",
            lambda n, e, d: int(n),
        ),
        Misconception(
            "ε on the other side",
            "A smaller ε needs more features.",
            _needed(lambda n, e, d: 2 * e**2 * np.log(n * (n - 1) / d)),
        ),
        Misconception(
            "The logarithm is forgotten",
            "The exponent is d ε²/2, so its logarithm is compared.",
            _needed(lambda n, e, d: 2 / e**2 * n * (n - 1) / d),
        ),
    ),
    properties=(
        Property(
            "With that many the bound is at most delta, with one fewer it is not",
            lambda answer, n, e, d: bool(
                n * (n - 1) * np.exp(-answer(n, e, d) * e**2 / 2)
                <= d * (1 + 1e-9)
                < n * (n - 1) * np.exp(-(answer(n, e, d) - 1) * e**2 / 2)
            ),
        ),
    ),
)


# learned-embeddings-5: positions as RoBERTa counts them


def roberta_positions(tokens, padding):
    """The position of every token, int64 like ``tokens``."""
    real = tokens != padding
    return real.cumsum(1) * real + padding


def _counted(positions):
    return lambda tokens, padding: positions(tokens != padding, padding).long()


_TOKENS = torch.tensor([[7, 5, 9, 1, 1], [1, 1, 4, 4, 6], [3, 8, 8, 2, 0]])

ROBERTA = Exercise(
    name="learned-embeddings-5",
    title="Positions as RoBERTa counts them",
    kind="PyTorch",
    minutes=8,
    lines=2,
    statement=r"""
`tokens` is `[batch, tokens]`, and the index `padding` stands for no token.
RoBERTa gives padding the position `padding`, and all others `padding + 1`, `padding + 2`, … in their order, without counting padding between or before them.
Return the positions.
How many rows must the table have for texts of 512 tokens, with `padding = 1`?
""",
    hint=r"""
A running sum of what is no padding counts them.
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
            "From 0, whatever the padding is",
            "The first token's position is padding + 1.",
            _counted(lambda real, p: (real.cumsum(1) - 1) * real),
        ),
        Misconception(
            "The running sum alone",
            "Padding has the position `padding`, and the count begins after it.",
            _counted(lambda real, p: real.cumsum(1) * real),
        ),
        Misconception(
            "Padding goes on counting",
            "Padding has the position `padding`.",
            _counted(lambda real, p: real.cumsum(1) + p),
        ),
        Misconception(
            "Padding is counted",
            "A token behind padding has the position that it would have without it.",
            _counted(
                lambda real, p: torch.where(
                    real, torch.arange(real.shape[1]) + p + 1, p
                )
            ),
        ),
        Misconception(
            "Padding is at 0",
            "Its row is the one whose index is `padding`.",
            _counted(lambda real, p: (real.cumsum(1) + p) * real),
        ),
        Misconception(
            "The first token is at `padding`",
            "That row is padding's own; the first token has the next.",
            _counted(lambda real, p: torch.where(real, real.cumsum(1) + p - 1, p)),
        ),
        Misconception(
            "Always 2, 3, 4, …",
            "2 is padding + 1 for RoBERTa's own padding.",
            _counted(lambda real, p: torch.where(real, real.cumsum(1) + 1, 1)),
        ),
        Misconception(
            "Counted from the end",
            "The first token has the smallest position.",
            _counted(lambda real, p: real.flip(1).cumsum(1).flip(1) * real + p),
        ),
        Misconception(
            "Counted over the batch",
            "Every row of the batch is a text of its own.",
            _counted(
                lambda real, p: real.flatten().cumsum(0).view(real.shape) * real + p
            ),
        ),
        Misconception(
            "The running sum goes down the batch",
            "Axis 1 is that of the tokens.",
            _counted(lambda real, p: real.cumsum(0) * real + p),
        ),
        Misconception(
            "The mask is turned over",
            "What counts is what is *not* padding.",
            _counted(lambda real, p: (~real).cumsum(1) * ~real + p),
        ),
        Misconception(
            "The tokens are counted up, not their places",
            "A running sum of the mask, not of the tokens.",
            lambda tokens, p: tokens.cumsum(1) * (tokens != p) + p,
        ),
        Misconception(
            "All positions are one too large",
            "The first token's position is padding + 1.",
            _counted(lambda real, p: torch.where(real, real.cumsum(1) + p + 1, p)),
        ),
        Misconception(
            "As if there were no padding",
            "Padding has the position `padding`, wherever it stands.",
            _counted(
                lambda real, p: (torch.arange(real.shape[1]) + p + 1).expand(real.shape)
            ),
        ),
    ),
    properties=(
        Property(
            "Padding in front moves nobody",
            lambda answer, tokens, p: torch.equal(
                answer(torch.cat((torch.full_like(tokens[:, :1], p), tokens), 1), p)[
                    :, 1:
                ],
                answer(tokens, p),
            ),
        ),
    ),
)


# learned-embeddings-6: what each layer sees


def entering(u, tables):
    """What enters each layer when all layers are silent: [layers, tokens, d]."""
    return u + np.cumsum(tables[:, : len(u)], axis=0)


ENTERING = Exercise(
    name="learned-embeddings-6",
    title="What enters each layer",
    kind="NumPy",
    minutes=8,
    lines=1,
    statement=r"""
A model has a table for each layer: `tables` is `[layers, rows, d]`.
What a table adds stays in the stream, and all layers are silent: they add nothing themselves.
For an input `u`, `[tokens, d]`, at the positions 0, 1, 2, …, return what *enters* each layer, with its own table added: `[layers, tokens, d]`.
Which of two tables could you have left out, if only the last of these vectors matters?
""",
    hint=r"""
Layer 1 has what layer 0 had, and one table more.
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
    solution=entering,
    misconceptions=(
        Misconception(
            "Each layer has its own table alone",
            "What a table adds stays in the stream.",
            lambda u, t: u + t[:, : len(u)],
        ),
        Misconception(
            "The first table alone",
            "That is a table at the input. Every layer adds its own.",
            lambda u, t: u + np.repeat(t[:1, : len(u)], len(t), 0),
        ),
        Misconception(
            "Before its own table is added",
            "What enters a layer has the layer's table in it.",
            lambda u, t: u + np.cumsum(t[:, : len(u)], 0) - t[:, : len(u)],
        ),
        Misconception(
            "All tables in all layers",
            "A table acts from its own layer on.",
            lambda u, t: u + np.repeat(t[:, : len(u)].sum(0)[None], len(t), 0),
        ),
        Misconception(
            "The last rows of the tables",
            "Positions count from 0: Transformer-XL's code counts from the end.",
            lambda u, t: u + np.cumsum(t[:, t.shape[1] - len(u) :], 0),
        ),
        Misconception(
            "The sum goes over positions",
            "Axis 0 is that of the layers.",
            lambda u, t: u + np.cumsum(t[:, : len(u)], 1),
        ),
        Misconception(
            "The input is added in every layer",
            "It is in the stream from the beginning, once.",
            lambda u, t: np.cumsum(u + t[:, : len(u)], 0),
        ),
        Misconception(
            "Tables alone",
            "They are added to the input.",
            lambda u, t: np.cumsum(t[:, : len(u)], 0),
        ),
        Misconception(
            "From the last layer to the first",
            "Layer 0 comes first, and has one table.",
            lambda u, t: u + np.cumsum(t[::-1, : len(u)], 0),
        ),
        Misconception(
            "In the order of the last layer first",
            "The sums are right. Layer 0 comes first.",
            lambda u, t: (u + np.cumsum(t[:, : len(u)], 0))[::-1],
        ),
        Misconception(
            "The mean of the tables",
            "They are added and not divided by anything.",
            lambda u, t: (
                u
                + np.cumsum(t[:, : len(u)], 0) / np.arange(1, len(t) + 1)[:, None, None]
            ),
        ),
        Misconception(
            "Every token is at position 0",
            "Token i reads row i.",
            lambda u, t: u + np.cumsum(np.repeat(t[:, :1], len(u), 1), 0),
        ),
        Misconception(
            "Subtracted",
            "Tables are added to what comes.",
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
)


# learned-embeddings-7: how often the bound is broken


def share_outside(rows, d, limit, seeds):
    """Of tables ``default_rng(seed).normal(size=(rows, d))``, a float from 0 to 1."""
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
Return in which share of the tables some two different rows have a cosine of `limit` or more in size.
Compare with $n (n - 1)\, e^{-d \varepsilon^2/2}$: is the bound close, or generous?
""",
    hint=r"""
Rows of length 1 have inner products that are cosines. A row with itself does not count.
""",
    cases=(
        (2, 3, 0.5, 8),
        (6, 12, 0.6, 60),
        (12, 30, 0.55, 60),
        (5, 8, 0.8, 40),
        (4, 4, 0.3, 40),
    ),
    solution=share_outside,
    misconceptions=(
        Misconception(
            "A row is compared with itself",
            "Its cosine with itself is 1, in every table. Leave the diagonal out.",
            _share(lambda t: np.abs(_cosines(t)).max()),
        ),
        Misconception(
            "Opposite rows do not count",
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
            "d is the mean of a squared length; each row has its own.",
            _share(lambda t: np.abs(_off_diagonal(t @ t.T)).max() / t.shape[1]),
        ),
        Misconception(
            "Columns, not rows",
            "A position is a row of the table.",
            _share(lambda t: np.abs(_off_diagonal(_cosines(t.T))).max()),
        ),
        Misconception(
            "The mean of the cosines",
            "One pair is enough: look at the largest.",
            _share(lambda t: np.abs(_off_diagonal(_cosines(t))).mean()),
        ),
        Misconception(
            "The smallest of the cosines",
            "One pair is enough: look at the largest.",
            _share(lambda t: np.abs(_off_diagonal(_cosines(t))).min()),
        ),
        Misconception(
            "Neighbors alone",
            "Any two rows count.",
            _share(lambda t: np.abs(np.diagonal(_cosines(t), 1)).max()),
        ),
        Misconception(
            "The first row with all others",
            "Any two rows count.",
            _share(lambda t: np.abs(_cosines(t)[0, 1:]).max()),
        ),
        Misconception(
            "Seeds from 1",
            "The first seed is 0.",
            _share(lambda t: np.abs(_off_diagonal(_cosines(t))).max(), 1),
        ),
        Misconception(
            "The tables within the limit",
            "Those outside are counted.",
            lambda *case: 1 - share_outside(*case),
        ),
        Misconception(
            "The number of tables",
            "A share: divide by how many there are.",
            lambda *case: share_outside(*case) * case[-1],
        ),
        Misconception(
            "The share of the pairs",
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
            "This is the bound",
            "Draw, and count.",
            lambda rows, d, limit, seeds: float(
                rows * (rows - 1) * np.exp(-d * limit**2 / 2)
            ),
        ),
        Misconception(
            "Columns of length 1",
            "The rows are to have length 1, axis 1.",
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
            "A larger limit is broken no more often",
            lambda answer, rows, d, limit, seeds: (
                answer(rows, d, 0.9, seeds) <= answer(rows, d, 0.3, seeds)
            ),
        ),
    ),
)


SHEET = Sheet(
    title="Tables: a vector for every position",
    conventions=r"""
Positions, rows and layers count from 0; a table has a row for each position.
""",
    exercises=(
        ROW_GRADIENTS,
        ROWS,
        LEFT,
        FEATURES_NEEDED,
        ROBERTA,
        ENTERING,
        SHARE_OUTSIDE,
    ),
)
