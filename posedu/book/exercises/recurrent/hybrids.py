"""Exercises on hybrid models: which layers recur, what they cache, how they leak."""

import numpy as np
import sympy as sp
import torch

from posedu.book.exercises.records import (
    Exercise,
    Hunt,
    Misconception,
    Prediction,
    Property,
    Repair,
    Sheet,
    draw,
)

# hybrids-1: the crossover


def crossover(heads, k, v, kv_heads, d):
    """Length at which a layer's keys and values take as much memory as a state.

    The state has ``k`` × ``v`` numbers in each of ``heads`` heads, 4 bytes each; the
    attention layer caches a key and a value of ``d`` numbers for each of ``kv_heads``
    heads and each token, 2 bytes each. A float.
    """
    return 4 * heads * k * v / (2 * 2 * kv_heads * d)


CROSSOVER = Exercise(
    name="hybrids-1",
    title="The crossover",
    kind="by hand",
    minutes=6,
    lines=1,
    statement=r"""
A recurrent layer has a state of $K \times V$ numbers in each of $H$ heads, in float32.
An attention layer of the same model caches a key and a value of $d$ features for each of its key-value heads and each token, in bfloat16.
At how many tokens do the two take the same memory?
Leave the convolution out.
How does the answer change when there are half as many key-value heads?
""",
    hint=r"""
Count bytes: a float32 has four, a bfloat16 two.
""",
    cases=(
        (1, 2, 2, 1, 2),
        (2, 4, 8, 1, 4),
        (3, 5, 7, 2, 6),
        (32, 128, 128, 2, 256),
        (48, 128, 128, 4, 256),
        (30, 96, 192, 30, 128),
    ),
    solution=crossover,
    misconceptions=(
        Misconception(
            "Keys without values",
            "A token's value is cached as well as its key.",
            lambda h, k, v, n, d: 4 * h * k * v / (2 * n * d),
        ),
        Misconception(
            "Equal bytes",
            "The state is in float32, keys and values are in bfloat16.",
            lambda h, k, v, n, d: h * k * v / (2 * n * d),
        ),
        Misconception(
            "Bytes exchanged",
            "The state has 4 bytes a number, keys and values have 2.",
            lambda h, k, v, n, d: 2 * h * k * v / (4 * 2 * n * d),
        ),
        Misconception(
            "One head of the state",
            "Each head has a state of its own.",
            lambda h, k, v, n, d: k * v / (n * d),
        ),
        Misconception(
            "One key-value head",
            "Each key-value head caches keys and values of its own.",
            lambda h, k, v, n, d: h * k * v / d,
        ),
        Misconception(
            "A vector in place of a matrix",
            "The state of a head is a matrix of K × V numbers.",
            lambda h, k, v, n, d: h * (k + v) / (n * d),
        ),
        Misconception(
            "A square state",
            "Values may have another width than keys.",
            lambda h, k, v, n, d: h * k * k / (n * d),
        ),
        Misconception(
            "Query heads cached",
            "Keys are cached once for each key-value head.",
            lambda h, k, v, n, d: k * v / d,
        ),
        Misconception(
            "The inverse",
            "This is the state's share of one token. Divide the state by the token.",
            lambda h, k, v, n, d: n * d / (h * k * v),
        ),
        Misconception(
            "Bytes in place of tokens",
            "These are the state's bytes. How many tokens have as many?",
            lambda h, k, v, n, d: 4.0 * h * k * v,
        ),
    ),
    properties=(
        Property(
            "Half the key-value heads double the length",
            lambda answer, h, k, v, n, d: bool(
                np.isclose(answer(h, k, v, n, d), 2 * answer(h, k, v, 2 * n, d))
            ),
        ),
    ),
    explanation=r"""
The state has $4 H K V$ bytes and a token $2 \cdot 2\, H_{\text{kv}} d$, so the length is $H K V / (H_{\text{kv}} d)$: {prf:ref}`the crossover <def-hybrid-crossover-box>` without its convolution.
Qwen3-Next's state equals 1024 tokens.
Half the key-value heads double the length: the less attention caches, the longer a text must be before a state saves anything.
""",
    prediction=Prediction(
        "A layer has 32 heads with states of 128 × 128, and the attention 2 key-value heads of 256 features. At how many tokens are they equal?",
        lambda: crossover(32, 128, 128, 2, 256),
        near=0.1,
    ),
)


# hybrids-2: a convolution as a matrix


def convolution_matrix(taps, length):
    """The matrix [length, length] whose product with a feature is its convolution.

    ``taps`` are w numbers, the last one for the token itself; tokens before the first
    count as zeros. float64.
    """
    matrix = np.zeros((length, length))
    for s, tap in enumerate(reversed(taps)):
        matrix += tap * np.eye(length, k=-s)
    return matrix


def _shifted(place, tap=lambda taps, s: taps[len(taps) - 1 - s]):
    def answer(taps, length):
        matrix = np.zeros((length, length))
        for s in range(len(taps)):
            matrix += tap(taps, s) * place(length, s)
        return matrix

    return answer


def _circular(length, s):
    return np.roll(np.eye(length), s, axis=0)


MATRIX = Exercise(
    name="hybrids-2",
    title="A convolution as a matrix",
    kind="NumPy",
    minutes=8,
    lines=4,
    statement=r"""
A short convolution sums a feature of the token itself and of the $w - 1$ tokens before it, each times its tap.
Write it as a matrix with a row for each output.
The last tap is for the token itself.
What do all entries of a diagonal have in common, and which diagonals are zero?
""",
    hint=r"""
`np.eye(n, k=-s)` has ones $s$ places below the diagonal.
""",
    cases=(
        (np.array([0.5, 1.0]), 3),
        (np.array([2.0, 3.0, 5.0]), 4),
        (draw(4, seed=1), 6),
        (draw(4, seed=2), 2),
        (np.array([3.0]), 3),
        (draw(3, seed=3), 1),
    ),
    solution=convolution_matrix,
    misconceptions=(
        Misconception(
            "Taps in reverse order",
            "The last tap is for the token itself, on the diagonal.",
            _shifted(lambda n, s: np.eye(n, k=-s), lambda taps, s: taps[s]),
        ),
        Misconception(
            "Later tokens",
            "An output may not read later tokens: the entries lie below the diagonal.",
            _shifted(lambda n, s: np.eye(n, k=s)),
        ),
        Misconception(
            "A circle",
            "The first tokens read zeros, and not the end of the text.",
            _shifted(_circular),
        ),
        Misconception(
            "The own token left out",
            "The last tap is for the token itself, not for the one before it.",
            _shifted(lambda n, s: np.eye(n, k=-s - 1)),
        ),
        Misconception(
            "Centered taps",
            "The convolution is causal: it looks back only.",
            lambda taps, n: sum(
                tap * np.eye(n, k=s - len(taps) // 2) for s, tap in enumerate(taps)
            ),
        ),
        Misconception(
            "Only the own token",
            "The tokens before have taps, too.",
            lambda taps, n: taps[-1] * np.eye(n),
        ),
        Misconception(
            "Taps in rows",
            "Each row has the same taps, shifted by one place.",
            lambda taps, n: np.pad(
                np.broadcast_to(taps[::-1][:n], (n, len(taps[:n]))),
                ((0, 0), (0, max(n - len(taps), 0))),
            ),
        ),
        Misconception(
            "Normalized",
            "The taps are used as they are.",
            lambda taps, n: convolution_matrix(taps / taps.sum(), n),
        ),
    ),
    properties=(
        Property(
            "The last column is the tap of the token itself, in the last row alone",
            lambda answer, taps, n: bool(np.isclose(answer(taps, n)[-1, -1], taps[-1])),
        ),
    ),
    explanation=r"""
Entry $(i, j)$ is the tap of the offset $i - j$, so each diagonal is constant (a Toeplitz matrix), and all diagonals from $w$ on are zero, {eq}`eq-hybrid-toeplitz`.
It is a position that depends on the offset alone, as a bias by distance does, with $w$ trained numbers.
""",
)


# hybrids-3: which layers attend


def attends(config):
    """Layers with attention: an array of bools, from layer 0 on.

    ``config`` has one of: ``layer_types``, a list in which "linear_attention" is a
    recurrence; ``hybrid_override_pattern``, a text in which "*" is attention;
    ``linear_attn_config`` with ``full_attn_layers``, which count from 1; or
    ``full_attention_interval`` k, where every k-th layer has attention. The last two
    have ``num_hidden_layers``, too.
    """
    if "layer_types" in config:
        kinds = config["layer_types"]
        return np.array([kind != "linear_attention" for kind in kinds])
    if "hybrid_override_pattern" in config:
        return np.array([c == "*" for c in config["hybrid_override_pattern"]])
    layers = np.arange(1, config["num_hidden_layers"] + 1)
    if "linear_attn_config" in config:
        return np.isin(layers, config["linear_attn_config"]["full_attn_layers"])
    return layers % config["full_attention_interval"] == 0


def _attends(first=1, start=1, letter="*", flip=False):
    def answer(config):
        if "layer_types" in config or "hybrid_override_pattern" in config:
            if letter != "*" and "hybrid_override_pattern" in config:
                pattern = config["hybrid_override_pattern"]
                return np.array([c in letter for c in pattern])
            return attends(config) ^ flip
        n = config["num_hidden_layers"]
        if "linear_attn_config" in config:
            listed = config["linear_attn_config"]["full_attn_layers"]
            return np.isin(np.arange(first, n + first), listed) ^ flip
        every = config["full_attention_interval"]
        return (np.arange(start, n + start) % every == 0) ^ flip

    return answer


def _types(*kinds):
    names = {"r": "linear_attention", "f": "full_attention", "s": "sliding_attention"}
    return {"layer_types": [names[kind] for kind in kinds]}


ATTENDS = Exercise(
    name="hybrids-3",
    title="Which layers attend",
    kind="NumPy",
    minutes=10,
    lines=8,
    statement=r"""
Four families say in four ways which of their layers have attention.
Read all four, and return a bool for each layer.
In `hybrid_override_pattern` M is Mamba-2, `*` attention, and `-` and E are MLPs.
Windowed attention is attention, too.
Which of the four count layers from 1?
""",
    hint=r"""
With an interval of 4 the layers 3, 7, 11, … have attention, counted from 0.
""",
    cases=(
        (_types("r", "f"),),
        ({"hybrid_override_pattern": "M*"},),
        ({"num_hidden_layers": 3, "linear_attn_config": {"full_attn_layers": [2]}},),
        ({"num_hidden_layers": 5, "full_attention_interval": 2},),
        (_types("r", "s", "r", "f"),),
        ({"hybrid_override_pattern": "ME-*E"},),
        (
            {
                "num_hidden_layers": 9,
                "linear_attn_config": {"full_attn_layers": [4, 8, 9]},
            },
        ),
        ({"num_hidden_layers": 12, "full_attention_interval": 4},),
        ({"num_hidden_layers": 3, "full_attention_interval": 4},),
    ),
    solution=attends,
    misconceptions=(
        Misconception(
            "Kimi's layers counted from 0",
            "`full_attn_layers` counts from 1.",
            _attends(first=0),
        ),
        Misconception(
            "The interval counted from 0",
            "Every k-th layer: the first one with attention is layer k − 1.",
            _attends(start=0),
        ),
        Misconception(
            "The interval one layer late",
            "The first layer with attention is layer k − 1, counted from 0.",
            _attends(start=-1),
        ),
        Misconception(
            "MLPs taken for attention",
            "`-` and `E` are MLPs: they mix no tokens.",
            _attends(letter="*-E"),
        ),
        Misconception(
            "Mamba taken for attention",
            "M is Mamba-2, a recurrence.",
            _attends(letter="M"),
        ),
        Misconception(
            "Recurrences marked",
            "True stands for attention here.",
            _attends(flip=True),
        ),
        Misconception(
            "Only full attention counted",
            "A window is attention as well.",
            lambda config: (
                np.array([k == "full_attention" for k in config["layer_types"]])
                if "layer_types" in config
                else attends(config)
            ),
        ),
        Misconception(
            "Linear attention taken for attention",
            "`linear_attention` is transformers' name for most recurrences.",
            lambda config: (
                np.array(["attention" in k for k in config["layer_types"]])
                if "layer_types" in config
                else attends(config)
            ),
        ),
    ),
    explanation=r"""
`layer_types` and the pattern have an entry for each layer; `full_attn_layers` counts from 1, and an interval of $k$ means layers $k - 1, 2k - 1, \dots$ counted from 0.
What is not attention has no rotation, whatever `rope_parameters` says: {ref}`err-hybrids-rope`.
""",
)


# hybrids-4: a state that skips padding


def final_state(values, padding):
    """The state after all tokens, a float.

    A token halves the state and adds its value; padding (True) changes nothing.
    """
    state = 0.0
    for t in range(len(values)):
        if not padding[t]:
            state = 0.5 * state + values[t]
    return state


def colleagues_state(values, padding):
    """The state after all tokens; padding writes zero."""
    state = 0.0
    for value, hidden in zip(values, padding, strict=True):
        state = 0.5 * state + (0.0 if hidden else value)
    return state


def _stepwise(step):
    """Make a wrong answer to the exercise ``final_state`` of one step."""

    def answer(values, padding):
        state = 0.0
        for value, hidden in zip(values, padding, strict=True):
            state = step(state, value, hidden)
        return state

    return answer


PADDED = Exercise(
    name="hybrids-4",
    title="A state that skips padding",
    kind="NumPy",
    minutes=6,
    lines=4,
    statement=r"""
In a recurrence of one number every token halves the state and adds its value.
Padding may stand anywhere in the row, and must change nothing.
Return the state after the last token.
At which places would values of zero for the padding give the same state?
""",
    hint=r"""
What a token does to the state has two parts.
""",
    cases=(
        ([1.0, 2.0], [False, False]),
        ([1.0, 5.0], [False, True]),
        ([3.0, 1.0, 2.0], [True, False, False]),
        ([2.0, 7.0, 4.0], [False, True, False]),
        ([1.5, -2.0, 3.0, 8.0, 9.0], [False, False, False, True, True]),
        ([3.0], [True]),
    ),
    solution=final_state,
    misconceptions=(
        Misconception(
            "Padding as a value of zero",
            "Padding writes nothing now, but it still halves the state.",
            colleagues_state,
        ),
        Misconception(
            "Padding kept",
            "Padding enters the state as a token would.",
            _stepwise(lambda s, v, hidden: 0.5 * s + v),
        ),
        Misconception(
            "Values halved, too",
            "A token's own value is not halved by its own gate.",
            _stepwise(lambda s, v, hidden: s if hidden else 0.5 * (s + v)),
        ),
        Misconception(
            "Nothing decays",
            "Each token that is no padding halves the state.",
            _stepwise(lambda s, v, hidden: s if hidden else s + v),
        ),
        Misconception(
            "The state emptied by padding",
            "Padding changes nothing, and so keeps the state.",
            _stepwise(lambda s, v, hidden: 0.0 if hidden else 0.5 * s + v),
        ),
        Misconception(
            "The mask inverted",
            "True in `padding` is padding.",
            _stepwise(lambda s, v, hidden: 0.5 * s + v if hidden else s),
        ),
        Misconception(
            "Padding written without decay",
            "Padding writes nothing.",
            _stepwise(lambda s, v, hidden: s + v if hidden else 0.5 * s + v),
        ),
    ),
    explanation=r"""
Padding must neither write nor decay: the state passes it as it is.
Values of zero do the first alone, so they are right in front of a text, where the state is 0, and wrong everywhere else, {prf:ref}`thm-hybrid-padding`.
""",
)


# hybrids-5: padding behind a text


def padded_text():
    """Return a smallest input on which `colleagues_state` is wrong.

    The answer is (values, padding).
    """
    return [1.0, 0.0], [False, True]


def _refused_text(values, padding):
    for name, given, kinds in (
        ("values", values, {float, int}),
        ("padding", padding, {bool}),
    ):
        if not isinstance(given, list) or not 0 < len(given) <= 99:
            return f"{name} are a list of 1 to 99 entries"
        if not {*map(type, given)} <= kinds:
            return f"{name} are a list of {'bools' if kinds == {bool} else 'numbers'}"
    if len(values) != len(padding):
        return "there are as many values as entries of padding"
    if not all(abs(value) < 1e9 for value in values):
        return "values are below 10⁹"
    return ""


HUNT = Exercise(
    name="hybrids-5",
    title="Find the input: padding",
    kind="find the input",
    minutes=6,
    lines=1,
    statement=r"""
`colleagues_state` should do what exercise hybrids-4 asks for; it sets the values of padding to zero.
Her tests are texts with padding in front, and all pass.
Find an input on which she is wrong; the smallest has the fewest tokens.
Why can padding in front never show her mistake?
""",
    hint=r"""
What does a token with the value zero do to a state that is not zero?
""",
    cases=((),),
    solution=padded_text,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_state,
        right=final_state,
        tested=(
            ([1.0, 2.0], [False, False]),
            ([0.0, 1.0], [True, False]),
            ([5.0, 7.0, 1.0, 2.0], [True, True, False, False]),
        ),
        refusal=_refused_text,
        size=lambda values, padding: len(values),
        size_of="number of tokens",
    ),
    explanation=r"""
A token with the value zero writes nothing and still halves the state, {prf:ref}`thm-hybrid-padding`.
In front of a text the state is 0, and half of it is 0; one token of padding behind a text is enough to see the mistake.
A batch of prompts that is padded on the right and then continued has such padding in the middle.
""",
)


# hybrids-6: near states are alike


def mean_product(i, j, a):
    """Mean of the product of two states, a SymPy expression in the symbol ``a``.

    The states are h_t = a h_(t−1) + x_t with h_(−1) = 0; the inputs are independent,
    with mean 0 and mean square 1. 0 ≤ ``j`` ≤ ``i`` are integers.
    """
    return sum(a ** (i - s) * a ** (j - s) for s in range(j + 1))


def _summed(power, stop=lambda i, j: j + 1, start=lambda i, j: 0):
    return lambda i, j, a: sp.Add(
        *(power(i, j, s, a) for s in range(start(i, j), stop(i, j)))
    )


def _both(i, j, s, a):
    return a ** (i + j - 2 * s)


_A = sp.Symbol("a", positive=True)

PRODUCT = Exercise(
    name="hybrids-6",
    title="Near states are alike",
    kind="SymPy",
    minutes=10,
    lines=1,
    statement=r"""
A layer of attention without positions stands above a recurrence with the constant gate $a$.
Its inputs are the states $h_t = a\, h_{t-1} + x_t$, $h_{-1} = 0$, of one feature.
The $x_t$ are independent, with mean 0 and mean square 1.
What is the mean of $h_i h_j$ for $j \le i$?
What does it become far from the start of the text?
""",
    hint=r"""
Write both states as sums of inputs.
Only the products of an input with itself have a mean other than 0.
""",
    cases=(
        (0, 0, _A),
        (1, 0, _A),
        (1, 1, _A),
        (3, 1, _A),
        (4, 4, _A),
        (6, 2, _A),
    ),
    solution=mean_product,
    misconceptions=(
        Misconception(
            "Only the distance",
            "That is the share deep in the text. The first states are sums of few "
            "inputs.",
            lambda i, j, a: a ** (i - j),
        ),
        Misconception(
            "In the limit of a long text",
            "The first states have fewer inputs; the sum is finite.",
            lambda i, j, a: a ** (i - j) / (1 - a**2),
        ),
        Misconception(
            "One input too few",
            "Both states contain the input of token j itself.",
            _summed(_both, lambda i, j: j),
        ),
        Misconception(
            "Inputs of the later state, too",
            "The state of token j does not contain later inputs.",
            _summed(_both, lambda i, j: i + 1),
        ),
        Misconception(
            "The first input left out",
            "Both states contain the input of token 0.",
            _summed(_both, start=lambda i, j: 1),
        ),
        Misconception(
            "The older state not decayed",
            "In the state of token j its earlier inputs have decayed as well.",
            _summed(lambda i, j, s, a: a ** (i - s)),
        ),
        Misconception(
            "The distance forgotten",
            "From token j to token i all inputs decay i − j times more.",
            _summed(lambda i, j, s, a: a ** (2 * (j - s))),
        ),
        Misconception(
            "The inputs not decayed",
            "An input that is n tokens old is in the state with the factor aⁿ.",
            _summed(lambda i, j, s, a: sp.Integer(1)),
        ),
        Misconception(
            "The newest input decayed",
            "A token's own input is not decayed by its own gate.",
            _summed(lambda i, j, s, a: a ** (i + j - 2 * s + 2)),
        ),
    ),
    explanation=r"""
$h_i = \sum_{s \le i} a^{i-s} x_s$, so the mean is $\sum_{s=0}^{j} a^{i-s} a^{j-s}$, which is the geometric sum {eq}`eq-hybrid-recency`.
Far from the start it is $a^{i-j}$ times the mean square of a state: attention without positions gets inputs that are the more alike the nearer they are.
""",
)


# hybrids-7: the convolution of packed texts


def packed_convolution(x, taps, segments):
    """The short convolution of texts in one row, [tokens, channels], dtype of x.

    ``x`` is [tokens, channels], ``taps`` [channels, width] with the last tap for the
    token itself, and ``segments`` [tokens] are the numbers of the texts, which stand
    one after the other. A text reads zeros before its first token.
    """
    out = torch.zeros_like(x)
    width = taps.shape[1]
    for s in range(min(width, len(x))):
        same = segments[s:] == segments[: len(x) - s]
        out[s:] += taps[:, width - 1 - s] * x[: len(x) - s] * same[:, None]
    return out


def _convolved(same, tap=lambda taps, s: taps[:, taps.shape[1] - 1 - s], most=None):
    def answer(x, taps, segments):
        out = torch.zeros_like(x)
        for s in range(min(most or taps.shape[1], taps.shape[1], len(x))):
            kept = same(segments, s)[:, None]
            out[s:] += tap(taps, s) * x[: len(x) - s] * kept
        return out

    return answer


def _same(segments, s):
    return segments[s:] == segments[: len(segments) - s]


def _everywhere(segments, s):
    return torch.ones(len(segments) - s, dtype=torch.bool)


def _texts(*numbers, seed=0, channels=2, width=4):
    return (
        torch.tensor(draw(len(numbers), channels, seed=seed)),
        torch.tensor(draw(channels, width, seed=seed + 50)),
        torch.tensor(numbers),
    )


PACKED = Exercise(
    name="hybrids-7",
    title="The convolution of packed texts",
    kind="PyTorch",
    minutes=12,
    lines=6,
    statement=r"""
Several texts stand one after the other in one row, and `segments` says which token is of which text.
Convolve every channel over a token and the $w - 1$ tokens before it, and let no text read another.
How many tokens of a text would be wrong without `segments`, and how many with a state behind the convolution?
""",
    hint=r"""
For each number $s$ of tokens back, compare the text of a token with that of the token $s$ places before it.
""",
    cases=(
        _texts(0, 1, channels=1, width=2),
        _texts(0, 0, 0, channels=1, width=2, seed=1),
        _texts(0, 0, 1, 1, 1, seed=2),
        _texts(0, 1, 2, 3, seed=3, width=3),
        _texts(0, 0, 0, 0, 0, 0, 5, 5, seed=4, channels=3),
        _texts(2, seed=5, channels=3),
        _texts(*[0] * 9, *[1] * 7, seed=6, channels=4),
    ),
    solution=packed_convolution,
    misconceptions=(
        Misconception(
            "Texts not separated",
            "The first tokens of a text read the end of the text before it.",
            _convolved(_everywhere),
        ),
        Misconception(
            "Taps in reverse order",
            "The last tap is for the token itself.",
            _convolved(_same, lambda taps, s: taps[:, s]),
        ),
        Misconception(
            "Only the first token of a text protected",
            "The second and third token reach over the boundary as well.",
            _convolved(
                lambda segments, s: (
                    _same(segments, s) if s == 1 else _everywhere(segments, s)
                )
            ),
        ),
        Misconception(
            "Texts exchanged",
            "A token reads its own text, and no other.",
            _convolved(
                lambda segments, s: (
                    ~_same(segments, s) if s else _everywhere(segments, s)
                )
            ),
        ),
        Misconception(
            "The token itself left out",
            "The last tap is for the token itself.",
            _convolved(lambda segments, s: _same(segments, s) & bool(s)),
        ),
        Misconception(
            "One tap too few",
            "The convolution reads w − 1 tokens before the token itself.",
            lambda x, taps, segments: _convolved(_same, most=max(taps.shape[1] - 1, 1))(
                x, taps, segments
            ),
        ),
        Misconception(
            "Only the token itself",
            "The tokens before it have taps, too.",
            _convolved(_same, most=1),
        ),
        Misconception(
            "First tokens of every text set to zero",
            "A first token reads itself; only what is before it counts as zero.",
            lambda x, taps, segments: (
                packed_convolution(x, taps, segments)
                * torch.cat((torch.zeros(1, dtype=torch.bool), _same(segments, 1)))[
                    :, None
                ]
            ),
        ),
    ),
    explanation=r"""
A token's output has a term for each tap whose token is of the same text.
Without `segments` the first $w - 1$ tokens of a text are wrong; a state behind them carries what they write to all later tokens, as {ref}`the cell on packing <hybrids-packing>` measures.
So a packed row needs two signals, one for the state and one for the convolution.
""",
)


# hybrids-8: half-lives before training


def half_lives(rates, biases, shares):
    """Half-lives in tokens at the given shares of all heads, float64, [shares].

    Head h has the gate exp(−A_h softplus(b_h)) with the numbers ``rates`` A_h and
    ``biases`` b_h, [heads]. Shares are from 0 to 1, as for `np.quantile`.
    """
    steps = np.logaddexp(0, biases)
    return np.quantile(np.log(2) / (rates * steps), shares)


def _half(life):
    return lambda rates, biases, shares: np.quantile(life(rates, biases), shares)


def _heads(n, seed):
    rng = np.random.default_rng(seed)
    shares = np.array([0.1, 0.5, 0.9])
    return rng.uniform(0.1, 16, n), rng.normal(-3, 2, n), shares


HALF = Exercise(
    name="hybrids-8",
    title="Half-lives before training",
    kind="experiment",
    minutes=8,
    lines=2,
    statement=r"""
Before training, and with an input of zero, a head's gate is $e^{-A \operatorname{softplus}(b)}$.
After how many tokens is half of its state left?
Return the quantiles of this number over the heads.
Then try $b = 1$ and $A$ uniform between 0 and 16, with which a class of transformers begins, and $\operatorname{softplus}(b)$ between 0.001 and 0.1: which of the two can remember a sentence?
""",
    hint=r"""
Solve $\alpha^n = \frac12$ for $n$.
`np.logaddexp(0, b)` is the softplus.
""",
    cases=(
        (np.array([1.0]), np.array([0.0]), np.array([0.5])),
        (np.array([1.0, 2.0]), np.array([0.0, 0.0]), np.array([0.0, 1.0])),
        (np.array([1.0, 1.0, 4.0]), np.array([0.0, -5.0, 1.0]), np.array([0.5])),
        _heads(5, 1),
        _heads(64, 2),
        (np.array([3.0]), np.array([-40.0]), np.array([0.25, 0.5])),
    ),
    solution=half_lives,
    misconceptions=(
        Misconception(
            "The gate in place of its half-life",
            "This is how much one token leaves. After how many tokens is it half?",
            _half(lambda A, b: np.exp(-A * np.logaddexp(0, b))),
        ),
        Misconception(
            "Time to 1/e",
            "After this many tokens 37 % are left; half is left earlier.",
            _half(lambda A, b: 1 / (A * np.logaddexp(0, b))),
        ),
        Misconception(
            "Logarithm to base 2",
            "The gate is a power of e: the number is ln 2 over its exponent.",
            _half(lambda A, b: np.log2(np.e) / (A * np.logaddexp(0, b))),
        ),
        Misconception(
            "No softplus",
            "The step is softplus(b), which is never negative.",
            _half(lambda A, b: np.log(2) / (A * np.where(b == 0, 1.0, b))),
        ),
        Misconception(
            "A sigmoid in place of the softplus",
            "softplus(b) is log(1 + eᵇ), the sigmoid's integral.",
            _half(lambda A, b: np.log(2) * (1 + np.exp(-b)) / A),
        ),
        Misconception(
            "An exponential in place of the softplus",
            "softplus(b) is log(1 + eᵇ); it equals eᵇ only for very negative b.",
            _half(lambda A, b: np.log(2) / (A * np.exp(b))),
        ),
        Misconception(
            "Multiplied by the rate",
            "A larger rate forgets faster.",
            _half(lambda A, b: np.log(2) * A / np.logaddexp(0, b)),
        ),
        Misconception(
            "The rate taken for its logarithm",
            "Here A itself is given, not its logarithm.",
            _half(lambda A, b: np.log(2) / (np.exp(A) * np.logaddexp(0, b))),
        ),
        Misconception(
            "Quantiles of the exponents",
            "A larger exponent has a shorter half-life, so their orders are opposite.",
            lambda A, b, shares: (
                np.log(2) / np.quantile(A * np.logaddexp(0, b), shares)
            ),
        ),
        Misconception(
            "The mean over the heads",
            "Quantiles are asked for: a few slow heads dominate the mean.",
            lambda A, b, shares: np.full(
                len(shares), (np.log(2) / (A * np.logaddexp(0, b))).mean()
            ),
        ),
    ),
    explanation=r"""
$\alpha^n = \frac12$ for $n = \ln 2 / (A \operatorname{softplus}(b))$.
With $b = 1$ half of the heads have forgotten half of their state after less than a tenth of a token: {ref}`what follows from it <err-hybrids-start>` is that models trained from scratch differ by their starting points first.
""",
    prediction=Prediction(
        "A = 8 and b = 1: after how many tokens is half of a state left?",
        lambda: float(half_lives(np.array([8.0]), np.array([1.0]), 0.5)),
        near=0.3,
    ),
)


# hybrids-9: repair a decoder's convolution


def decoded_convolution(x, taps):
    """The short convolution of x, token by token.

    ``x`` is [tokens, channels], ``taps`` [channels, width]
    with the last tap for the token itself. Of earlier
    tokens only what later ones need is kept. The result,
    [tokens, channels], has the dtype of x.
    """
    width = taps.shape[1]
    history = x.new_zeros(width - 1, x.shape[1])
    out = []
    for token in x:
        window = torch.cat((history, token[None]))
        out.append((window * taps.T).sum(0))
        history = window[1:]
    return torch.stack(out)


def _broken_decoded_convolution(x, taps):
    """The short convolution of x, token by token.

    ``x`` is [tokens, channels], ``taps`` [channels, width]
    with the last tap for the token itself. Of earlier
    tokens only what later ones need is kept. The result,
    [tokens, channels], has the dtype of x.
    """
    width = taps.shape[1]
    history = x.new_zeros(width - 1, x.shape[1])
    out = []
    for token in x:
        window = torch.cat((history, token[None]))
        out.append((window * taps.T).sum(0))
        history = window[:-1]
    return torch.stack(out)


def symptom_of_decoding(function):
    """Return the error of a sum of two ones."""
    ones = torch.ones(3, 1, dtype=torch.float64)
    taps = torch.ones(1, 2, dtype=torch.float64)
    return abs(function(ones, taps)[-1, 0].item() - 2)


def _stepped(window_of, history_of, taps_of=lambda taps: taps.T):
    def answer(x, taps):
        history, out = x.new_zeros(taps.shape[1] - 1, x.shape[1]), []
        for token in x:
            window = window_of(history, token[None])
            result = (window * taps_of(taps)).sum(0)
            out.append(result)
            history = history_of(window, history, result[None])
        return torch.stack(out)

    return answer


def _appended(history, token):
    return torch.cat((history, token))


def _draws(tokens, channels, width, seed):
    return (
        torch.tensor(draw(tokens, channels, seed=seed)),
        torch.tensor(draw(channels, width, seed=seed + 50)),
    )


REPAIR = Exercise(
    name="hybrids-9",
    title="Repair: a convolution that decodes",
    kind="repair",
    minutes=8,
    lines=1,
    statement=r"""
`decoded_convolution` computes a short convolution token by token, with a cache of $w - 1$ tokens.
Its first output is right, and then it forgets what it should keep.
Repair it, so that `symptom_of_decoding` gives 0.
How many tokens does the cache need, and why not $w$?
""",
    hint=r"""
Which of the $w$ tokens in `window` does no later token read?
""",
    cases=(
        (
            torch.tensor([[1.0], [2.0]], dtype=torch.float64),
            torch.tensor([[0.5, 1.0]], dtype=torch.float64),
        ),
        _draws(5, 1, 3, 1),
        _draws(6, 2, 4, 2),
        _draws(3, 3, 4, 3),
        _draws(4, 2, 2, 4),
        _draws(9, 4, 4, 5),
        _draws(3, 2, 1, 6),
    ),
    solution=decoded_convolution,
    misconceptions=(
        Misconception(
            "The newest token dropped",
            "The code is as it was: the history keeps zeros for ever.",
            _broken_decoded_convolution,
        ),
        Misconception(
            "The history in reverse order",
            "The window is ordered from the oldest token to the newest, as the taps "
            "are.",
            _stepped(_appended, lambda window, history, out: window[1:].flip(0)),
        ),
        Misconception(
            "Outputs kept",
            "The convolution reads inputs, not its own earlier outputs.",
            _stepped(
                _appended,
                lambda window, history, out: (
                    torch.cat((history[1:], out)) if len(history) else history
                ),
            ),
        ),
        Misconception(
            "Taps in reverse order",
            "The last tap is for the token itself.",
            _stepped(
                _appended,
                lambda window, history, out: window[1:],
                lambda taps: taps.T.flip(0),
            ),
        ),
        Misconception(
            "Repaired for the symptom only",
            "In `symptom_of_decoding` the width is 2, and all history is one token.",
            _stepped(
                _appended,
                lambda window, history, out: window[-1:].expand(history.shape),
            ),
        ),
        Misconception(
            "A running sum",
            "A convolution forgets what is more than w − 1 tokens old.",
            lambda x, taps: x.cumsum(0) * taps[:, -1],
        ),
    ),
    level="optional",
    explanation=r"""
A later token reads the $w - 1$ tokens before it, so the oldest of the window is what may go: `window[1:]`.
A cache of $w$ columns keeps one that no token reads.
Together with the state it is all that a recurrent layer remembers, {prf:ref}`whatever the text's length <def-hybrid-crossover-box>`.
""",
    repair=Repair(_broken_decoded_convolution, symptom_of_decoding),
)


SHEET = Sheet(
    title="Hybrids",
    conventions=r"""
Layers and tokens count from 0.
A convolution's taps are stored as $[\dots, w]$, the last one for the token itself; tokens before the first count as zeros.
""",
    example=r"""
from posedu.numpy.path import short_convolution

x = np.array([[1.0], [0.0], [0.0]])
print(short_convolution(x, np.array([[0.5, 2.0]]))[:, 0])
""",
    figure="hybrids_explorable",
    exercises=(
        *(CROSSOVER, MATRIX, ATTENDS, PADDED, HUNT),
        *(PRODUCT, PACKED, HALF, REPAIR),
    ),
)
