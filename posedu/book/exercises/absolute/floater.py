"""The exercises on positions that flow."""

import math

import numpy as np
import sympy as sp
import torch

from posedu.book.exercises.checker import Exercise, Misconception, Property, Sheet, draw

# floater-1: what a step multiplies by


def factor(z):
    """What one classical step on p' = λ p multiplies p by, z = λ s, expanded."""
    a = z
    b = z * (1 + a / 2)
    c = z * (1 + b / 2)
    d = z * (1 + c)
    return sp.expand(1 + (a + 2 * b + 2 * c + d) / 6)


_Z = sp.Symbol("z")

FACTOR = Exercise(
    name="floater-1",
    title="What a step multiplies by",
    kind="by hand",
    minutes=10,
    lines=5,
    statement=r"""
On paper: one step of length $s$ of the classical Runge–Kutta method on $p' = \lambda p$ multiplies $p$ by a polynomial of $z = \lambda s$.
Return it, expanded, as a SymPy expression of `z`.
Whose first terms are they?
""",
    hint=r"""
Take $p = 1$. The first slope, times $s$, is $z$; the second is $z (1 + z/2)$.
""",
    cases=((sp.Rational(1, 2),), (sp.Integer(-2),), (_Z,)),
    solution=factor,
    misconceptions=(
        Misconception(
            "The exponential itself",
            "That is the flow. The solver takes four slopes, so it is a polynomial.",
            lambda z: sp.exp(z),
        ),
        Misconception(
            "Euler's step",
            "That is one slope of the four.",
            lambda z: 1 + z,
        ),
        Misconception(
            "Order two",
            "Two slopes more bend the path further.",
            lambda z: sp.expand(1 + z + z**2 / 2),
        ),
        Misconception(
            "Order three",
            "The last slope brings a fourth power.",
            lambda z: sp.expand(1 + z + z**2 / 2 + z**3 / 6),
        ),
        Misconception(
            "A term too many",
            "Four slopes cannot make a fifth power.",
            lambda z: sp.expand(1 + z + z**2 / 2 + z**3 / 6 + z**4 / 24 + z**5 / 120),
        ),
        Misconception(
            "The growth without the start",
            "The 1 is where the step began.",
            lambda z: sp.expand(z + z**2 / 2 + z**3 / 6 + z**4 / 24),
        ),
        Misconception(
            "Powers without factorials",
            "The slopes are averaged, not added.",
            lambda z: sp.expand(1 + z + z**2 + z**3 + z**4),
        ),
        Misconception(
            "Divided by the power",
            "That is a logarithm's series; follow the four slopes.",
            lambda z: sp.expand(1 + z + z**2 / 2 + z**3 / 3 + z**4 / 4),
        ),
        Misconception(
            "Equal weights",
            "The slopes in the middle count twice: 1, 2, 2, 1 of six.",
            lambda z: sp.expand(1 + z + z**2 / 2 + z**3 / 4 + z**4 / 16),
        ),
        Misconception(
            "The third slope starts from the first",
            "Each slope in the middle is taken where the one before it leads.",
            lambda z: sp.expand(
                1 + (z + 4 * z * (1 + z / 2) + z * (1 + z * (1 + z / 2))) / 6
            ),
        ),
        Misconception(
            "The last slope at half of the step",
            "The fourth slope is taken at the end, a whole step away.",
            lambda z: sp.expand(
                1
                + (
                    z
                    + 2 * z * (1 + z / 2)
                    + 2 * z * (1 + z * (1 + z / 2) / 2)
                    + z * (1 + z * (1 + z * (1 + z / 2) / 2) / 2)
                )
                / 6
            ),
        ),
        Misconception(
            "The sign of the rate",
            "p' = λ p grows for λ > 0.",
            lambda z: sp.expand(1 - z + z**2 / 2 - z**3 / 6 + z**4 / 24),
        ),
        Misconception(
            "Whole steps on the way",
            "The slopes in the middle are taken half a step away.",
            lambda z: sp.expand(
                1
                + (
                    z
                    + 2 * z * (1 + z)
                    + 2 * z * (1 + z * (1 + z))
                    + z * (1 + z * (1 + z * (1 + z)))
                )
                / 6
            ),
        ),
        Misconception(
            "A quarter of each slope",
            "The slopes in the middle count twice: 1, 2, 2, 1 of six.",
            lambda z: sp.expand(
                1
                + z
                * (
                    1
                    + (1 + z / 2)
                    + (1 + z * (1 + z / 2) / 2)
                    + (1 + z * (1 + z * (1 + z / 2) / 2))
                )
                / 4
            ),
        ),
    ),
    properties=(
        Property(
            "At z = 1 it is 65/24, near e",
            lambda answer, z: answer(sp.Integer(1)) == sp.Rational(65, 24),
        ),
    ),
)


# floater-2: the field that is the sinusoid


def turning(omega, delta):
    """Ω / Δ, interleaved, [2 pairs, 2 pairs]: PE' = (Ω / Δ) PE in the flow's time."""
    d = 2 * len(omega)
    field = np.zeros((d, d))
    for p, w in enumerate(omega):
        field[2 * p, 2 * p + 1] = w / delta
        field[2 * p + 1, 2 * p] = -w / delta
    return field


def _turning(upper, lower, step=2, at=1):
    """With other numbers in the two places of a pair."""

    def answer(omega, delta):
        d = 2 * len(omega)
        field = np.zeros((d, d))
        for p, w in enumerate(omega):
            one, other = (2 * p, 2 * p + at) if step == 2 else (p, p + d // 2)
            field[one, other] = upper(w, delta)
            field[other, one] = lower(w, delta)
        return field

    return answer


TURNING = Exercise(
    name="floater-2",
    title="The field that is the sinusoid",
    kind="NumPy",
    minutes=10,
    lines=6,
    statement=r"""
Return the matrix $M$ of the linear field $h(t, p) = M p$ whose flow from $\PE(0)$ on is $\PE(i)$ at the time $i\, \Delta$.
The layout is interleaved, `omega` holds the frequencies and `delta` is $\Delta$.
What is $M + M^\top$?
""",
    hint=r"""
The slope of $\sin(\omega\, t / \Delta)$ is its partner times something.
""",
    cases=(
        (np.array([1.0]), 1.0),
        (np.array([1.0, 0.01]), 1.0),
        (np.array([1.0, 0.1]), 0.01),
        (np.array([2.0, 0.5, 0.25]), 0.1),
    ),
    solution=turning,
    misconceptions=(
        Misconception(
            "The other sign",
            "Turning backwards: the sine's slope is + the cosine.",
            _turning(lambda w, D: -w / D, lambda w, D: w / D),
        ),
        Misconception(
            "Symmetric",
            "The cosine's slope has a minus.",
            _turning(lambda w, D: w / D, lambda w, D: w / D),
        ),
        Misconception(
            "Inverse frequencies",
            "That is the paper's misprint: a derivative brings the frequency down.",
            _turning(lambda w, D: 1 / (w * D), lambda w, D: -1 / (w * D)),
        ),
        Misconception(
            "Δ is forgotten",
            "A position takes the time Δ, so the pair turns 1/Δ times as fast.",
            _turning(lambda w, D: w, lambda w, D: -w),
        ),
        Misconception(
            "Times Δ",
            "A position takes the time Δ: a shorter time needs a faster turn.",
            _turning(lambda w, D: w * D, lambda w, D: -w * D),
        ),
        Misconception(
            "The half layout",
            "Interleaved: sine and cosine of a pair are neighbors.",
            _turning(lambda w, D: w / D, lambda w, D: -w / D, step=1),
        ),
        Misconception(
            "On the diagonal",
            "A feature's slope is its partner, not itself.",
            lambda omega, delta: np.diag(np.repeat(np.asarray(omega) / delta, 2)),
        ),
        Misconception(
            "Frequencies of a turn",
            "The frequencies are radians a position: no 2π.",
            _turning(lambda w, D: 2 * np.pi * w / D, lambda w, D: -2 * np.pi * w / D),
        ),
        Misconception(
            "A rotation by a position",
            "That is M_1, which the flow makes of M in the time Δ.",
            lambda omega, delta: _blocks(omega, np.cos, np.sin),
        ),
        Misconception(
            "Only the sines move",
            "Both members of a pair have a slope.",
            _turning(lambda w, D: w / D, lambda w, D: 0.0),
        ),
        Misconception(
            "Squared frequencies",
            "That is the second derivative.",
            _turning(lambda w, D: (w / D) ** 2, lambda w, D: -((w / D) ** 2)),
        ),
    ),
    properties=(
        Property(
            "It is skew: lengths do not change",
            lambda answer, omega, delta: np.allclose(
                answer(omega, delta), -np.asarray(answer(omega, delta)).T
            ),
        ),
    ),
)


def _blocks(omega, cos, sin):
    d = 2 * len(omega)
    out = np.zeros((d, d))
    for p, w in enumerate(omega):
        block = [[cos(w), sin(w)], [-sin(w), cos(w)]]
        out[2 * p : 2 * p + 2, 2 * p : 2 * p + 2] = block
    return out


# floater-3: the rule of the released code


def three_eighths(a, b, t, p, s):
    """One step of the 3/8 rule on h(t, p) = A p + t³ b, from p at t to t + s."""

    def h(time, at):
        return a @ at + time**3 * b

    k = h(t, p)
    m = h(t + s / 3, p + s / 3 * k)
    n = h(t + 2 * s / 3, p + s * (m - k / 3))
    o = h(t + s, p + s * (k - m + n))
    return p + s / 8 * (k + 3 * m + 3 * n + o)


def _stages(places, rows, weights):
    """A step by another tableau."""

    def answer(a, b, t, p, s):
        slopes = []
        for place, row in zip(places, rows, strict=True):
            at = p + s * sum((w * k for w, k in zip(row, slopes, strict=False)), 0 * p)
            slopes.append(a @ at + (t + place * s) ** 3 * b)
        return p + s * sum((w * k for w, k in zip(weights, slopes, strict=True)), 0 * p)

    return answer


_C = (0, 1 / 3, 2 / 3, 1)
_A = ((), (1 / 3,), (-1 / 3, 1), (1, -1, 1))
_B = (1 / 8, 3 / 8, 3 / 8, 1 / 8)
_CLASSICAL = ((), (1 / 2,), (0, 1 / 2), (0, 0, 1))


def _given(n, seed):
    a, b, p = draw(n, n, seed=seed), draw(n, seed=seed + 1), draw(n, seed=seed + 2)
    return a, b, p


_CASES = []
for _n, _t, _s, _seed in ((1, 0.0, 1.0, 1), (2, 1.0, 0.5, 4), (4, -2.0, 2.0, 7)):
    _a, _b, _p = _given(_n, _seed)
    _CASES.append((_a, _b, _t, _p, _s))

STEP = Exercise(
    name="floater-3",
    title="The rule of the released code",
    kind="NumPy",
    minutes=12,
    lines=7,
    statement=r"""
The field is $h(t, p) = A p + t^3\, b$.
Return where one step of length `s` of the 3/8 rule leads from `p` at the time `t`.
Its places are 0, ⅓, ⅔ and 1; its rows –; ⅓; −⅓, 1; 1, −1, 1; its weights ⅛, ⅜, ⅜, ⅛.
On which fields would the classical method lead elsewhere?
""",
    hint=r"""
Each slope is taken at a time of its own, and from `p` plus `s` times a sum of the slopes before.
""",
    cases=tuple(_CASES),
    solution=three_eighths,
    misconceptions=(
        Misconception(
            "The classical method",
            "That has its stages at 0, ½, ½ and 1.",
            _stages((0, 1 / 2, 1 / 2, 1), _CLASSICAL, (1 / 6, 1 / 3, 1 / 3, 1 / 6)),
        ),
        Misconception(
            "Weights of the classical method",
            "The weights go with the rows: ⅛, ⅜, ⅜, ⅛.",
            _stages(_C, _A, (1 / 6, 1 / 3, 1 / 3, 1 / 6)),
        ),
        Misconception(
            "All stages at the time of the first",
            "h reads the time, and each stage has its own.",
            _stages((0, 0, 0, 0), _A, _B),
        ),
        Misconception(
            "Times from 0",
            "The step begins at t.",
            lambda a, b, t, p, s: three_eighths(a, b, 0.0, p, s),
        ),
        Misconception(
            "A sign in the third stage",
            "The row is −⅓, 1.",
            _stages(_C, ((), (1 / 3,), (1 / 3, 1), (1, -1, 1)), _B),
        ),
        Misconception(
            "A sign in the fourth stage",
            "The row is 1, −1, 1.",
            _stages(_C, ((), (1 / 3,), (-1 / 3, 1), (1, 1, 1)), _B),
        ),
        Misconception(
            "Each stage from the one before alone",
            "The rows reach back to all slopes: –; ⅓; −⅓, 1; 1, −1, 1.",
            _stages(_C, ((), (1 / 3,), (0, 2 / 3), (0, 0, 1)), _B),
        ),
        Misconception(
            "Equal weights",
            "The outer slopes count ⅛, the inner ones ⅜.",
            _stages(_C, _A, (1 / 4,) * 4),
        ),
        Misconception(
            "Euler's step",
            "That is the first slope alone.",
            lambda a, b, t, p, s: p + s * (a @ p + t**3 * b),
        ),
        Misconception(
            "The step is left out of the stages",
            "Slopes are multiplied by s before they are added to p.",
            lambda a, b, t, p, s: _unscaled(a, b, t, p, s),
        ),
        Misconception(
            "The change, not the place",
            "The step begins at p: add it.",
            lambda a, b, t, p, s: three_eighths(a, b, t, p, s) - p,
        ),
        Misconception(
            "The matrix from the other side",
            "A p, with p a column.",
            lambda a, b, t, p, s: three_eighths(a.T, b, t, p, s),
        ),
        Misconception(
            "The −⅓ is left out",
            "The third stage's row is −⅓, 1.",
            _stages(_C, ((), (1 / 3,), (0, 1), (1, -1, 1)), _B),
        ),
        Misconception(
            "Places without the step",
            "They are parts of the step: ⅓ of s later, not ⅓.",
            lambda a, b, t, p, s: _stages([c / s for c in _C], _A, _B)(a, b, t, p, s),
        ),
        Misconception(
            "The mean slope",
            "A step goes s times that far, from p.",
            lambda a, b, t, p, s: (three_eighths(a, b, t, p, s) - p) / s,
        ),
        Misconception(
            "The mean slope is not multiplied by the step",
            "A step goes s times that far.",
            lambda a, b, t, p, s: p + (three_eighths(a, b, t, p, s) - p) / s,
        ),
    ),
    properties=(
        Property(
            "Without A it is exact",
            lambda answer, a, b, t, p, s: np.allclose(
                answer(0 * a, b, t, p, s), p + b * ((t + s) ** 4 - t**4) / 4
            ),
        ),
    ),
)


def _unscaled(a, b, t, p, s):
    def h(time, at):
        return a @ at + time**3 * b

    k = h(t, p)
    m = h(t + s / 3, p + k / 3)
    n = h(t + 2 * s / 3, p + m - k / 3)
    o = h(t + s, p + k - m + n)
    return p + s / 8 * (k + 3 * m + 3 * n + o)


# floater-4: the last step before a position


def last_step(positions, steps):
    """For each position the whole steps from 0 and the signed rest of one, [n, 2]."""
    count = positions * steps
    whole = np.trunc(count)
    return np.stack((whole, count - whole), -1)


def _rounded(rule):
    def answer(positions, steps):
        count = positions * steps
        whole = rule(count)
        return np.stack((whole, count - whole), -1)

    return answer


def _parts(change):
    return lambda positions, steps: change(
        last_step(positions, steps), positions, steps
    )


LAST = Exercise(
    name="floater-4",
    title="The last step before a position",
    kind="NumPy",
    minutes=8,
    lines=3,
    statement=r"""
A solver takes `steps` steps from each whole position to the next, in both directions from 0.
For each of `positions`, reals of either sign, return how many whole steps lead towards it (negative ones backwards) and which part of a step is left, with its sign: `[positions, 2]`.
For a model with a cache: why must the places of the steps not depend on the positions asked for?
""",
    hint=r"""
A position before 0 is approached from 0, so its whole steps are fewer and not more.
""",
    cases=(
        (np.array([0.5, -0.75]), 2),
        (np.array([0.0, 1.0, 2.25, -3.0]), 1),
        (np.array([-0.1, 7.3, -2.6, 4.0]), 4),
    ),
    solution=last_step,
    misconceptions=(
        Misconception(
            "Rounded down",
            "Below 0 that is a step too far: come from 0.",
            _rounded(np.floor),
        ),
        Misconception(
            "Rounded up",
            "A whole step beyond the position is none that leads to it.",
            _rounded(np.ceil),
        ),
        Misconception(
            "Rounded to the nearest",
            "Then the rest may lead back.",
            _rounded(np.round),
        ),
        Misconception(
            "Whole positions",
            "There are several steps in a position.",
            lambda positions, steps: last_step(positions, 1),
        ),
        Misconception(
            "The sign is lost",
            "Steps before 0 go backwards.",
            _parts(lambda out, at, n: np.abs(out)),
        ),
        Misconception(
            "The rest without its sign",
            "Before 0 the rest leads backwards, too.",
            _parts(lambda out, at, n: out * [1, 0] + np.abs(out) * [0, 1]),
        ),
        Misconception(
            "The rest in positions",
            "A part of a step: between −1 and 1.",
            _parts(lambda out, at, n: out / [1, n]),
        ),
        Misconception(
            "The rest is what is missing to the next step",
            "It leads from the last step to the position.",
            _parts(lambda out, at, n: np.stack((out[:, 0], 1 - np.abs(out[:, 1])), -1)),
        ),
        Misconception(
            "The columns are exchanged",
            "Whole steps first.",
            _parts(lambda out, at, n: out[:, ::-1]),
        ),
        Misconception(
            "Positions divided by the steps",
            "More steps in a position make more steps.",
            lambda positions, steps: last_step(positions, 1 / steps),
        ),
        Misconception(
            "No rest",
            "A position between two steps has a vector of its own.",
            _parts(lambda out, at, n: out * [1, 0]),
        ),
        Misconception(
            "From the whole position before it",
            "All steps from 0 are counted, also those since the last whole position.",
            lambda positions, steps: np.stack(
                (
                    np.trunc(positions) * steps,
                    (positions - np.trunc(positions)) * steps,
                ),
                -1,
            ),
        ),
    ),
    properties=(
        Property(
            "Together they lead to the position",
            lambda answer, positions, steps: np.allclose(
                np.sum(answer(positions, steps), -1) / steps, positions
            ),
        ),
    ),
)


# floater-5: the released field


def field(t, p, inner, inner_bias, outer, outer_bias):
    """H(t, p) of the released code; p [states, width], the time the last input."""
    time = torch.full((*p.shape[:-1], 1), t, dtype=p.dtype)
    hidden = torch.relu(torch.cat((p, time), -1) @ inner.T + inner_bias)
    return torch.cat((hidden, time), -1) @ outer.T + outer_bias


def _field(first=True, second=True, act=torch.relu, front=False, biases=(1, 1)):
    """With something left out or in another place."""

    def joined(x, t, is_there):
        time = torch.full((*x.shape[:-1], 1), t if is_there else 0.0, dtype=x.dtype)
        return torch.cat((time, x) if front else (x, time), -1)

    def answer(t, p, inner, inner_bias, outer, outer_bias):
        z = joined(p, t, first) @ inner.T + biases[0] * inner_bias
        return joined(act(z), t, second) @ outer.T + biases[1] * outer_bias

    return answer


def _tensors(t, states, width, seed):
    sizes = (states, width), (width, width + 1), (width,), (width, width + 1), (width,)
    return (t, *(torch.tensor(draw(*n, seed=seed + k)) for k, n in enumerate(sizes)))


FIELD = Exercise(
    name="floater-5",
    title="The released field",
    kind="PyTorch",
    minutes=10,
    lines=3,
    statement=r"""
Return $h(t, p)$ of the released code for states `p`, `[states, width]`: a layer, ReLUs, a layer.
Both layers read the time `t`, a number, as one more input after their features: `inner` and `outer` are `[width, width + 1]`.
Which biases make it linear where the sinusoid lives?
""",
    hint=r"""
A column that holds `t` for each state goes behind the features, twice.
""",
    cases=(
        _tensors(2.0, 1, 2, 1),
        _tensors(-1.0, 3, 4, 10),
        _tensors(0.5, 6, 3, 20),
    ),
    solution=field,
    misconceptions=(
        Misconception(
            "The second layer does not read the time",
            "Both layers do.",
            _field(second=False),
        ),
        Misconception(
            "The first layer does not read the time",
            "Both layers do.",
            _field(first=False),
        ),
        Misconception(
            "No time",
            "Both layers read it.",
            _field(first=False, second=False),
        ),
        Misconception(
            "The time in front",
            "It is the last input of a layer.",
            _field(front=True),
        ),
        Misconception(
            "No ReLU",
            "Two layers with nothing between are one.",
            _field(act=lambda z: z),
        ),
        Misconception(
            "A smooth unit",
            "The released field has ReLUs.",
            _field(act=torch.nn.functional.gelu),
        ),
        Misconception(
            "A leaky ReLU",
            "The released field has plain ReLUs.",
            _field(act=torch.nn.functional.leaky_relu),
        ),
        Misconception(
            "A hyperbolic tangent",
            "The released field has ReLUs.",
            _field(act=torch.tanh),
        ),
        Misconception("No inner bias", "Both layers have one.", _field(biases=(0, 1))),
        Misconception("No outer bias", "Both layers have one.", _field(biases=(1, 0))),
        Misconception(
            "A shortcut",
            "h is the slope; the state is added by the solver.",
            lambda t, p, *rest: p + field(t, p, *rest),
        ),
        Misconception(
            "A ReLU at the end, too",
            "Slopes may be negative.",
            lambda t, p, *rest: field(t, p, *rest).relu(),
        ),
        Misconception(
            "No bias",
            "Both layers have one.",
            _field(biases=(0, 0)),
        ),
    ),
    properties=(
        Property(
            "With weights that are 0 the outer bias is left",
            lambda answer, t, p, inner, inner_bias, outer, outer_bias: torch.allclose(
                answer(t, p, 0 * inner, inner_bias, 0 * outer, outer_bias),
                outer_bias.expand(p.shape),
            ),
        ),
    ),
)


# floater-6: how many steps are enough


def enough(position, omega, tolerance):
    """The fewest steps a position for which the bound at a position holds."""
    least = (position * omega**5 / 120 / tolerance) ** (1 / 4)
    return max(1, math.ceil(least))


def _enough(least):
    return lambda i, w, e: max(1, math.ceil(least(i, w, e)))


ENOUGH = Exercise(
    name="floater-6",
    title="How many steps are enough",
    kind="experiment",
    minutes=10,
    lines=4,
    statement=r"""
A pair turns by `omega` radians a position. After $n$ steps by the angle $z \le \sqrt 8$ each it is off by $n z^5/120$ at most.
Return the fewest steps a position with which that bound is at most `tolerance` at `position`.
Try the code's five: how far do they go for $\omega = 1$ and a tolerance of 0.01?
""",
    hint=r"""
With $m$ steps a position there are $m$ times as many of them, and each turns by `omega` / $m$.
""",
    cases=(
        (1, 1.0, 1e-2),
        (1, 1.0, 1e-4),
        (100, 1.0, 1e-3),
        (5000, 2.0, 1e-2),
        (30, 0.5, 1e-6),
        (12, 1.0, 1e-1),
    ),
    solution=enough,
    misconceptions=(
        Misconception(
            "The error of one step",
            "As many steps as there are add up.",
            _enough(lambda i, w, e: (w**5 / 120 / e) ** (1 / 5)),
        ),
        Misconception(
            "As many steps as positions",
            "There are m in each position.",
            _enough(lambda i, w, e: (i * w**5 / 120 / e) ** (1 / 5)),
        ),
        Misconception(
            "The whole turn in each step",
            "More steps turn by less each.",
            _enough(lambda i, w, e: i * w**5 / 120 / e),
        ),
        Misconception(
            "The factorial of four",
            "The first term left out is z⁵/120.",
            _enough(lambda i, w, e: (i * w**5 / 24 / e) ** (1 / 4)),
        ),
        Misconception(
            "The fourth power in each step",
            "The first term left out is z⁵/120.",
            _enough(lambda i, w, e: (i * w**4 / 24 / e) ** (1 / 3)),
        ),
        Misconception(
            "Euler's steps",
            "They leave out z²/2, these z⁵/120.",
            _enough(lambda i, w, e: i * w**2 / 2 / e),
        ),
        Misconception(
            "No factorial",
            "The first term left out is z⁵/120.",
            _enough(lambda i, w, e: (i * w**5 / e) ** (1 / 4)),
        ),
        Misconception(
            "One too many",
            "The first that holds is the fewest.",
            lambda i, w, e: enough(i, w, e) + 1,
        ),
        Misconception(
            "Rounded to the nearest",
            "With one step less the bound may not hold: round up.",
            lambda i, w, e: max(1, round((i * w**5 / 120 / e) ** (1 / 4))),
        ),
        Misconception(
            "All steps, not those of a position",
            "How many in each position?",
            lambda i, w, e: enough(i, w, e) * i,
        ),
        Misconception(
            "The code's five",
            "They are what the code has, not what is enough.",
            lambda i, w, e: 5,
        ),
        Misconception(
            "The radius in place of the place",
            "Lengths shrink by z⁶/144 only; the angle is off by more.",
            _enough(lambda i, w, e: (i * w**6 / 144 / e) ** (1 / 5)),
        ),
        Misconception(
            "Rounded down",
            "With one step less the bound does not hold: round up.",
            lambda i, w, e: int((i * w**5 / 120 / e) ** (1 / 4)),
        ),
        Misconception(
            "The position is forgotten",
            "Steps add up on the way there.",
            _enough(lambda i, w, e: (w**5 / 120 / e) ** (1 / 4)),
        ),
        Misconception(
            "ω is not raised",
            "The turn of a step has the fifth power.",
            _enough(lambda i, w, e: (i * w / 120 / e) ** (1 / 4)),
        ),
        Misconception(
            "The step's angle, not the number of steps",
            "With m steps a position each turns by ω/m.",
            lambda i, w, e: math.ceil(i * (i * w**5 / 120 / e) ** (1 / 4)),
        ),
    ),
    properties=(
        Property(
            "The bound holds with them and not with one less",
            lambda answer, i, w, e: (
                i * w**5 / 120 / e <= answer(i, w, e) ** 4
                and (answer(i, w, e) - 1) ** 4 <= i * w**5 / 120 / e
            ),
        ),
    ),
)


SHEET = Sheet(
    title="Positions that flow",
    conventions=r"""
A position $i$ is the time $i\, \Delta$.
Pairs are interleaved: feature $2p$ is the sine, $2p + 1$ the cosine of pair $p$.
A step by the angle $z$ is one in which a pair turns by $z$ radians.
""",
    exercises=(FACTOR, TURNING, STEP, LAST, FIELD, ENOUGH),
)
