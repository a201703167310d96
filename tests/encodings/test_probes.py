"""Probe encodings are short to write with hooks, and correct wherever hooks act.

Each is written out in ``probes`` for NumPy, SymPy and PyTorch, and once more as a loop
over queries and keys that knows no hooks.
"""

import inspect
from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from posedu.numpy import attention as reference
from posedu.numpy import bias, gated, stickbreaking
from posedu.sympy import attention as symbolic
from posedu.sympy import bias as symbolic_bias
from posedu.sympy import gated as symbolic_gated
from posedu.sympy import stickbreaking as symbolic_stickbreaking
from posedu.torch import (
    T5,
    ALiBi,
    CoPE,
    Encoding,
    FoX,
    KVCache,
    RoPE,
    StickBreaking,
    attend,
)
from posedu.torch.attention import ROUTES, choose_route
from posedu.torch.encoding import LAYER_HOOKS, MODEL_HOOKS
from support.probes import PROBES
from support.probes.probe import evaluated, lines_of_code, to_sympy, to_torch

pytestmark = [
    pytest.mark.usefixtures("untraced_flex"),
    pytest.mark.filterwarnings("ignore:flex_attention called without"),
]
DOUBLE, HALF = torch.float64, torch.bfloat16
BATCH, TOKENS, D_MODEL = 2, 7, 6
by_name = pytest.mark.parametrize("name", PROBES)


def dyadic(rng, *shape):
    """Multiples of 1/32 up to 2, which bfloat16 holds."""
    return rng.integers(-64, 65, shape) / 32


class Case:
    """A probe with parameters and the tokens of some sequences."""

    def __init__(
        self, name, *, heads=2, kv_heads=2, tokens=TOKENS, reals=False, start=0
    ):
        self.probe, self.heads = PROBES[name], heads
        rng = np.random.default_rng(0)

        def draw(*shape):
            return dyadic(rng, *shape)

        self.parameters = self.probe.parameters(draw, heads, kv_heads)
        d = self.probe.d
        self.q = draw(BATCH, heads, tokens, d)
        self.k, self.v = draw(2, BATCH, kv_heads, tokens, d)
        self.x = draw(BATCH, tokens, D_MODEL)
        if self.probe.position:
            self.positions = np.eye(2) + draw(BATCH, tokens, 2, 2) / 4
        else:
            steps = rng.integers(1, 90, (BATCH, tokens)) / 32
            if not reals:
                steps = np.ceil(steps).astype(int)
            steps[0, 0] = start if start < self.probe.reach else 0
            self.positions = steps.cumsum(1)

    def sequences(self):
        """q, k, v, positions and x of each."""
        return zip(self.q, self.k, self.v, self.positions, self.x, strict=True)

    def oracle(self, causal=True):
        n, group = self.q.shape[2], self.heads // self.k.shape[1]
        mask = np.tri(n, dtype=bool) if causal else np.ones((n, n), bool)
        return np.stack(
            [
                self.probe.oracle(
                    q,
                    k.repeat(group, 0),
                    v.repeat(group, 0),
                    positions,
                    x,
                    mask,
                    **self.parameters,
                )
                for q, k, v, positions, x in self.sequences()
            ]
        )

    def numpy(self, causal=True, hooks=None):
        hooks = hooks or self.probe.numpy(**self.parameters)
        return np.stack(
            [
                reference.attend(q, k, v, hooks, positions=p, x=x, causal=causal)
                for q, k, v, p, x in self.sequences()
            ]
        )

    def exact(self):
        return {name: to_sympy(value) for name, value in self.parameters.items()}

    def sympy(self, hooks=None):
        """The first sequence, to 20 digits at every step."""
        hooks = evaluated(hooks or self.probe.sympy(**self.exact()))
        q, k, v, positions, x = (to_sympy(t) for t in next(self.sequences()))
        out = symbolic.attend(q, k, v, hooks, positions=positions, x=x)
        return np.stack([np.array(m.tolist(), dtype=float) for m in out])

    def encoding(self, implementation=None):
        """The probe's encoding, or another implementation of the same parameters."""
        implementation = implementation or self.probe.torch
        parameters = {name: to_torch(value) for name, value in self.parameters.items()}
        if "d" in inspect.signature(implementation).parameters:
            parameters["d"] = self.probe.d
        return implementation(**parameters)

    def inputs(self, dtype=DOUBLE):
        q, k, v, x = (
            torch.tensor(t, dtype=dtype) for t in (self.q, self.k, self.v, self.x)
        )
        return dict(q=q, k=k, v=v, x=x, positions=torch.tensor(self.positions))

    def torch(self, encoding=None, **options):
        encoding = self.encoding() if encoding is None else encoding
        with torch.no_grad():
            return attend(**self.inputs(), encoding=encoding, **options)

    def routes(self):
        """The routes other than eager that support the encoding."""
        return [r for r in ROUTES if r != "eager" and serves(self.encoding(), r)]


def serves(encoding, route):
    try:
        return choose_route(encoding, route) == route
    except ValueError:
        return False


def close(computed, expected):
    """Equal but for 1000 roundings of float64, of terms up to 10."""
    eps = torch.finfo(DOUBLE).eps
    computed, expected = (
        np.asarray(torch.as_tensor(t).detach()) for t in (computed, expected)
    )
    np.testing.assert_allclose(computed, expected, rtol=0, atol=1e4 * eps)


# Short


@by_name
@pytest.mark.parametrize("implementation", ("numpy", "sympy", "torch"))
def test_a_implementation_is_short(name, implementation, record_property):
    lines = lines_of_code(getattr(PROBES[name], implementation))
    record_property("lines", lines)
    assert lines <= PROBES[name].lines


def test_lines_are_those_that_hold_code():
    assert lines_of_code(counted) == 4


def counted(x):
    """Prose, and a blank line.

    More prose.
    """
    # said in passing
    both = (
        x, x)  # fmt: skip

    return both


# The definition


@by_name
@pytest.mark.parametrize("reals", (False, True), ids=("integers", "reals"))
def test_the_hooks_of_numpy_are_the_definition(name, reals):
    case = Case(name, reals=reals)
    close(case.numpy(), case.oracle())
    if not case.probe.only_causal:
        close(case.numpy(causal=False), case.oracle(causal=False))


@by_name
@pytest.mark.parametrize("reals", (False, True), ids=("integers", "reals"))
def test_the_hooks_of_pytorch_are_the_definition(name, reals):
    """Compare PyTorch with the oracle, with positions of their own for each row."""
    case = Case(name, reals=reals)
    close(case.torch(), case.oracle())
    if not case.probe.only_causal:
        close(case.torch(causal=False), case.oracle(causal=False))


@by_name
def test_the_hooks_of_sympy_are_the_definition(name):
    case = Case(name, tokens=3, reals=True)
    close(case.sympy(), case.oracle()[0])


@by_name
def test_a_wrong_version_is_none(name):
    case = Case(name)
    with pytest.raises(AssertionError):
        close(case.torch(case.encoding(case.probe.mutant)), case.oracle())


@by_name
def test_each_overridden_hook_matters(name):
    """Without any one hook, NumPy's and SymPy's encodings give other results."""
    case = Case(name, tokens=3, reals=True)
    hooks, exact = case.probe.numpy(**case.parameters), case.probe.sympy(**case.exact())
    expected = case.oracle()
    for wrong in with_a_hook_shut(hooks, reference.NO_HOOKS):
        with pytest.raises(AssertionError):
            close(case.numpy(hooks=wrong), expected)
    for wrong in with_a_hook_shut(exact, symbolic.NO_HOOKS):
        with pytest.raises(AssertionError):
            close(case.sympy(hooks=wrong), expected[0])


def with_a_hook_shut(hooks, shut):
    """Yield the hooks without one of the overridden ones, for each of these."""
    names = [field.name for field in fields(hooks)]
    opened = [n for n in names if getattr(hooks, n) is not getattr(shut, n)]
    assert opened
    return [replace(hooks, **{n: getattr(shut, n)}) for n in opened]


# The encodings of posedu, by the same definitions


def alibi_implementations(case):
    options = dict(heads=2, slopes="geometric")
    case.parameters["slopes"] = np.array([2.0**-4, 2.0**-8])
    return bias.alibi(**options), symbolic_bias.alibi(**options), ALiBi(**options)


def t5_implementations(case):
    table, options = case.parameters["table"], dict(bidirectional=False, distance=16)
    exact = case.exact()["table"]
    module = T5(2, buckets=8, table=torch.tensor(table), **options)
    hooks = bias.t5(table=table, **options), symbolic_bias.t5(table=exact, **options)
    return *hooks, module


def fox_implementations(case):
    weight, start = case.parameters["weight"], case.parameters["bias"]
    exact = case.exact()
    w, b = torch.tensor(weight), torch.tensor(start)
    return (
        gated.fox(gate_weight=weight, gate_bias=start),
        symbolic_gated.fox(gate_weight=exact["weight"], gate_bias=exact["bias"]),
        FoX(D_MODEL, 2, gate_weight=w, gate_bias=b),
    )


def cope_implementations(case):
    table, options = case.parameters["table"], dict(scaling="code")
    return (
        gated.cope(table=table, **options),
        symbolic_gated.cope(table=case.exact()["table"], **options),
        CoPE(4, npos=4, table=torch.tensor(table), **options),
    )


def stick_implementations(case):
    options = dict(attend_current=False, remainder="drop")
    implementations = stickbreaking, symbolic_stickbreaking
    hooks = (
        implementation.stick_breaking(**options) for implementation in implementations
    )
    return *hooks, StickBreaking(**options)


OWN = {
    "alibi": alibi_implementations,
    "t5": t5_implementations,
    "fox": fox_implementations,
    "cope": cope_implementations,
    "stick-breaking": stick_implementations,
}


@pytest.mark.parametrize("name", OWN)
def test_the_implementations_of_posedu_are_the_definition(name):
    for tokens in (3, TOKENS):
        case = Case(name, tokens=tokens)
        hooks, exact, encoding = OWN[name](case)
        close(case.numpy(hooks=hooks), case.oracle())
        close(case.torch(encoding), case.oracle())
        if tokens == 3:
            close(case.sympy(hooks=exact), case.oracle()[0])


# Wherever hooks are used


def check_routes(case, encoding, **options):
    expected = case.torch(encoding, **options)
    for route in case.routes():
        if route == "fused" and "window" in options:
            continue
        close(case.torch(encoding, route=route, **options), expected)


def check_cache(case, encoding, route="eager"):
    expected = case.torch(encoding, route=route)
    tensors = case.inputs()
    one_by_one = [] if route == "flex" else [(1,) * TOKENS]  # each makes a new kernel
    for steps in [(3, 1, 3), *one_by_one]:
        cache, outputs, start = KVCache(), [], 0
        for n in steps:
            new = slice(start, start := start + n)
            piece = {
                name: t[:, new] if name in ("x", "positions") else t[:, :, new]
                for name, t in tensors.items()
            }
            with torch.no_grad():
                outputs.append(
                    attend(**piece, encoding=encoding, cache=cache, route=route)
                )
        close(torch.cat(outputs, 2), expected)


def check_rows(case, encoding):
    together = case.torch(encoding)
    for row in range(BATCH):
        own = {name: t[row : row + 1] for name, t in case.inputs().items()}
        with torch.no_grad():
            close(attend(**own, encoding=encoding), together[row : row + 1])


def check_padding(case, encoding, route="eager"):
    """Two tokens of padding before the first sequence, one before the second."""
    padding = torch.arange(TOKENS) < torch.tensor([[2], [1]])
    out = case.torch(encoding, key_padding_mask=padding, route=route)
    for row, pads in enumerate((2, 1)):
        own = {
            name: t[row : row + 1, pads:]
            if name in ("x", "positions")
            else t[row : row + 1, :, pads:]
            for name, t in case.inputs().items()
        }
        with torch.no_grad():
            alone = attend(**own, encoding=encoding)
        close(out[row : row + 1, :, pads:], alone)


@by_name
def test_every_route_gives_the_same(name):
    case = Case(name)
    encoding = case.encoding()
    check_routes(case, encoding)
    check_routes(case, encoding, window=3)
    if not case.probe.only_causal:
        check_routes(case, encoding, causal=False)


def test_which_routes_serve_which_probe():
    served = {name: Case(name).routes() for name in PROBES}
    expected = {name: ["sdpa", "flex"] for name in PROBES}
    for name in ("alibi", "fox", "key bias"):
        expected[name] = ["folded", "sdpa", "flex"]
    for name in ("shaw", "dape", "self-extend", "path"):
        expected[name] = []
    expected["stick-breaking"] = ["fused"]
    assert served == expected


@by_name
def test_steps_with_a_cache_give_the_same(name):
    case = Case(name, reals=True)
    for route in ("eager", *case.routes()):
        check_cache(case, case.encoding(), route)


@by_name
def test_rows_of_a_batch_have_positions_of_their_own(name):
    case = Case(name)
    check_rows(case, case.encoding())


@by_name
def test_left_padding_is_as_if_absent(name):
    case = Case(name)
    for route in ("eager", *case.routes()):
        check_padding(case, case.encoding(), route)


@by_name
def test_grouped_queries_share_repeated_keys_and_values(name):
    case = Case(name, heads=4, kv_heads=2)
    close(case.numpy(), case.oracle())
    for route in ("eager", *case.routes()):
        close(case.torch(route=route), case.oracle())


# Gradients


def gradients(case, route):
    encoding, inputs = case.encoding(), case.inputs()
    leaves = [inputs[n].requires_grad_() for n in "qkvx"] + [*encoding.parameters()]
    out = attend(**inputs, encoding=encoding, route=route)
    weights = torch.tensor(dyadic(np.random.default_rng(1), *out.shape))
    found = torch.autograd.grad((out * weights).sum(), leaves, allow_unused=True)
    return [torch.zeros(()) if g is None else g for g in found]


class Layer(torch.nn.Module):
    def __init__(self, encoding):
        super().__init__()
        self.encoding = encoding

    def forward(self, *tensors, positions):
        q, k, v, x = tensors
        return attend(q, k, v, self.encoding, positions=positions, x=x)


@by_name
def test_gradients_are_those_of_differences(name):
    case = Case(name, tokens=3)
    layer, inputs = Layer(case.encoding()), case.inputs()
    names = [n for n, _ in layer.named_parameters()]
    positions = {"positions": inputs["positions"]}

    def out(*leaves):
        trained = dict(zip(names, leaves[4:], strict=True))
        return torch.func.functional_call(layer, trained, leaves[:4], positions)

    leaves = [inputs[n].requires_grad_() for n in "qkvx"] + [*layer.parameters()]
    assert torch.autograd.gradcheck(out, leaves, fast_mode=True)


@by_name
def test_every_route_has_the_same_gradients(name):
    """But FlexAttention, which has none on a CPU."""
    case = Case(name)
    expected = gradients(case, "eager")
    for route in case.routes():
        if route != "flex":
            for computed, wanted in zip(gradients(case, route), expected, strict=True):
                close(computed, wanted)


# Half precision


def half_bound(case):
    """Bound the difference of bfloat16 from the definition for the same inputs.

    A logit's terms pass ``roundings`` roundings each, so that it is off by that times
    u (Σ |q| |k| scale + |bias|), E. Softmax weights are off by at most the factor
    e^E / Σ w e^−E, products of a row's by e^(E + Σ E). Weights, values and their sum
    are rounded once more.
    """
    u = torch.finfo(HALF).eps / 2
    hooks = case.probe.numpy(**case.parameters)
    sizes = case.probe.numpy(**{n: np.abs(p) for n, p in case.parameters.items()})
    bounds = []
    for q, k, v, positions, x in case.sequences():
        mask = reference.causal_mask(len(x))
        seen, logits, weights, _ = reference.steps(
            q, k, v, hooks, positions=positions, x=x, mask=mask
        )
        scale = hooks.scale(seen.d)
        rest = logits - scale * seen.q @ seen.k.swapaxes(1, 2)
        terms = scale * abs(seen.q) @ abs(seen.k).swapaxes(1, 2) + abs(rest)
        i, j = np.indices(mask.shape)
        way = case.probe.roundings_on_the_way * (i - j)
        e = (case.probe.roundings + way) * u * np.where(mask, terms, 0)
        if case.probe.accumulates:
            off = weights * np.expm1(e + e.sum(-1, keepdims=True))
        else:
            least = (weights * np.exp(-e)).sum(-1, keepdims=True)
            off = weights * (np.exp(e) / least - 1)
        off = off + 3 * u * weights
        bounds.append(case.probe.gain * sizes.mix(off, abs(seen.v), seen))
    return np.stack(bounds)


def half_excess(case, encoding):
    """The largest error in bfloat16, over its bound."""
    with torch.no_grad():
        out = attend(**case.inputs(HALF), encoding=encoding.to(HALF)).double().numpy()
    error, bound = abs(out - case.oracle()), half_bound(case)
    assert (error <= bound)[bound == 0].all()  # no key: zeros
    return (error / np.where(bound > 0, bound, 1)).max()


@by_name
def test_half_precision_is_close(name):
    case = Case(name, start=1000)
    assert half_excess(case, case.encoding()) <= 1


@by_name
def test_half_precision_is_close_enough_to_tell_a_wrong_version(name):
    case = Case(name, start=1000)
    assert half_excess(case, case.encoding(case.probe.mutant)) > 1


# Names


@pytest.mark.parametrize("hook", (*MODEL_HOOKS, *LAYER_HOOKS))
def test_a_parameter_cannot_have_the_name_of_a_hook(hook):
    encoding, table = Encoding(), torch.nn.Parameter(torch.zeros(2))
    with pytest.raises(AttributeError, match=f"'{hook}' is a hook: .* another name"):
        setattr(encoding, hook, table)
    setattr(encoding, f"{hook}_", table)
    assert [*encoding.parameters()] == [table]


# Each of these checks can fail


def alibi(**hooks):
    """ALiBi's encoding with other hooks."""
    return type("Wrong", (PROBES["alibi"].torch,), hooks)


def from_zero(self, q, k, positions):
    """Counts the tokens of this call, whatever their positions are."""
    return RoPE(q.shape[-1], layout="half").rotate(q, k, range(q.shape[-2]))


def first_row(self, tokens):
    """Gives all sequences the positions of the first."""
    query, key = tokens.query_positions[:1, None], tokens.key_positions[:1, None]
    return -self.slopes * query, self.slopes * key


def whole_numbers(self, tokens):
    """Cuts off what comes after the point."""
    query, key = tokens.query_positions[:, None], tokens.key_positions[:, None]
    return -self.slopes * query.long(), self.slopes * key.long()


def coarse_positions(self, tokens):
    """Holds positions in the dtype of the features."""
    dtype = tokens.q.dtype
    query, key = tokens.query_positions.to(dtype), tokens.key_positions.to(dtype)
    return -self.slopes * query[:, None], self.slopes * key[:, None]


def sees_padding(self, logits, tokens):
    """Remembers causality alone."""
    place = torch.ones(logits.shape[-2:]).tril(logits.shape[-1] - logits.shape[-2])
    return logits.masked_fill(place == 0, -torch.inf).softmax(-1)


def head_of_the_group(self, q, k, positions):
    """Spreads keys by tiling them, where neighbors share."""
    return q, k.roll(1, 1)


def other_score_mod(self, tokens):
    """Written for one sign, and the bias for the other."""
    slopes = self.slopes[:, 0]
    return lambda score, b, h, i, j: score + slopes[h] * (i - j)


def test_a_wrong_use_of_positions_is_found():
    case = Case("alibi")
    for check, wrong in (
        (check_cache, alibi(rotate=from_zero)),
        (check_rows, alibi(fold=first_row)),
        (check_padding, alibi(weigh=sees_padding)),
        (check_routes, alibi(score_mod=other_score_mod)),
    ):
        check(case, case.encoding())
        with pytest.raises(AssertionError):
            check(case, case.encoding(wrong))


def test_positions_cut_to_whole_numbers_are_found():
    wrong = alibi(fold=whole_numbers)
    whole, reals = Case("alibi"), Case("alibi", reals=True)
    close(whole.torch(whole.encoding(wrong)), whole.oracle())
    with pytest.raises(AssertionError):
        close(reals.torch(reals.encoding(wrong)), reals.oracle())


def test_positions_in_half_precision_are_found():
    wrong = alibi(fold=coarse_positions)
    near, far = Case("alibi"), Case("alibi", start=1000)
    assert half_excess(near, near.encoding(wrong)) <= 1
    assert half_excess(far, far.encoding(wrong)) > 1


def test_keys_of_another_group_are_found():
    wrong = alibi(rotate=head_of_the_group)
    case = Case("alibi", heads=4, kv_heads=2)
    with pytest.raises(AssertionError):
        close(case.torch(case.encoding(wrong)), case.oracle())
