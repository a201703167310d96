"""Exercises on states: recurrences, the weights of pairs, and what is forgotten."""

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

# states-1: how far a gate looks back


def window(rate, step):
    """Half-life of the gate α = e^(−A Δ), and the sum of all its powers from α^0 on.

    ``rate`` is A and ``step`` is Δ, both above 0. Both results are SymPy expressions.
    """
    alpha = sp.exp(-rate * step)
    return sp.log(2) / (rate * step), 1 / (1 - alpha)


def _window(half_life=None, total=None):
    """Make a wrong answer to the exercise ``window`` from functions of A Δ."""
    half_life = half_life or (lambda a: sp.log(2) / a)
    total = total or (lambda a: 1 / (1 - sp.exp(-a)))
    return lambda rate, step: (half_life(rate * step), total(rate * step))


WINDOW = Exercise(
    name="states-1",
    title="How far a gate looks back",
    kind="by hand",
    minutes=6,
    lines=2,
    statement=r"""
In a Mamba-2 head every token multiplies the state by $\alpha = e^{-A \Delta}$, with a rate $A$ of the head and a step $\Delta$, here the same for all tokens.
Keys match the query equally, so a token of age $n$ has the weight $\alpha^n$.
After how many tokens $h$ is a weight halved?
What is the sum of all weights in an endless text?
Return both, $(h, \text{sum})$, exactly; $h$ need not be whole.
How much of the sum do the youngest $h$ tokens have, if $h$ is whole?
""",
    hint=r"""
$\alpha^h = \frac12$; the sum is a geometric series.
""",
    cases=(
        (sp.Integer(1), sp.log(2)),
        (sp.Integer(2), sp.Rational(1, 2)),
        (sp.Integer(8), sp.Rational(1, 100)),
        (sp.Rational(17, 2), sp.log(3)),
    ),
    solution=window,
    misconceptions=(
        Misconception(
            "Step left out",
            "The logarithm of the gate is −A Δ, not −A.",
            lambda rate, step: window(rate, sp.Integer(1)),
        ),
        Misconception(
            "Rate left out",
            "The logarithm of the gate is −A Δ, not −Δ.",
            lambda rate, step: window(sp.Integer(1), step),
        ),
        Misconception(
            "Rate divided by the step",
            "The exponent is the product of A and Δ.",
            lambda rate, step: window(rate, 1 / step),
        ),
        Misconception(
            "Sum of both numbers",
            "The exponent is the product of A and Δ.",
            lambda rate, step: window(rate + step, sp.Integer(1)),
        ),
        Misconception(
            "Time scale in place of the half-life",
            "After 1/(A Δ) tokens the share 1/e is left. When is a half left?",
            _window(half_life=lambda a: 1 / a),
        ),
        Misconception(
            "Sum in place of the half-life",
            "The sum of all weights and the age at which one is halved are two numbers.",
            _window(half_life=lambda a: 1 / (1 - sp.exp(-a))),
        ),
        Misconception(
            "Negative half-life",
            "Both logarithms, of α and of ½, are negative: their quotient is not.",
            _window(half_life=lambda a: -sp.log(2) / a),
        ),
        Misconception(
            "Half-life upside down",
            "A gate that forgets faster has a shorter half-life.",
            _window(half_life=lambda a: a / sp.log(2)),
        ),
        Misconception(
            "The same loss at every token",
            "A token does not take the same amount each time, but the same share of what "
            "is left.",
            _window(half_life=lambda a: 1 / (2 * (1 - sp.exp(-a)))),
        ),
        Misconception(
            "Rounded up to whole tokens",
            "h is asked for exactly, and it need not be whole.",
            _window(half_life=lambda a: sp.ceiling(sp.log(2) / a)),
        ),
        Misconception(
            "Integral in place of the sum",
            "Ages are whole numbers: ∫ α^n dn = 1/(A Δ) is not the sum of α^n.",
            _window(total=lambda a: 1 / a),
        ),
        Misconception(
            "Sum without the token itself",
            "A token reads after its own write: the age 0 counts, with the weight 1.",
            _window(total=lambda a: sp.exp(-a) / (1 - sp.exp(-a))),
        ),
        Misconception(
            "Gate taken for its loss",
            "The series is 1 + α + α² + …, not one of powers of 1 − α.",
            _window(total=sp.exp),
        ),
        Misconception(
            "Sign of the exponent",
            "α = e^(−A Δ) is below 1.",
            _window(total=lambda a: 1 / (1 - sp.exp(a))),
        ),
        Misconception(
            "Results in the other order",
            "The half-life comes first, then the sum.",
            lambda rate, step: window(rate, step)[::-1],
        ),
    ),
    properties=(
        Property(
            "The results are exact, without floats",
            lambda answer, rate, step: not sp.Tuple(*answer(rate, step)).has(sp.Float),
        ),
    ),
    explanation=r"""
$\alpha^h = e^{-A \Delta h} = \frac12$ gives $h = \log 2 / (A \Delta)$, and the geometric series gives $1/(1 - \alpha)$.
The youngest $h$ tokens have $\sum_{n<h} \alpha^n = (1 - \alpha^h)/(1 - \alpha)$, which is half of the sum.
With $A = 8$ and a step of 0.01 that is 8.7 tokens; with a step of 1.31, the softplus of a bias of 1, it is 0.07, and a head that starts so reads its own token alone.
""",
    prediction=Prediction(
        "A head has $A = 8$ and $\\Delta = 0.01$. After how many tokens is a weight halved?",
        lambda: float(window(8, sp.Rational(1, 100))[0]),
        near=0.1,
    ),
)


# states-2: reading a state


def read_outputs(q, k, v, transitions, beta):
    """Outputs of a state, [tokens, d_v], that each token changes and then reads.

    ``q`` and ``k`` are [tokens, d], ``v`` is [tokens, d_v], ``transitions`` is
    [tokens, d, d], T_t of token t, and ``beta`` is [tokens].
    """
    state = np.zeros((q.shape[1], v.shape[1]))
    outputs = np.zeros(v.shape)
    for t in range(len(q)):
        state = transitions[t] @ state + beta[t] * np.outer(k[t], v[t])
        outputs[t] = q[t] @ state
    return outputs


def colleagues_outputs(q, k, v, transitions, beta):
    """Outputs of a state, [tokens, d_v].

    ``q`` and ``k`` are [tokens, d], ``v`` is
    [tokens, d_v], ``transitions`` is [tokens, d, d]
    and ``beta`` is [tokens].
    """
    state = np.zeros((k.shape[1], v.shape[1]))
    outputs = np.zeros(v.shape)
    for t in range(len(q)):
        new = beta[t] * np.outer(k[t], v[t])
        state = transitions[t].T @ state + new
        outputs[t] = q[t] @ state
    return outputs


def _read_by(
    moved=lambda T, state: T @ state,
    written=lambda beta, k, v: beta * np.outer(k, v),
    read=lambda q, before, middle, state: q @ state,
    write=lambda T, moved, new: moved + new,
    order=lambda n: range(n),
):
    """Make a wrong answer to the exercise ``read_outputs`` from its steps.

    ``read`` takes the query and the state before the token, after its transition and
    after its write; ``write`` takes the transition, the moved state and the write.
    """

    def answer(q, k, v, transitions, beta):
        state = np.zeros((q.shape[1], v.shape[1]))
        outputs = np.zeros(v.shape)
        for t in order(len(q)):
            before, middle = state, moved(transitions[t], state)
            new = written(beta[t], k[t], v[t])
            state = write(transitions[t], middle, new)
            outputs[t] = read(q[t], before, middle, state)
        return outputs

    return answer


def _state_case(tokens, d, d_v, seed=0):
    return (
        *draw(2, tokens, d, seed=seed),
        draw(tokens, d_v, seed=seed + 1),
        draw(tokens, d, d, seed=seed),
        np.abs(draw(tokens, seed=seed)) + 0.1,
    )


_TWO = np.array([[1.0, 0.0], [1.0, 1.0]])

READ_OUTPUTS = Exercise(
    name="states-2",
    title="Read a state",
    kind="NumPy",
    minutes=8,
    lines=5,
    statement=r"""
The state $S$ has a row for each feature of keys and a column for each feature of values, and is 0 at first.
Token $t$ multiplies it by its transition $T_t$, `transitions[t]`, adds $\beta_t k_t v_t^\top$, and reads $o_t = S_t^\top q_t$.
Return all outputs, `[tokens, d_v]`.
Nothing is divided by $\sqrt d$.
Does a token's own transition act on its own write?
""",
    hint=r"""
`np.outer(k[t], v[t])` has the shape of the state.
""",
    cases=(
        (
            _TWO,
            _TWO,
            np.array([[3.0], [5.0]]),
            np.stack([np.eye(2), np.array([[1.0, 1.0], [0.0, 0.5]])]),
            np.array([1.0, 2.0]),
        ),
        _state_case(3, 2, 2),
        _state_case(4, 3, 2),
        _state_case(5, 2, 3),
        _state_case(1, 2, 2),
    ),
    solution=read_outputs,
    misconceptions=(
        Misconception(
            "Read before the write",
            "A token reads after its own write, so that its own value counts.",
            _read_by(read=lambda q, before, middle, state: q @ middle),
        ),
        Misconception(
            "Read before the transition",
            "The token first changes the state, then reads it.",
            _read_by(read=lambda q, before, middle, state: q @ before),
        ),
        Misconception(
            "Own write passed through the transition",
            "T_t acts on what was there before; the new write is added unmoved.",
            _read_by(write=lambda T, moved, new: moved + T @ new),
        ),
        Misconception(
            "Transposed transition",
            "T_t itself multiplies the state from the left.",
            colleagues_outputs,
        ),
        Misconception(
            "Entries multiplied in place of matrices",
            "`*` multiplies entry by entry; matrices are multiplied with `@`.",
            _read_by(
                moved=lambda T, state: (
                    T * state if T.shape == state.shape else T.sum(1)[:, None] * state
                )
            ),
        ),
        Misconception(
            "No transition",
            "This is a sum of all writes. Each token first multiplies the state.",
            _read_by(moved=lambda T, state: state),
        ),
        Misconception(
            "Transition added",
            "The state is multiplied by T_t, and only the write is added.",
            _read_by(moved=lambda T, state: state + T @ np.ones_like(state)),
        ),
        Misconception(
            "β left out",
            "The write is β k vᵀ.",
            _read_by(written=lambda beta, k, v: np.outer(k, v)),
        ),
        Misconception(
            "β in the transition, too",
            "β multiplies the write alone; T_t is given complete.",
            lambda q, k, v, transitions, beta: read_outputs(
                q, k, v, beta[:, None, None] * transitions, beta
            ),
        ),
        Misconception(
            "β twice",
            "β multiplies the write once.",
            _read_by(written=lambda beta, k, v: beta**2 * np.outer(k, v)),
        ),
        Misconception(
            "β of the query",
            "β belongs to the token that writes, not to the one that reads.",
            lambda q, k, v, transitions, beta: (
                beta[:, None] * read_outputs(q, k, v, transitions, np.ones_like(beta))
            ),
        ),
        Misconception(
            "Query and key exchanged",
            "Keys write, queries read.",
            lambda q, k, v, transitions, beta: read_outputs(k, q, v, transitions, beta),
        ),
        Misconception(
            "State of one token",
            "The state of the token before is carried on.",
            _read_by(moved=lambda T, state: 0 * state),
        ),
        Misconception(
            "Divided by √d",
            "Here nothing is divided by √d.",
            lambda q, k, v, transitions, beta: (
                read_outputs(q, k, v, transitions, beta) / np.sqrt(q.shape[1])
            ),
        ),
        Misconception(
            "Read from the last state",
            "Token t reads the state after token t, not that after the last one.",
            lambda q, k, v, transitions, beta: (
                q
                @ sum(
                    np.linalg.multi_dot([*transitions[:t:-1], np.eye(q.shape[1]), w])
                    if t + 1 < len(q)
                    else w
                    for t, w in enumerate(
                        b * np.outer(a, c) for a, b, c in zip(k, beta, v, strict=True)
                    )
                )
            ),
        ),
        Misconception(
            "Transitions of the next token",
            "Token t multiplies the state by its own transition before it writes.",
            lambda q, k, v, transitions, beta: read_outputs(
                q, k, v, np.roll(transitions, -1, 0), beta
            ),
        ),
    ),
    properties=(
        Property(
            "Values three times as large give outputs three times as large",
            lambda answer, q, k, v, transitions, beta: np.allclose(
                answer(q, k, 3 * v, transitions, beta),
                3 * answer(q, k, v, transitions, beta),
            ),
        ),
    ),
    explanation=r"""
One line changes the state and one reads it, in this order: $o_t = S_t^\top q_t$ is `q[t] @ state`.
The own transition does not act on the own write, so the first token's transition acts on nothing.
By {prf:ref}`the duality <thm-state-duality>` the outputs are sums of the values with the weights $\beta_j\, q_i^\top T_i \cdots T_{j+1} k_j$.
""",
)


# states-3: what is left of each value


def replaced_weights(beta, n):
    """Weights of n values that were written for one unit key k, the oldest first.

    The query is k. ``beta`` is β of all tokens, a SymPy expression; the result is a
    tuple of n expressions.
    """
    return tuple(beta * (1 - beta) ** (n - 1 - j) for j in range(n))


def _replaced(weight):
    """Make a wrong answer to ``replaced_weights`` from a function of β, j and n."""
    return lambda beta, n: tuple(weight(beta, j, n) for j in range(n))


_B = sp.Symbol("beta", real=True)

REPLACED = Exercise(
    name="states-3",
    title="What is left of each value",
    kind="SymPy",
    minutes=8,
    lines=1,
    statement=r"""
A DeltaNet layer writes $n$ values for one and the same key $k$ of length 1, each with the same $\beta$: token $t$ replaces $S$ by $(I - \beta k k^\top) S + \beta k v_t^\top$.
Then it reads with the query $k$.
Return the weights of the $n$ values, the oldest first, as a tuple of SymPy expressions in `beta`.
What is their sum, and for which $\beta$ is only the newest value read?
""",
    hint=r"""
How does a token change the *row* $k^\top S$ of the state?
""",
    cases=(
        (sp.Integer(1), 2),
        (_B, 1),
        (_B, 2),
        (sp.Rational(1, 3), 4),
        (_B, 5),
        (sp.Integer(2), 3),
    ),
    solution=replaced_weights,
    misconceptions=(
        Misconception(
            "Newest first",
            "The oldest value comes first.",
            lambda beta, n: replaced_weights(beta, n)[::-1],
        ),
        Misconception(
            "Strength of the write left out",
            "Each value is written with the factor β.",
            _replaced(lambda beta, j, n: (1 - beta) ** (n - 1 - j)),
        ),
        Misconception(
            "Own write erased, too",
            "A token erases what was there before it; its own write comes after that.",
            _replaced(lambda beta, j, n: beta * (1 - beta) ** (n - j)),
        ),
        Misconception(
            "One token too few",
            "Value j passes the transitions of all later tokens: how many are they?",
            _replaced(lambda beta, j, n: beta * (1 - beta) ** max(n - 2 - j, 0)),
        ),
        Misconception(
            "Powers of β",
            "What stays of an older value at each token is the share 1 − β.",
            _replaced(lambda beta, j, n: (1 - beta) * beta ** (n - 1 - j)),
        ),
        Misconception(
            "Only powers of β",
            "What stays of an older value at each token is the share 1 − β.",
            _replaced(lambda beta, j, n: beta ** (n - j)),
        ),
        Misconception(
            "Sum without replacing",
            "This is linear attention with the factor β: nothing is erased.",
            _replaced(lambda beta, j, n: beta),
        ),
        Misconception(
            "Equal weights",
            "A mean needs a β that falls with the number of tokens.",
            _replaced(lambda beta, j, n: sp.Rational(1, n)),
        ),
        Misconception(
            "Loss at each token added up",
            "Each token takes a share of what is left, not of the first weight.",
            _replaced(lambda beta, j, n: beta * (1 - beta * (n - 1 - j))),
        ),
        Misconception(
            "Eigenvalue 1 + β",
            "The transition subtracts: its eigenvalue along k is 1 − β.",
            _replaced(lambda beta, j, n: beta * (1 + beta) ** (n - 1 - j)),
        ),
        Misconception(
            "Exponential gate",
            "The eigenvalue along k is 1 − β, not e^(−β).",
            _replaced(lambda beta, j, n: beta * sp.exp(-beta * (n - 1 - j))),
        ),
        Misconception(
            "Sign lost",
            "For β above 1 the eigenvalue 1 − β is negative, and signs alternate.",
            _replaced(lambda beta, j, n: beta * sp.Abs(1 - beta) ** (n - 1 - j)),
        ),
        Misconception(
            "Oldest value complete",
            "The first value is written with β like all others.",
            _replaced(
                lambda beta, j, n: (beta if j else 1) * (1 - beta) ** (n - 1 - j)
            ),
        ),
        Misconception(
            "Weights made to sum to 1",
            "Nothing divides the weights by their sum.",
            lambda beta, n: tuple(
                w / (1 - (1 - beta) ** n) for w in replaced_weights(beta, n)
            ),
        ),
    ),
    properties=(
        Property(
            "There are n weights",
            lambda answer, beta, n: len(answer(beta, n)) == n,
        ),
    ),
    explanation=r"""
$k^\top (I - \beta k k^\top) = (1 - \beta)\, k^\top$ for a unit vector, so each token multiplies $k^\top S$ by $1 - \beta$ and adds $\beta v_t^\top$: an exponential moving average of the values.
The weights sum to $1 - (1 - \beta)^n$; what is missing is what the state had for $k$ before.
With $\beta = 1$ only the newest value is read, and with $\beta = 2$ the weights are $\pm 2$ in turn.
What the state has for keys orthogonal to $k$ stays: {prf:ref}`a delta rule forgets by replacing <thm-state-erase>`.
""",
)


# states-4: on which side a transition stands


def input_with_wrong_transition():
    """Return a smallest input on which `colleagues_outputs` is wrong.

    The answer is (q, k, v, transitions, beta).
    """
    q = np.array([[1.0, 0.0]] * 2)
    k = np.array([[0.0, 1.0]] * 2)
    shear = np.array([[1.0, 1.0], [0.0, 1.0]])
    return q, k, np.ones((2, 1)), np.stack([shear] * 2), np.ones(2)


def _refused_writes(q, k, v, transitions, beta):
    if any(a.ndim != 2 for a in (q, k, v)) or beta.ndim != 1:
        return "q, k and v have two axes, beta has one"
    n, d = q.shape
    if k.shape != (n, d) or len(v) != n or beta.shape != (n,):
        return "q and k are [tokens, d], v is [tokens, d_v], beta [tokens]"
    if transitions.shape != (n, d, d):
        return "transitions are [tokens, d, d]"
    if n == 0 or n > 99 or not 1 <= d <= 8 or not 1 <= v.shape[1] <= 8:
        return "there are 1 to 99 tokens with 1 to 8 features"
    arrays = (q, k, v, transitions, beta)
    if any(a.dtype != float or not np.abs(a).max() <= 10 for a in arrays):
        return "all entries are floats between −10 and 10"
    return ""


def _unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def _shares(*shape):
    return 1 / (1 + np.exp(-draw(*shape)))


def _tested(transitions):
    n, d, _ = transitions.shape
    return draw(n, d), _unit(draw(n, d, seed=1)), draw(n, 3), transitions, _shares(n)


_DELTA = np.eye(4) - np.einsum("t,ta,tb->tab", _shares(6), *[_unit(draw(6, 4))] * 2)

ORDER = Exercise(
    name="states-4",
    title="Find the input: a transposed transition",
    kind="find the input",
    minutes=10,
    lines=4,
    statement=r"""
`colleagues_outputs` should do what exercise states-2 asks for.
Her tests have the transitions of GLA, a gate for each row, those of DeltaNet, $I - \beta_t k_t k_t^\top$, and a single token with any matrix.
All pass.
Find an input on which her function is wrong; the smallest has the fewest tokens.
Entries are between −10 and 10, and $d$ and $d_v$ at most 8.
Why did her tests not find the mistake, and would those of Gated DeltaNet or of KDA have found it?
""",
    hint=r"""
She transposes each transition.
Which matrices are equal to their transposes?
""",
    cases=((),),
    solution=input_with_wrong_transition,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_outputs,
        right=read_outputs,
        tested=(
            _tested(_shares(6, 4)[..., None] * np.eye(4)),
            _tested(_DELTA),
            _tested(draw(1, 4, 4)),
        ),
        refusal=_refused_writes,
        size=lambda q, k, v, transitions, beta: len(q),
        size_of="number of tokens",
    ),
    explanation=r"""
Diagonal matrices and $I - \beta k k^\top$ are symmetric, so transposing them changes nothing, and at the first token a transition acts on an empty state.
Two tokens and any matrix that is not symmetric, such as a rotation, are enough; in one dimension every matrix is symmetric.
Gated DeltaNet, with one gate for all rows, would have passed as well; KDA's $(I - \beta k k^\top) \operatorname{diag}(\alpha)$ is not symmetric.
Papers that write the transposed state have the transposed transition on its right, {ref}`which must not be mixed with this form <err-state-transposed>`.
""",
)


# states-5: all pairs at once


def pair_weights(q, k, log_alpha, beta):
    """Weights [tokens, tokens] of key j for query i, and 0 for j > i.

    The transition of token t is the number e^(log_alpha[t]). ``q`` and ``k`` are
    [tokens, d], ``log_alpha`` and ``beta`` are [tokens], all float64.
    """
    sums = log_alpha.cumsum(0)
    exponents = sums[:, None] - sums
    later = torch.ones_like(exponents).triu(1).bool()
    decays = exponents.masked_fill(later, -torch.inf).exp()
    return q @ k.T * decays * beta


def _paired(
    exponents=lambda c, log_alpha: c[:, None] - c,
    strength=lambda beta: beta,
    mask=lambda t: t.tril(),
    scale=lambda d: 1.0,
):
    """Make a wrong answer to the exercise ``pair_weights`` from its parts."""

    def answer(q, k, log_alpha, beta):
        inside = exponents(log_alpha.cumsum(0), log_alpha)
        limited = inside.clamp(max=700.0)
        weights = q @ k.T * limited.exp() * strength(beta)
        return mask(weights) * scale(q.shape[1])

    return answer


def _by_factors(q, k, log_alpha, beta):
    c = log_alpha.cumsum(0)[:, None]
    return ((q * c.exp()) @ (k * (-c).exp()).T * beta).tril()


def _masked_after(q, k, log_alpha, beta):
    c = log_alpha.cumsum(0)
    mask = torch.ones(len(q), len(q), dtype=q.dtype).tril()
    return q @ k.T * (c[:, None] - c).exp() * mask * beta


def _pairs_case(tokens, d, size, at=(), open_at=()):
    q, k = torch.tensor(draw(2, tokens, d))
    log_alpha = -size * torch.tensor(draw(tokens)).abs()
    log_alpha[list(at)] = -900.0
    log_alpha[list(open_at)] = 0.0
    return q, k, log_alpha, torch.tensor(_shares(tokens))


PAIRS = Exercise(
    name="states-5",
    title="All pairs at once",
    kind="PyTorch",
    minutes=12,
    lines=5,
    statement=r"""
Each token multiplies the state by a gate, a number $\alpha_t$ of which `log_alpha[t]` is the logarithm, and writes $\beta_t k_t v_t^\top$.
Return the weights of all pairs, `[tokens, tokens]`: entry $i, j$ is what value $j$ weighs in the output of token $i$, and 0 for $j > i$.
No loop is needed, and no number may overflow: `log_alpha` goes down to −900.
Which exponents would be above 0?
""",
    hint=r"""
With $c_t = \sum_{l \le t} \log \alpha_l$ the product of the gates of $j + 1 \dots i$ is $e^{c_i - c_j}$.
Set exponents to $-\infty$ where $j > i$, before `exp`.
""",
    cases=(
        (
            torch.tensor([[1.0], [2.0]], dtype=torch.float64),
            torch.tensor([[3.0], [5.0]], dtype=torch.float64),
            torch.tensor([-1.0, -2.0], dtype=torch.float64),
            torch.tensor([0.5, 2.0], dtype=torch.float64),
        ),
        _pairs_case(4, 2, 0.3),
        _pairs_case(6, 3, 1.0),
        _pairs_case(6, 2, 0.2, at=(3,)),
        _pairs_case(5, 3, 0.2, at=(0,)),
        _pairs_case(4, 2, 0.5, open_at=(1, 2)),
    ),
    solution=pair_weights,
    misconceptions=(
        Misconception(
            "Sums of earlier gates only",
            "The query's own gate acts on all earlier keys, and the key's own gate does "
            "not act on it.",
            _paired(lambda c, a: (c - a)[:, None] - (c - a)),
        ),
        Misconception(
            "Key's own gate included",
            "The sum begins with the token after the key: the weight of i = j has no gate.",
            _paired(lambda c, a: c[:, None] - c + a),
        ),
        Misconception(
            "Query's own gate left out",
            "Token i multiplies the state before it reads.",
            _paired(lambda c, a: (c - a)[:, None] - c),
        ),
        Misconception(
            "Difference with the wrong sign",
            "The weight of an older key is smaller: its exponent is c_i − c_j ≤ 0.",
            _paired(lambda c, a: c - c[:, None]),
        ),
        Misconception(
            "Gate of the query alone",
            "All gates from j + 1 to i multiply, not only the last.",
            _paired(lambda c, a: a[:, None] - 0 * c),
        ),
        Misconception(
            "Decay from the beginning",
            "Key j has passed the gates after it, not those from the first token on.",
            _paired(lambda c, a: c[:, None] + 0 * c),
        ),
        Misconception(
            "No gates",
            "This is linear attention. Each token after the key multiplies its weight.",
            _paired(lambda c, a: 0 * (c[:, None] - c)),
        ),
        Misconception(
            "Gates in place of their logarithms",
            "`log_alpha` is the logarithm already.",
            _paired(lambda c, a: a.exp().cumsum(0)[:, None] - a.exp().cumsum(0)),
        ),
        Misconception(
            "Split into two factors",
            "e^(−c_j) overflows when the sums fall below −709.",
            _by_factors,
        ),
        Misconception(
            "Masked after the exponential",
            "e^(c_i − c_j) of later keys overflows, and ∞ times 0 is NaN.",
            _masked_after,
        ),
        Misconception(
            "β left out",
            "The write of token j has the factor β_j.",
            _paired(strength=lambda beta: 1.0),
        ),
        Misconception(
            "β of the query",
            "β belongs to the token that writes: it is a factor of the column.",
            _paired(strength=lambda beta: beta[:, None]),
        ),
        Misconception(
            "Own key hidden",
            "A token reads after its own write.",
            _paired(mask=lambda t: t.tril(-1)),
        ),
        Misconception(
            "Later keys not hidden",
            "Entries with j > i are 0.",
            _paired(mask=lambda t: t),
        ),
        Misconception(
            "Softmax over the keys",
            "A state has no softmax: the products themselves are the weights.",
            lambda q, k, log_alpha, beta: (
                pair_weights(q, k, log_alpha, beta)
                .masked_fill(torch.ones(len(q), len(q)).triu(1).bool(), -torch.inf)
                .softmax(-1)
            ),
        ),
        Misconception(
            "Divided by √d",
            "Here nothing is divided by √d.",
            _paired(scale=lambda d: d**-0.5),
        ),
        Misconception(
            "Transposed",
            "Rows are queries, columns are keys.",
            lambda q, k, log_alpha, beta: pair_weights(q, k, log_alpha, beta).T,
        ),
    ),
    properties=(
        Property(
            "All weights are finite",
            lambda answer, *given: bool(answer(*given).isfinite().all()),
        ),
    ),
    explanation=r"""
The exponents $c_i - c_j$ are sums of logarithms of gates for $j < i$ and so at most 0; only those of later keys are above 0, and they are masked before `exp` sees them.
Masking afterwards multiplies $\infty$ by 0.
The result times `v` is what a loop over the tokens reads, by {prf:ref}`the duality <thm-state-duality>`: the loop takes $L$ steps, the product $L^2$ numbers.
""",
)


# states-6: one step of decoding


def decoding_step(state, q, k, v, alpha, beta):
    """Output [d_v] of a new token of Gated DeltaNet, and the new state [d, d_v].

    ``state`` is [d, d_v]; ``q`` and ``k`` are [d], ``v`` is [d_v], ``alpha`` and
    ``beta`` are numbers.
    """
    decayed = alpha * state
    error = v - k @ decayed
    new = decayed + beta * torch.outer(k, error)
    return q @ new, new


def _step(
    decayed=lambda alpha, state: alpha * state,
    error=lambda v, k, state, decayed: v - k @ decayed,
    write=lambda beta, k, error, alpha: beta * torch.outer(k, error),
    read=lambda q, state, decayed, new: q @ new,
    kept=lambda state, decayed, new: new,
):
    """Make a wrong answer to the exercise ``decoding_step`` from its steps."""

    def answer(state, q, k, v, alpha, beta):
        less = decayed(alpha, state)
        new = less + write(beta, k, error(v, k, state, less), alpha)
        return read(q, state, less, new), kept(state, less, new)

    return answer


def _step_case(d, d_v, alpha, beta):
    q, k = torch.tensor(draw(2, d))
    return (
        torch.tensor(draw(d, d_v)),
        q,
        k / k.norm(),
        torch.tensor(draw(d_v)),
        alpha,
        beta,
    )


DECODE = Exercise(
    name="states-6",
    title="One step of decoding",
    kind="PyTorch",
    minutes=10,
    lines=4,
    statement=r"""
A Gated DeltaNet head has read a text into `state`, `[d, d_v]`.
Now comes one token with $q$, a key $k$ of length 1, $v$, a gate $\alpha$ and a strength $\beta$.
First the state decays by $\alpha$; then the token writes $\beta k\,(v - S^\top k)^\top$, where $S$ is the decayed state; then it reads $S^\top q$.
Return the output `[d_v]` and the new state.
The given state must stay as it is: whoever takes back a token needs it.
How many numbers does a decoder keep after a thousand tokens?
""",
    hint=r"""
`k @ state` is $S^\top k$.
""",
    cases=(
        (
            torch.tensor([[1.0], [2.0]], dtype=torch.float64),
            torch.tensor([1.0, 1.0], dtype=torch.float64),
            torch.tensor([1.0, 0.0], dtype=torch.float64),
            torch.tensor([7.0], dtype=torch.float64),
            0.5,
            0.25,
        ),
        _step_case(2, 3, 0.9, 0.5),
        _step_case(3, 2, 0.6, 1.5),
        _step_case(3, 3, 0.3, 0.7),
    ),
    solution=decoding_step,
    misconceptions=(
        Misconception(
            "Corrected by the state before its decay",
            "The error is that of the decayed state.",
            _step(error=lambda v, k, state, decayed: v - k @ state),
        ),
        Misconception(
            "Nothing corrected",
            "Only what the state does not have yet is written: v − Sᵀ k.",
            _step(error=lambda v, k, state, decayed: v),
        ),
        Misconception(
            "Error with the wrong sign",
            "What is missing is v − Sᵀ k.",
            _step(error=lambda v, k, state, decayed: k @ decayed - v),
        ),
        Misconception(
            "State's value added",
            "What the state has for the key is subtracted.",
            _step(error=lambda v, k, state, decayed: v + k @ decayed),
        ),
        Misconception(
            "Write decayed, too",
            "The gate acts on what was there before, not on the new write.",
            _step(
                write=lambda beta, k, error, alpha: alpha * beta * torch.outer(k, error)
            ),
        ),
        Misconception(
            "No decay",
            "The state is first multiplied by α.",
            _step(decayed=lambda alpha, state: state),
        ),
        Misconception(
            "Loss in place of the gate",
            "α is the share that stays.",
            _step(decayed=lambda alpha, state: (1 - alpha) * state),
        ),
        Misconception(
            "Gate as a logarithm",
            "α itself is given, not its logarithm.",
            _step(decayed=lambda alpha, state: float(np.exp(alpha)) * state),
        ),
        Misconception(
            "β left out",
            "The write has the factor β.",
            _step(write=lambda beta, k, error, alpha: torch.outer(k, error)),
        ),
        Misconception(
            "β of the value alone",
            "β multiplies the whole error, also what is erased.",
            lambda state, q, k, v, alpha, beta: decoding_step(
                state, q, k, beta * v, alpha, 1.0
            ),
        ),
        Misconception(
            "β of the correction alone",
            "β multiplies the whole error, also the value.",
            lambda state, q, k, v, alpha, beta: decoding_step(
                state, q, k, v / beta, alpha, beta
            ),
        ),
        Misconception(
            "Read before the write",
            "The token reads after its own write.",
            _step(read=lambda q, state, decayed, new: q @ decayed),
        ),
        Misconception(
            "Read from the old state",
            "The token reads the new state.",
            _step(read=lambda q, state, decayed, new: q @ state),
        ),
        Misconception(
            "Read with the key",
            "Queries read.",
            lambda state, q, k, v, alpha, beta: decoding_step(
                state, k, k, v, alpha, beta
            ),
        ),
        Misconception(
            "Old state returned",
            "The next token needs the state after this one.",
            _step(kept=lambda state, decayed, new: state),
        ),
        Misconception(
            "State before the write returned",
            "The next token needs the state with this one's write.",
            _step(kept=lambda state, decayed, new: decayed),
        ),
        Misconception(
            "Divided by √d",
            "Here nothing is divided by √d.",
            _step(read=lambda q, state, decayed, new: q @ new / len(q) ** 0.5),
        ),
    ),
    properties=(
        Property(
            "With β = 1 the new state gives v for k",
            lambda answer, state, q, k, v, alpha, beta: torch.allclose(
                k @ answer(state, q, k, v, alpha, 1.0)[1], v
            ),
        ),
    ),
    explanation=r"""
The transition is $(I - \beta k k^\top)\, \alpha$: first the decay, then the correction, and the own write is not decayed.
A decoder keeps $d \cdot d_v$ numbers, after a thousand tokens as after one; an attention cache would have $1000\, (d + d_v)$.
In return no token can be taken out of a state again: going back takes a copy from before.
By {prf:ref}`the theorem on contraction <thm-state-contraction>` the old part never grows for $0 \le \beta \le 2$.
""",
)


# states-7: which exchanges a layer sees


def _read_with(x, transition, beta=1.0):
    """Output of the last token: keys, values and query are the rows of x."""
    k = x[:, :2] / np.linalg.norm(x[:, :2], axis=1, keepdims=True)
    state = np.zeros((2, x.shape[1]))
    for key, row in zip(k, x, strict=True):
        state = transition(key, row) @ state + beta * np.outer(key, row)
    return k[-1] @ state


def summing(x):
    """Last output of a layer whose transition is I."""
    return _read_with(x, lambda key, row: np.eye(2))


def decaying(x):
    """Last output with one gate for all tokens."""
    return _read_with(x, lambda key, row: 0.8 * np.eye(2))


def gating(x):
    """Last output with a gate that reads the token: open, or closed half."""
    return _read_with(x, lambda key, row: (0.5 if row[-1] > 0 else 1.0) * np.eye(2))


def correcting(x):
    """Last output of the delta rule with β = ½."""
    return _read_with(x, lambda key, row: np.eye(2) - 0.5 * np.outer(key, key), 0.5)


def convolving(x):
    """Last output with T = I, after a convolution over two tokens."""
    return summing(x + 0.5 * np.concatenate((0 * x[:1], x[:-1])))


def attending(x):
    """Last output of softmax attention without positions."""
    weights = np.exp(x @ x[-1] - (x @ x[-1]).max())
    return weights @ x / weights.sum()


LAYERS = {
    "sum": summing,
    "decay": decaying,
    "gate": gating,
    "delta rule": correcting,
    "convolution": convolving,
    "attention": attending,
}


def exchanges_seen(layer, x):
    """Array of booleans [tokens − 2]: whether the last output sees an exchange.

    Entry t is True if exchanging the tokens t and t + 1 changes it. ``layer`` is a key
    of LAYERS, whose functions return the last output for ``x``, [tokens, channels].
    """
    output = LAYERS[layer]
    seen = np.zeros(len(x) - 2, dtype=bool)
    for t in range(len(x) - 2):
        other = x.copy()
        other[[t, t + 1]] = x[[t + 1, t]]
        seen[t] = np.abs(output(other) - output(x)).max() > 1e-9
    return seen


def _exchanged(
    swap=lambda x, t: np.concatenate((x[:t], x[t : t + 2][::-1], x[t + 2 :])),
    is_seen=lambda change: np.abs(change).max() > 1e-9,
):
    """Make a wrong answer to the exercise ``exchanges_seen``.

    ``swap`` takes x and a token, ``is_seen`` the change of the output.
    """

    def answer(layer, x):
        output = LAYERS[layer]
        return np.array(
            [bool(is_seen(output(swap(x, t)) - output(x))) for t in range(len(x) - 2)],
            dtype=bool,
        )

    return answer


def _kept_exchanges(layer, x):
    output, other, seen = LAYERS[layer], x.copy(), []
    for t in range(len(x) - 2):
        other[[t, t + 1]] = other[[t + 1, t]]
        seen.append(np.abs(output(other) - output(x)).max() > 1e-9)
    return np.array(seen, dtype=bool)


_FIVE = draw(5, 3)
_OPEN = draw(6, 3) * [1, 1, 0] + np.outer([1, -1, -1, 1, 1, -1], [0, 0, 1.0])
_AXES = np.array(
    [
        [1.0, 0, 3],
        [0, 1.0, -2],
        [0, 2.0, 5],
        [1.0, 0, -1],
        [0, 1.0, 4],
        [1.0, 1.0, 1],
    ]
)
_A, _OTHER, _END = [1.0, 2.0, 0.0], [2.0, -1.0, 0.0], [1.0, 1.0, 0.0]
_PAIRS = np.array([_A, _A, _OTHER, _OTHER, _END])
_MIRRORED = np.array([_A, _OTHER, _OTHER, _A, _END])
_FIRST = _FIVE[:, :1] * [0.0, 0.0, 1.0] + [1.0, 2.0, 0.0]

EXCHANGES = Exercise(
    name="states-7",
    title="Which exchanges does a layer see?",
    kind="experiment",
    minutes=12,
    lines=6,
    statement=r"""
`LAYERS` has six functions, which return the output of the last token of `x`, `[tokens, channels]`: five states and an attention without positions.
For each $t$ exchange the tokens $t$ and $t + 1$, both of them before the last, and mark whether the last output changes.
Outputs that differ by at most 1e-9 in every entry are equal.
Return an array of booleans, `[tokens - 2]`.
Which layers see no exchange, which see all, and what decides in the others?
""",
    hint=r"""
Exchange in a copy of `x`, by indexing with a list of two rows: `x[t]` alone is a view.
""",
    cases=(
        ("decay", draw(3, 3)),
        ("sum", _FIVE),
        ("gate", _OPEN),
        ("delta rule", _AXES),
        ("convolution", _FIVE),
        ("attention", _FIVE),
        ("delta rule", _FIVE),
        ("decay", _PAIRS),
        ("decay", _MIRRORED),
        ("decay", _FIRST),
        ("decay", 1e-6 * _FIRST),
        ("delta rule", np.outer(np.arange(1.0, 6), np.ones(3))),
    ),
    solution=exchanges_seen,
    misconceptions=(
        Misconception(
            "Every exchange assumed to be seen",
            "Some of these layers are blind to order: exchange, and look.",
            lambda layer, x: np.ones(len(x) - 2, dtype=bool),
        ),
        Misconception(
            "No exchange assumed to be seen",
            "Some of these layers know ages: exchange, and look.",
            lambda layer, x: np.zeros(len(x) - 2, dtype=bool),
        ),
        Misconception(
            "One answer for all exchanges",
            "A layer may see some exchanges and not others.",
            lambda layer, x: np.full(len(x) - 2, exchanges_seen(layer, x).any()),
        ),
        Misconception(
            "One token later",
            "Entry t exchanges the tokens t and t + 1.",
            _exchanged(
                swap=lambda x, t: np.concatenate(
                    (x[: t + 1], x[t + 1 : t + 3][::-1], x[t + 3 :])
                )
            ),
        ),
        Misconception(
            "Tokens two apart",
            "Exchange neighbors.",
            _exchanged(
                swap=lambda x, t: np.concatenate(
                    (x[:t], x[t : t + 3][::-1], x[t + 3 :])
                )
            ),
        ),
        Misconception(
            "Channels exchanged",
            "Exchange rows of x: a token is a row.",
            _exchanged(swap=lambda x, t: np.roll(x, 1, axis=1)),
        ),
        Misconception(
            "Text reversed",
            "Only two tokens are exchanged.",
            _exchanged(swap=lambda x, t: np.concatenate((x[:-1][::-1], x[-1:]))),
        ),
        Misconception(
            "Exchanges kept",
            "Each exchange starts from x itself: take a new copy.",
            _kept_exchanges,
        ),
        Misconception(
            "One token overwritten",
            "`x[t], x[t + 1] = x[t + 1], x[t]` copies one row twice, since rows are views.",
            _exchanged(
                swap=lambda x, t: np.concatenate((x[:t], x[[t + 1, t + 1]], x[t + 2 :]))
            ),
        ),
        Misconception(
            "Signed change",
            "An output that falls has changed as well.",
            _exchanged(is_seen=lambda change: change.max() > 1e-9),
        ),
        Misconception(
            "Signed change, reversed",
            "An output that rises has changed as well.",
            _exchanged(is_seen=lambda change: change.min() < -1e-9),
        ),
        Misconception(
            "First channel alone compared",
            "Another entry of the output may change.",
            _exchanged(is_seen=lambda change: abs(change[0]) > 1e-9),
        ),
        Misconception(
            "Every channel asked to change",
            "One entry that changes is enough.",
            _exchanged(is_seen=lambda change: np.abs(change).min() > 1e-9),
        ),
        Misconception(
            "Large changes alone",
            "A change above 1e-9 counts.",
            _exchanged(is_seen=lambda change: np.abs(change).max() > 1e-3),
        ),
        Misconception(
            "Unseen exchanges marked",
            "True is for an exchange that changes the output.",
            _exchanged(is_seen=lambda change: np.abs(change).max() <= 1e-9),
        ),
    ),
    explanation=r"""
The sum and attention without positions read a set and see nothing ({prf:ref}`the theorem on sums <thm-state-set>`).
A constant gate sees every exchange of tokens whose writes the query reads differently, and a convolution sees those that change a neighborhood.
Gates of the text see no exchange of two tokens whose gates are both 1.
The delta rule sees no exchange of two keys that are orthogonal: their transitions commute, and neither touches the other's write.
With $\beta = 1$ it would see none at all here: the query is the last token's own key, for which the state then has that token's value alone, {eq}`eq-state-overwrite`.
""",
)


# states-8: the tokens before


def tokens_before(x, alpha):
    """Sums h of earlier tokens, like x [tokens, d].

    h_t is x_(t−1) + α x_(t−2) + α² x_(t−3) + …
    """
    h = np.zeros_like(x)
    for t in range(1, len(x)):
        h[t] = x[t - 1] + alpha * h[t - 1]
    return h


def _broken_tokens_before(x, alpha):
    """Sums h of earlier tokens, like x [tokens, d].

    h_t is x_(t−1) + α x_(t−2) + α² x_(t−3) + …
    """
    h = np.zeros_like(x)
    state = np.zeros_like(x[0])
    for t in range(len(x)):
        state = alpha * state + x[t]
        h[t] = state
    return h


def symptom_of_recall(function):
    """Return how many of 20 questions are answered wrong.

    A text of 30 tokens is followed by one of them; which
    token came after it? Attention without positions looks
    for the token among the keys `function` makes.
    """
    wrong = 0
    for at in range(20):
        words = np.eye(30)
        x = np.concatenate((words, words[[at]]))
        logits = 50 * function(x, 0.05) @ x[-1]
        weights = np.exp(logits - logits.max())
        answer = weights @ x / weights.sum()
        wrong += int(np.argmax(answer)) != at + 1
    return wrong


def _summed(weight):
    """Make a wrong answer to ``tokens_before``: Σ_j weight(i − j, α) x_j."""

    def answer(x, alpha):
        n = len(x)
        ages = np.arange(n)[:, None] - np.arange(n)
        weights = np.array(
            [[weight(a, alpha) if a >= 0 else 0.0 for a in row] for row in ages]
        ).reshape(n, n)
        return weights @ x

    return answer


BEFORE = Exercise(
    name="states-8",
    title="Repair: order from below",
    kind="repair",
    minutes=12,
    lines=3,
    statement=r"""
A recurrent layer shall tell each token what came before it, so that attention without positions above it can answer "what came after this token?".
The keys of attention are $h_t = x_{t-1} + \alpha x_{t-2} + \alpha^2 x_{t-3} + \dots$, with $h_0 = 0$.
With the layer as it is, attention returns the token itself.
Repair `tokens_before` so that `symptom_of_recall` gives 0.
Two rows of a state with gates for each row can compute it: which gates, and which query?
""",
    hint=r"""
What does the state hold before token $t$ writes into it?
""",
    cases=(
        (np.array([[1.0], [2.0], [4.0]]), 0.5),
        (draw(4, 2), 0.1),
        (draw(6, 3), 0.9),
        (draw(5, 2), 0.0),
        (draw(1, 3), 0.3),
    ),
    solution=tokens_before,
    misconceptions=(
        Misconception(
            "Own token included",
            "The code is as it was: the state is read after the token's own write.",
            _broken_tokens_before,
        ),
        Misconception(
            "Own token subtracted, but decayed once too often",
            "Without the own token the sum still has a factor α: the token before is to "
            "have the weight 1.",
            _summed(lambda age, alpha: alpha**age if age else 0.0),
        ),
        Misconception(
            "One token too far back",
            "The token just before has the weight 1.",
            _summed(lambda age, alpha: alpha ** (age - 2) if age > 1 else 0.0),
        ),
        Misconception(
            "The token before alone",
            "Older tokens are in the sum, with powers of α.",
            _summed(lambda age, alpha: float(age == 1)),
        ),
        Misconception(
            "No decay",
            "Each further token back has another factor α.",
            _summed(lambda age, alpha: float(age > 0)),
        ),
        Misconception(
            "The same factor for all older tokens",
            "The exponent of α grows with the age.",
            _summed(lambda age, alpha: (1.0 if age == 1 else alpha) * (age > 0)),
        ),
        Misconception(
            "Factor linear in the age",
            "Each token multiplies the state: the factor is a power.",
            _summed(
                lambda age, alpha: max(1 - (1 - alpha) * (age - 1), 0.0) * (age > 0)
            ),
        ),
        Misconception(
            "Mean in place of the sum",
            "Nothing is divided by a sum of weights.",
            lambda x, alpha: tokens_before(x, alpha) * (1 - alpha),
        ),
        Misconception(
            "Own token added with the factor −1",
            "The own token has the weight 0.",
            lambda x, alpha: tokens_before(x, alpha) - x,
        ),
        Misconception(
            "Tokens after in place of before",
            "A token cannot know what comes after it.",
            lambda x, alpha: tokens_before(x[::-1], alpha)[::-1],
        ),
        Misconception(
            "First token is its own predecessor",
            "Nothing comes before the first token: h_0 = 0.",
            lambda x, alpha: tokens_before(np.concatenate((x[:1], x)), alpha)[1:],
        ),
        Misconception(
            "Last token wraps around",
            "`np.roll` puts the last token before the first.",
            lambda x, alpha: np.roll(_broken_tokens_before(x, alpha), 1, axis=0),
        ),
        Misconception(
            "Features shifted in place of tokens",
            "The first axis has the tokens.",
            lambda x, alpha: tokens_before(x.T, alpha).T,
        ),
        Misconception(
            "Difference to the token before",
            "A sum of earlier tokens is asked for.",
            lambda x, alpha: x - np.concatenate((0 * x[:1], x[:-1])),
        ),
    ),
    level="hard",
    explanation=r"""
Read the state *before* the write: $h_t = x_{t-1} + \alpha h_{t-1}$.
A recurrent layer reads after its write, but two rows do the same: with the gates $\alpha$ and 0 they hold $\sum_n \alpha^n x_{t-n}$ and $x_t$, and a query in the direction of $(1, -1)$ reads their difference, which is $\alpha h_t$.
Attention alone could not: {prf:ref}`its output does not depend on the order of what it reads <thm-one-causal-layer>`, and here the order is in the keys.
{prf:ref}`The theorem on recall <thm-state-recall>` says how sharply it then answers.
""",
    repair=Repair(_broken_tokens_before, symptom_of_recall),
)


SHEET = Sheet(
    title="States",
    conventions=r"""
$i$ reads and $j \le i$ was written, counted from 0.
Token $t$ changes the state to $S_t = T_t S_{t-1} + \beta_t k_t v_t^\top$ and reads $o_t = S_t^\top q_t$; rows of $S$ belong to features of keys, columns to features of values.
Nothing is divided by $\sqrt d$.
""",
    example=r"""
from posedu.numpy.recurrent import state_weights

q = k = np.ones((1, 3, 1))  # [heads, tokens, d]
log_decay = np.log([[0.1, 0.5, 0.9]])
beta = np.ones((1, 3))
weights = state_weights(q, k, log_decay, beta, delta=False)
print(weights[0])
""",
    figure="states_explorable",
    exercises=(
        *(WINDOW, READ_OUTPUTS, REPLACED, ORDER),
        *(PAIRS, DECODE, EXCHANGES, BEFORE),
    ),
)
