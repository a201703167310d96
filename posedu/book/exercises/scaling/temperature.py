"""Exercises on temperatures, and on how far windowed and global attention see."""

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

# temperature-1: the temperature that keeps a weight


def temperature(n, gap, a):
    """Return the temperature that gives one of n keys the weight a, as an expression.

    The temperature multiplies the scores. The key's score is ``gap`` above the equal
    scores of all other keys.
    """
    return (sp.log(n - 1) + sp.log(a / (1 - a))) / gap


_N, _G, _O = sp.symbols("n g o", positive=True)
_A = _O / (1 + _O)

TEMPERATURE = Exercise(
    name="temperature-1",
    title="The temperature that keeps a weight",
    kind="by hand",
    minutes=8,
    lines=1,
    statement=r"""
On paper: of `n` keys one has a score that is `gap` above the equal scores of the others.
By which temperature must the scores be multiplied for that key to have the weight `a`?
Return a SymPy expression of `n`, `gap` and `a`.
By how much does this temperature grow when `n` doubles?
""",
    hint=r"""
What are the odds of the key against all others together?
""",
    cases=(
        (sp.Integer(2), sp.Integer(1), sp.Rational(3, 4)),
        (sp.Integer(9), sp.Integer(2), sp.Rational(1, 2)),
        (_N + 1, _G, _A),
    ),
    solution=temperature,
    misconceptions=(
        Misconception(
            "n others in place of n − 1",
            "The key itself is one of the n.",
            lambda n, gap, a: (sp.log(n) + sp.log(a / (1 - a))) / gap,
        ),
        Misconception(
            "n + 1 others",
            "The key itself is one of the n, so there are n − 1 others.",
            lambda n, gap, a: (sp.log(n + 1) + sp.log(a / (1 - a))) / gap,
        ),
        Misconception(
            "Weight forgotten",
            "Your answer is right only for a weight of one half.",
            lambda n, gap, a: sp.log(n - 1) / gap,
        ),
        Misconception(
            "Weight forgotten, and n others",
            "The temperature depends on the weight as well. And the key itself is one "
            "of the n.",
            lambda n, gap, a: sp.log(n) / gap,
        ),
        Misconception(
            "Sum of the exponentials taken for n",
            "The others contribute 1 each to the sum, but the key contributes more.",
            lambda n, gap, a: sp.log(n * a) / gap,
        ),
        Misconception(
            "Odds inverted",
            "A larger weight takes a larger temperature.",
            lambda n, gap, a: (sp.log(n - 1) - sp.log(a / (1 - a))) / gap,
        ),
        Misconception(
            "Weight for odds",
            "The odds are a over 1 − a, since the others have the rest.",
            lambda n, gap, a: (sp.log(n - 1) + sp.log(a)) / gap,
        ),
        Misconception(
            "Odds a over 1 + a",
            "The odds are a over 1 − a, since the others have the rest.",
            lambda n, gap, a: (sp.log(n - 1) + sp.log(a / (1 + a))) / gap,
        ),
        Misconception(
            "Divided by the weight",
            "The odds are a over 1 − a. Your answer divides by both.",
            lambda n, gap, a: (sp.log(n - 1) - sp.log(a * (1 - a))) / gap,
        ),
        Misconception(
            "1 − a outside the logarithm",
            "The odds are a over 1 − a, and the logarithm is taken of the whole.",
            lambda n, gap, a: sp.log((n - 1) * a) / (1 - a) / gap,
        ),
        Misconception(
            "Multiplied by the gap",
            "A larger gap needs less temperature.",
            lambda n, gap, a: gap * (sp.log(n - 1) + sp.log(a / (1 - a))),
        ),
        Misconception(
            "Gap subtracted",
            "The temperature multiplies the gap, so divide by the gap.",
            lambda n, gap, a: sp.log(n - 1) + sp.log(a / (1 - a)) - gap,
        ),
        Misconception(
            "No logarithm",
            "The temperature stands in the exponent.",
            lambda n, gap, a: (n - 1) * a / (1 - a) / gap,
        ),
        Misconception(
            "Exponential in place of the logarithm",
            "The temperature stands in the exponent. What takes it out of there?",
            lambda n, gap, a: sp.exp((n - 1) * a / (1 - a)) / gap,
        ),
        Misconception(
            "Number of the others forgotten",
            "There are n − 1 others, and they share the rest of the weight.",
            lambda n, gap, a: sp.log(a / (1 - a)) / gap,
        ),
        Misconception(
            "Inverse of the temperature",
            "Your answer divides scores. The number that multiplies them is asked for.",
            lambda n, gap, a: (
                gap / (sp.log(n - 1) + sp.log(a / (1 - a)))
                if n != 2
                else gap / sp.log(a / (1 - a))
            ),
        ),
        Misconception(
            "Root of the logarithm",
            "The root belongs to normal scores whose entropy stays the same.",
            lambda n, gap, a: sp.sqrt(2 * sp.log(n)) / gap,
        ),
        Misconception(
            "Number of the others subtracted",
            "More others need a larger temperature, so their logarithm is added.",
            lambda n, gap, a: (sp.log(a / (1 - a)) - sp.log(n - 1)) / gap,
        ),
    ),
    properties=(
        Property(
            "Twice the gap needs half the temperature",
            lambda answer, n, gap, a: (
                sp.simplify(2 * answer(9, 2 * gap, a) - answer(9, gap, a)) == 0
            ),
        ),
    ),
    explanation=r"""
The odds of the key against all the others together are $e^{\tau g} : (n - 1)$, with $g$ for the gap, and a weight $a$ has the odds $a : (1 - a)$.
So $\tau g = \log(n - 1) + \log \frac{a}{1 - a}$; divide by $g$.
When $n$ doubles, $\tau$ grows by $\log \frac{2n - 1}{n - 1} / g$, for large $n$ by $\log 2 / g$, whatever the length was: it grows with the logarithm of the number of keys.
{prf:ref}`The theorem on the least growth of a temperature <thm-temperature-needed>` says that no smaller temperature is enough when scores lie within $g$ of each other.
""",
)


# temperature-2: the two counts


def first_step(length, counts):
    """Return the first position whose attention temperature is above 1: an int.

    ``length`` is L in the temperature 1 + α log(1 + ⌊n/L⌋). ``counts`` says what n is
    at position i: the number of tokens, i + 1 ("tokens", Llama 4), or i itself
    ("positions", Ministral 3).
    """
    return length - 1 if counts == "tokens" else length


FIRST = Exercise(
    name="temperature-2",
    title="Where the first step is",
    kind="by hand",
    minutes=4,
    lines=1,
    statement=r"""
Positions $i$ count from 0.
The temperature is $1 + \alpha \log(1 + \lfloor n/L \rfloor)$ with $\alpha > 0$, where $n = i + 1$ if `counts` is `"tokens"` (Llama 4), and $n = i$ if it is `"positions"` (Ministral 3).
Which is the first position whose temperature is above 1?
`length` is $L$.
""",
    hint=r"""
From which $n$ on is the floor 1?
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
            "Positions counted for both",
            "Llama 4 counts tokens, and at position i there are i + 1.",
            lambda length, counts: length,
        ),
        Misconception(
            "Tokens counted for both",
            "Ministral 3 counts positions, from 0.",
            lambda length, counts: length - 1,
        ),
        Misconception(
            "The two counts exchanged",
            "n is i + 1 where tokens are counted, so it reaches L one position "
            "earlier.",
            lambda length, counts: length if counts == "tokens" else length - 1,
        ),
        Misconception(
            "One token too late",
            "n = L is enough: its floor is 1.",
            lambda length, counts: length + (counts == "positions"),
        ),
        Misconception(
            "1 inside the logarithm forgotten",
            "1 is added before the logarithm, so a floor of 1 is a step.",
            lambda length, counts: 2 * length - (counts == "tokens"),
        ),
        Misconception(
            "Position shifted in the wrong direction",
            "If tokens are counted, n is larger than i.",
            lambda length, counts: length + (counts == "tokens"),
        ),
        Misconception(
            "Smooth formula",
            "The floor is 0 up to L − 1.",
            lambda length, counts: 0 if counts == "tokens" else 1,
        ),
        Misconception(
            "Never at position 0",
            "With L = 1 the first token is enough: its position is 0.",
            lambda length, counts: max(first_step(length, counts), 1),
        ),
        Misconception(
            "Half of the length",
            "The floor does not round to the nearest.",
            lambda length, counts: length // 2 - (counts == "tokens"),
        ),
    ),
    tolerance=0.0,
    level="optional",
    explanation=r"""
The temperature is above 1 where the floor is at least 1, that is from $n = L$ on.
If $n = i + 1$, this is the position $L - 1$; if $n = i$, the position $L$.
The two models differ at one token of each step, and {ref}`a port that takes the wrong count <err-scaling-first>` passes every test on shorter texts.
""",
)


# temperature-3: four formulas


def temperatures(n, growth, alpha, length):
    """Return the attention temperatures for n keys, float64, of the shape of n.

    ``growth`` chooses one of three formulas: "steps", "floor" or "power". ``alpha`` is
    the coefficient or exponent in the formula; ``length`` is the number L by which n is
    divided.
    """
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
    """Make a wrong answer (a function) to the exercise ``temperatures``.

    The exercise asks for attention temperatures by one of three formulas. In the wrong
    answer, ``steps``, ``floor`` or ``power`` replaces one of the formulas; each is a
    function of x = n / ``length`` and a = ``alpha``, and the defaults are right.
    """
    made = {"steps": steps, "floor": floor, "power": power}
    return lambda n, growth, alpha, length: made[growth](n / length, alpha)


def _logarithm(log):
    """Make a wrong answer (a function) to the exercise ``temperatures``.

    The exercise asks for attention temperatures. In the wrong answer, ``log``, another
    logarithm, replaces the natural logarithm.
    """
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
`n` is an array of numbers of keys, positive integers, and $x = n/L$ with $L$ = `length`; $\alpha$ = `alpha` is not negative.
Return the temperatures, a float64 array of the same shape: $1 + \alpha \log(1 + \lfloor x \rfloor)$ for `growth="steps"`, $1 + \alpha \log \max(1, x)$ for `"floor"` and $(1 + x)^\alpha$ for `"power"`.
Which of the three is the smallest at a given $x$, and which the largest?
""",
    hint=r"""
Where does the 1 stand inside the logarithm or the power, and where outside?
""",
    cases=(
        (np.array([1, 3, 8]), "steps", 0.5, 3.0),
        (np.array([1, 3, 8]), "floor", 0.5, 3.0),
        (np.array([1, 3, 8]), "power", 0.5, 3.0),
        *((_PLACES, growth, 0.1, 4.0) for growth in ("steps", "floor", "power")),
        (np.array([199, 200, 399]), "steps", 0.1, 200.0),
    ),
    solution=temperatures,
    misconceptions=(
        Misconception(
            "No floor",
            "Steps have a floor: between multiples of L they do not change.",
            _formulas(steps=lambda x, a: 1 + a * np.log(1 + x)),
        ),
        Misconception(
            "1 inside forgotten",
            "At L the floor of n/L is 1, and 1 is added to it: the first step is "
            "there.",
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
            "Logarithm rounded down",
            "n/L is rounded down, before the logarithm.",
            _formulas(steps=lambda x, a: 1 + a * np.floor(np.log(1 + x))),
        ),
        Misconception(
            'The power for "steps"',
            'For "steps" your answer is the power. Is the name compared letter by '
            "letter?",
            _formulas(steps=lambda x, a: (1 + x) ** a),
        ),
        Misconception(
            '"steps" and "floor" exchanged',
            'The formula with a floor is "steps". "floor" has a maximum in its place.',
            _formulas(
                steps=lambda x, a: 1 + a * np.log(np.maximum(1, x)),
                floor=lambda x, a: 1 + a * np.log(1 + np.floor(x)),
            ),
        ),
        Misconception(
            "max(1, x) forgotten",
            "Below L the logarithm is negative, and the temperature would be below 1.",
            _formulas(floor=lambda x, a: 1 + a * np.log(x)),
        ),
        Misconception(
            'log(1 + x) for "floor"',
            'The formula for "floor" is 1 up to L.',
            _formulas(floor=lambda x, a: 1 + a * np.log(1 + x)),
        ),
        Misconception(
            "Maximum of 1 and the logarithm",
            "1 is added to the logarithm. The maximum is taken of 1 and n/L.",
            _formulas(floor=lambda x, a: np.maximum(1, a * np.log(x))),
        ),
        Misconception(
            "Maximum outside the logarithm",
            "The maximum is taken of 1 and n/L, before the logarithm.",
            _formulas(floor=lambda x, a: 1 + a * np.maximum(1, np.log(x))),
        ),
        Misconception(
            "1 added to the maximum",
            'The formula for "floor" is 1 up to L: nothing is added to the maximum.',
            _formulas(floor=lambda x, a: 1 + a * np.log(1 + np.maximum(1, x))),
        ),
        Misconception(
            "Minimum in place of the maximum",
            "The temperature is 1 up to L and grows from there.",
            _formulas(floor=lambda x, a: 1 + a * np.log(np.minimum(1, x))),
        ),
        Misconception(
            'n/L rounded down for "floor"',
            '"floor" names a lowest value, 1. Only "steps" rounds n/L down.',
            _formulas(floor=lambda x, a: 1 + a * np.log(np.maximum(1, np.floor(x)))),
        ),
        Misconception(
            "Power of x, without the 1",
            "1 is added before the power.",
            _formulas(power=lambda x, a: x**a),
        ),
        Misconception(
            "1 added to the power",
            "1 is added to x before the power.",
            _formulas(power=lambda x, a: 1 + x**a),
        ),
        Misconception(
            "Logarithm in place of the power",
            "1 + α log(1 + x) is close to the power for small α, but it is not the "
            "power.",
            _formulas(power=lambda x, a: 1 + a * np.log(1 + x)),
        ),
        Misconception(
            "First terms of the power",
            "1 + αx is close to the power for small x, but it is not the power.",
            _formulas(power=lambda x, a: 1 + a * x),
        ),
        Misconception(
            "Exponential in place of the power",
            "The exponential grows faster than a power of 1 + x.",
            _formulas(power=lambda x, a: np.exp(a * x)),
        ),
        Misconception(
            "n/L rounded down in the power",
            'Only "steps" rounds n/L down.',
            _formulas(power=lambda x, a: (1 + np.floor(x)) ** a),
        ),
        Misconception(
            "Exponent −α",
            "The temperature grows with n.",
            _formulas(power=lambda x, a: (1 + x) ** -a),
        ),
        Misconception(
            "The logarithm to base 2",
            "The logarithm is the natural one.",
            _logarithm(np.log2),
        ),
        Misconception(
            "The logarithm to base 10",
            "The logarithm is the natural one.",
            _logarithm(np.log10),
        ),
        Misconception(
            "n/L rounded down in every formula",
            'Only "steps" rounds n/L down. `//` does so everywhere.',
            lambda n, growth, alpha, length: temperatures(
                length * (n // length), growth, alpha, length
            ),
        ),
        Misconception(
            "1 outside forgotten",
            "Where nothing grows yet, the temperature is 1, not 0.",
            _formulas(
                steps=lambda x, a: a * np.log(1 + np.floor(x)),
                floor=lambda x, a: a * np.log(np.maximum(1, x)),
            ),
        ),
    ),
    properties=(
        Property(
            "For α = 0 all temperatures are 1",
            lambda answer, n, growth, alpha, length: bool(
                np.allclose(answer(n, growth, 0.0, length), 1)
            ),
        ),
    ),
    explanation=r"""
For the same $\alpha$ and $x$ the order is `"floor"` ≤ `"steps"` ≤ `"power"`, by {prf:ref}`the theorem on the shipped formulas <thm-temperature-shipped>`.
The first two differ by $\alpha \log 2$ at most, and for $\alpha > 0$ and $L > 1$ only the power is above 1 from the first key on.
So a model trained with one of them and run with another has slightly other scores, with the power at every query, between the first two from $L$ keys on, and no error message.
""",
)


# temperature-4: what a stack of layers sees


def tokens_seen(layers, tokens):
    """Return on how many tokens each output of a stack of layers can depend.

    The numbers are integers, [tokens], for ``tokens`` tokens. ``layers`` has a pair for
    each layer: the kind of attention ("window", "chunks" or "full") and the size of the
    window or the chunks.
    """
    i = np.arange(tokens)
    offsets = i[:, None] - i
    visible = np.eye(tokens, dtype=bool)
    for kind, size in layers:
        mask = offsets >= 0
        if kind == "window":
            mask &= offsets < size
        elif kind == "chunks":
            mask &= i[:, None] // size == i // size
        visible = mask @ visible
    return visible.sum(1)


def _visible(
    window=lambda t, w: (t >= 0) & (t < w),
    chunks=lambda i, size: i[:, None] // size == i // size,
    full=lambda t: t >= 0,
    take=lambda layers: layers,
    start=lambda tokens: np.eye(tokens, dtype=bool),
):
    """Make a wrong answer (a function) to the exercise ``tokens_seen``.

    The exercise asks for the number of tokens that each output depends on. In the wrong
    answer, ``window(offsets, size)``, ``chunks(i, size)`` or ``full(offsets)`` replaces
    a mask (true where a query sees a key; that of the chunks may include later keys, as
    they are hidden afterwards), ``take(layers)`` replaces the list of layers, or
    ``start(tokens)`` what each token sees before the first layer. The defaults are
    right.
    """

    def answer(layers, tokens):
        i = np.arange(tokens)
        offsets = i[:, None] - i
        visible = start(tokens)
        for kind, size in take(layers):
            if kind == "window":
                mask = window(offsets, size)
            elif kind == "chunks":
                mask = (offsets >= 0) & chunks(i, size)
            else:
                mask = full(offsets)
            visible = mask @ visible
        return visible.sum(1)

    return answer


TOKENS_SEEN = Exercise(
    name="temperature-4",
    title="What a stack of layers sees",
    kind="NumPy",
    minutes=15,
    lines=8,
    statement=r"""
`layers` is a list of one or more pairs, that of the first layer first.
In a layer `("window", w)` a query sees the `w` newest keys, its own included.
In a layer `("chunks", c)` it sees the keys of its own chunk of `c` tokens, up to its own.
In a global-attention layer, `("full", 0)`, it sees all keys up to its own.
On how many tokens can the output at each of `tokens` positions depend, with suitable weights?
Return an array of integers.
What is the largest of these integers for three windows of 4, for three chunks of 4, and for a window, chunks and a global-attention layer?
""",
    hint=r"""
A boolean matrix says which tokens each output depends on.
Multiply it from the left by the mask of the next layer.
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
    solution=tokens_seen,
    misconceptions=(
        Misconception(
            "A window without the query",
            "The query itself is among its w keys.",
            _visible(window=lambda t, w: (t >= 0) & (t <= w)),
        ),
        Misconception(
            "Window one key too small",
            "Offsets 0 to w − 1 are seen.",
            _visible(window=lambda t, w: (t >= 0) & (t < max(w - 1, 1))),
        ),
        Misconception(
            "A window on both sides",
            "A query does not see later tokens.",
            _visible(window=lambda t, w: abs(t) < w),
        ),
        Misconception(
            "A global-attention layer without the causal mask",
            "A query does not see later tokens.",
            _visible(full=lambda t: np.ones_like(t, dtype=bool)),
        ),
        Misconception(
            "Later keys seen in windows and in global-attention layers",
            "A query does not see later tokens.",
            _visible(
                window=lambda t, w: abs(t) < w,
                full=lambda t: np.ones_like(t, dtype=bool),
            ),
        ),
        Misconception(
            "A global-attention layer as a window of 0",
            "The 0 of a global-attention layer is no width: a query sees all keys up "
            "to its own.",
            _visible(full=lambda t: np.zeros_like(t, dtype=bool)),
        ),
        Misconception(
            "A global-attention layer one key too small",
            "The last query sees the first key, too.",
            _visible(full=lambda t: (t >= 0) & (t < len(t) - 1)),
        ),
        Misconception(
            "Chunks as windows",
            "A chunk begins at a multiple of c, wherever the query is.",
            _visible(chunks=lambda i, c: i[:, None] - i < c),
        ),
        Misconception(
            "Chunks shifted by one",
            "Tokens count from 0, and the first chunk has c of them.",
            _visible(chunks=lambda i, c: (i[:, None] + 1) // c == (i + 1) // c),
        ),
        Misconception(
            "Every c-th token in place of a chunk",
            "A chunk has c neighboring tokens. The remainder says where a token is in "
            "its chunk.",
            _visible(chunks=lambda i, c: i[:, None] % c == i % c),
        ),
        Misconception(
            "Whole chunks",
            "Within its chunk a query sees the keys up to itself.",
            lambda layers, tokens: _whole(layers, tokens),
        ),
        Misconception(
            "Neighboring chunks",
            "Nothing crosses the edge of a chunk.",
            _visible(chunks=lambda i, c: i[:, None] // c - i // c <= 1),
        ),
        Misconception(
            "Last layer alone",
            "The tokens that the last layer reads have read others before.",
            _visible(take=lambda layers: layers[-1:]),
        ),
        Misconception(
            "First layer alone",
            "Each layer reads the outputs of the one before it.",
            _visible(take=lambda layers: layers[:1]),
        ),
        Misconception(
            "Global-attention layer ignored unless it is the last",
            "A later layer reads, at each token, everything that the global-attention "
            "layer has collected there.",
            _visible(
                take=lambda layers: [p for p in layers[:-1] if p[1]] + layers[-1:]
            ),
        ),
        Misconception(
            "Equal layers counted once",
            "A second window of the same size reaches further.",
            _visible(take=dict.fromkeys),
        ),
        Misconception(
            "Everything seen from the start",
            "Before the first layer a token has seen only itself.",
            _visible(start=lambda tokens: np.tri(tokens, dtype=bool)),
        ),
        Misconception(
            "Layers in parallel",
            "Each layer reads the outputs of the one before it.",
            lambda layers, tokens: np.max(
                [tokens_seen([layer], tokens) for layer in layers], axis=0
            ),
        ),
        Misconception(
            "Layers in reverse order",
            "Multiply what was seen so far by the mask of the next layer from the "
            "left.",
            _visible(take=lambda layers: layers[::-1]),
        ),
        Misconception(
            "Widths of windows added",
            "Each window adds w − 1, and chunks do not add up.",
            lambda layers, tokens: np.minimum(
                np.arange(tokens) + 1,
                sum(size if kind != "full" else tokens for kind, size in layers),
            ),
        ),
        Misconception(
            "Tokens that are not seen",
            "The number of tokens on which an output depends is asked for.",
            lambda layers, tokens: tokens - tokens_seen(layers, tokens),
        ),
        Misconception(
            "Itself left out",
            "A token's output depends on the token itself.",
            lambda layers, tokens: tokens_seen(layers, tokens) - 1,
        ),
        Misconception(
            "Paths counted",
            "Each token counts once, however many paths lead to it.",
            lambda layers, tokens: _paths(layers, tokens),
        ),
        Misconception(
            "Only the tokens that all layers see",
            "Each layer reads the outputs of the one before it, so the reach grows.",
            lambda layers, tokens: np.all([*_masks(layers, tokens)], axis=0).sum(1),
        ),
        Misconception(
            "Widths multiplied",
            "A window adds w − 1 to the reach. A chunk ends at its edge.",
            lambda layers, tokens: np.minimum(
                np.arange(tokens) + 1,
                np.prod([size or tokens for _, size in layers]),
            ),
        ),
    ),
    properties=(
        Property(
            "A further layer with a window of 1 changes nothing",
            lambda answer, layers, tokens: bool(
                np.array_equal(
                    answer([*layers, ("window", 1)], tokens), answer(layers, tokens)
                )
            ),
        ),
    ),
    tolerance=0.0,
    explanation=r"""
Three windows of 4 see 10 tokens: each layer adds the 3 older keys of its window, and the token itself is counted once.
Three layers of chunks of 4 see 4 tokens, as one does, since no layer looks out of the chunk.
With a global-attention layer anywhere in the stack every output depends on all tokens up to its own.
This is {prf:ref}`the theorem on the reach of a stack <thm-temperature-reach>`; with windows and chunks mixed the order of the layers matters, too.
""",
    prediction=Prediction(
        "Three layers have windows of 4. On how many tokens can the last of 16 outputs depend?",
        lambda: int(tokens_seen([("window", 4)] * 3, 16)[-1]),
    ),
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


def _paths(layers, tokens):
    count = np.eye(tokens, dtype=int)
    for mask in _masks(layers, tokens):
        count = mask.astype(int) @ count
    return count.sum(1)


def _whole(layers, tokens):
    i = np.arange(tokens)
    visible = np.eye(tokens, dtype=bool)
    for (kind, size), mask in zip(layers, _masks(layers, tokens), strict=True):
        visible = (
            i[:, None] // size == i // size if kind == "chunks" else mask
        ) @ visible
    return visible.sum(1)


# temperature-5: queries with a temperature


def scale_queries(q, positions, alpha, length):
    """Multiply queries by Llama 4's temperatures; return a tensor of the shape of q.

    ``q`` is [heads, tokens, d], ``positions`` are [tokens]; ``alpha`` and ``length``
    are α and L in the temperature 1 + α log(1 + ⌊n/L⌋) for n tokens.
    """
    tau = 1 + alpha * torch.log(1 + torch.floor((positions + 1) / length))
    return q * tau[:, None]


def _scale_queries(tau):
    return lambda q, at, alpha, length: q * tau(q, at, alpha, length)


def _tau(n, alpha, length):
    return (1 + alpha * torch.log(1 + torch.floor(n / length)))[:, None]


def _queries(heads, tokens, start, length):
    q = torch.tensor(draw(heads, tokens, 2))
    at = torch.arange(start, start + tokens, dtype=torch.float64)
    return q, at, 0.5, length


SCALE_QUERIES = Exercise(
    name="temperature-5",
    title="Queries with a temperature",
    kind="PyTorch",
    minutes=10,
    lines=2,
    statement=r"""
`q` are the queries of a layer, `[heads, tokens, d]`, and `positions` is a float tensor `[tokens]`.
Positions count from 0, but `positions` need not begin at 0, because a cache may hold earlier tokens.
Return the queries multiplied by Llama 4's temperature $1 + \alpha \log(1 + \lfloor n/L \rfloor)$, with $n$ counting tokens.
Why do the keys stay as they are?
""",
    hint=r"""
There is one number for each token.
Which axis of `q` is that?
""",
    cases=(
        _queries(1, 3, 0, 2.0),
        _queries(2, 4, 5, 3.0),
        _queries(2, 2, 8, 5.0),  # equal axes, each token with its own temperature
        _queries(3, 3, 6, 4.0),
    ),
    solution=scale_queries,
    misconceptions=(
        Misconception(
            "Positions in place of tokens",
            "At position i there are i + 1 tokens.",
            _scale_queries(lambda q, at, a, n: _tau(at, a, n)),
        ),
        Misconception(
            "Counted from the first query",
            "`positions` need not begin at 0, because a cache holds earlier tokens.",
            _scale_queries(lambda q, at, a, n: _tau(at - at[0] + 1, a, n)),
        ),
        Misconception(
            "Counted from the first query, in float32",
            "`positions` need not begin at 0, because a cache holds earlier tokens. "
            "And integers divided by a number are float32.",
            _scale_queries(lambda q, at, a, n: _tau(torch.arange(len(at)) + 1, a, n)),
        ),
        Misconception(
            "Two tokens too many",
            "At position i there are i + 1 tokens.",
            _scale_queries(lambda q, at, a, n: _tau(at + 2, a, n)),
        ),
        Misconception(
            "One temperature for all queries",
            "Each query has a temperature of its own, by its position.",
            _scale_queries(lambda q, at, a, n: _tau(at[-1:] + 1, a, n)),
        ),
        Misconception(
            "Temperature by the length of the text",
            "Each query has a temperature of its own, by its position, not by the "
            "number of new tokens.",
            _scale_queries(
                lambda q, at, a, n: _tau(torch.full_like(at, len(at)), a, n)
            ),
        ),
        Misconception(
            "Temperatures along the heads",
            "There is one number for each token, along the middle axis.",
            _scale_queries(lambda q, at, a, n: _tau(at[: len(q)] + 1, a, n)[:, None]),
        ),
        Misconception(
            "Divided by the temperature",
            "Queries are multiplied by the temperature, which makes weights sharper.",
            _scale_queries(lambda q, at, a, n: 1 / _tau(at + 1, a, n)),
        ),
        Misconception(
            "Root of the temperature",
            "Keys are unchanged, so queries take the whole factor.",
            _scale_queries(lambda q, at, a, n: _tau(at + 1, a, n) ** 0.5),
        ),
        Misconception(
            "Temperature applied twice",
            "Logits take the temperature once, through the query.",
            _scale_queries(lambda q, at, a, n: _tau(at + 1, a, n) ** 2),
        ),
        Misconception(
            "No floor",
            "Llama 4's temperature grows in steps.",
            _scale_queries(
                lambda q, at, a, n: (1 + a * torch.log(1 + (at + 1) / n))[:, None]
            ),
        ),
        Misconception(
            "Rounded to the nearest",
            "A floor rounds down.",
            _scale_queries(
                lambda q, at, a, n: _tau(torch.round((at + 1) / n) * n, a, n)
            ),
        ),
        Misconception(
            "Rounded up",
            "A floor rounds down: below L nothing grows yet.",
            _scale_queries(
                lambda q, at, a, n: _tau(torch.ceil((at + 1) / n) * n, a, n)
            ),
        ),
        Misconception(
            "Logarithm rounded down",
            "n/L is rounded down, before the logarithm.",
            _scale_queries(
                lambda q, at, a, n: (
                    1 + a * torch.floor(torch.log(1 + (at + 1) / n))[:, None]
                )
            ),
        ),
        Misconception(
            "1 inside added twice",
            "1 is added to the floor once, so below L nothing grows yet.",
            _scale_queries(lambda q, at, a, n: _tau(at + 1 + n, a, n)),
        ),
        Misconception(
            "Power in place of the logarithm",
            "Llama 4's temperature has a logarithm, and it grows in steps.",
            _scale_queries(lambda q, at, a, n: ((1 + (at + 1) / n) ** a)[:, None]),
        ),
        Misconception(
            "1 outside forgotten",
            "Where nothing grows yet, the queries stay as they are.",
            _scale_queries(lambda q, at, a, n: _tau(at + 1, a, n) - 1),
        ),
        Misconception(
            "Inkling's formula",
            "Inkling's formula has no steps, and is 1 up to L. Llama 4's has steps.",
            _scale_queries(
                lambda q, at, a, n: (
                    1 + a * torch.log(torch.clamp((at + 1) / n, min=1))
                )[:, None]
            ),
        ),
        Misconception(
            "Temperature added",
            "A temperature multiplies.",
            lambda q, at, a, n: q + _tau(at + 1, a, n),
        ),
        Misconception(
            "The logarithm to base 2",
            "Logarithms are natural.",
            lambda q, positions, alpha, length: scale_queries(
                q, positions, alpha / np.log(2), length
            ),
        ),
        Misconception(
            "1 inside forgotten",
            "At L the floor of n/L is 1, and 1 is added to it: the first step is "
            "there.",
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
            "For α = 0 the queries are unchanged",
            lambda answer, q, positions, alpha, length: bool(
                torch.allclose(answer(q, positions, 0.0, length), q)
            ),
        ),
    ),
    explanation=r"""
The temperature belongs to the query: its $n$ is the number of keys that this query sees, and each key is seen by many queries.
A factor of the keys would be the same for all of them, and the keys in a cache were written when the text was shorter.
Multiplied to the query, it multiplies the whole row of scores, before a rotation or after it, and nothing in the cache goes stale.
With a cache the first query of a call is not token 1, so count from `positions`.
""",
)


# temperature-6: a temperature that keeps the entropy


def entropies(scores, tau):
    """Return the entropy of each query's attention weights in nats, [rows], float64.

    A query's weights are the softmax of ``tau`` times the query's row of ``scores``,
    [rows, keys].
    """
    logits = tau * scores
    logits = logits - logits.max(-1, keepdims=True)
    weights = np.exp(logits)
    total = weights.sum(-1)
    return np.log(total) - (weights * logits).sum(-1) / total


def _entropy(
    logits=lambda s, tau: tau * s,
    log=np.log,
    end=lambda h: h,
):
    """Make a wrong answer (a function) to the exercise ``entropies``.

    The exercise asks for entropies of attention weights. The wrong answer sums a log a
    over the weights a, which is NaN where a weight is 0. ``logits(scores, tau)`` can
    replace the logits τ s, ``log`` the logarithm of the weights, and ``end`` is applied
    to the entropies; the defaults change nothing.
    """

    def answer(scores, tau):
        z = logits(scores, tau)
        z = z - z.max(-1, keepdims=True)
        with np.errstate(all="ignore"):
            a = np.exp(z) / np.exp(z).sum(-1, keepdims=True)
            return end(-(a * log(a)).sum(-1))

    return answer


def _overflowing(scores, tau):
    with np.errstate(all="ignore"):
        a = np.exp(tau * scores)
        a = a / a.sum(-1, keepdims=True)
    return -(a * np.log(np.maximum(a, 1e-300))).sum(-1)


ENTROPY = Exercise(
    name="temperature-6",
    title="A temperature that keeps the entropy",
    kind="experiment",
    minutes=15,
    lines=5,
    statement=r"""
Each row of `scores`, `[rows, keys]`, belongs to one query.
Return the entropy of its weights at the temperature `tau`, in nats: `[rows]`, float64, finite also where weights underflow to 0 or scores are in the thousands.
Then draw 20 rows of normal scores for $n$ = 64, 1024 and 16,384 and print the mean at $\tau = 1$ and at $\tau = \sqrt{1 + 2 \log(n/64)}$.
By how much does the entropy grow at each of the two?
And if all scores are equal?
""",
    hint=r"""
A weight may underflow to 0, and 0 log 0 is NaN for a computer.
Write the entropy with the logarithm of the sum.
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
            "0 log 0 computed",
            "Where weights underflow, 0 log 0 gives NaN.",
            _entropy(),
        ),
        Misconception(
            "NaN replaced after the sum",
            "One weight of 0 makes the whole sum NaN, and NaN replaced by 0 loses the "
            "other weights.",
            _entropy(end=np.nan_to_num),
        ),
        Misconception(
            "A small number in the logarithm",
            "Even 10⁻⁶ changes every entropy. A weight of 0 contributes 0 and needs no "
            "logarithm.",
            _entropy(log=lambda a: np.log(a + 1e-6)),
        ),
        Misconception(
            "Scores clipped",
            "Clipped scores are other scores. Subtract the largest logit of the row.",
            lambda scores, tau: entropies(np.clip(tau * scores, -700, 700), 1.0),
        ),
        Misconception(
            "Exponentials that overflow",
            "Subtract the largest logit of the row first.",
            _overflowing,
        ),
        Misconception(
            "Divided by the temperature",
            "τ multiplies scores: it is an inverse temperature.",
            _entropy(logits=lambda s, tau: s / tau, end=np.nan_to_num),
        ),
        Misconception(
            "Temperature forgotten",
            "Scores are multiplied by the temperature.",
            _entropy(logits=lambda s, tau: s, end=np.nan_to_num),
        ),
        Misconception(
            "Bits in place of nats",
            "Nats have the natural logarithm.",
            lambda scores, tau: entropies(scores, tau) / np.log(2),
        ),
        Misconception(
            "Wrong sign",
            "An entropy is not negative.",
            lambda scores, tau: -entropies(scores, tau),
        ),
        Misconception(
            "A share of the largest entropy",
            "The entropy is asked for in nats, not as a share of log n.",
            lambda scores, tau: entropies(scores, tau) / np.log(scores.shape[-1]),
        ),
        Misconception(
            "Effective number of keys",
            "Your answer is the exponential of the entropy, which is asked for.",
            lambda scores, tau: np.exp(entropies(scores, tau)),
        ),
        Misconception(
            "Mean over the rows",
            "One number for each row is asked for.",
            lambda scores, tau: np.full(len(scores), entropies(scores, tau).mean()),
        ),
        Misconception(
            "Largest entropy",
            "log n is the entropy of equal weights. It is lower where scores differ.",
            lambda scores, tau: np.full(len(scores), np.log(scores.shape[-1])),
        ),
        Misconception(
            "Causal mask",
            "Each row is one query, and all of its keys are seen.",
            lambda scores, tau: entropies(
                np.where(np.tri(*scores.shape, dtype=bool), scores, -1e9), tau
            ),
        ),
        Misconception(
            "Limit of normal scores",
            "log n − τ²v/2 is a limit, and holds for normal scores alone.",
            lambda scores, tau: np.log(scores.shape[-1]) - tau**2 * scores.var(-1) / 2,
        ),
        Misconception(
            "Logarithm of the sum alone",
            "Subtract the mean of the logits.",
            lambda scores, tau: np.log(
                np.exp(tau * (scores - scores.max(-1, keepdims=True))).sum(-1)
            ),
        ),
    ),
    properties=(
        Property(
            "Scores that are all larger by 1 have the same entropy",
            lambda answer, scores, tau: bool(
                np.allclose(answer(scores + 1, tau), answer(scores, tau))
            ),
        ),
        Property(
            "At τ = 0 the entropy is log n",
            lambda answer, scores, tau: bool(
                np.allclose(answer(scores, 0.0), np.log(scores.shape[-1]))
            ),
        ),
    ),
    level="optional",
    explanation=r"""
At $\tau = 1$ the mean grows from 3.7 to 9.2 nats, as $\log n$ does.
At the second temperature it grows to 4.6 only: {prf:ref}`the theorem on the entropy of random scores <thm-temperature-normal>` makes this temperature keep the entropy in the limit of many keys and a fixed ratio of lengths, and 64 keys are not many.
If all scores are equal, the entropy is $\log n$ at every temperature: {ref}`equal scores stay equal when they are multiplied <err-scaling-equal>`.
In code, $\log Z - \sum a\,\ell$ with the shifted logits $\ell$ and the sum $Z$ of their exponentials needs no logarithm of a weight, so a weight of 0 does no harm.
""",
)


# temperature-7: the order of the layers


def colleagues_seen(layers, tokens):
    """Return on how many tokens each output can depend."""
    seen = np.eye(tokens, dtype=bool)
    query, key = np.indices((tokens, tokens))
    for kind, size in layers:
        allowed = key <= query
        if kind == "window":
            allowed = allowed & (query - key < size)
        if kind == "chunks":
            same_chunk = query // size == key // size
            allowed = allowed & same_chunk
        seen = seen @ allowed
    return seen.sum(axis=1)


def layers_that_differ():
    """Return `(layers, tokens)`, few tokens with a wrong `colleagues_seen`."""
    return [("window", 2), ("chunks", 2)], 3


LAYER_ORDER = Exercise(
    name="temperature-7",
    title="Find the input: the order of the layers",
    kind="find the input",
    minutes=8,
    lines=1,
    statement=r"""
`colleagues_seen` should do what exercise temperature-4 asks for.
Her tests are two windows of 3 and 2, chunks of 3 twice, and chunks of 4 before a global-attention layer, each for 9 tokens; they pass.
Return `(layers, tokens)` with as few tokens as possible for which it is wrong, with at most four layers.
Which stacks of layers give the same result in both orders?
""",
    hint=r"""
Layers of which two kinds must the stack contain?
Does a token see more if the chunk or the window comes last?
""",
    cases=((),),
    solution=layers_that_differ,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_seen,
        right=tokens_seen,
        tested=(
            ([("window", 3), ("window", 2)], 9),
            ([("chunks", 3), ("chunks", 3)], 9),
            ([("chunks", 4), ("full", 0)], 9),
        ),
        refusal=lambda layers, tokens: (
            ""
            if type(tokens) is int
            and 0 < tokens <= 50
            and 0 < len(layers) <= 4
            and all(
                kind == "full" or (kind in ("window", "chunks") and size >= 1)
                for kind, size in layers
            )
            else "layers has 1 to 4 pairs, with the kinds 'window', 'chunks' (sizes of "
            "1 or more) and 'full', and tokens is an integer from 1 to 50"
        ),
        size=lambda layers, tokens: tokens,
        size_of="number of tokens",
    ),
    explanation=r"""
She multiplies the mask of the next layer from the right, which puts the layers in reverse order.
Windows among themselves commute, chunks of one size do, and a global-attention layer sees everything wherever it stands; a window and chunks in general do not.
With 3 tokens, a window of 2 and then chunks of 2, token 2 is alone in its chunk and sees 2 tokens through the window; in the reverse order its window reaches token 1, which has seen token 0 as well.
With 2 tokens every layer sees either the token alone or everything, and these commute.
""",
)


SHEET = Sheet(
    title="Temperature, and layers without rotation",
    conventions=r"""
Positions $i$ count from 0.
A temperature $\tau$ multiplies scores, so that a larger one is sharper; logarithms are natural.
A window $w$ has the offsets $0, \dots, w - 1$.
""",
    example=r"""
from posedu.numpy.scaling import log_n_temperature

heads = dict(slope=np.ones(2), offset=np.array([0.0, 1.0]))
growth = dict(growth="learned", index_from=1)
tau = log_n_temperature([0, 1, 2], **growth, **heads)
print(np.round(tau, 3))  # [heads, tokens]
""",
    figure="temperature_explorable",
    exercises=(
        TEMPERATURE,
        FIRST,
        FORMULAS,
        TOKENS_SEEN,
        SCALE_QUERIES,
        ENTROPY,
        LAYER_ORDER,
    ),
)
