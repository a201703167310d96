"""Probe encodings with hooks of a model: before, inside and between layers."""

import math

import numpy as np
import pytest
import scipy.linalg
import torch

from posedu.numpy import attention as reference
from posedu.sympy.attention import stack as symbolic_stack
from posedu.torch import KVCache, RoPE, Transformer, attend
from support.probes import PROBES
from support.probes.models import FLOATER, MODELS, STEPS, Flow, Layer, follow
from support.probes.probe import evaluated, lines_of_code, to_sympy, to_torch

pytestmark = [
    pytest.mark.usefixtures("untraced_flex"),
    pytest.mark.filterwarnings("ignore:flex_attention called without"),
]
DOUBLE = torch.float64
BATCH, TOKENS, D_MODEL, HEADS, LAYERS = 2, 6, 8, 2, 2
by_name = pytest.mark.parametrize("name", MODELS)


def dyadic(rng, *shape):
    return rng.integers(-64, 65, shape) / 32


class Case:
    """A probe with parameters for some layers, which have none of their own."""

    def __init__(self, name, *, tokens=TOKENS, reals=False):
        self.probe = MODELS[name]
        rng = np.random.default_rng(0)

        def draw(*shape):
            return dyadic(rng, *shape)

        self.parameters = self.probe.parameters(draw, LAYERS)
        self.x = draw(BATCH, tokens, D_MODEL)
        self.positions = rng.integers(1, 70, (BATCH, tokens)).cumsum(1) / 32
        if not reals:
            self.positions = np.ceil(self.positions)
        shape = (HEADS, D_MODEL // HEADS, D_MODEL)
        self.layers = []
        for _ in range(LAYERS):
            q, k, v = (draw(*shape) / 2 for _ in range(3))
            inner, o = draw(D_MODEL, D_MODEL) / 4, draw(D_MODEL, *shape[:2]) / 4
            self.layers.append(Layer(q, k, v, o, lambda x: x, Squares(inner)))

    def of_layer(self, n):
        return {
            name: value[n] if name in self.probe.own else value
            for name, value in self.parameters.items()
        }

    def oracle(self, row, layers=None, positions=None):
        positions = self.positions[row] if positions is None else positions
        layers = self.layers if layers is None else layers
        return self.probe.oracle(self.x[row], positions, layers, **self.parameters)

    def numpy(self, row, **options):
        hooks = [self.probe.numpy(**self.of_layer(n), **options) for n in range(LAYERS)]
        layers = [
            (reference.Projections(w.q, w.k, w.v, w.o), w.MLP) for w in self.layers
        ]
        mask = reference.causal_mask(self.x.shape[1])
        positions = self.positions[row]
        return reference.stack(self.x[row], layers, positions, mask=mask, hooks=hooks)

    def sympy(self, row, **options):
        """Evaluate the symbolic model to 20 digits at every step."""
        layers = [
            (
                [tuple(to_sympy(w)) for w in (layer.q, layer.k, layer.v)],
                to_sympy(layer.o.reshape(D_MODEL, -1)),
                layer.MLP,
            )
            for layer in self.layers
        ]
        x, positions = to_sympy(self.x[row]), to_sympy(self.positions[row])
        # A stack has one encoding; those of layers that differ keep the positions.
        parts = [[layer] for layer in layers] if self.probe.own else [layers]
        for n, part in enumerate(parts):
            exact = {name: to_sympy(p) for name, p in self.of_layer(n).items()}
            hooks = evaluated(self.probe.sympy(**exact, **options))
            x = symbolic_stack(x, part, positions, hooks=hooks)
        return np.array(x.tolist(), dtype=float)

    def encodings(self, implementation=None):
        implementation = implementation or self.probe.torch
        if issubclass(implementation, FLOATER):
            flow = Flow(
                *(to_torch(self.parameters[n]) for n in ("w_in", "b_in", "w_out"))
            )
            return [
                implementation(torch.tensor(s), flow) for s in self.parameters["starts"]
            ]
        made = []
        for n in range(LAYERS if self.probe.own else 1):
            parameters = {name: to_torch(p) for name, p in self.of_layer(n).items()}
            made.append(implementation(**parameters))
        return made if self.probe.own else made[0]

    def model(self, implementation=None, **options):
        torch.manual_seed(0)
        encoding = self.encodings(implementation)
        model = Transformer(
            D_MODEL, HEADS, LAYERS, encoding=encoding, expansion=2, **options
        )
        for block in model.blocks:  # whose start is nearly blind
            for projection in (block.attention.q, block.attention.k, block.attention.o):
                projection.weight.data *= 4
        return model.double().eval()

    def torch(self, model, **options):
        x, positions = torch.tensor(self.x), torch.tensor(self.positions)
        with torch.no_grad():
            return model(x, positions, **options)


class Squares:
    """An MLP of NumPy and SymPy: (W x)²/8."""

    def __init__(self, weight):
        self.weight = weight

    def __call__(self, x):
        if isinstance(x, np.ndarray):
            return (x @ self.weight.T) ** 2 / 8
        return (x * to_sympy(self.weight).T).applyfunc(lambda z: z**2 / 8)


def layers_of(model):
    """A Transformer's layers in the form that the oracles take."""
    made = []
    for block in model.blocks:
        own = block.attention
        q, k, v = (
            m.weight.detach().numpy().reshape(HEADS, -1, D_MODEL)
            for m in (own.q, own.k, own.v)
        )
        o = own.o.weight.detach().numpy().reshape(D_MODEL, HEADS, -1)
        made.append(
            Layer(q, k, v, o, called(block.before_attention), called(block.MLP))
        )
    return made


def called(module):
    def call(x):
        with torch.no_grad():
            return module(torch.tensor(x)).numpy()

    return call


def close(computed, expected):
    """Equal but for 1000 roundings of float64, of terms up to 100."""
    computed, expected = (
        np.asarray(torch.as_tensor(t).detach()) for t in (computed, expected)
    )
    np.testing.assert_allclose(
        computed, expected, rtol=0, atol=1e5 * torch.finfo(DOUBLE).eps
    )


def check_definition(case, model):
    out = case.torch(model)
    for row in range(BATCH):
        expected = called(model.norm)(case.oracle(row, layers_of(model)))
        close(out[row], expected)


def check_caches(case, model):
    expected = case.torch(model)
    x, positions = torch.tensor(case.x), torch.tensor(case.positions)
    for steps in ((3, 1, 2), (1,) * TOKENS):
        caches, outputs, start = model.caches(), [], 0
        for n in steps:
            new = slice(start, start := start + n)
            with torch.no_grad():
                outputs.append(model(x[:, new], positions[:, new], caches=caches))
        close(torch.cat(outputs, 1), expected)


@by_name
@pytest.mark.parametrize("implementation", ("numpy", "sympy", "torch"))
def test_a_implementation_is_short(name, implementation, record_property):
    lines = lines_of_code(getattr(MODELS[name], implementation))
    record_property("lines", lines)
    assert lines <= MODELS[name].lines


@by_name
@pytest.mark.parametrize("reals", (False, True), ids=("integers", "reals"))
def test_the_hooks_of_numpy_are_the_definition(name, reals):
    case = Case(name, reals=reals)
    for row in range(BATCH):
        close(case.numpy(row), case.oracle(row))


@by_name
def test_the_hooks_of_sympy_are_the_definition(name):
    case = Case(name, tokens=3, reals=True)
    close(case.sympy(0), case.oracle(0))


@by_name
@pytest.mark.parametrize("reals", (False, True), ids=("integers", "reals"))
def test_the_hooks_of_pytorch_are_the_definition(name, reals):
    case = Case(name, reals=reals)
    check_definition(case, case.model())


@by_name
def test_a_wrong_version_is_none(name):
    case = Case(name)
    with pytest.raises(AssertionError):
        check_definition(case, case.model(case.probe.mutant))


@by_name
def test_steps_with_caches_give_the_same(name):
    case = Case(name, reals=True)
    check_caches(case, case.model())


def test_a_state_that_forgets_the_cache_is_found():
    """An update from the new tokens alone."""
    case = Case("tape")

    def update(self, weights, tokens, mlp_output):
        new = tokens.q.shape[2]
        return MODELS["tape"].torch.update(
            self,
            weights[..., -new:],
            type(
                "New",
                (),
                {
                    "query_positions": tokens.query_positions,
                    "key_positions": tokens.key_positions[:, -new:],
                },
            ),
            mlp_output,
        )

    with pytest.raises(AssertionError):
        check_caches(
            case, case.model(type("Forgetful", (case.probe.torch,), {"update": update}))
        )


@pytest.mark.parametrize("name", ("learned per layer", "floater", "cape"))
@pytest.mark.parametrize("route", ("sdpa", "flex"))
def test_every_route_gives_the_same(name, route):
    case = Case(name)
    close(case.torch(case.model(route=route)), case.torch(case.model(route="eager")))


@by_name
def test_left_padding_is_as_if_absent(name):
    case = Case(name)
    model = case.model()
    pads = torch.tensor([[2], [1]])
    out = case.torch(model, key_padding_mask=torch.arange(TOKENS) < pads)
    for row, first in enumerate((2, 1)):
        x, positions = (
            torch.tensor(case.x[row, first:]),
            torch.tensor(case.positions[row, first:]),
        )
        with torch.no_grad():
            close(out[row, first:], model(x[None], positions[None])[0])


@by_name
def test_gradients_are_those_of_differences(name):
    case = Case(name, tokens=3)
    model = case.model()
    trained = {
        n: p
        for n, p in model.named_parameters()
        if n.startswith(
            (
                "input",
                "blocks.0.attention.encoding",
                "blocks.1.attention.encoding",
                "blocks.0.outer",
                "blocks.1.outer",
            )
        )
    }
    x, positions = torch.tensor(case.x).requires_grad_(), torch.tensor(case.positions)

    def out(x, *values):
        given = dict(zip(trained, values, strict=True))
        return torch.func.functional_call(model, given, (x, positions))

    assert torch.autograd.gradcheck(out, (x, *trained.values()), fast_mode=True)


def rounded(model):
    """The model with weights that bfloat16 holds."""
    for parameter in model.parameters():
        parameter.data = parameter.data.bfloat16().double()
    return model


@by_name
def test_half_precision_is_close(name):
    """A path through a layer rounds 13 times, each time numbers like the output.

    On entering, in the norm, the projections, the hook, the logits, the weights, their
    sum, the projection back, the stream, the MLP's four, and the stream again.
    """
    case = Case(name)
    if name in ("cape", "tape"):  # the others' positions end, or grow without bound
        case.positions = case.positions + 1000
    model = rounded(case.model())
    right, wrong = case.torch(model), case.torch(rounded(case.model(case.probe.mutant)))
    x, positions = torch.tensor(case.x).bfloat16(), torch.tensor(case.positions)
    with torch.no_grad():
        out = model.bfloat16()(x, positions).double()
    u = torch.finfo(torch.bfloat16).eps / 2
    bound = 13 * LAYERS * u * right.abs().max()
    assert (out - right).abs().max() <= bound
    assert (out - wrong).abs().max() > bound


# TAPE


def rope_start(parameters):
    return parameters | {n: 0 * parameters[n] for n in ("attended", "down")}


def test_tape_starts_as_rope_in_every_layer():
    case = Case("tape", reals=True)
    case.parameters = rope_start(case.parameters)
    model = case.model()
    torch.manual_seed(0)
    rope = Transformer(
        D_MODEL,
        HEADS,
        LAYERS,
        encoding=RoPE(D_MODEL // HEADS, layout="half"),
        expansion=2,
    )
    rope.load_state_dict(
        {
            n: p
            for n, p in model.state_dict().items()
            if "encoding" not in n and "input" not in n
        }
    )
    close(case.torch(model), case.torch(rope.double()))


def test_tape_is_blind_to_a_shift_of_all_positions():
    case = Case("tape")
    model, wrong = case.model(), case.model(case.probe.mutant)
    before = case.torch(model), case.torch(wrong)
    case.positions = case.positions + 3.5
    close(case.torch(model), before[0])
    assert (case.torch(wrong) - before[1]).abs().max() > 1e-3


def test_tape_moves_the_positions_of_later_layers():
    case = Case("tape")
    moved, model = case.torch(case.model()), case.model()
    case.parameters = rope_start(case.parameters)
    assert (case.torch(case.model()) - moved).abs().max() > 1e-3
    assert model.blocks[0].attention.encoding is model.blocks[1].attention.encoding


# CAPE


def test_cape_shakes_in_training_alone():
    case = Case("cape")
    model = case.model()
    close(case.torch(model), case.torch(model))
    model.train()
    assert (case.torch(model) - case.torch(model)).abs().max() > 1e-2


def test_cape_shakes_each_sequence_and_keeps_its_order():
    """Gaps are in [1 − 2e, 1 + 2e] λ for λ in [1 / l, l]."""
    encoding = Case("cape").encodings().train()
    torch.manual_seed(0)
    moved = encoding.locate(torch.arange(20)[None], torch.zeros(200, 20, D_MODEL))
    gaps = moved.diff()
    assert (gaps > 0).all() and (gaps <= 2 * 1.25).all()
    assert gaps.min() < 0.2 and gaps.max() > 2.2
    assert moved[:, 0].std() > 2 and moved.mean(1).unique().numel() == 200


class OneShakeForAll(MODELS["cape"].torch):
    """Drawn for rows of positions, of which sequences may share one."""

    def locate(self, positions, x):
        return super().locate(positions, x[: len(positions)])


@pytest.mark.parametrize("implementation", (MODELS["cape"].torch, OneShakeForAll))
def test_cape_shakes_sequences_that_share_positions_apart(implementation):
    case = Case("cape")
    model = case.model(implementation).train()
    x = torch.tensor(case.x[:1]).expand(BATCH, -1, -1)
    first, second = model(x)
    are_alike = bool((first - second).abs().max() < 1e-2)
    assert are_alike == (implementation is OneShakeForAll)


def test_cape_in_training_is_the_definition_of_the_shaken_positions():
    case = Case("cape")
    model = case.model().train()
    torch.manual_seed(3)
    out = case.torch(model)
    torch.manual_seed(3)
    shift, scale = (2 * torch.rand(2, BATCH, 1, dtype=DOUBLE) - 1).numpy()
    noise = (2 * torch.rand(BATCH, TOKENS, dtype=DOUBLE) - 1).numpy()
    moved = (case.positions + 5 * shift + 0.5 * noise) * 1.25**scale
    for row in range(BATCH):
        expected = case.oracle(row, layers_of(model), moved[row])
        close(out[row], called(model.norm)(expected))


def test_the_other_implementations_of_cape_shake_alike():
    case = Case("cape", tokens=3)
    out = case.numpy(0, generator=np.random.default_rng(7))
    rng = np.random.default_rng(7)
    shift, noise, scale = (
        rng.uniform(-5, 5),
        rng.uniform(-0.5, 0.5, 3),
        rng.uniform(-1, 1),
    )
    moved = (case.positions[0] + shift + noise) * 1.25**scale
    close(out, case.oracle(0, positions=moved))
    draws = shift / 5, [float(s) / 0.5 for s in noise], scale
    close(case.sympy(0, draws=draws), out)


# FLOATER


def test_the_flow_is_the_solution_of_a_linear_equation():
    """RK4 leaves out |A t|⁵ / 5! of each step's exponential, and smaller terms."""
    a = np.array([[0.1, -0.9], [0.9, -0.2]])
    start, time = np.array([1.0, 2.0]), 1.7
    exact = scipy.linalg.expm(a * time) @ start
    size = np.linalg.norm(a, 2) * time / STEPS
    left_out = math.exp(size) - sum(size**n / math.factorial(n) for n in range(5))
    bound = STEPS * math.exp(STEPS * size) * left_out * np.linalg.norm(start)
    error = np.linalg.norm(follow(lambda t, p: a @ p, start, time) - exact)
    assert 0 < error <= bound < 0.05
    halves = np.linalg.norm(start + time * a @ start - exact)
    assert halves > bound


def test_one_flow_serves_all_layers_and_each_has_its_start():
    model = Case("floater").model()
    names = [n for n, _ in model.named_parameters() if "encoding" in n]
    assert sum("flow" in n for n in names) == 3
    assert sum("starts" in n for n in names) == LAYERS


# Transformer-XL's memory


def xl(heads=HEADS):
    rng = np.random.default_rng(1)
    parameters = PROBES["transformer-xl"].parameters(
        lambda *s: dyadic(rng, *s), heads, heads
    )
    return {n: to_torch(p) for n, p in parameters.items()}


def test_a_memory_of_the_newest_is_a_sliding_window():
    """Caching M tokens in every layer means that each query attends to M + 1 keys."""
    memory, tokens = 3, 9
    torch.manual_seed(0)
    encoding = PROBES["transformer-xl"].torch(**xl())
    options = dict(encoding=encoding, expansion=2)
    whole = Transformer(D_MODEL, HEADS, LAYERS, window=memory + 1, **options).double()
    model = Transformer(D_MODEL, HEADS, LAYERS, **options).double()
    model.load_state_dict(whole.state_dict())
    x = torch.randn(BATCH, tokens, D_MODEL, dtype=DOUBLE)
    caches, outputs = model.caches(), []
    for t in range(tokens):
        outputs.append(model(x[:, t : t + 1], caches=caches))
        for cache in caches:
            cache.detach()
            cache.crop(-memory)
    close(torch.cat(outputs, 1), whole(x))
    assert [len(cache) for cache in caches] == [memory] * LAYERS
    assert (torch.cat(outputs, 1) - model(x)).abs().max() > 1e-3


def test_segments_with_a_memory_see_it_and_themselves():
    memory, length, tokens = 2, 3, 9
    probe, parameters = PROBES["transformer-xl"], xl()
    rng = np.random.default_rng(2)
    q, k, v = (dyadic(rng, HEADS, tokens, 4) for _ in range(3))
    i, j = np.indices((tokens, tokens))
    mask = (j <= i) & (j >= i // length * length - memory)
    plain = {n: p.numpy() for n, p in parameters.items()}
    expected = probe.oracle(q, k, v, np.arange(tokens), None, mask, **plain)
    encoding, cache, outputs = probe.torch(**parameters), KVCache(), []
    for start in range(0, tokens, length):
        piece = (torch.tensor(t[None, :, start : start + length]) for t in (q, k, v))
        outputs.append(attend(*piece, encoding, cache=cache)[0])
        cache.crop(-memory)
    close(torch.cat(outputs, 1), expected)


def test_no_gradient_goes_into_the_memory():
    encoding, grads = PROBES["transformer-xl"].torch(**xl()), []
    for detached in (False, True):
        first, second = torch.randn(2, 3, 1, HEADS, 3, 4, dtype=DOUBLE)
        first.requires_grad_()
        cache = KVCache()
        attend(*first, encoding, cache=cache)
        if detached:
            cache.detach()
        out = attend(*second, encoding, cache=cache).sum()
        grads += torch.autograd.grad(out, first, allow_unused=True)
    assert grads[0].abs().max() > 0 and grads[1] is None
