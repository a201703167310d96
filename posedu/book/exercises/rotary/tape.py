"""Exercises on TAPE: positions updated from layer to layer."""

import numpy as np
import sympy as sp
import torch
from torch.nn import functional

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

# tape-1: growth of the first token's block


def growth(c, n):
    """Return by which factor a block's product with itself grows over n TAPE layers.

    The block is the first token's position; ``c`` is the mixing factor of the only
    head. The factor is an expression.
    """
    return (1 + c) ** (2 * n)


_C = sp.Symbol("c", positive=True)

GROWTH = Exercise(
    name="tape-1",
    title="Growth of the first token's block",
    kind="by hand",
    minutes=8,
    lines=1,
    statement=r"""
On paper: one head, $C = (c)$, a causal mask, and an MLP update of 0.
$\Phi^\top \Phi$ is the product of the first token's block with itself.
By which factor is it larger after `n` layers have updated the block than before the first update?
Return a SymPy expression of `c` and `n`.
After how many layers has it doubled at $c = 0.1$?
""",
    hint=r"""
The first token looks only at itself.
What does a layer add to its block?
""",
    cases=((sp.Rational(1, 2), 1), (sp.Rational(1, 2), 3), (_C, 2), (_C, 5)),
    solution=growth,
    misconceptions=(
        Misconception(
            "Factor of the block, not of the product",
            "Your factor is that of the block's length. The product contains two "
            "blocks.",
            lambda c, n: (1 + c) ** n,
        ),
        Misconception(
            "Simple interest",
            "Each layer adds c times the current block, not the first one.",
            lambda c, n: (1 + c * n) ** 2,
        ),
        Misconception(
            "Simple interest, and the block alone",
            "Each layer adds c times the current block, and the product contains two "
            "blocks.",
            lambda c, n: 1 + c * n,
        ),
        Misconception(
            "Attention output in place of the block",
            "The attention output is added to the block.",
            lambda c, n: c ** (2 * n),
        ),
        Misconception(
            "Weighted mean of block and attention output",
            "The block is kept as it is, and the attention output added to it.",
            lambda c, n: sp.Integer(1),
        ),
        Misconception(
            "Square in every layer",
            "A layer multiplies the block by 1 + c, not by itself.",
            lambda c, n: (1 + c) ** (2**n),
        ),
        Misconception(
            "c squared",
            "The square of 1 + c has a term 2c.",
            lambda c, n: (1 + c**2) ** n,
        ),
        Misconception(
            "One layer too many",
            "The first layer has RoPE's own block.",
            lambda c, n: (1 + c) ** (2 * n + 2),
        ),
        Misconception(
            "One layer too few",
            "After n layers the block was updated n times.",
            lambda c, n: (1 + c) ** (2 * n - 2),
        ),
        Misconception(
            "Continuous growth",
            "Layers are steps. The exponential function is their limit for small c.",
            lambda c, n: sp.exp(2 * c * n),
        ),
        Misconception(
            "Other tokens included",
            "Under a causal mask the first token looks at no other token.",
            lambda c, n: (1 + c / 2) ** (2 * n),
        ),
        Misconception(
            "c² left out",
            "(1 + c)² has three terms.",
            lambda c, n: (1 + 2 * c) ** n,
        ),
        Misconception(
            "First order only",
            "1 + 2nc is the beginning of a power. Each layer adds c times the current "
            "block, and the power has more terms.",
            lambda c, n: 1 + 2 * n * c,
        ),
        Misconception(
            "n squared in place of the power",
            "In Python a ** n ** 2 is a ** (n ** 2). The square of a power needs "
            "parentheses.",
            lambda c, n: (1 + c) ** (n**2),
        ),
    ),
    properties=(
        Property(
            "In the first layer the factor is 1",
            lambda answer, c, n: sp.simplify(answer(sp.Rational(1, 3), 0) - 1) == 0,
        ),
        Property(
            "With c = 0 the factor is 1",
            lambda answer, c, n: sp.simplify(answer(sp.Integer(0), n) - 1) == 0,
        ),
        Property(
            "A further layer multiplies by the factor of one layer",
            lambda answer, c, n: (
                sp.simplify(answer(c, n + 1) - answer(c, n) * answer(c, 1)) == 0
            ),
        ),
    ),
    explanation=r"""
The first token sees only itself, so its attention output is its own block, and each layer adds $c$ times this block: $\Phi$ becomes $(1 + c)\,\Phi$.
After $n$ layers the block is $(1 + c)^n$ times as long, as {prf:ref}`the theorem on growth <thm-tape-growth>` says, and its product with itself $(1 + c)^{2n}$ times as large.
At $c = 0.1$ this is 1.77 after three layers and 2.14 after four: four layers double it.
""",
    prediction=Prediction(
        "After how many layers has the product at least doubled at $c = 0.1$?",
        lambda: next(n for n in range(99) if growth(0.1, n) >= 2),
    ),
)


# tape-2: factors of cosine and sine


def sum_coefficient(u, v):
    """Return the coefficient of cos ω(i + j) in a TAPE score, as an expression.

    i and j are the positions of query and key, and ω is the frequency of the only pair.
    An update has multiplied the cosine of every position block by u and the sine by v.
    """
    return (u**2 - v**2) / 2


_U, _V = sp.symbols("u v", positive=True)

SUM = Exercise(
    name="tape-2",
    title="How much the score depends on i + j",
    kind="SymPy",
    minutes=10,
    lines=1,
    statement=r"""
An update multiplies the cosine of every block by `u` and its sine by `v`.
For one pair and $q = k = (1, 0)$ the score becomes $\alpha \cos \omega (i - j) + \beta \cos \omega (i + j)$.
Return $\beta$ as a SymPy expression.
For which `u` and `v` is the score relative?
""",
    hint=r"""
The score is $u^2 \cos \omega i \cos \omega j + v^2 \sin \omega i \sin \omega j$.
Write both products as sums.
""",
    cases=((sp.Integer(2), sp.Integer(1)), (sp.Integer(1), _V), (_U, _V)),
    solution=sum_coefficient,
    misconceptions=(
        Misconception(
            "Coefficient of the offset",
            "Your answer is α, the coefficient of the offset's cosine.",
            lambda u, v: (u**2 + v**2) / 2,
        ),
        Misconception(
            "Wrong sign of the product of sines",
            "2 sin a sin b = cos(a − b) − cos(a + b): which term has the minus?",
            lambda u, v: (v**2 - u**2) / 2,
        ),
        Misconception(
            "Missing half",
            "2 cos a cos b = cos(a − b) + cos(a + b).",
            lambda u, v: u**2 - v**2,
        ),
        Misconception(
            "One block not updated",
            "The query's and the key's block are both multiplied.",
            lambda u, v: (u - v) / 2,
        ),
        Misconception(
            "Difference squared",
            "Each product has its own square.",
            lambda u, v: (u - v) ** 2 / 2,
        ),
        Misconception(
            "Halves squared",
            "Your answer is a product of two differences, one for each block.",
            lambda u, v: (u - v) ** 2 / 4,
        ),
        Misconception(
            "A quarter in place of a half",
            "The half of 2 cos a cos b = cos(a − b) + cos(a + b) appears once, not for "
            "each block.",
            lambda u, v: (u**2 - v**2) / 4,
        ),
        Misconception(
            "Cosine times sine",
            "With q = k = (1, 0) cosines are multiplied by cosines and sines by sines.",
            lambda u, v: u * v,
        ),
        Misconception(
            "0, as for u = v",
            "β is 0 only for u = ±v; here they differ.",
            lambda u, v: sp.Integer(0),
        ),
        Misconception(
            "Sines left out",
            "With q = (1, 0) the rotated query has a second member, the sine.",
            lambda u, v: u**2 / 2,
        ),
        Misconception(
            "Root of the squares",
            "A product of two blocks has the factors u² and v².",
            lambda u, v: sp.sqrt(u**2 + v**2) / 2,
        ),
        Misconception(
            "Rounded down to a whole number",
            "In Python // rounds down. An exact half needs /, or sp.Rational(1, 2).",
            lambda u, v: (u**2 - v**2) // 2,
        ),
        Misconception(
            "Ratio of the two coefficients",
            "β itself is asked for, not β divided by α.",
            lambda u, v: (u**2 - v**2) / (u**2 + v**2),
        ),
    ),
    properties=(
        Property(
            "With u = v the score stays relative",
            lambda answer, u, v: sp.simplify(answer(_U, _U)) == 0,
        ),
        Property(
            "Twice `u` and twice `v` make β four times as large",
            lambda answer, u, v: (
                sp.simplify(answer(2 * u, 2 * v) - 4 * answer(u, v)) == 0
            ),
        ),
    ),
    level="optional",
    explanation=r"""
$\cos x \cos y = \tfrac12 \bigl(\cos(x - y) + \cos(x + y)\bigr)$ and $\sin x \sin y = \tfrac12 \bigl(\cos(x - y) - \cos(x + y)\bigr)$ with $x = \omega i$ and $y = \omega j$.
So $\alpha = (u^2 + v^2)/2$ and $\beta = (u^2 - v^2)/2$.
The score is relative only if $\beta = 0$, that is $u = \pm v$: cosine and sine need the same factor up to its sign, {prf:ref}`the smallest counter-example <thm-tape-uneven>`.
""",
)


# tape-3: the update by attention


def attention_update(weights, z, mixing):
    """Return TAPE's positions after attention, complex, [tokens, heads, pairs].

    ``weights`` are attention weights, [heads, tokens, tokens]; ``z`` are the positions
    before attention. The matrix ``mixing``, [heads, heads], mixes the heads' weighted
    sums of positions.
    """
    attended = np.einsum("hij,jhp->ihp", weights, z)
    return z + np.einsum("hg,igp->ihp", mixing, attended)


def _weights(heads, tokens, seed=0, is_causal=True):
    weights = np.exp(draw(heads, tokens, tokens, seed=seed))
    if is_causal:
        weights *= np.tril(np.ones((tokens, tokens)))
    return weights / weights.sum(-1, keepdims=True)


def _positions(tokens, heads, pairs, seed=0):
    lengths = 1 + 0.3 * np.abs(draw(tokens, heads, pairs, seed=seed))
    return lengths * np.exp(1j * draw(tokens, heads, pairs, seed=seed + 1))


def _unit(z):
    return z / np.abs(z)


def _attention_update_with(of_weights="hij,jhp->ihp", letters="hg,igp->ihp", own=1.0):
    """Make a wrong answer (a function) to the exercise ``attention_update``.

    The exercise asks for TAPE's positions after attention. In the wrong answer,
    ``of_weights`` and ``letters`` are the indices of the two einsums, over tokens (with
    the attention weights) and over heads (with ``mixing``), or ``own`` multiplies the
    token's own position. The defaults are right.
    """

    def answer(weights, z, mixing):
        return own * z + np.einsum(letters, mixing, np.einsum(of_weights, weights, z))

    return answer


def _attention_update_of(attended):
    """Make a wrong answer (a function) to the exercise ``attention_update``.

    The exercise asks for TAPE's positions after attention. In the wrong answer,
    ``attended(weights, z)`` replaces the heads' attention outputs.
    """
    return lambda weights, z, mixing: (
        z + np.einsum("hg,igp->ihp", mixing, attended(weights, z))
    )


def _heads_in_turn(weights, z, mixing):
    new = z.copy()
    for h, row in enumerate(mixing):
        new[:, h] += sum(c * weights[g] @ new[:, g] for g, c in enumerate(row))
    return new


ATTENTION = Exercise(
    name="tape-3",
    title="The update by attention",
    kind="NumPy",
    minutes=10,
    lines=2,
    statement=r"""
Positions are complex numbers, `z` of shape `[tokens, heads, pairs]`; `weights[h, i, j]` are the attention weights, with or without a causal mask.
Each head of a token has the attention output $\bar z^h_i = \sum_j a^h_{ij} z^h_j$.
`mixing`, a matrix $C$ of heads by heads, mixes the outputs, and the sum is added: $z^h_i + \sum_g C_{hg} \bar z^g_i$.
Return the new positions.
Which letter of which `einsum` must not be left out?
""",
    hint=r"""
There are two sums, one over keys and one over heads.
Every summed letter stands in both factors.
""",
    cases=(
        (_weights(2, 2), _positions(2, 2, 1), draw(2, 2)),
        (_weights(3, 4, 1), _positions(4, 3, 2, 1), draw(3, 3, seed=1)),
        (_weights(3, 3, 2), _positions(3, 3, 3, 2), draw(3, 3, seed=2)),
        (_weights(2, 3, 3, False), _positions(3, 2, 2, 3), draw(2, 2, seed=3)),
    ),
    solution=attention_update,
    misconceptions=(
        Misconception(
            "Rows of the matrix summed alone",
            "A letter in one factor and not in the result is summed in this factor "
            "alone, and no head gets another head's output.",
            _attention_update_with(letters="hg,ihp->ihp"),
        ),
        Misconception(
            "Columns of the matrix summed alone",
            "A letter in one factor and not in the result is summed in this factor "
            "alone, and no head gets another head's output.",
            _attention_update_with(letters="gh,ihp->ihp"),
        ),
        Misconception(
            "Matrix transposed",
            "The row of C is the head that is updated, the column the head that gives "
            "its output.",
            _attention_update_with(letters="gh,igp->ihp"),
        ),
        Misconception(
            "Sum over the queries",
            "A token's output sums over the tokens it looks at, not over those that "
            "look at it.",
            lambda weights, z, mixing: (
                z
                + np.einsum(
                    "hg,igp->ihp", mixing, np.einsum("hji,jhp->ihp", weights, z)
                )
            ),
        ),
        Misconception(
            "First head's weights for all heads",
            "Each head has its own weights.",
            lambda weights, z, mixing: (
                z
                + np.einsum(
                    "hg,igp->ihp", mixing, np.einsum("ij,jhp->ihp", weights[0], z)
                )
            ),
        ),
        Misconception(
            "Mean weights of all heads",
            "Each head has its own weights.",
            lambda weights, z, mixing: (
                z
                + np.einsum(
                    "hg,igp->ihp",
                    mixing,
                    np.einsum("ij,jhp->ihp", weights.mean(0), z),
                )
            ),
        ),
        Misconception(
            "Token's own position lost",
            "The mixed output is added to the token's own position.",
            _attention_update_with(own=0.0),
        ),
        Misconception(
            "Own position multiplied by the matrix, too",
            "C multiplies the attention output. The token's own position is added as "
            "it is.",
            lambda weights, z, mixing: np.einsum(
                "hg,igp->ihp", mixing, z + np.einsum("hij,jhp->ihp", weights, z)
            ),
        ),
        Misconception(
            "Matrix left out",
            "The attention output is first mixed by C.",
            lambda weights, z, mixing: z + np.einsum("hij,jhp->ihp", weights, z),
        ),
        Misconception(
            "Diagonal of the matrix alone",
            "A head may take from all heads' outputs.",
            lambda weights, z, mixing: (
                z + np.diag(mixing)[:, None] * np.einsum("hij,jhp->ihp", weights, z)
            ),
        ),
        Misconception(
            "Positions normalized",
            "TAPE does not divide a position by its length here.",
            lambda weights, z, mixing: _unit(attention_update(weights, z, mixing)),
        ),
        Misconception(
            "Attention output conjugated",
            "Conjugates belong to scores. A sum of positions rotates with them as it "
            "is.",
            lambda weights, z, mixing: (
                z
                + np.einsum(
                    "hg,igp->ihp",
                    mixing,
                    np.einsum("hij,jhp->ihp", weights, z.conj()),
                )
            ),
        ),
        Misconception(
            "Heads summed before the mixing",
            "The head's letter stands in the weights and in the positions: each head "
            "has its own weights.",
            _attention_update_with(of_weights="hij,jgp->igp"),
        ),
        Misconception(
            "The receiving head's weights",
            "Head g's output is made with the weights of g. Your sum over keys takes "
            "the weights of the head that is updated.",
            lambda weights, z, mixing: (
                z + np.einsum("hij,hg,jgp->ihp", weights, mixing, z)
            ),
        ),
        Misconception(
            "Mean output of all heads added",
            "C holds the factor of each head for each head.",
            lambda weights, z, mixing: (
                z + np.einsum("hij,jhp->ihp", weights, z).mean(1, keepdims=True)
            ),
        ),
        Misconception(
            "Own position in place of the attention output",
            "C mixes sums over all tokens' positions. If j stands in the weights "
            "alone, einsum adds the weights up to 1, and the token's own position is "
            "left.",
            _attention_update_of(lambda weights, z: z),
        ),
        Misconception(
            "Softmax applied once more",
            "`weights` have been through the softmax: they add up to 1 over the keys.",
            _attention_update_of(
                lambda weights, z: np.einsum(
                    "hij,jhp->ihp",
                    np.exp(weights) / np.exp(weights).sum(-1, keepdims=True),
                    z,
                )
            ),
        ),
        Misconception(
            "Causal mask applied in any case",
            "The weights are used as they are: later tokens' weights are 0 only under "
            "a causal mask.",
            _attention_update_of(
                lambda weights, z: np.einsum("hij,jhp->ihp", np.tril(weights), z)
            ),
        ),
        Misconception(
            "Own token left out of the attention",
            "A token looks at itself, too.",
            _attention_update_of(
                lambda weights, z: np.einsum(
                    "hij,jhp->ihp", weights * (1 - np.eye(len(z))), z
                )
            ),
        ),
        Misconception(
            "Mean of all tokens",
            "Tokens are not weighted equally: the weights are given.",
            _attention_update_of(lambda weights, z: z.mean(0, keepdims=True) + 0 * z),
        ),
        Misconception(
            "Own position subtracted from the attention output",
            "The attention output is mixed as it is, not as a difference from the "
            "token's own position.",
            _attention_update_of(
                lambda weights, z: np.einsum("hij,jhp->ihp", weights, z) - z
            ),
        ),
        Misconception(
            "Angles averaged",
            "Positions are complex numbers, and these are summed, not their angles.",
            _attention_update_of(
                lambda weights, z: np.exp(
                    1j * np.einsum("hij,jhp->ihp", weights, np.angle(z))
                )
            ),
        ),
        Misconception(
            "Heads updated in turn",
            "All attention outputs are made from the positions before the update. "
            "Yours use heads that have been updated already.",
            _heads_in_turn,
        ),
        Misconception(
            "Mean over the giving heads",
            "The heads' outputs are summed with the factors in C, and not divided by "
            "the number of heads.",
            lambda weights, z, mixing: attention_update(
                weights, z, mixing / len(mixing)
            ),
        ),
    ),
    properties=(
        Property(
            "If all positions are rotated, so are the new ones",
            lambda answer, weights, z, mixing: np.allclose(
                answer(weights, np.exp(0.7j) * z, mixing),
                np.exp(0.7j) * answer(weights, z, mixing),
            ),
        ),
        Property(
            "If all positions are 1, those of head h become 1 + the sum of row h of "
            "the matrix",
            lambda answer, weights, z, mixing: np.allclose(
                answer(weights, 0 * z + 1, mixing), 1 + mixing.sum(1)[:, None]
            ),
        ),
        Property(
            "Doubling the matrix doubles what is added to the positions",
            lambda answer, weights, z, mixing: np.allclose(
                answer(weights, z, 2 * mixing) - z,
                2 * (answer(weights, z, mixing) - z),
            ),
        ),
    ),
    explanation=r"""
Each head sums over keys with its own weights, `"hij,jhp->ihp"`: $h$ stands in the weights and in the positions.
The sum over the giving heads is `"hg,igp->ihp"`, and the letter that must not be left out is $g$ in its second factor: with `"hg,ihp->ihp"` einsum sums the rows of $C$ by themselves, raises no error, and no head receives anything from another.
The update is a linear combination of positions, so it is {prf:ref}`equivariant <thm-tape-equivariance>`.
""",
)


# tape-4: the update by the MLP


def mlp_update(z, y, up, down, gate):
    """Return TAPE's positions after the MLP, complex, [tokens, heads, pairs].

    ``z`` are the positions before the MLP, ``y``, [tokens, d_model], the MLP outputs.
    ``up`` maps heads to channels, ``gate`` makes the channels' gates from ``y``, and
    ``down`` maps back to heads.
    """
    gates = y @ gate.T
    gates = gates / (1 + np.exp(-gates))
    return z + np.einsum("hw,iw,wg,igp->ihp", down, gates, up, z)


def _silu(x):
    return x / (1 + np.exp(-x))


def _mlp_update_with(function=None, of_gate=None, own=1.0):
    """Make a wrong answer (a function) to the exercise ``mlp_update``.

    The exercise asks for TAPE's positions after the MLP. In the wrong answer,
    ``function`` replaces the SiLU on the gates, ``of_gate`` changes the gates after
    that, or ``own`` multiplies the positions before the update (right: 1). With None
    for ``function`` or ``of_gate``, this step is right.
    """

    def answer(z, y, up, down, gate):
        gates = (function or _silu)(y @ gate.T)
        if of_gate is not None:
            gates = of_gate(gates)
        return own * z + np.einsum("hw,iw,wg,igp->ihp", down, gates, up, z)

    return answer


def _mlp_case(tokens, heads, pairs, width, d_model, seed):
    return (
        _positions(tokens, heads, pairs, seed),
        draw(tokens, d_model, seed=seed),
        draw(width, heads, seed=seed + 1),
        draw(heads, width, seed=seed + 2),
        draw(width, d_model, seed=seed + 3),
    )


def _large_gates():
    """Return arguments with gates of 800 and −400 before the SiLU."""
    z, _, up, down, _ = _mlp_case(1, 1, 1, 2, 1, 3)
    return z, np.array([[800.0]]), up, down, np.array([[1.0], [-0.5]])


def _mlp_update_by(gates):
    """Make a wrong answer (a function) to the exercise ``mlp_update``.

    The exercise asks for TAPE's positions after the MLP. In the wrong answer,
    ``gates(y, gate)`` replaces the SiLU of the gates.
    """
    return lambda z, y, up, down, gate: (
        z + np.einsum("hw,iw,wg,igp->ihp", down, gates(y, gate), up, z)
    )


@np.errstate(all="ignore")
def _overflowing(x):
    return x * np.exp(x) / (1 + np.exp(x))


def _entry_by_entry(z, y, up, down, gate):
    channels = np.einsum("wg,igp->iwp", up, z)
    channels = _silu(channels.real) + 1j * _silu(channels.imag)
    return z + np.einsum("hw,iw,iwp->ihp", down, y @ gate.T, channels)


MLP = Exercise(
    name="tape-4",
    title="The update by the MLP",
    kind="NumPy",
    minutes=12,
    lines=3,
    statement=r"""
Complex positions `z` have the shape `[tokens, heads, pairs]`, and `y` of shape `[tokens, d_model]` is the MLP output.
`up` `[width, heads]` maps the heads to channels, and channel $w$ of token $i$ is multiplied by $\mathrm{SiLU}(G\, y_i)_w$.
`down` `[heads, width]` maps the channels back to heads, and the result is added to `z`.
`gate` is $G$, `[width, d_model]`.
Return the new positions.
What would be lost if the SiLU were applied to the channels?
""",
    hint=r"""
$\mathrm{SiLU}(x) = x\, \sigma(x)$.
Its values are real, one for each token and channel.
""",
    cases=(
        _mlp_case(1, 2, 1, 3, 2, 0),
        _mlp_case(3, 2, 2, 4, 3, 1),
        _mlp_case(4, 3, 2, 5, 2, 2),
        _large_gates(),
    ),
    solution=mlp_update,
    misconceptions=(
        Misconception(
            "Sigmoid in place of SiLU",
            "SiLU(x) is x times the sigmoid of x.",
            _mlp_update_with(lambda x: 1 / (1 + np.exp(-x))),
        ),
        Misconception(
            "ReLU in place of SiLU",
            "SiLU is smooth, and negative for negative numbers.",
            _mlp_update_with(lambda x: np.maximum(x, 0)),
        ),
        Misconception(
            "Hyperbolic tangent in place of SiLU",
            "SiLU is not bounded above.",
            _mlp_update_with(np.tanh),
        ),
        Misconception(
            "Identity in place of SiLU",
            "The gate G y goes through the SiLU first.",
            _mlp_update_with(lambda x: x),
        ),
        Misconception(
            "Sigmoid of −x",
            "SiLU(x) = x / (1 + exp(−x)). Look at the sign.",
            _mlp_update_with(lambda x: x / (1 + np.exp(x))),
        ),
        Misconception(
            "Softmax over the channels",
            "The channels' gates do not depend on each other.",
            _mlp_update_with(softmax),
        ),
        Misconception(
            "Softplus in place of SiLU",
            "log(1 + exp(x)) is positive; SiLU is x times the sigmoid.",
            _mlp_update_with(lambda x: np.logaddexp(0, x)),
        ),
        Misconception(
            "Own positions lost",
            "The result is added to them.",
            _mlp_update_with(own=0.0),
        ),
        Misconception(
            "Mean gate of all tokens",
            "Each token has a gate of its own.",
            _mlp_update_with(
                of_gate=lambda gates: gates.mean(0, keepdims=True) + 0 * gates
            ),
        ),
        Misconception(
            "First token's gate for all tokens",
            "Each token has a gate of its own.",
            _mlp_update_with(of_gate=lambda gates: gates[:1] + 0 * gates),
        ),
        Misconception(
            "Mean gate of all channels",
            "Each channel has a gate of its own.",
            _mlp_update_with(
                of_gate=lambda gates: gates.mean(1, keepdims=True) + 0 * gates
            ),
        ),
        Misconception(
            "SiLU of the channels",
            "On the channels the function takes cosines and sines one by one, and the "
            "update does not rotate with the plane.",
            _entry_by_entry,
        ),
        Misconception(
            "Channels of conjugates",
            "Nothing is conjugated here.",
            lambda z, y, up, down, gate: (
                z + mlp_update(z.conj(), y, up, down, gate) - z.conj()
            ),
        ),
        Misconception(
            "Gate left out",
            "Each channel is multiplied by the SiLU of its gate.",
            _mlp_update_with(lambda x: 1 + 0 * x),
        ),
        Misconception(
            "GELU in place of SiLU",
            "SiLU is x times the sigmoid of x, a GELU x times Φ(x).",
            _mlp_update_with(lambda x: functional.gelu(torch.tensor(x)).numpy()),
        ),
        Misconception(
            "GELU, in its form with tanh, in place of SiLU",
            "SiLU is x times the sigmoid of x.",
            _mlp_update_with(
                lambda x: (
                    x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))) / 2
                )
            ),
        ),
        Misconception(
            "GELU, in its form with a sigmoid, in place of SiLU",
            "SiLU is x times the sigmoid of x, without a factor inside.",
            _mlp_update_with(lambda x: x / (1 + np.exp(-1.702 * x))),
        ),
        Misconception(
            "1 + SiLU",
            "A channel whose gate is 0 is switched off.",
            _mlp_update_with(lambda x: 1 + _silu(x)),
        ),
        Misconception(
            "Exponential of a large gate",
            "The exponential of 800 is ∞ in floats, and ∞/∞ is NaN. Write the sigmoid "
            "so that its exponential is small for large x.",
            _mlp_update_with(_overflowing),
        ),
        Misconception(
            "Gate of the mean token",
            "Each token has a gate of its own.",
            _mlp_update_by(lambda y, gate: _silu((0 * y + y.mean(0)) @ gate.T)),
        ),
        Misconception(
            "Gates of all channels added",
            "Each channel has a gate of its own. With a letter of its own for the "
            "gates' channels, einsum adds them up.",
            _mlp_update_with(
                of_gate=lambda gates: gates.sum(1, keepdims=True) + 0 * gates
            ),
        ),
        Misconception(
            "SiLU before the matrix",
            "The SiLU is taken of G y, not of y.",
            _mlp_update_by(lambda y, gate: _silu(y) @ gate.T),
        ),
        Misconception(
            "`up` and `down` exchanged",
            "`up` comes first, and its rows are channels.",
            lambda z, y, up, down, gate: mlp_update(z, y, down.T, up.T, gate),
        ),
        Misconception(
            "`up` used in both directions",
            "A matrix of its own, `down`, maps back to heads.",
            lambda z, y, up, down, gate: mlp_update(z, y, up, up.T, gate),
        ),
        Misconception(
            "Rows of `up` summed alone",
            "The heads' letter must stand in `up` and in the positions. In `up` alone "
            "it is summed there, and no head gets another head's position.",
            lambda z, y, up, down, gate: (
                z + np.einsum("hw,iw,wg,ihp->ihp", down, _silu(y @ gate.T), up, z)
            ),
        ),
        Misconception(
            "Positions normalized",
            "TAPE does not divide a position by its length here.",
            lambda z, y, up, down, gate: _unit(mlp_update(z, y, up, down, gate)),
        ),
    ),
    properties=(
        Property(
            "If all positions are rotated, so are the new ones",
            lambda answer, z, y, up, down, gate: np.allclose(
                answer(np.exp(0.7j) * z, y, up, down, gate),
                np.exp(0.7j) * answer(z, y, up, down, gate),
            ),
        ),
        Property(
            "With y = 0 the positions stay as they are",
            lambda answer, z, y, up, down, gate: np.allclose(
                answer(z, 0 * y, up, down, gate), z
            ),
        ),
    ),
    explanation=r"""
The equivariance would be lost: the channels are positions, which rotate when all tokens are shifted, and a SiLU of rotated numbers is not the rotated SiLU.
The gates are made from the content $y_i$ alone, so a shift does not change them, and multiplying positions by real numbers commutes with a rotation.
This is {prf:ref}`the theorem on equivariance <thm-tape-equivariance>`; with it {prf:ref}`scores depend on distances alone <thm-tape-relative>`.
""",
)


# tape-5: one more token


def next_block(logits, cached, new, mixing):
    """Return the new token's TAPE block for the next layer, [heads, 2, pairs].

    A block holds a token's position. ``logits``, [heads, tokens + 1], are the new
    token's attention logits, its own last. ``cached`` are the earlier tokens' blocks,
    ``new`` is the new token's block before the update. The matrix ``mixing``, [heads,
    heads], mixes the heads' weighted sums of blocks.
    """
    every = torch.cat((cached, new[None]))
    attended = torch.einsum("hj,jhcp->hcp", logits.softmax(-1), every)
    return new + torch.einsum("hg,gcp->hcp", mixing, attended)


def _decoding(heads, past, pairs, seed):
    return tuple(
        torch.tensor(draw(*shape, seed=seed + n))
        for n, shape in enumerate(
            (
                (heads, past + 1),
                (past, heads, 2, pairs),
                (heads, 2, pairs),
                (heads, heads),
            )
        )
    )


def _far_logits():
    """Return arguments with logits of a thousand in one head, below one in the other."""
    logits, *others = _decoding(2, 3, 2, 5)
    return logits * torch.tensor([[1.0], [1000.0]]), *others


def _decoded(keys, weigh=functional.softmax, letters="hg,gcp->hcp", own=1.0):
    """Make a wrong answer (a function) to the exercise ``next_block``.

    The exercise asks for the new token's TAPE block. In the wrong answer,
    ``keys(cached, new)`` are the blocks attended to (right: both joined), ``weigh``
    replaces the softmax, ``letters`` are the indices of the einsum that mixes heads, or
    ``own`` multiplies the new token's block (right: 1).
    """

    def answer(logits, cached, new, mixing):
        weights = weigh(logits, -1)
        every = keys(cached, new)
        attended = torch.einsum("hj,jhcp->hcp", weights[:, : len(every)], every)
        return own * new + torch.einsum(letters, mixing, attended)

    return answer


def _all(cached, new):
    return torch.cat((cached, new[None]))


STEP = Exercise(
    name="tape-5",
    title="One more token",
    kind="PyTorch",
    minutes=12,
    lines=3,
    statement=r"""
For generation with a cache, `cached` holds this layer's blocks of the tokens so far, `[tokens, heads, 2, pairs]`, oldest first; there is at least one.
`new`, `[heads, 2, pairs]`, is the block of the newest token.
`logits`, `[heads, tokens + 1]`, are its products with all keys, its own last.
Return its block for the next layer, before the MLP: its heads' attention outputs, mixed by `mixing` and added to `new`.
What must be appended to the cache, and in which layer?
""",
    hint=r"""
A token looks at itself, too.
First append its block to the cached ones.
""",
    cases=(
        _decoding(1, 1, 1, 0),
        _decoding(2, 3, 2, 5),
        _decoding(3, 5, 2, 9),
        _far_logits(),
    ),
    solution=next_block,
    misconceptions=(
        Misconception(
            "Own block left out",
            "The token's own key is the last one, and has a weight.",
            _decoded(lambda cached, new: cached),
        ),
        Misconception(
            "Own key left out of the softmax",
            "The token's own key is the last one, and the softmax is over all keys.",
            lambda logits, cached, new, mixing: (
                next_block(logits[:, :-1], cached[:-1], cached[-1], mixing)
                - cached[-1]
                + new
            ),
        ),
        Misconception(
            "Its own block first",
            "The oldest block comes first: the new one belongs after the cached ones.",
            _decoded(lambda cached, new: torch.cat((new[None], cached))),
        ),
        Misconception(
            "Newest block first",
            "The cache has the oldest first.",
            _decoded(lambda cached, new: _all(cached, new).flip(0)),
        ),
        Misconception(
            "Logits in place of weights",
            "The attention output is a weighted mean: take the softmax first.",
            _decoded(_all, lambda logits, axis: logits),
        ),
        Misconception(
            "Softmax over heads",
            "Weights of one head add up to 1 over the keys.",
            _decoded(_all, lambda logits, axis: logits.softmax(0)),
        ),
        Misconception(
            "Exponentials not divided by their sum",
            "Weights add up to 1.",
            _decoded(_all, lambda logits, axis: logits.exp()),
        ),
        Misconception(
            "Rows of the matrix summed alone",
            "Without the summed letter in both factors no head gets another head's "
            "output.",
            _decoded(_all, letters="hg,hcp->hcp"),
        ),
        Misconception(
            "Matrix transposed",
            "The row of C is the head that is updated.",
            _decoded(_all, letters="gh,gcp->hcp"),
        ),
        Misconception(
            "New block lost",
            "The mixed output is added to the new block.",
            _decoded(_all, own=0.0),
        ),
        Misconception(
            "Last cached block updated",
            "Only the newest token goes on to the next layer. The cached blocks never "
            "change.",
            lambda logits, cached, new, mixing: (
                next_block(logits, cached, new, mixing) - new + cached[-1]
            ),
        ),
        Misconception(
            "Only the cosines updated",
            "Cosine and sine are updated together.",
            lambda logits, cached, new, mixing: torch.stack(
                (next_block(logits, cached, new, mixing)[:, 0], new[:, 1]), 1
            ),
        ),
        Misconception(
            "Matrix left out",
            "The attention output is first mixed by C.",
            lambda logits, cached, new, mixing: (
                new
                + torch.einsum("hj,jhcp->hcp", logits.softmax(-1), _all(cached, new))
            ),
        ),
        Misconception(
            "New block multiplied by the matrix, too",
            "C multiplies the attention output. The token's own block is added as it "
            "is.",
            lambda logits, cached, new, mixing: (
                next_block(logits, cached, new, mixing)
                + torch.einsum("hg,gcp->hcp", mixing, new)
                - new
            ),
        ),
        Misconception(
            "Logits divided by √d",
            "`logits` are what goes into the softmax: nothing is left to be divided.",
            lambda logits, cached, new, mixing: next_block(
                logits / (2 * new.shape[-1]) ** 0.5, cached, new, mixing
            ),
        ),
        Misconception(
            "Diagonal of the matrix alone",
            "A head may take from all heads' outputs.",
            lambda logits, cached, new, mixing: next_block(
                logits, cached, new, mixing.diagonal().diag()
            ),
        ),
        Misconception(
            "Columns of the matrix summed alone",
            "Without the summed letter in both factors no head gets another head's "
            "output.",
            _decoded(_all, letters="gh,hcp->hcp"),
        ),
        Misconception(
            "First head's weights for all heads",
            "Each head has its own weights.",
            _decoded(
                _all, lambda logits, axis: logits[:1].softmax(axis).expand_as(logits)
            ),
        ),
        Misconception(
            "Mean weights of all heads",
            "Each head has its own weights.",
            _decoded(
                _all,
                lambda logits, axis: (
                    logits.softmax(axis).mean(0, True).expand_as(logits)
                ),
            ),
        ),
        Misconception(
            "The receiving head's weights",
            "Head g's output is made with the weights of g. Your sum over keys takes "
            "the weights of the head that is updated.",
            lambda logits, cached, new, mixing: (
                new
                + torch.einsum(
                    "hg,hj,jgcp->hcp", mixing, logits.softmax(-1), _all(cached, new)
                )
            ),
        ),
        Misconception(
            "Logarithms of the weights",
            "The attention output is a weighted mean: `log_softmax` gives logarithms "
            "of weights.",
            _decoded(_all, functional.log_softmax),
        ),
        Misconception(
            "Sigmoid in place of the softmax",
            "Weights of one head add up to 1 over the keys.",
            _decoded(_all, lambda logits, axis: logits.sigmoid()),
        ),
        Misconception(
            "Block with the largest logit alone",
            "All blocks count, with the softmax's weights.",
            _decoded(
                _all,
                lambda logits, axis: (
                    functional.one_hot(logits.argmax(axis), logits.shape[1])
                    + 0 * logits
                ),
            ),
        ),
        Misconception(
            "Mean of all blocks",
            "The blocks are weighted by the softmax of the logits.",
            _decoded(_all, lambda logits, axis: (0 * logits).softmax(axis)),
        ),
    ),
    properties=(
        Property(
            "With a matrix of zeros the block stays as it is",
            lambda answer, logits, cached, new, mixing: torch.allclose(
                answer(logits, cached, new, 0 * mixing), new
            ),
        ),
    ),
    explanation=r"""
`new` is appended to the cache of this layer, and the block that is returned goes to the next layer, which appends it to its own cache: every layer has a cache of blocks, next to its keys and values.
The softmax runs over the cached tokens and the token itself, whose block is the last of them.
Earlier blocks never change, because under a causal mask {prf:ref}`the update of a token <def-tape-box>` uses this token and earlier ones only.
""",
)


# tape-6: a position added from another token


def attended_token(tokens, source, amount):
    """Return the index of the key with the largest score in the next TAPE layer.

    The last of ``tokens`` tokens has added ``amount`` times the position of token
    ``source`` to its own position. The head's query stands one position after the sum
    of the two.
    """
    omega = 10000.0 ** (-np.arange(16) / 16)
    z = np.exp(1j * omega * np.arange(tokens)[:, None])
    own = z[-1] + amount * z[source]
    scores = (np.conj(own * np.exp(1j * omega)) * z[:-1]).real.sum(-1)
    return int(scores.argmax())


_ROW = 10000.0 ** (-np.arange(16) / 16)


def _attended_with(
    own=None,
    ahead=1,
    keys=slice(None, -1),
    conjugate=np.conj,
    size=np.real,
    best=np.argmax,
    omega=_ROW,
):
    """Make a wrong answer (a function) to the exercise ``attended_token``.

    The exercise asks for the key with the largest score. Some steps of the answer can
    be wrong; with the defaults all are right. ``own(z, source, amount)`` is the last
    token's position after the update, made of all positions z; the head's query stands
    ``ahead`` positions after that. ``keys`` selects tokens, ``conjugate``, ``size`` and
    ``best`` are the steps from products to the index, and ``omega`` are the
    frequencies.
    """

    def answer(tokens, source, amount):
        z = np.exp(1j * omega * np.arange(tokens)[:, None])
        at = z[-1] + amount * z[source] if own is None else own(z, source, amount)
        scores = conjugate(at * np.exp(1j * ahead * omega)) * z[keys]
        return best(size(scores.sum(-1)))

    return answer


ATTENDED = Exercise(
    name="tape-6",
    title="A position added from another token",
    kind="experiment",
    minutes=15,
    lines=5,
    statement=r"""
The last of `tokens` tokens adds `amount` times the position of token `source` to its own.
Positions are RoPE's $e^{\mathrm i \omega_p i}$, with 16 pairs and $\omega_p = 10000^{-p/16}$.
In the next layer a head looks *one position after* the token's own $z$: the score of key $j$ is $\sum_p \mathrm{Re}\bigl( \overline{z_p\, e^{\mathrm i \omega_p}}\; e^{\mathrm i \omega_p j} \bigr)$, for all tokens but the last.
Return the index of the key with the largest score, an `int`.
How large must `amount` be for it to be the token after `source`, in the texts that you try?
""",
    hint=r"""
Four lines are enough: the frequencies, all positions, the last token's new position, the scores.
""",
    cases=(
        (4, 0, 0.0),
        (8, 2, 20.0),
        (24, 5, 1.0),
        (24, 5, 20.0),
        (24, 21, 20.0),
        (200, 53, 0.5),
        (200, 53, 5.0),
        (5, 1, 2.0),
        (16, 1, 1.5),
        (12, 0, 0.8),
        (31, 3, 2.3),
        (32, 2, 0.8),
    ),
    solution=attended_token,
    misconceptions=(
        Misconception(
            "One position before",
            "One position after means a larger position.",
            _attended_with(ahead=-1),
        ),
        Misconception(
            "Position z itself",
            "The head looks one position after the token's own.",
            _attended_with(ahead=0),
        ),
        Misconception(
            "Missing conjugate",
            "A score depends on the difference of two angles: one of the factors is "
            "conjugated.",
            _attended_with(conjugate=lambda z: z),
        ),
        Misconception(
            "Source's position in place of the own one",
            "The source's position is added to the token's own, so that the amount "
            "matters.",
            _attended_with(own=lambda z, source, amount: z[source]),
        ),
        Misconception(
            "Own position alone",
            "The token adds the source's position to its own.",
            _attended_with(own=lambda z, source, amount: z[-1]),
        ),
        Misconception(
            "Last token included",
            "All tokens but the last are compared.",
            _attended_with(keys=slice(None)),
        ),
        Misconception(
            "Amount times the own position",
            "The amount multiplies the source's position.",
            _attended_with(own=lambda z, source, amount: amount * z[-1] + z[source]),
        ),
        Misconception(
            "Weighted mean of both positions",
            "The token's own position is kept as it is.",
            _attended_with(
                own=lambda z, source, amount: (1 - amount) * z[-1] + amount * z[source]
            ),
        ),
        Misconception(
            "Angles added",
            "Positions are added as complex numbers, not by their angles.",
            _attended_with(own=lambda z, source, amount: z[-1] * z[source] ** amount),
        ),
        Misconception(
            "Smallest score",
            "The largest score is asked for.",
            _attended_with(best=np.argmin),
        ),
        Misconception(
            "Counted from 1",
            "Indices count from 0.",
            lambda tokens, source, amount: attended_token(tokens, source, amount) + 1,
        ),
        Misconception(
            "Position normalized",
            "A sum keeps its length: pairs in which both positions agree count more.",
            _attended_with(
                own=lambda z, source, amount: _unit(z[-1] + amount * z[source])
            ),
        ),
        Misconception(
            "Modulus of the sum",
            "The real part is asked for: it is largest for a key that points in the "
            "same direction.",
            _attended_with(size=np.abs),
        ),
        Misconception(
            "Source's position, times the amount, in place of the own one",
            "The source's position is added to the token's own.",
            _attended_with(own=lambda z, source, amount: amount * z[source]),
        ),
        Misconception(
            "Exponent doubled",
            "The exponent is −p/16: there are 16 pairs of 32 features.",
            _attended_with(omega=10000.0 ** (-np.arange(16) / 8)),
        ),
        Misconception(
            "Exponent halved",
            "The exponent is −p/16: p counts pairs, not features.",
            _attended_with(omega=10000.0 ** (-np.arange(16) / 32)),
        ),
        Misconception(
            "Frequencies that rise",
            "The exponent is negative: from 1 on, the frequencies fall.",
            _attended_with(omega=10000.0 ** (np.arange(16) / 16)),
        ),
        Misconception(
            "Score in place of its index",
            "Which key has the largest score? Return its index.",
            _attended_with(best=np.max),
        ),
        Misconception(
            "Amount left out",
            "The source's position is multiplied by the amount.",
            _attended_with(own=lambda z, source, amount: z[-1] + z[source]),
        ),
        Misconception(
            "Last token at the position `tokens`",
            "Positions count from 0: the last of n tokens is at n − 1.",
            _attended_with(
                own=lambda z, source, amount: z[-1] * z[1] + amount * z[source]
            ),
        ),
        Misconception(
            "Only the source's position moved by one",
            "The head looks one position after the *sum*: both addends are rotated.",
            _attended_with(
                own=lambda z, source, amount: z[-1] + amount * z[source] * z[1], ahead=0
            ),
        ),
        Misconception(
            "Only the own position moved by one",
            "The head looks one position after the *sum*: both addends are rotated.",
            _attended_with(
                own=lambda z, source, amount: z[-1] * z[1] + amount * z[source], ahead=0
            ),
        ),
        Misconception(
            "Last two tokens left out",
            "All tokens but the last are compared, its neighbor included.",
            _attended_with(keys=slice(None, -2)),
        ),
        Misconception(
            "Indices averaged",
            "The complex numbers are added, not the indices. The scores decide.",
            lambda tokens, source, amount: round(
                (tokens - 1 + amount * source) / (1 + amount) + 1
            ),
        ),
        Misconception(
            "Keys before the source left out",
            "All tokens but the last are compared, earlier ones included.",
            lambda tokens, source, amount: (
                source + _attended_with(keys=slice(source, -1))(tokens, source, amount)
            ),
        ),
    ),
    properties=(
        Property(
            "With a large amount the result is the token after the source",
            lambda answer, tokens, source, amount: answer(12, 4, 100.0) == 5,
        ),
    ),
    explanation=r"""
The new position is a sum of two, and the score of a key is the sum of what it would have with each.
A head that looks one position ahead finds the token after `source` once `amount` is large enough: from about 0.53 on with 8 tokens and source 2, 1.13 with 24 tokens and source 5, 1.45 with 1000 tokens and source 300.
For a smaller amount the token's own position wins, and the head looks at its neighbors; with source 21 of 24 tokens both agree, and any amount is enough.
So a trained $C$ of moderate size lets a head look *relative to a token that another head has found*, {prf:ref}`the definition of TAPE <def-tape-box>` put to use.
""",
)


# tape-7: a position that is replaced, not added


def colleagues_token(tokens, source, amount):
    """Index of the key with the largest score.

    The last token has been updated.
    """
    step = np.exp(1j * 10000.0 ** (-np.arange(16) / 16))
    keys = step ** np.arange(tokens)[:, None]
    query = amount * keys[source] * step
    scores = (np.conj(query) * keys[:-1]).real.sum(-1)
    return int(scores.argmax())


def text_with_wrong_token():
    """Return the smallest text for which `colleagues_token` is wrong.

    The answer is (tokens, source, amount), all of them whole numbers.
    """
    return 4, 0, 1


def _refused_text(tokens, source, amount):
    if any(type(n) is not int for n in (tokens, source, amount)):
        return "all three are whole numbers"
    if not 2 <= tokens <= 1000 or not 0 <= source < tokens - 1:
        return "there are 2 to 1000 tokens, and source is one of them but the last"
    return "" if 1 <= amount <= 20 else "amount is between 1 and 20"


SOURCE = Exercise(
    name="tape-7",
    title="Find the input: a small amount",
    kind="find the input",
    minutes=8,
    lines=1,
    statement=r"""
`colleagues_token` should do what exercise tape-6 asks for.
Her tests have the amount 20, with 8 tokens and source 2, 24 tokens and source 5, and 24 tokens and source 21; all pass.
Find `tokens`, `source` and `amount`, a whole number from 1 to 20, for which it is wrong.
The smallest input is the one with the fewest tokens.
What does her result never depend on?
""",
    hint=r"""
Compare her line for the new position with the statement of tape-6, and try small amounts.
""",
    cases=((),),
    solution=text_with_wrong_token,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_token,
        right=attended_token,
        tested=((8, 2, 20), (24, 5, 20), (24, 21, 20)),
        refusal=_refused_text,
        size=lambda tokens, source, amount: tokens,
        size_of="number of tokens",
    ),
    explanation=r"""
On the amount: she replaces the token's own position by a multiple of the source's, and a positive factor does not change which score is largest.
TAPE adds, as {prf:ref}`its definition <def-tape-box>` says, and with a small amount the own position counts: with 4 tokens, source 0 and amount 1 right is token 2, and hers is token 1.
With 2 or 3 tokens both agree for every amount from 1 to 20.
Her tests are all at one end of the range of amounts, where the term that she forgot is too small to matter.
""",
    tolerance=0.0,
)


SHEET = Sheet(
    title="TAPE: contextualized equivariant positions",
    conventions=r"""
Everywhere $i$ is the query's token and $j$ the key's, counted from 0.
A position is a block for each head and pair, written as the complex number $c + \mathrm i s$ or as the two numbers $c$ and $s$.
In the first layer it is $e^{\mathrm i \omega_p i}$.
""",
    example=r"""
from posedu.numpy.rotary import tape_start

blocks = tape_start(np.array([0, 1]), 4, 3)
print(blocks.shape)  # [tokens, heads, pairs, 2, 2]
print(np.round(blocks[1, 0], 3))
""",
    figure="tape_explorable",
    exercises=(GROWTH, SUM, ATTENTION, MLP, STEP, ATTENDED, SOURCE),
)
