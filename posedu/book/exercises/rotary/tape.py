"""The exercises on positions that change from layer to layer."""

import numpy as np
import sympy as sp
import torch
from torch.nn import functional

from posedu.book.exercises.records import Exercise, Misconception, Property, Sheet, draw

# tape-1: what grows


def growth(c, n):
    """The factor, as an expression."""
    return (1 + c) ** (2 * n)


_C = sp.Symbol("c", positive=True)

GROWTH = Exercise(
    name="tape-1",
    title="What grows",
    kind="by hand",
    minutes=8,
    lines=1,
    statement=r"""
On paper: one head, $C = (c)$, a silent MLP, a causal mask.
By which factor is the product $\Phi^\top \Phi$ of the first token's block with itself larger after `n` layers than in the first?
Return a SymPy expression of `c` and `n`.
How many layers double it at $c = 0.1$?
""",
    hint=r"""
The first token hears itself alone. What does a layer add to its block?
""",
    cases=((sp.Rational(1, 2), 1), (sp.Rational(1, 2), 3), (_C, 2), (_C, 5)),
    solution=growth,
    misconceptions=(
        Misconception(
            "The block, not the product",
            "That is how much longer the block is. A product has two of them.",
            lambda c, n: (1 + c) ** n,
        ),
        Misconception(
            "Simple interest",
            "Each layer adds c times what there is, not of what there was at first.",
            lambda c, n: (1 + c * n) ** 2,
        ),
        Misconception(
            "Simple interest, and the block alone",
            "Each layer adds c times what there is; and a product has two blocks.",
            lambda c, n: 1 + c * n,
        ),
        Misconception(
            "What is heard takes the place of the block",
            "It is added to it.",
            lambda c, n: c ** (2 * n),
        ),
        Misconception(
            "A mixture of the two",
            "Nothing is taken away from the block when something is added.",
            lambda c, n: sp.Integer(1),
        ),
        Misconception(
            "Squared in every layer",
            "A layer multiplies by 1 + c; it does not multiply a block by itself.",
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
            "After n layers the block was moved n times.",
            lambda c, n: (1 + c) ** (2 * n - 2),
        ),
        Misconception(
            "Added continuously",
            "Layers are steps: the exponential function is their limit for small c.",
            lambda c, n: sp.exp(2 * c * n),
        ),
        Misconception(
            "It hears the others, too",
            "Under a causal mask the first token has no other one.",
            lambda c, n: (1 + c / 2) ** (2 * n),
        ),
        Misconception(
            "Square of c forgotten",
            "(1 + c)² has three terms.",
            lambda c, n: (1 + 2 * c) ** n,
        ),
    ),
    properties=(
        Property(
            "In the first layer nothing has grown",
            lambda answer, c, n: sp.simplify(answer(sp.Rational(1, 3), 0) - 1) == 0,
        ),
    ),
)


# tape-2: cosines and sines apart


def place(u, v):
    """The coefficient, as an expression."""
    return (u**2 - v**2) / 2


_U, _V = sp.symbols("u v", positive=True)

PLACE = Exercise(
    name="tape-2",
    title="How much the place shows",
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
    solution=place,
    misconceptions=(
        Misconception(
            "The other coefficient",
            "That is α, of the offset.",
            lambda u, v: (u**2 + v**2) / 2,
        ),
        Misconception(
            "The sign of the product of sines",
            "2 sin a sin b = cos(a − b) − cos(a + b): which one has the minus?",
            lambda u, v: (v**2 - u**2) / 2,
        ),
        Misconception(
            "Half forgotten",
            "2 cos a cos b = cos(a − b) + cos(a + b).",
            lambda u, v: u**2 - v**2,
        ),
        Misconception(
            "One block left as it was",
            "Query and key have blocks, and both are multiplied.",
            lambda u, v: (u - v) / 2,
        ),
        Misconception(
            "Difference squared",
            "Each product has a square of its own.",
            lambda u, v: (u - v) ** 2 / 2,
        ),
        Misconception(
            "Halves squared",
            "That is the product of two differences, one for each block.",
            lambda u, v: (u - v) ** 2 / 4,
        ),
        Misconception(
            "A quarter in place of a half",
            "2 cos a cos b = cos(a − b) + cos(a + b): once, not for each block.",
            lambda u, v: (u**2 - v**2) / 4,
        ),
        Misconception(
            "Cosine and sine multiplied",
            "With q = k = (1, 0) cosines meet cosines and sines meet sines.",
            lambda u, v: u * v,
        ),
        Misconception(
            "Rotation kept",
            "It is one for u = v alone.",
            lambda u, v: sp.Integer(0),
        ),
        Misconception(
            "Sines count nothing",
            "With q = (1, 0) the rotated query has a second member, the sine.",
            lambda u, v: u**2 / 2,
        ),
        Misconception(
            "A root of the squares",
            "A product of two blocks has u² and v² themselves.",
            lambda u, v: sp.sqrt(u**2 + v**2) / 2,
        ),
    ),
    properties=(
        Property(
            "Factors that are alike keep the score relative",
            lambda answer, u, v: sp.simplify(answer(_U, _U)) == 0,
        ),
    ),
)


# tape-3: what is heard


def moved(weights, z, mixing):
    """Complex positions, [tokens, heads, pairs]."""
    heard = np.einsum("hij,jhp->ihp", weights, z)
    return z + np.einsum("hg,igp->ihp", mixing, heard)


def _weights(heads, tokens, seed=0):
    drawn = np.exp(draw(heads, tokens, tokens, seed=seed))
    drawn *= np.tril(np.ones((tokens, tokens)))
    return drawn / drawn.sum(-1, keepdims=True)


def _positions(tokens, heads, pairs, seed=0):
    lengths = 1 + 0.3 * np.abs(draw(tokens, heads, pairs, seed=seed))
    return lengths * np.exp(1j * draw(tokens, heads, pairs, seed=seed + 1))


def _moved(heard="hij,jhp->ihp", mixed="hg,igp->ihp", own=1.0):
    """With other letters."""

    def answer(weights, z, mixing):
        return own * z + np.einsum(mixed, mixing, np.einsum(heard, weights, z))

    return answer


HEARD = Exercise(
    name="tape-3",
    title="What is heard",
    kind="NumPy",
    minutes=10,
    lines=2,
    statement=r"""
Positions are complex numbers, `z` of shape `[tokens, heads, pairs]`; `weights[h, i, j]` are those of attention.
Each head of a token hears $\sum_j a^h_{ij} z^h_j$, and `mixing`, a matrix of heads by heads, decides what is added: $z^h_i + \sum_g C_{hg} \bar z^g_i$.
Return the new positions.
Which letter of which `einsum` may not be left out?
""",
    hint=r"""
Two sums, one over keys and one over heads. Every letter that is summed stands in two of the three places.
""",
    cases=(
        (_weights(2, 2), _positions(2, 2, 1), draw(2, 2)),
        (_weights(3, 4, 1), _positions(4, 3, 2, 1), draw(3, 3, seed=1)),
        (_weights(3, 3, 2), _positions(3, 3, 3, 2), draw(3, 3, seed=2)),
    ),
    solution=moved,
    misconceptions=(
        Misconception(
            "Rows of the matrix added up",
            "A letter that is in one factor and not in the result is summed there "
            "alone, and no head hears another.",
            _moved(mixed="hg,ihp->ihp"),
        ),
        Misconception(
            "Columns of the matrix added up",
            "A letter that is in one factor and not in the result is summed there "
            "alone, and no head hears another.",
            _moved(mixed="gh,ihp->ihp"),
        ),
        Misconception(
            "Matrix transposed",
            "The row of C is the head that is moved, the column the one that heard.",
            _moved(mixed="gh,igp->ihp"),
        ),
        Misconception(
            "Summed over the queries",
            "A token hears those that it looks at, not those that look at it: they "
            "come later.",
            lambda weights, z, mixing: (
                z
                + np.einsum(
                    "hg,igp->ihp", mixing, np.einsum("hji,jhp->ihp", weights, z)
                )
            ),
        ),
        Misconception(
            "The first head's weights for all",
            "Each head hears by its own weights.",
            lambda weights, z, mixing: (
                z
                + np.einsum(
                    "hg,igp->ihp", mixing, np.einsum("ij,jhp->ihp", weights[0], z)
                )
            ),
        ),
        Misconception(
            "The mean of all heads' weights",
            "Each head hears by its own weights.",
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
            "What was heard is added to it.",
            _moved(own=0.0),
        ),
        Misconception(
            "The matrix multiplies the token itself, too",
            "C multiplies what was heard; the token's own position is added as it is.",
            lambda weights, z, mixing: np.einsum(
                "hg,igp->ihp", mixing, z + np.einsum("hij,jhp->ihp", weights, z)
            ),
        ),
        Misconception(
            "Without the matrix",
            "What is heard is mixed by C first.",
            lambda weights, z, mixing: z + np.einsum("hij,jhp->ihp", weights, z),
        ),
        Misconception(
            "The diagonal of the matrix alone",
            "A head may take from all heads.",
            lambda weights, z, mixing: (
                z + np.diag(mixing)[:, None] * np.einsum("hij,jhp->ihp", weights, z)
            ),
        ),
        Misconception(
            "Brought back to the circle",
            "Nothing divides a position by its length here.",
            lambda weights, z, mixing: (
                moved(weights, z, mixing) / np.abs(moved(weights, z, mixing))
            ),
        ),
        Misconception(
            "What is heard conjugated",
            "Conjugates are for scores; a sum of positions turns with them as it is.",
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
            "Heads summed before they are mixed",
            "The head's letter stands in the weights and in the positions: each hears with its own weights.",
            _moved(heard="hij,jgp->igp"),
        ),
        Misconception(
            "Mean of all heads added",
            "C says how much each head takes from each.",
            lambda weights, z, mixing: (
                z + np.einsum("hij,jhp->ihp", weights, z).mean(1, keepdims=True)
            ),
        ),
    ),
    properties=(
        Property(
            "If all positions turn, so do the new ones",
            lambda answer, weights, z, mixing: np.allclose(
                answer(weights, np.exp(0.7j) * z, mixing),
                np.exp(0.7j) * answer(weights, z, mixing),
            ),
        ),
    ),
)


# tape-4: what the MLP does


def mixed(z, y, up, down, gate):
    """Complex positions, [tokens, heads, pairs]."""
    said = y @ gate.T
    said = said / (1 + np.exp(-said))
    return z + np.einsum("hw,iw,wg,igp->ihp", down, said, up, z)


def _mixed(function=None, of_gate=None, own=1.0):
    """With another function of what the gate says, or of the channels."""

    def answer(z, y, up, down, gate):
        said = y @ gate.T
        said = said / (1 + np.exp(-said)) if function is None else function(said)
        if of_gate is not None:
            said = of_gate(said)
        return own * z + np.einsum("hw,iw,wg,igp->ihp", down, said, up, z)

    return answer


def _mlp_case(tokens, heads, pairs, width, d_model, seed):
    return (
        _positions(tokens, heads, pairs, seed),
        draw(tokens, d_model, seed=seed),
        draw(width, heads, seed=seed + 1),
        draw(heads, width, seed=seed + 2),
        draw(width, d_model, seed=seed + 3),
    )


def _entry_by_entry(z, y, up, down, gate):
    channels = np.einsum("wg,igp->iwp", up, z)

    def silu(x):
        return x / (1 + np.exp(-x))

    channels = silu(channels.real) + 1j * silu(channels.imag)
    return z + np.einsum("hw,iw,iwp->ihp", down, y @ gate.T, channels)


MIXED = Exercise(
    name="tape-4",
    title="What the MLP does",
    kind="NumPy",
    minutes=12,
    lines=3,
    statement=r"""
Complex positions `z` of shape `[tokens, heads, pairs]`; `y` of shape `[tokens, d_model]` is what the MLP said.
`up` `[width, heads]` takes the heads to channels, channel $w$ of token $i$ is multiplied by $\mathrm{SiLU}(G\, y_i)_w$, `down` `[heads, width]` takes them back, and the result is added to `z`. `gate` is $G$, `[width, d_model]`.
Return the new positions.
What would be lost if the SiLU were put on the channels?
""",
    hint=r"""
$\mathrm{SiLU}(x) = x\, \sigma(x)$. The numbers that it gives are real, one for each token and channel.
""",
    cases=(
        _mlp_case(1, 2, 1, 3, 2, 0),
        _mlp_case(3, 2, 2, 4, 3, 1),
        _mlp_case(4, 3, 2, 5, 2, 2),
    ),
    solution=mixed,
    misconceptions=(
        Misconception(
            "The sigmoid alone",
            "SiLU(x) is x times the sigmoid of x.",
            _mixed(lambda x: 1 / (1 + np.exp(-x))),
        ),
        Misconception(
            "A ReLU",
            "SiLU is smooth, and negative for negative numbers.",
            _mixed(lambda x: np.maximum(x, 0)),
        ),
        Misconception(
            "A hyperbolic tangent",
            "SiLU is not bounded above.",
            _mixed(np.tanh),
        ),
        Misconception(
            "No function at all",
            "The gate's number goes through the SiLU first.",
            _mixed(lambda x: x),
        ),
        Misconception(
            "The sigmoid of −x",
            "SiLU(x) = x / (1 + exp(−x)); look at the sign.",
            _mixed(lambda x: x / (1 + np.exp(x))),
        ),
        Misconception(
            "A softmax over the channels",
            "Channels do not compete.",
            _mixed(lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
        ),
        Misconception(
            "The softplus",
            "log(1 + exp(x)) is positive; SiLU is x times the sigmoid.",
            _mixed(lambda x: np.log1p(np.exp(x))),
        ),
        Misconception(
            "Positions themselves lost",
            "The result is added to them.",
            _mixed(own=0.0),
        ),
        Misconception(
            "The mean of all tokens' gates",
            "Each token has a gate of its own.",
            _mixed(of_gate=lambda said: said.mean(0, keepdims=True) + 0 * said),
        ),
        Misconception(
            "The first token's gate for all",
            "Each token has a gate of its own.",
            _mixed(of_gate=lambda said: said[:1] + 0 * said),
        ),
        Misconception(
            "The mean of all channels' gates",
            "Each channel has a gate of its own.",
            _mixed(of_gate=lambda said: said.mean(1, keepdims=True) + 0 * said),
        ),
        Misconception(
            "The function is on the channels",
            "Then cosines and sines go through it one by one, and the update does not "
            "turn with the plane.",
            _entry_by_entry,
        ),
        Misconception(
            "Channels of conjugates",
            "Nothing is conjugated here.",
            lambda z, y, up, down, gate: (
                z + mixed(z.conj(), y, up, down, gate) - z.conj()
            ),
        ),
        Misconception(
            "Gate left out",
            "Each channel is multiplied by the SiLU of what the gate says.",
            _mixed(lambda x: 1 + 0 * x),
        ),
        Misconception(
            "A GELU",
            "SiLU is x times the sigmoid of x, a GELU x times Φ(x).",
            _mixed(lambda x: functional.gelu(torch.tensor(x)).numpy()),
        ),
    ),
    properties=(
        Property(
            "If all positions turn, so do the new ones",
            lambda answer, z, y, up, down, gate: np.allclose(
                answer(np.exp(0.7j) * z, y, up, down, gate),
                np.exp(0.7j) * answer(z, y, up, down, gate),
            ),
        ),
    ),
)


# tape-5: one more token


def next_block(logits, cached, new, mixing):
    """The new token's block for the next layer, [heads, 2, pairs]."""
    every = torch.cat((cached, new[None]))
    heard = torch.einsum("hj,jhcp->hcp", logits.softmax(-1), every)
    return new + torch.einsum("hg,gcp->hcp", mixing, heard)


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


def _decoded(keys, weigh=functional.softmax, letters="hg,gcp->hcp", own=1.0):
    """With other keys, weights or mixing."""

    def answer(logits, cached, new, mixing):
        weights = weigh(logits, -1)
        every = keys(cached, new)
        heard = torch.einsum("hj,jhcp->hcp", weights[:, : len(every)], every)
        return own * new + torch.einsum(letters, mixing, heard)

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
Generation with a cache: `cached` holds this layer's blocks of the tokens so far, `[tokens, heads, 2, pairs]`, oldest first; `new`, `[heads, 2, pairs]`, is that of the newest token.
`logits`, `[heads, tokens + 1]`, are its products with all keys, its own last.
Return its block for the next layer, before the MLP: what its heads hear, mixed by `mixing` and added to `new`.
What has to be appended to the cache, and of which layer?
""",
    hint=r"""
A token hears itself, too. Put its block behind the cached ones first.
""",
    cases=(_decoding(1, 1, 1, 0), _decoding(2, 3, 2, 5), _decoding(3, 5, 2, 9)),
    solution=next_block,
    misconceptions=(
        Misconception(
            "It does not hear itself",
            "Its own key is the last one, and has a weight.",
            _decoded(lambda cached, new: cached),
        ),
        Misconception(
            "It does not hear itself, and the others share its weight",
            "Its own key is the last one: the softmax is over all.",
            lambda logits, cached, new, mixing: (
                next_block(logits[:, :-1], cached[:-1], cached[-1], mixing)
                - cached[-1]
                + new
            ),
        ),
        Misconception(
            "Its own block first",
            "The oldest stands first: it belongs behind the cached ones.",
            _decoded(lambda cached, new: torch.cat((new[None], cached))),
        ),
        Misconception(
            "The newest first",
            "The cache has the oldest first.",
            _decoded(lambda cached, new: _all(cached, new).flip(0)),
        ),
        Misconception(
            "Logits for weights",
            "What is heard is a mean: first the softmax.",
            _decoded(_all, lambda logits, axis: logits),
        ),
        Misconception(
            "The softmax is over heads",
            "Weights of one head add up to 1 over the keys.",
            _decoded(_all, lambda logits, axis: logits.softmax(0)),
        ),
        Misconception(
            "Exponentials that not divided",
            "Weights add up to 1.",
            _decoded(_all, lambda logits, axis: logits.exp()),
        ),
        Misconception(
            "Rows of the matrix added up",
            "Then no head takes from another: the letter of the sum belongs in both "
            "factors.",
            _decoded(_all, letters="hg,hcp->hcp"),
        ),
        Misconception(
            "Matrix transposed",
            "The row is the head that is moved.",
            _decoded(_all, letters="gh,gcp->hcp"),
        ),
        Misconception(
            "New block not kept",
            "What is heard is added to it.",
            _decoded(_all, own=0.0),
        ),
        Misconception(
            "Last block of the cache moved",
            "It is the newest token that goes on; those in the cache never change.",
            lambda logits, cached, new, mixing: (
                next_block(logits, cached, new, mixing) - new + cached[-1]
            ),
        ),
        Misconception(
            "Cosines alone moved",
            "Cosine and sine go together.",
            lambda logits, cached, new, mixing: torch.stack(
                (next_block(logits, cached, new, mixing)[:, 0], new[:, 1]), 1
            ),
        ),
        Misconception(
            "Without the matrix",
            "What is heard is mixed first.",
            lambda logits, cached, new, mixing: (
                new
                + torch.einsum("hj,jhcp->hcp", logits.softmax(-1), _all(cached, new))
            ),
        ),
        Misconception(
            "The matrix multiplies the new block, too",
            "C multiplies what was heard; the token's own block is added as it is.",
            lambda logits, cached, new, mixing: (
                next_block(logits, cached, new, mixing)
                + torch.einsum("hg,gcp->hcp", mixing, new)
                - new
            ),
        ),
    ),
    properties=(
        Property(
            "With a matrix of zeros nothing moves",
            lambda answer, logits, cached, new, mixing: torch.allclose(
                answer(logits, cached, new, 0 * mixing), new
            ),
        ),
    ),
)


# tape-6: a position that was taken over


def found(tokens, asked, amount):
    """The index of the token that is looked at, an int."""
    omega = 10000.0 ** (-np.arange(16) / 16)
    z = np.exp(1j * omega * np.arange(tokens)[:, None])
    own = z[-1] + amount * z[asked]
    scores = (np.conj(own * np.exp(1j * omega)) * z[:-1]).real.sum(-1)
    return int(scores.argmax())


_ROW = 10000.0 ** (-np.arange(16) / 16)


def _found(
    own=None,
    ahead=1,
    keys=slice(None, -1),
    conjugate=np.conj,
    size=np.real,
    best=np.argmax,
    omega=_ROW,
):
    """With another position, distance or set of keys."""

    def answer(tokens, asked, amount):
        z = np.exp(1j * omega * np.arange(tokens)[:, None])
        at = z[-1] + amount * z[asked] if own is None else own(z, asked, amount)
        scores = conjugate(at * np.exp(1j * ahead * omega)) * z[keys]
        return int(best(size(scores.sum(-1))))

    return answer


def _unit(z):
    return z / np.abs(z)


FOUND = Exercise(
    name="tape-6",
    title="A position that was taken over",
    kind="experiment",
    minutes=15,
    lines=5,
    statement=r"""
The last of `tokens` tokens heard the position of token `asked` and added `amount` times that to its own: RoPE's $e^{\mathrm i \omega_p i}$, with 16 pairs and $\omega_p = 10000^{-p/16}$.
In the next layer a head looks *one place further* than its own position: the score of key $j$ is $\sum_p \mathrm{Re}\bigl( \overline{z_p\, e^{\mathrm i \omega_p}}\; e^{\mathrm i \omega_p j} \bigr)$, of all tokens but the last.
Return the index of the key with the largest score, an `int`.
How large must `amount` be for it to be the one behind `asked`, in the texts that you try?
""",
    hint=r"""
Four lines: the frequencies, all positions, the last one's new one, the scores.
""",
    cases=(
        (4, 0, 0.0),
        (8, 2, 20.0),
        (24, 5, 1.0),
        (24, 5, 20.0),
        (24, 21, 20.0),
        (200, 50, 0.5),
        (200, 50, 5.0),
        (5, 1, 2.0),
        (16, 1, 1.5),
    ),
    solution=found,
    misconceptions=(
        Misconception(
            "One place back",
            "Further means a larger position.",
            _found(ahead=-1),
        ),
        Misconception(
            "The position itself",
            "The head looks one place further than its own position.",
            _found(ahead=0),
        ),
        Misconception(
            "Without the conjugate",
            "A score is a function of the difference of two angles: one of them is "
            "taken with a minus.",
            _found(conjugate=lambda z: z),
        ),
        Misconception(
            "The other's position in place of its own",
            "It is added to its own, so that the amount matters.",
            _found(own=lambda z, asked, amount: z[asked]),
        ),
        Misconception(
            "Its own position alone",
            "It heard another one, and added it.",
            _found(own=lambda z, asked, amount: z[-1]),
        ),
        Misconception(
            "Last token looked at, too",
            "Of all tokens but the last.",
            _found(keys=slice(None)),
        ),
        Misconception(
            "The amount is on its own position",
            "What was heard is multiplied by it.",
            _found(own=lambda z, asked, amount: amount * z[-1] + z[asked]),
        ),
        Misconception(
            "The amount is a share",
            "Nothing is taken away from its own position.",
            _found(
                own=lambda z, asked, amount: (1 - amount) * z[-1] + amount * z[asked]
            ),
        ),
        Misconception(
            "Angles added",
            "Positions are added as points of the plane, not their angles.",
            _found(own=lambda z, asked, amount: z[-1] * z[asked] ** amount),
        ),
        Misconception(
            "The smallest score",
            "It is the largest one that is looked at.",
            _found(best=np.argmin),
        ),
        Misconception(
            "Counted from 1",
            "Indices are from 0.",
            lambda tokens, asked, amount: found(tokens, asked, amount) + 1,
        ),
        Misconception(
            "Brought back to the circle",
            "A sum keeps its length: pairs on which both agree count more.",
            _found(own=lambda z, asked, amount: _unit(z[-1] + amount * z[asked])),
        ),
        Misconception(
            "The size of the sum",
            "The real part: a key is wanted that points the same way.",
            _found(size=np.abs),
        ),
        Misconception(
            "What was heard, however loud, in place of its own",
            "It is added to its own.",
            _found(own=lambda z, asked, amount: amount * z[asked]),
        ),
        Misconception(
            "Exponent doubled",
            "−p/16: there are 16 pairs of 32 features.",
            _found(omega=10000.0 ** (-np.arange(16) / 8)),
        ),
    ),
    properties=(
        Property(
            "A position that is heard loudly is the one that counts",
            lambda answer, tokens, asked, amount: answer(12, 4, 100.0) == 5,
        ),
    ),
    tolerance=0.0,
)


SHEET = Sheet(
    title="Positions that change",
    conventions=r"""
Everywhere $i$ is the token that hears and $j$ the one that is heard, counted from 0. A position is a block of each head and pair, written as the complex number $c + \mathrm i s$ or as the two numbers $c$ and $s$; in the first layer it is $e^{\mathrm i \omega_p i}$.
""",
    exercises=(GROWTH, PLACE, HEARD, MIXED, STEP, FOUND),
)
