"""The exercises on Fourier features."""

import math

import numpy as np
import sympy as sp
import torch
from torch.nn.functional import gelu, relu

from posedu.book.exercises.checker import Exercise, Misconception, Property, Sheet, draw

# fourier-1: another distribution, another kernel


def kernel(a, r):
    """The mean of cos 2πbr over b, as an expression."""
    return sp.sin(2 * sp.pi * a * r) / (2 * sp.pi * a * r)


_A, _R = sp.symbols("a r", positive=True)

KERNEL = Exercise(
    name="fourier-1",
    title="Another distribution",
    kind="by hand",
    minutes=8,
    lines=1,
    statement=r"""
On paper: frequencies are drawn evenly from $[-a, a]$, $a > 0$, in place of a normal distribution.
What is the mean of $\cos 2\pi b\, r$ over $b$, for $r > 0$?
Return a SymPy expression of `a` and `r`.
Where is it negative, and why may a kernel be?
""",
    hint=r"""
The density is $1/2a$ on an interval of length $2a$. Integrate a cosine.
""",
    cases=((sp.Integer(1), sp.Rational(1, 3)), (_A, sp.Rational(2, 5)), (_A, _R)),
    solution=kernel,
    misconceptions=(
        Misconception(
            "The 2π is forgotten",
            "b counts turns for each step: the angle is 2π b r.",
            lambda a, r: sp.sin(a * r) / (a * r),
        ),
        Misconception(
            "The 2π is forgotten below",
            "Integrating cos 2π b r over b divides by all that stands before b.",
            lambda a, r: sp.sin(2 * sp.pi * a * r) / (a * r),
        ),
        Misconception(
            "The interval has the length a",
            "From −a to a it is 2a.",
            lambda a, r: sp.sin(2 * sp.pi * a * r) / (sp.pi * a * r),
        ),
        Misconception(
            "The integral, not the mean",
            "A mean is divided by the length of the interval.",
            lambda a, r: sp.sin(2 * sp.pi * a * r) / (sp.pi * r),
        ),
        Misconception(
            "The interval reaches to a/2",
            "It reaches from −a to a, twice as far.",
            lambda a, r: sp.sin(sp.pi * a * r) / (sp.pi * a * r),
        ),
        Misconception(
            "The cosine at the end",
            "The mean of a wave is no wave: integrate it.",
            lambda a, r: sp.cos(2 * sp.pi * a * r),
        ),
        Misconception(
            "The cosine is kept",
            "The integral of a cosine is a sine.",
            lambda a, r: sp.cos(2 * sp.pi * a * r) / (2 * sp.pi * a * r),
        ),
        Misconception(
            "This is the Gaussian",
            "It belongs to normal frequencies, here with the deviation a.",
            lambda a, r: sp.exp(-2 * sp.pi**2 * a**2 * r**2),
        ),
        Misconception(
            "This is the Gaussian of the same variance",
            "Its variance is a²/3, but the distribution is another.",
            lambda a, r: sp.exp(-2 * sp.pi**2 * a**2 * r**2 / 3),
        ),
        Misconception(
            "The mean of the sine's half",
            "Over [0, a] a sine does not cancel; here b takes both signs, and it is "
            "the cosine that is averaged.",
            lambda a, r: (1 - sp.cos(2 * sp.pi * a * r)) / (2 * sp.pi * a * r),
        ),
        Misconception(
            "The square of it",
            "That is the mean for the sum of two such frequencies.",
            lambda a, r: (sp.sin(2 * sp.pi * a * r) / (2 * sp.pi * a * r)) ** 2,
        ),
        Misconception(
            "The mean of b put in",
            "The mean of b is 0, and cos 0 is 1: a mean does not go through a cosine.",
            lambda a, r: sp.Integer(1),
        ),
        Misconception(
            "SymPy's sinc is no turn's",
            "`sp.sinc(x)` is sin(x)/x: its argument is the whole angle, π included.",
            lambda a, r: sp.sinc(2 * a * r),
        ),
        Misconception(
            "The a below is forgotten",
            "Integrating over b divides by 2πr, the length of the interval by 2a.",
            lambda a, r: sp.sin(2 * sp.pi * a * r) / (2 * sp.pi * r),
        ),
    ),
    properties=(
        Property(
            "It is near 1 at small offsets",
            lambda answer, a, r: bool(
                abs(sp.N(answer(sp.Integer(1), sp.Rational(1, 10**4))) - 1) < 1e-6
            ),
        ),
    ),
)


# fourier-2: the features


def features(x, b, unit, layout, first):
    """Cosines and sines of all angles, [tokens, 2 * pairs], without an amplitude."""
    angle = x @ b.T * (2 * np.pi if unit == "turns" else 1)
    members = [np.cos(angle), np.sin(angle)]
    if first == "sin":
        members = members[::-1]
    if layout == "half":
        return np.concatenate(members, 1)
    return np.stack(members, 2).reshape(len(x), -1)


def _features(angle=None, waves=(np.cos, np.sin), put=None):
    """With other angles, waves or order."""

    def answer(x, b, unit, layout, first):
        turn = 2 * np.pi if unit == "turns" else 1
        at = turn * (x @ b.T) if angle is None else angle(x, b, turn)
        members = [wave(at) for wave in waves]
        members = members if first == "cos" else members[::-1]
        if put is not None:
            return put(members)
        if layout == "half":
            return np.concatenate(members, 1)
        return np.stack(members, 2).reshape(len(x), -1)

    return answer


FEATURES = Exercise(
    name="fourier-2",
    title="Fourier features",
    kind="NumPy",
    minutes=10,
    lines=7,
    statement=r"""
`x` holds points, `[tokens, axes]`, and `b` a frequency for each pair, `[pairs, axes]`.
Return the features, `[tokens, 2 * pairs]`, with the amplitude 1.
`unit` is `"turns"` or `"radians"`; `layout` is `"half"`, kind by kind, or `"interleaved"`, pair by pair; `first` says whether `"cos"` or `"sin"` comes first.
""",
    hint=r"""
Angles have the shape `[tokens, pairs]`. `np.concatenate` puts kind by kind, `np.stack` with a new last axis and a reshape pair by pair.
""",
    cases=tuple(
        (0.3 * draw(tokens, axes), draw(pairs, axes, seed=1), *options)
        for tokens, axes, pairs, options in (
            (1, 1, 2, ("turns", "half", "cos")),
            (2, 2, 2, ("radians", "interleaved", "sin")),
            (3, 2, 4, ("turns", "interleaved", "cos")),
            (4, 3, 2, ("radians", "half", "sin")),
        )
    ),
    solution=features,
    misconceptions=(
        Misconception(
            "Always turns",
            "In radians the angle is b · x, without a 2π.",
            lambda x, b, unit, layout, first: features(x, b, "turns", layout, first),
        ),
        Misconception(
            "Always radians",
            "A frequency in turns counts waves: the angle is 2π b · x.",
            lambda x, b, unit, layout, first: features(x, b, "radians", layout, first),
        ),
        Misconception(
            "Turns and radians are exchanged",
            "The 2π belongs to turns.",
            lambda x, b, unit, layout, first: features(
                x, b, "turns" if unit == "radians" else "radians", layout, first
            ),
        ),
        Misconception(
            "π in place of 2π",
            "A full turn is 2π.",
            _features(
                angle=lambda x, b, turn: (x @ b.T) * (turn if turn == 1 else np.pi)
            ),
        ),
        Misconception(
            "Layouts are exchanged",
            "Half is kind by kind, interleaved pair by pair.",
            lambda x, b, unit, layout, first: features(
                x, b, unit, "half" if layout == "interleaved" else "interleaved", first
            ),
        ),
        Misconception(
            "Always the half layout",
            "Interleaved puts the two members of a pair side by side.",
            lambda x, b, unit, layout, first: features(x, b, unit, "half", first),
        ),
        Misconception(
            "Always the cosines first",
            "`first` says which member leads.",
            lambda x, b, unit, layout, first: features(x, b, unit, layout, "cos"),
        ),
        Misconception(
            "Always the sines first",
            "`first` says which member leads.",
            lambda x, b, unit, layout, first: features(x, b, unit, layout, "sin"),
        ),
        Misconception(
            "Cosines and sines are exchanged",
            "first='cos' begins with a cosine.",
            _features(waves=(np.sin, np.cos)),
        ),
        Misconception(
            "Cosines twice",
            "Each pair has a cosine and a sine: a cosine alone is not relative.",
            _features(waves=(np.cos, np.cos)),
        ),
        Misconception(
            "The amplitude is 1/√m",
            "Here it is 1: the length of the vector is √m.",
            lambda x, b, unit, layout, first: (
                features(x, b, unit, layout, first) / np.sqrt(len(b))
            ),
        ),
        Misconception(
            "The amplitude is 1/√(2m)",
            "Here it is 1: the length of the vector is √m.",
            lambda x, b, unit, layout, first: (
                features(x, b, unit, layout, first) / np.sqrt(2 * len(b))
            ),
        ),
        Misconception(
            "Only the first axis is read",
            "The angle is an inner product over all axes.",
            _features(angle=lambda x, b, turn: turn * np.outer(x[:, 0], b[:, 0])),
        ),
        Misconception(
            "Axes are added before they are multiplied",
            "Each axis has a frequency of its own: multiply, then add.",
            _features(angle=lambda x, b, turn: turn * np.outer(x.sum(1), b.sum(1))),
        ),
        Misconception(
            "This is the distance to the frequency",
            "An inner product, not a distance.",
            _features(
                angle=lambda x, b, turn: turn * np.linalg.norm(x[:, None] - b, axis=-1)
            ),
        ),
        Misconception(
            "Tokens come between the members",
            "The last axis holds the features of one token.",
            _features(
                put=lambda members: np.stack(members).reshape(members[0].shape[0], -1)
            ),
        ),
    ),
    properties=(
        Property(
            "All features of a token have the length √m",
            lambda answer, x, b, unit, layout, first: bool(
                np.allclose(
                    (answer(x, b, unit, layout, first) ** 2).sum(1), len(b), atol=1e-9
                )
            ),
        ),
    ),
)


# fourier-3: how many frequencies


def enough(positions, eps, delta):
    """The least number of frequencies that the bound allows, an int."""
    pairs = positions * (positions - 1) / 2
    return math.ceil(2 * math.log(2 * pairs / delta) / eps**2)


def _enough(
    terms=lambda n: n * (n - 1), factor=2, power=2, log=math.log, whole=math.ceil
):
    """With another number of terms, factor, power, logarithm or rounding."""
    return lambda n, eps, delta: whole(factor * log(terms(n) / delta) / eps**power)


ENOUGH = Exercise(
    name="fourier-3",
    title="How many frequencies",
    kind="NumPy",
    minutes=10,
    lines=2,
    statement=r"""
At one offset $m$ random frequencies are off by `eps` or more with a probability of at most $2 e^{-m \varepsilon^2/2}$.
With how many is it at most `delta` that this happens at *any* of the offsets of `positions` different positions?
Return the least $m$ for which the bound says so, an `int`; two positions have one offset, for the sign does not matter.
""",
    hint=r"""
The probability that any of several things happens is at most the sum of theirs. How many pairs of positions are there?
""",
    cases=((2, 0.5, 0.5), (10, 0.1, 0.05), (1024, 0.05, 0.01), (64, 0.2, 1e-6)),
    solution=enough,
    misconceptions=(
        Misconception(
            "One offset",
            "Any of all pairs may be off: add their probabilities.",
            _enough(terms=lambda n: 2),
        ),
        Misconception(
            "Each pair is counted twice",
            "The offset the other way round has the same estimate.",
            _enough(terms=lambda n: 2 * n * (n - 1)),
        ),
        Misconception(
            "A position with itself is counted",
            "At offset 0 the estimate is exact.",
            _enough(terms=lambda n: n * (n + 1)),
        ),
        Misconception(
            "As many offsets as positions",
            "They have as many offsets as there are pairs, if no two are alike.",
            _enough(terms=lambda n: 2 * n),
        ),
        Misconception(
            "The bound's 2 is forgotten",
            "Too high and too low: each has its probability.",
            _enough(terms=lambda n: n * (n - 1) / 2),
        ),
        Misconception(
            "The error is not squared",
            "The exponent has ε².",
            _enough(power=1),
        ),
        Misconception(
            "The exponent has no half",
            "Solve 2 exp(−m ε²/2) for m: the half goes to the other side as a 2.",
            _enough(factor=1),
        ),
        Misconception(
            "The half stays a half",
            "Solve 2 exp(−m ε²/2) for m: the half goes to the other side as a 2.",
            _enough(factor=0.5),
        ),
        Misconception(
            "Rounded down",
            "With one fewer the bound does not say so yet.",
            _enough(whole=math.floor),
        ),
        Misconception(
            "The logarithm of base 2",
            "The bound is an exponential: its inverse is the natural logarithm.",
            _enough(log=math.log2),
        ),
        Misconception(
            "The logarithm of base 10",
            "The bound is an exponential: its inverse is the natural logarithm.",
            _enough(log=math.log10),
        ),
        Misconception(
            "The number of pairs multiplies m",
            "It multiplies the probability, so its logarithm is added.",
            lambda n, eps, delta: math.ceil(
                n * (n - 1) / 2 * 2 * math.log(2 / delta) / eps**2
            ),
        ),
        Misconception(
            "These are features",
            "Frequencies are asked for; each has two features.",
            lambda n, eps, delta: 2 * enough(n, eps, delta),
        ),
        Misconception(
            "The variance for the bound",
            "1/(2 m ε²) bounds the probability at one offset, too, but far less tightly "
            "(Chebyshev). The bound with the exponential is wanted.",
            lambda n, eps, delta: math.ceil(n * (n - 1) / 2 / (2 * delta * eps**2)),
        ),
        Misconception(
            "All pairs, both ways and with itself",
            "n² has each pair twice, and n offsets of 0.",
            _enough(terms=lambda n: 2 * n**2),
        ),
        Misconception(
            "As many offsets as steps",
            "n − 1 is for equal steps. Positions are any: as many offsets as pairs.",
            _enough(terms=lambda n: 2 * (n - 1)),
        ),
    ),
    properties=(
        Property(
            "Half the error needs four times as many",
            lambda answer, n, eps, delta: (
                abs(answer(n, eps / 2, delta) - 4 * answer(n, eps, delta)) <= 4
            ),
        ),
    ),
    tolerance=0.0,
)


# fourier-4: learnable features


def encode(x, w_r, w_1, b_1, w_2, b_2):
    """The encoding of every token, [tokens, groups * own]."""
    angle = x @ w_r.T
    r = torch.cat((angle.cos(), angle.sin()), -1) / (2 * len(w_r)) ** 0.5
    y = gelu(r @ w_1.T + b_1) @ w_2.T + b_2
    return y.flatten(1)


def _encode(turn=1.0, waves=(torch.cos, torch.sin), size=None, act=gelu, join=None):
    """With another angle, order, amplitude, activation or way to join groups."""

    def answer(x, w_r, w_1, b_1, w_2, b_2):
        angle = turn * (x @ w_r.T)
        n = 2 * len(w_r) if size is None else size(len(w_r))
        r = torch.cat([wave(angle) for wave in waves], -1) / n**0.5
        y = act(r @ w_1.T + b_1) @ w_2.T + b_2
        return y.flatten(1) if join is None else join(y)

    return answer


def _parameters(tokens, groups, axes, pairs, width, own):
    shapes = (tokens, groups, axes), (pairs, axes), (width, 2 * pairs), (width,)
    shapes = (*shapes, (own, width), (own,))
    return tuple(torch.tensor(draw(*s, seed=n)) for n, s in enumerate(shapes))


def _tanh(z):
    return gelu(z, approximate="tanh")


ENCODE = Exercise(
    name="fourier-4",
    title="Learnable features",
    kind="PyTorch",
    minutes=15,
    lines=4,
    statement=r"""
Li's Algorithm 1: `x` holds positions, `[tokens, groups, axes]`, `w_r` the frequencies in radians, `[pairs, axes]`.
The features of a group are the cosines of its angles, then the sines, divided by the root of their number.
A network, `w_1` `[width, 2 * pairs]` and `b_1`, the exact GELU, `w_2` `[own, width]` and `b_2`, encodes each group; return the groups of a token side by side, `[tokens, groups * own]`.
""",
    hint=r"""
`x @ w_r.T` has the shape `[tokens, groups, pairs]`; all that follows acts on its last axis.
""",
    cases=(
        _parameters(1, 1, 1, 1, 1, 2),
        _parameters(2, 2, 2, 2, 3, 2),
        _parameters(4, 3, 2, 3, 4, 2),
    ),
    solution=encode,
    misconceptions=(
        Misconception(
            "With a 2π",
            "Li's frequencies are in radians; the 2π is Tancik's.",
            _encode(turn=2 * math.pi),
        ),
        Misconception(
            "Sines before cosines",
            "Algorithm 1 has the cosines first; the first layer reads them by place.",
            _encode(waves=(torch.sin, torch.cos)),
        ),
        Misconception(
            "Pair by pair",
            "First all cosines, then all sines.",
            lambda x, w_r, w_1, b_1, w_2, b_2: (
                gelu(
                    torch.stack(((x @ w_r.T).cos(), (x @ w_r.T).sin()), -1).flatten(-2)
                    / (2 * len(w_r)) ** 0.5
                    @ w_1.T
                    + b_1
                )
                @ w_2.T
                + b_2
            ).flatten(1),
        ),
        Misconception(
            "Not divided by anything",
            "The features are divided by the root of their number.",
            _encode(size=lambda m: 1),
        ),
        Misconception(
            "Divided by the root of the frequencies",
            "There are two features for each frequency.",
            _encode(size=lambda m: m),
        ),
        Misconception(
            "Divided by the number, not by its root",
            "By the root: then their squares add up to one half.",
            _encode(size=lambda m: (2 * m) ** 2),
        ),
        Misconception(
            "A ReLU",
            "The network has a GELU.",
            _encode(act=relu),
        ),
        Misconception(
            "GELU by its approximation with tanh",
            "The exact one, which is PyTorch's default.",
            _encode(act=_tanh),
        ),
        Misconception(
            "No activation",
            "Two linear layers without anything between them are one.",
            _encode(act=lambda z: z),
        ),
        Misconception(
            "GELU at the end, too",
            "What the last layer says may be anything.",
            lambda x, w_r, w_1, b_1, w_2, b_2: gelu(encode(x, w_r, w_1, b_1, w_2, b_2)),
        ),
        Misconception(
            "The first bias is forgotten",
            "b_1 is added before the activation.",
            lambda x, w_r, w_1, b_1, w_2, b_2: encode(x, w_r, w_1, 0 * b_1, w_2, b_2),
        ),
        Misconception(
            "The second bias is forgotten",
            "b_2 is added at the end, for each group.",
            lambda x, w_r, w_1, b_1, w_2, b_2: encode(x, w_r, w_1, b_1, w_2, 0 * b_2),
        ),
        Misconception(
            "Groups take turns",
            "First all features of the first group, then those of the second.",
            _encode(join=lambda y: y.mT.flatten(1)),
        ),
        Misconception(
            "Groups are in reverse order",
            "The first group comes first.",
            _encode(join=lambda y: y.flip(1).flatten(1)),
        ),
        Misconception(
            "Only the features",
            "They go through the network; this has another width, unless it happens to "
            "be the same.",
            lambda x, w_r, w_1, b_1, w_2, b_2: (
                torch.cat(((x @ w_r.T).cos(), (x @ w_r.T).sin()), -1)
                / (2 * len(w_r)) ** 0.5
            ).flatten(1)[:, : x.shape[1] * len(b_2)],
        ),
        Misconception(
            "The first group serves all",
            "Each group has its own coordinates; what they share are the parameters.",
            lambda x, w_r, w_1, b_1, w_2, b_2: encode(
                x[:, :1].expand_as(x), w_r, w_1, b_1, w_2, b_2
            ),
        ),
    ),
    properties=(
        Property(
            "Groups that change places change theirs in the encoding",
            lambda answer, x, *rest: bool(
                torch.allclose(
                    answer(x.flip(1), *rest),
                    answer(x, *rest).unflatten(1, (x.shape[1], -1)).flip(1).flatten(1),
                )
            ),
        ),
    ),
)


# fourier-5: what is between the dots


def between(seen, values, places, ridge):
    """What ridge regression says at the places, [places]."""
    gram = seen @ seen.T + ridge * np.eye(len(seen))
    return places @ seen.T @ np.linalg.solve(gram, values)


def _case(tokens, places, pairs, ridge):
    b = draw(pairs, seed=3)
    both = features(draw(tokens + places, 1), b[:, None], "turns", "half", "cos")
    both = both / np.sqrt(pairs)
    return both[:tokens], draw(tokens, seed=5), both[tokens:], ridge


def _by(gram):
    """With another matrix in place of the Gram matrix and its ridge."""
    return lambda f, y, g, ridge: g @ f.T @ np.linalg.solve(gram(f, ridge), y)


def _eye(f):
    return np.eye(len(f))


BETWEEN = Exercise(
    name="fourier-5",
    title="Between the dots",
    kind="NumPy",
    minutes=12,
    lines=2,
    statement=r"""
`seen` holds the features of positions, `[n, features]`, whose `values` are known, and `places` those of positions that are asked for.
Return the linear function $w^\top \gamma$ at the places whose weights minimize $\sum_n (w^\top \gamma_n - y_n)^2 + \text{ridge} \cdot \lVert w \rVert^2$.
Then try it with features of your own: how does it change with σ?
""",
    hint=r"""
With `seen` $= F$ the weights are $F^\top (F F^\top + \text{ridge} \cdot I)^{-1} y$, and $(F^\top F + \text{ridge} \cdot I)^{-1} F^\top y$ as well.
""",
    cases=(_case(1, 1, 2, 0.5), _case(3, 2, 4, 0.1), _case(6, 5, 16, 0.03)),
    solution=between,
    misconceptions=(
        Misconception(
            "Without the ridge",
            "It is added to the diagonal, and keeps the weights small.",
            _by(lambda f, ridge: f @ f.T),
        ),
        Misconception(
            "The ridge is squared",
            "It multiplies the square of the weights, itself it is not squared.",
            _by(lambda f, ridge: f @ f.T + ridge**2 * _eye(f)),
        ),
        Misconception(
            "The ridge is halved",
            "Both squares have the factor 1, so the slope's 2 cancels in both.",
            _by(lambda f, ridge: f @ f.T + ridge / 2 * _eye(f)),
        ),
        Misconception(
            "The ridge is doubled",
            "Both squares have the factor 1, so the slope's 2 cancels in both.",
            _by(lambda f, ridge: f @ f.T + 2 * ridge * _eye(f)),
        ),
        Misconception(
            "The ridge is added to every entry",
            "To the diagonal alone.",
            _by(lambda f, ridge: f @ f.T + ridge),
        ),
        Misconception(
            "The ridge is divided by the number of dots",
            "The squares are added up, not averaged.",
            _by(lambda f, ridge: f @ f.T + ridge / len(f) * _eye(f)),
        ),
        Misconception(
            "The ridge is multiplied by the number of dots",
            "The squares are added up, not averaged.",
            _by(lambda f, ridge: f @ f.T + ridge * len(f) * _eye(f)),
        ),
        Misconception(
            "The ridge is subtracted",
            "It makes the diagonal larger.",
            _by(lambda f, ridge: f @ f.T - ridge * _eye(f)),
        ),
        Misconception(
            "Weighted by the kernel alone",
            "Dots near each other share their say: divide by the Gram matrix.",
            lambda f, y, g, ridge: g @ f.T @ y,
        ),
        Misconception(
            "A mean weighted by the kernel",
            "That is another method (Nadaraya and Watson); least squares solves.",
            lambda f, y, g, ridge: (g @ f.T @ y) / (g @ f.T).sum(1),
        ),
        Misconception(
            "Divided by the diagonal alone",
            "The whole Gram matrix is inverted.",
            lambda f, y, g, ridge: g @ f.T @ (y / (np.diag(f @ f.T) + ridge)),
        ),
        Misconception(
            "The ridge is added to the features",
            "It is added to the diagonal of their inner products.",
            lambda f, y, g, ridge: between(f + ridge, y, g, 0.01),
        ),
        Misconception(
            "The mean of the values is taken out",
            "The weights are to minimize what is written: it has no constant.",
            lambda f, y, g, ridge: y.mean() + between(f, y - y.mean(), g, ridge),
        ),
    ),
    properties=(
        Property(
            "A huge ridge leaves nothing",
            lambda answer, f, y, g, ridge: bool(
                np.abs(answer(f, y, g, 1e12)).max() < 1e-6
            ),
        ),
        Property(
            "Twice the values, twice the function",
            lambda answer, f, y, g, ridge: bool(
                np.allclose(answer(f, 2 * y, g, ridge), 2 * answer(f, y, g, ridge))
            ),
        ),
    ),
)


# fourier-6: what stays relative


def stays(a):
    """Whether inner products of A γ depend on the offset alone, a bool."""
    gram = a.T @ a
    m = len(gram) // 2
    diagonal = np.diag(gram)
    return bool(
        np.allclose(gram, np.diag(diagonal), atol=1e-9)
        and np.allclose(diagonal[:m], diagonal[m:], atol=1e-9)
    )


def _turn(angle):
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s], [s, c]])


_QR = np.linalg.qr(draw(4, 4))[0]

STAYS = Exercise(
    name="fourier-6",
    title="What stays relative",
    kind="experiment",
    minutes=12,
    lines=7,
    statement=r"""
The features $\gamma(x)$ of frequencies that are positive and differ, on a line, go through a linear layer: `a` is `[rows, 2 * pairs]`, in the half layout.
Is $(A\, \gamma(x))^\top (A\, \gamma(y))$ a function of $x - y$? Return `True` or `False`; differences below $10^{-9}$ are none.
Try it with random positions before you decide: shift them and look whether the products change.
""",
    hint=r"""
Only $A^\top A$ matters. Which of its entries does a shift of all positions turn into others?
""",
    cases=(
        (np.eye(2),),
        (np.array([[1.0, 0.0]]),),
        (np.diag([1.0, 2.0]),),
        (np.diag([1.0, 2.0, 1.0, 2.0]),),
        (np.diag([1.0, 1.0, 2.0, 2.0]),),
        (_turn(0.7),),
        (3 * _QR,),
        (_QR @ np.diag([1.0, 2.0, 1.0, 2.0]),),
        (np.diag([1.0, 2.0, 1.0, 2.0]) @ _QR,),
        (np.array([[1.0, 0.5], [0.5, 1.0]]),),
        (np.array([[1.0, 0.5, 0.0, 0.0], [0.5, 1.0, 0.0, 0.0]] * 2),),
        (np.diag([1.0, -1.0]),),
        (np.vstack((np.eye(4), np.eye(4))),),
        (np.zeros((3, 2)),),
        (draw(3, 4),),
        (np.kron(np.eye(2), [[1.0, 0.5], [0.5, 1.0]]),),
    ),
    solution=stays,
    misconceptions=(
        Misconception(
            "Linear layers keep it",
            "A cosine without its sine does not: cos x cos y depends on the place.",
            lambda a: True,
        ),
        Misconception(
            "No layer keeps it",
            "The identity does.",
            lambda a: bool(a.shape[0] == a.shape[1] and (a == np.eye(len(a))).all()),
        ),
        Misconception(
            "Only orthogonal layers keep it",
            "A weight for each pair does, too.",
            lambda a: bool(np.allclose(a.T @ a, np.eye(a.shape[1]))),
        ),
        Misconception(
            "Orthogonal up to one factor",
            "Each pair may have a weight of its own.",
            lambda a: bool(np.allclose(a.T @ a, (a.T @ a)[0, 0] * np.eye(a.shape[1]))),
        ),
        Misconception(
            "A must be diagonal",
            "AᵀA must. And the two members of a pair need one weight.",
            lambda a: bool(
                a.shape[0] == a.shape[1] and np.allclose(a, np.diag(np.diag(a)))
            ),
        ),
        Misconception(
            "A must be diagonal, with a weight for each pair",
            "AᵀA must: before that, A may turn everything.",
            lambda a: (
                stays(a)
                and bool(
                    a.shape[0] == a.shape[1] and np.allclose(a, np.diag(np.diag(a)))
                )
            ),
        ),
        Misconception(
            "Any orthogonal columns",
            "The two members of a pair need the same length.",
            lambda a: bool(np.allclose(a.T @ a, np.diag(np.diag(a.T @ a)))),
        ),
        Misconception(
            "Columns of the same length in each pair",
            "They must be orthogonal, too, to each other and to all others.",
            lambda a: bool(
                np.allclose(*np.split(np.diag(a.T @ a), 2)) if a.size else True
            ),
        ),
        Misconception(
            "Members of a pair are neighbors",
            "In the half layout the sine of pair p stands m places behind its cosine.",
            lambda a: bool(
                np.allclose(a.T @ a, np.diag(np.diag(a.T @ a)))
                and np.allclose(np.diag(a.T @ a)[::2], np.diag(a.T @ a)[1::2])
            ),
        ),
        Misconception(
            "A Aᵀ for AᵀA",
            "The features are on the right of A: their inner product has AᵀA.",
            lambda a: stays(a.T) if a.shape[0] % 2 == 0 else stays(a),
        ),
        Misconception(
            "Invertible layers keep it",
            "Nothing is lost, but inner products change.",
            lambda a: bool(
                a.shape[0] >= a.shape[1] and np.linalg.matrix_rank(a) == a.shape[1]
            ),
        ),
        Misconception(
            "Symmetric layers keep it",
            "AᵀA is always symmetric; that is not what matters.",
            lambda a: bool(a.shape[0] == a.shape[1] and np.allclose(a, a.T)),
        ),
        Misconception(
            "A must commute with shifts itself",
            "It is AᵀA: A may be followed by any rotation.",
            lambda a: bool(a.shape[0] == a.shape[1] and _commutes(a, len(a) // 2)),
        ),
        Misconception(
            "Cosines and sines are mixed alike",
            "Then a pair meets another one: cos ωx cos ηy + sin ωx sin ηy is cos(ωx − ηy).",
            lambda a: bool(
                np.allclose((a.T @ a)[: a.shape[1] // 2, a.shape[1] // 2 :], 0)
                and np.allclose(
                    (a.T @ a)[: a.shape[1] // 2, : a.shape[1] // 2],
                    (a.T @ a)[a.shape[1] // 2 :, a.shape[1] // 2 :],
                )
            ),
        ),
    ),
    properties=(
        Property(
            "A rotation behind the layer changes nothing",
            lambda answer, a: (
                answer(np.linalg.qr(draw(len(a), len(a), seed=9))[0] @ a) == answer(a)
            ),
        ),
    ),
    tolerance=0.0,
)


def _commutes(a, m):
    shift = np.kron(np.eye(2), np.diag(np.cos(np.arange(1, m + 1))))
    sines = np.diag(np.sin(np.arange(1, m + 1)))
    shift[:m, m:], shift[m:, :m] = -sines, sines
    return bool(np.allclose(shift @ a, a @ shift))


SHEET = Sheet(
    title="Fourier features",
    conventions=r"""
$m$ is the number of frequencies, so that there are $2m$ features; a frequency in turns has the angle $2\pi\, b^\top x$, one in radians $b^\top x$. $\Phi$ and GELU are those of the normal distribution.
""",
    exercises=(KERNEL, FEATURES, ENOUGH, ENCODE, BETWEEN, STAYS),
)
