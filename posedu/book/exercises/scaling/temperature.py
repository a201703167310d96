"""The exercises on temperatures, and on what windows and full layers see."""

import numpy as np
import sympy as sp
import torch

from posedu.book.exercises.checker import Exercise, Misconception, Property, Sheet, draw

# temperature-1: the temperature that keeps a weight


def kept(n, gap, a):
    """The temperature, as an expression."""
    return (sp.log(n - 1) + sp.log(a / (1 - a))) / gap


_N, _G, _O = sp.symbols("n g o", positive=True)
_A = _O / (1 + _O)

KEPT = Exercise(
    name="temperature-1",
    title="The temperature that keeps a weight",
    kind="by hand",
    minutes=8,
    lines=1,
    statement=r"""
On paper: `n` keys, one of which is ahead of the others by `gap`; these are equal.
By which temperature must the scores be multiplied for that key to have the weight `a`?
Return a SymPy expression of `n`, `gap` and `a`.
By how much does it grow when `n` doubles?
""",
    hint=r"""
What are the odds against the key?
""",
    cases=(
        (sp.Integer(2), sp.Integer(1), sp.Rational(3, 4)),
        (sp.Integer(9), sp.Integer(2), sp.Rational(1, 2)),
        (_N + 1, _G, _A),
    ),
    solution=kept,
    misconceptions=(
        Misconception(
            "n others",
            "The key itself is one of the n.",
            lambda n, gap, a: (sp.log(n) + sp.log(a / (1 - a))) / gap,
        ),
        Misconception(
            "The weight is forgotten",
            "This is right for a weight of one half alone.",
            lambda n, gap, a: sp.log(n - 1) / gap,
        ),
        Misconception(
            "The odds are turned over",
            "A larger weight takes a larger temperature.",
            lambda n, gap, a: (sp.log(n - 1) - sp.log(a / (1 - a))) / gap,
        ),
        Misconception(
            "Weight for odds",
            "a over 1 − a: the others have the rest.",
            lambda n, gap, a: (sp.log(n - 1) + sp.log(a)) / gap,
        ),
        Misconception(
            "The gap multiplies",
            "A larger gap needs less temperature.",
            lambda n, gap, a: gap * (sp.log(n - 1) + sp.log(a / (1 - a))),
        ),
        Misconception(
            "The gap is subtracted",
            "The temperature multiplies it, so it divides.",
            lambda n, gap, a: sp.log(n - 1) + sp.log(a / (1 - a)) - gap,
        ),
        Misconception(
            "No logarithm",
            "The temperature stands in the exponent.",
            lambda n, gap, a: (n - 1) * a / (1 - a) / gap,
        ),
        Misconception(
            "The others' number is forgotten",
            "There are n − 1 of them, and they share what the key leaves.",
            lambda n, gap, a: sp.log(a / (1 - a)) / gap,
        ),
        Misconception(
            "This is what it divides by",
            "What multiplies scores is asked for, the inverse.",
            lambda n, gap, a: (
                gap / (sp.log(n - 1) + sp.log(a / (1 - a)))
                if n != 2
                else gap / sp.log(a / (1 - a))
            ),
        ),
        Misconception(
            "The root of the logarithm",
            "That is the law of an entropy of normal scores.",
            lambda n, gap, a: sp.sqrt(2 * sp.log(n)) / gap,
        ),
        Misconception(
            "The others' number is subtracted",
            "More others need a larger temperature: their logarithm is added.",
            lambda n, gap, a: (sp.log(a / (1 - a)) - sp.log(n - 1)) / gap,
        ),
    ),
    properties=(
        Property(
            "A gap twice as large takes half of it",
            lambda answer, n, gap, a: (
                sp.simplify(2 * answer(n, 2 * gap, a) - answer(n, gap, a)) == 0
            ),
        ),
    ),
)


# temperature-2: the two counts


def first_step(length, counts):
    """The first position above 1, an int."""
    return length - 1 if counts == "tokens" else length


FIRST = Exercise(
    name="temperature-2",
    title="Where the first step is",
    kind="by hand",
    minutes=6,
    lines=1,
    statement=r"""
Positions $i$ count from 0. A temperature is $1 + \alpha \log(1 + \lfloor n/L \rfloor)$ with $\alpha > 0$, where $n = i + 1$ if `counts` is `"tokens"` (Llama 4), and $n = i$ if it is `"positions"` (Ministral 3).
Which is the first position whose temperature is above 1? `length` is $L$. Return an `int`.
""",
    hint=r"""
The floor is 1 from which n on?
""",
    cases=(
        (4, "tokens"),
        (4, "positions"),
        (8192, "tokens"),
        (16384, "positions"),
        (1, "tokens"),
    ),
    solution=first_step,
    misconceptions=(
        Misconception(
            "Both count positions",
            "Llama 4 counts tokens, and at position i there are i + 1.",
            lambda length, counts: length,
        ),
        Misconception(
            "Both count tokens",
            "Ministral 3 counts positions, from 0.",
            lambda length, counts: length - 1,
        ),
        Misconception(
            "Exchanged",
            "n is i + 1 where tokens are counted, so it is L a position sooner.",
            lambda length, counts: length if counts == "tokens" else length - 1,
        ),
        Misconception(
            "A token too late",
            "n = L is enough: its floor is 1.",
            lambda length, counts: length + (counts == "positions"),
        ),
        Misconception(
            "The logarithm of 1",
            "1 is added before the logarithm: a floor of 1 is a step.",
            lambda length, counts: 2 * length - (counts == "tokens"),
        ),
        Misconception(
            "In the wrong direction",
            "Counting tokens, n is larger than i.",
            lambda length, counts: length + (counts == "tokens"),
        ),
        Misconception(
            "The smooth formula",
            "The floor is 0 up to L − 1.",
            lambda length, counts: 0 if counts == "tokens" else 1,
        ),
        Misconception(
            "Half of the length",
            "The floor does not round to the nearest.",
            lambda length, counts: length // 2 - (counts == "tokens"),
        ),
    ),
    tolerance=0.0,
)


# temperature-3: four formulas


def temperatures(n, growth, alpha, length):
    """The temperatures, an array of the shape of n, float64."""
    if growth == "steps":
        return 1 + alpha * np.log(1 + np.floor(n / length))
    if growth == "floor":
        return 1 + alpha * np.log(np.maximum(1, n / length))
    return (1 + n / length) ** alpha


def _formulas(
    steps=lambda x, a: 1 + a * np.log(1 + np.floor(x)),
    floor=lambda x, a: 1 + a * np.log(np.maximum(1, x)),
    power=lambda x, a: (1 + x) ** a,
):
    """With another formula in the place of one."""
    made = {"steps": steps, "floor": floor, "power": power}
    return lambda n, growth, alpha, length: made[growth](n / length, alpha)


def _logarithm(log):
    """With another logarithm."""
    return _formulas(
        steps=lambda x, a: 1 + a * log(1 + np.floor(x)),
        floor=lambda x, a: 1 + a * log(np.maximum(1, x)),
    )


_PLACES = np.array([1, 2, 3, 4, 5, 7, 8, 11, 12, 100])

FORMULAS = Exercise(
    name="temperature-3",
    title="Three formulas",
    kind="NumPy",
    minutes=10,
    lines=5,
    statement=r"""
`n` are numbers of keys, an array of positive integers, and $x = n/L$ with $L$ = `length`.
Return the temperatures, a float64 array of its shape: $1 + \alpha \log(1 + \lfloor x \rfloor)$ for `growth="steps"`, $1 + \alpha \log \max(1, x)$ for `"floor"` and $(1 + x)^\alpha$ for `"power"`.
Then order the three by size.
""",
    hint=r"""
Where is the 1 inside, and where outside?
""",
    cases=(
        (np.array([1, 3, 8]), "steps", 0.5, 3.0),
        (np.array([1, 3, 8]), "floor", 0.5, 3.0),
        (np.array([1, 3, 8]), "power", 0.5, 3.0),
        *((_PLACES, growth, 0.1, 4.0) for growth in ("steps", "floor", "power")),
    ),
    solution=temperatures,
    misconceptions=(
        Misconception(
            "No floor",
            "Steps have a floor: between multiples of L nothing changes.",
            _formulas(steps=lambda x, a: 1 + a * np.log(1 + x)),
        ),
        Misconception(
            "The 1 inside is forgotten",
            "At L the floor is 1, and that is the first step: 1 is added to it.",
            _formulas(steps=lambda x, a: 1 + a * np.log(np.maximum(1, np.floor(x)))),
        ),
        Misconception(
            "Rounded to the nearest",
            "A floor rounds down.",
            _formulas(steps=lambda x, a: 1 + a * np.log(1 + np.round(x))),
        ),
        Misconception(
            "Rounded up",
            "A floor rounds down.",
            _formulas(steps=lambda x, a: 1 + a * np.log(1 + np.ceil(x))),
        ),
        Misconception(
            "The floor is forgotten",
            "Below L the logarithm is negative, and the temperature would be below 1.",
            _formulas(floor=lambda x, a: 1 + a * np.log(x)),
        ),
        Misconception(
            "log(1 + x) for the floor",
            "This one is 1 up to L.",
            _formulas(floor=lambda x, a: 1 + a * np.log(1 + x)),
        ),
        Misconception(
            "The larger of 1 and a logarithm",
            "1 is added to the logarithm; the larger is taken of 1 and n/L.",
            _formulas(floor=lambda x, a: np.maximum(1, a * np.log(x))),
        ),
        Misconception(
            "The power of x",
            "1 is added before the power.",
            _formulas(power=lambda x, a: x**a),
        ),
        Misconception(
            "1 and a power",
            "The 1 stands within the power.",
            _formulas(power=lambda x, a: 1 + x**a),
        ),
        Misconception(
            "The power as a logarithm",
            "Close for small α, but this is a power.",
            _formulas(power=lambda x, a: 1 + a * np.log(1 + x)),
        ),
        Misconception(
            "The logarithm to base 2",
            "The natural one.",
            _logarithm(np.log2),
        ),
        Misconception(
            "The logarithm to base 10",
            "The natural one.",
            _logarithm(np.log10),
        ),
        Misconception(
            "The 1 outside is forgotten",
            "Where nothing grows yet the temperature is 1, not 0.",
            _formulas(
                steps=lambda x, a: a * np.log(1 + np.floor(x)),
                floor=lambda x, a: a * np.log(np.maximum(1, x)),
            ),
        ),
    ),
    properties=(
        Property(
            "α = 0 changes nothing",
            lambda answer, n, growth, alpha, length: bool(
                np.allclose(answer(n, growth, 0.0, length), 1)
            ),
        ),
    ),
)


# temperature-4: what a stack sees


def stack_sees(layers, tokens):
    """For each token how many tokens its output depends on, [tokens], integers."""
    i = np.arange(tokens)
    offsets = i[:, None] - i
    sees = np.eye(tokens, dtype=bool)
    for kind, size in layers:
        mask = offsets >= 0
        if kind == "window":
            mask &= offsets < size
        elif kind == "chunks":
            mask &= i[:, None] // size == i // size
        sees = mask @ sees
    return sees.sum(1)


def _sees(
    window=lambda t, w: t < w,
    chunks=lambda i, size: i[:, None] // size == i // size,
    causal=lambda t: t >= 0,
    take=None,
):
    """With another mask, or other layers."""

    def answer(layers, tokens):
        i = np.arange(tokens)
        offsets = i[:, None] - i
        sees = np.eye(tokens, dtype=bool)
        for kind, size in layers if take is None else take(layers):
            mask = causal(offsets)
            if kind == "window":
                mask = mask & window(offsets, size)
            elif kind == "chunks":
                mask = mask & chunks(i, size)
            sees = mask @ sees
        return sees.sum(1)

    return answer


SEES = Exercise(
    name="temperature-4",
    title="What a stack sees",
    kind="NumPy",
    minutes=15,
    lines=8,
    statement=r"""
`layers` are pairs, the first layer's first: `("window", w)`, in which a query sees the `w` newest keys, itself included; `("chunks", c)`, in which it sees the keys up to itself of its own chunk of `c`; and `("full", 0)`, in which it sees all up to itself.
On how many tokens can the output at each of `tokens` positions depend, with suitable weights? Return an array of integers.
Predict first: three windows of 4; three chunks of 4; one of each and one full layer.
""",
    hint=r"""
A boolean matrix of what each token has read, times the mask of the next layer.
""",
    cases=(
        ([("window", 2)], 4),
        ([("chunks", 2)], 5),
        ([("window", 3), ("window", 2)], 6),
        ([("chunks", 3), ("chunks", 3)], 8),
        ([("window", 2), ("chunks", 4)], 9),
        ([("chunks", 4), ("window", 2)], 9),
        ([("window", 3), ("full", 0)], 7),
        ([("full", 0)], 5),
        ([("full", 0), ("window", 2)], 6),
        ([("chunks", 2), ("full", 0), ("chunks", 3)], 7),
        ([("window", 2)] * 3 + [("chunks", 4), ("window", 3)], 14),
    ),
    solution=stack_sees,
    misconceptions=(
        Misconception(
            "A window without the query",
            "The query itself is among its w keys.",
            _sees(window=lambda t, w: t <= w),
        ),
        Misconception(
            "A window that is one too small",
            "Offsets 0 to w − 1 are seen.",
            _sees(window=lambda t, w: t < max(w - 1, 1)),
        ),
        Misconception(
            "A window on both sides",
            "Later tokens are not seen.",
            _sees(
                window=lambda t, w: abs(t) < w,
                causal=lambda t: np.ones_like(t, dtype=bool),
                chunks=lambda i, c: (i[:, None] >= i) & (i[:, None] // c == i // c),
            ),
        ),
        Misconception(
            "Chunks as windows",
            "A chunk begins at a multiple of c, wherever the query is.",
            _sees(chunks=lambda i, c: i[:, None] - i < c),
        ),
        Misconception(
            "Whole chunks",
            "Within its chunk a query sees the keys up to itself.",
            lambda layers, tokens: _whole(layers, tokens),
        ),
        Misconception(
            "Neighboring chunks",
            "Nothing crosses the edge of a chunk.",
            _sees(chunks=lambda i, c: i[:, None] // c - i // c <= 1),
        ),
        Misconception(
            "The last layer alone",
            "What it reads has read before.",
            _sees(take=lambda layers: layers[-1:]),
        ),
        Misconception(
            "The first layer alone",
            "Each layer reads what the one before it has gathered.",
            _sees(take=lambda layers: layers[:1]),
        ),
        Misconception(
            "A full layer that is not the last",
            "What it has gathered at a token, a later layer reads at that token.",
            _sees(take=lambda layers: [p for p in layers[:-1] if p[1]] + layers[-1:]),
        ),
        Misconception(
            "Layers side by side",
            "Each layer reads what the one before it has gathered.",
            lambda layers, tokens: np.max(
                [stack_sees([layer], tokens) for layer in layers], axis=0
            ),
        ),
        Misconception(
            "Layers in reverse",
            "A mask multiplies from the left what was seen before.",
            _sees(take=lambda layers: layers[::-1]),
        ),
        Misconception(
            "Sums of widths",
            "Each window adds w − 1, and chunks do not add up.",
            lambda layers, tokens: np.minimum(
                np.arange(tokens) + 1,
                sum(size if kind != "full" else tokens for kind, size in layers),
            ),
        ),
        Misconception(
            "What is not seen",
            "How many it depends on.",
            lambda layers, tokens: tokens - stack_sees(layers, tokens),
        ),
        Misconception(
            "Itself is left out",
            "A token's output depends on the token.",
            lambda layers, tokens: stack_sees(layers, tokens) - 1,
        ),
        Misconception(
            "Ways are counted",
            "Each token counts once, in however many ways it is reached.",
            lambda layers, tokens: _ways(layers, tokens),
        ),
        Misconception(
            "What all layers see",
            "Each layer reads what the one before it has gathered: reach grows.",
            lambda layers, tokens: np.all([*_masks(layers, tokens)], axis=0).sum(1),
        ),
        Misconception(
            "Widths are multiplied",
            "A window adds w − 1 to the reach, a chunk ends at its edge.",
            lambda layers, tokens: np.minimum(
                np.arange(tokens) + 1,
                np.prod([size or tokens for _, size in layers]),
            ),
        ),
    ),
    properties=(
        Property(
            "Layers of windows of 1 add nothing",
            lambda answer, layers, tokens: bool(
                np.array_equal(
                    answer([*layers, ("window", 1)], tokens), answer(layers, tokens)
                )
            ),
        ),
    ),
    tolerance=0.0,
)


def _masks(layers, tokens):
    i = np.arange(tokens)
    offsets = i[:, None] - i
    for kind, size in layers:
        mask = offsets >= 0
        if kind == "window":
            mask &= offsets < size
        elif kind == "chunks":
            mask &= i[:, None] // size == i // size
        yield mask


def _ways(layers, tokens):
    count = np.eye(tokens, dtype=int)
    for mask in _masks(layers, tokens):
        count = mask.astype(int) @ count
    return count.sum(1)


def _whole(layers, tokens):
    i = np.arange(tokens)
    sees = np.eye(tokens, dtype=bool)
    for (kind, size), mask in zip(layers, _masks(layers, tokens), strict=True):
        sees = (i[:, None] // size == i // size if kind == "chunks" else mask) @ sees
    return sees.sum(1)


# temperature-5: warm queries


def warm(q, positions, alpha, length):
    """The queries as attention takes them, of the shape of q."""
    tau = 1 + alpha * torch.log(1 + torch.floor((positions + 1) / length))
    return q * tau[:, None]


def _warm(tau):
    return lambda q, at, alpha, length: q * tau(q, at, alpha, length)


def _tau(n, alpha, length):
    return (1 + alpha * torch.log(1 + torch.floor(n / length)))[:, None]


def _queries(heads, tokens, start, length):
    q = torch.tensor(draw(heads, tokens, 2))
    at = torch.arange(start, start + tokens, dtype=torch.float64)
    return q, at, 0.5, length


WARM = Exercise(
    name="temperature-5",
    title="Warm queries",
    kind="PyTorch",
    minutes=10,
    lines=2,
    statement=r"""
`q` are the queries of a layer, `[heads, tokens, d]`, and `positions` a float tensor `[tokens]`, from 0, which need not begin at 0: a cache holds what came before.
Return the queries multiplied by Llama 4's temperature $1 + \alpha \log(1 + \lfloor n/L \rfloor)$, with $n$ counting tokens.
Why need keys not be touched?
""",
    hint=r"""
One number for each token: which axis of `q` is that?
""",
    cases=(
        _queries(1, 3, 0, 2.0),
        _queries(2, 4, 5, 3.0),
        _queries(3, 3, 7, 4.0),
    ),
    solution=warm,
    misconceptions=(
        Misconception(
            "Positions for tokens",
            "At position i there are i + 1 tokens.",
            _warm(lambda q, at, a, n: _tau(at, a, n)),
        ),
        Misconception(
            "Counted from the first query",
            "Positions are given: a cache holds what came before.",
            _warm(lambda q, at, a, n: _tau(torch.arange(len(at)) + 1.0, a, n)),
        ),
        Misconception(
            "One temperature for all queries",
            "Each query has its own, by its position.",
            _warm(lambda q, at, a, n: _tau(at[-1:] + 1, a, n)),
        ),
        Misconception(
            "The length of the text",
            "Each query has its own, by its position, not by how many tokens are new.",
            _warm(lambda q, at, a, n: _tau(torch.full_like(at, len(at)), a, n)),
        ),
        Misconception(
            "Along the heads",
            "One number for each token, the middle axis.",
            _warm(lambda q, at, a, n: _tau(at[: len(q)] + 1, a, n)[:, None]),
        ),
        Misconception(
            "Divided",
            "It multiplies: queries become warmer, weights sharper.",
            _warm(lambda q, at, a, n: 1 / _tau(at + 1, a, n)),
        ),
        Misconception(
            "The root of it",
            "Keys are not touched, so queries take all of it.",
            _warm(lambda q, at, a, n: _tau(at + 1, a, n) ** 0.5),
        ),
        Misconception(
            "Twice",
            "Logits take it once, by the query.",
            _warm(lambda q, at, a, n: _tau(at + 1, a, n) ** 2),
        ),
        Misconception(
            "No floor",
            "Llama 4's grows in steps.",
            _warm(lambda q, at, a, n: (1 + a * torch.log(1 + (at + 1) / n))[:, None]),
        ),
        Misconception(
            "Without the 1",
            "Where nothing grows yet the queries stay as they are.",
            _warm(lambda q, at, a, n: _tau(at + 1, a, n) - 1),
        ),
        Misconception(
            "Inkling's formula",
            "This one is smooth, and 1 up to L.",
            _warm(
                lambda q, at, a, n: (
                    1 + a * torch.log(torch.clamp((at + 1) / n, min=1))
                )[:, None]
            ),
        ),
        Misconception(
            "Added",
            "A temperature multiplies.",
            lambda q, at, a, n: q + _tau(at + 1, a, n),
        ),
        Misconception(
            "The 1 inside is forgotten",
            "At L the floor is 1, and that is the first step: 1 is added to it.",
            lambda q, positions, alpha, length: (
                q
                * (1 + alpha * ((positions + 1) / length).floor().clamp(min=1).log())[
                    :, None
                ]
            ),
        ),
    ),
    properties=(
        Property(
            "α = 0 changes nothing",
            lambda answer, q, positions, alpha, length: bool(
                torch.allclose(answer(q, positions, 0.0, length), q)
            ),
        ),
    ),
)


# temperature-6: entropy held


def entropies(scores, tau):
    """The entropy of each row in nats, [rows], float64."""
    logits = tau * scores
    logits = logits - logits.max(-1, keepdims=True)
    weights = np.exp(logits)
    total = weights.sum(-1)
    return np.log(total) - (weights * logits).sum(-1) / total


def _entropy(
    logits=lambda s, tau: tau * s,
    end=lambda h: h,
):
    """With other logits."""

    def answer(scores, tau):
        z = logits(scores, tau)
        z = z - z.max(-1, keepdims=True)
        with np.errstate(all="ignore"):
            a = np.exp(z) / np.exp(z).sum(-1, keepdims=True)
            return end(-(a * np.log(a)).sum(-1))

    return answer


def _overflowing(scores, tau):
    with np.errstate(all="ignore"):
        a = np.exp(tau * scores)
        a = a / a.sum(-1, keepdims=True)
    return -(a * np.log(np.maximum(a, 1e-300))).sum(-1)


ENTROPY = Exercise(
    name="temperature-6",
    title="An entropy that is held",
    kind="experiment",
    minutes=15,
    lines=5,
    statement=r"""
Each row of `scores`, `[rows, keys]`, is one query's. Return the entropy of its weights at the temperature `tau`, in nats: `[rows]`, float64, finite also where weights underflow to 0 or scores are in the thousands.
Then draw 20 rows of normal scores for $n$ = 64, 1024 and 16,384 and print the mean at $\tau = 1$ and at $\tau = \sqrt{1 + 2 \log(n/64)}$.
Which one is held? And what is held if all scores are equal?
""",
    hint=r"""
A weight may underflow to 0, and 0 log 0 is not a number to a computer. Write the entropy with the logarithm of the sum.
""",
    cases=(
        (np.array([[0.0, 0.0]]), 3.0),
        (np.array([[1.0, 0.0, -1.0]]), 2.0),
        (draw(3, 4), 0.5),
        (3 * draw(2, 5), 4.0),
        (np.array([[0.0, 900.0, 1800.0], [5.0, 5.0, -2000.0]]), 1.0),
    ),
    solution=entropies,
    misconceptions=(
        Misconception(
            "0 log 0",
            "Weights that underflow make this no number.",
            _entropy(),
        ),
        Misconception(
            "Exponentials that overflow",
            "Subtract the largest logit of the row first.",
            _overflowing,
        ),
        Misconception(
            "Divided by the temperature",
            "τ multiplies: it is an inverse temperature.",
            _entropy(logits=lambda s, tau: s / tau, end=np.nan_to_num),
        ),
        Misconception(
            "The temperature is forgotten",
            "Scores are multiplied by it.",
            _entropy(logits=lambda s, tau: s, end=np.nan_to_num),
        ),
        Misconception(
            "In bits",
            "Nats: the natural logarithm.",
            lambda scores, tau: entropies(scores, tau) / np.log(2),
        ),
        Misconception(
            "The sign",
            "An entropy is not negative.",
            lambda scores, tau: -entropies(scores, tau),
        ),
        Misconception(
            "A share of the largest",
            "In nats, not as a share of log n.",
            lambda scores, tau: entropies(scores, tau) / np.log(scores.shape[-1]),
        ),
        Misconception(
            "Effective keys",
            "This is how many keys it is worth: its logarithm is asked for.",
            lambda scores, tau: np.exp(entropies(scores, tau)),
        ),
        Misconception(
            "The mean over rows",
            "A number for each row.",
            lambda scores, tau: np.full(len(scores), entropies(scores, tau).mean()),
        ),
        Misconception(
            "The limit of normal scores",
            "log n − τ²v/2 is a limit, and of normal scores alone.",
            lambda scores, tau: np.log(scores.shape[-1]) - tau**2 * scores.var(-1) / 2,
        ),
        Misconception(
            "The logarithm of the sum alone",
            "The mean of the logits is to be subtracted.",
            lambda scores, tau: np.log(
                np.exp(tau * (scores - scores.max(-1, keepdims=True))).sum(-1)
            ),
        ),
    ),
    properties=(
        Property(
            "Scores all larger by 1 have the same entropy",
            lambda answer, scores, tau: bool(
                np.allclose(answer(scores + 1, tau), answer(scores, tau))
            ),
        ),
        Property(
            "At τ = 0 it is log n",
            lambda answer, scores, tau: bool(
                np.allclose(answer(scores, 0.0), np.log(scores.shape[-1]))
            ),
        ),
    ),
)


SHEET = Sheet(
    title="Temperature, and layers without rotation",
    conventions=r"""
Positions $i$ count from 0. A temperature $\tau$ multiplies scores, so that a larger one is sharper; logarithms are natural. A window $w$ has the offsets $0, \dots, w - 1$.
""",
    exercises=(KEPT, FIRST, FORMULAS, SEES, WARM, ENTROPY),
)
