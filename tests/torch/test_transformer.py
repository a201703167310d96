"""The transformer: every hook acts in its place, once, in all combinations."""

import copy
import math
from collections import Counter

import numpy as np
import pytest
import torch

from posedu.numpy import absolute, bias, gated, rotary
from posedu.numpy import attention as reference
from posedu.torch import (
    T5,
    ALiBi,
    Attention,
    AxialRoPE,
    CoPE,
    Encoding,
    FoX,
    KVCache,
    RoPE,
    Sinusoidal,
    StickBreaking,
    Transformer,
)
from posedu.torch.encoding import softmax
from posedu.torch.transformer import Block
from support import compiling

DOUBLE = torch.float64
WIDTH, HEADS, D, TOKENS = 8, 2, 4, 7
HALF = {"layout": "half"}

# Of three layers, each a few hundred operations on numbers of size 10 at most.
ATOL = 1e4 * torch.finfo(DOUBLE).eps


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def tokens_of(batch=2, tokens=TOKENS, seed=1):
    return torch.tensor(normal(seed, batch, tokens, WIDTH))


def model_of(layers=3, **options):
    """A transformer whose weights, norms and biases too, are all random."""
    torch.manual_seed(0)
    model = Transformer(WIDTH, HEADS, layers, **options).double()
    owned = {p for e in model.modules() if isinstance(e, Encoding) for p in own(e)}
    for parameter in model.parameters():
        if parameter not in owned:
            torch.nn.init.normal_(parameter, std=0.5)
    return model


def own(encoding):
    return encoding.parameters()


def close(actual, expected, atol=ATOL):
    actual, expected = (
        t.detach().numpy() if isinstance(t, torch.Tensor) else t
        for t in (actual, expected)
    )
    np.testing.assert_allclose(actual, expected, rtol=0, atol=atol)


def differs(actual, expected):
    return (actual - expected).abs().max() > 1e-3


# The same in NumPy, one sequence at a time.


def weights_of(module):
    return [p.detach().numpy() for p in module.parameters()]


def normed(x, norm):
    gain, shift = weights_of(norm)
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return gain * (x - mean) / np.sqrt(variance + norm.eps) + shift


def MLP(block, x):
    norm, up, _, down = block.MLP
    (first, first_bias), (second, second_bias) = weights_of(up), weights_of(down)
    hidden = normed(x, norm) @ first.T + first_bias
    hidden = hidden * (1 + np.vectorize(math.erf)(hidden / math.sqrt(2))) / 2
    return hidden @ second.T + second_bias


def projections(layer):
    q, k, v = (
        m.weight.detach().numpy().reshape(-1, layer.d, layer.d_model)
        for m in (layer.q, layer.k, layer.v)
    )
    o = layer.o.weight.detach().numpy().reshape(layer.d_model, layer.heads, layer.d)
    return reference.Projections(q, k, v, o)


def oracle(
    model, x, positions=None, *, hooks=reference.NO_HOOKS, first=None, masks=None
):
    """The model on one sequence; ``hooks`` and ``masks`` one for all layers or each."""
    n, layers = len(x), len(model.blocks)
    hooks = [hooks] * layers if isinstance(hooks, reference.Hooks) else hooks
    masks = masks if isinstance(masks, list) else [masks] * layers
    first = hooks[0] if first is None else first
    positions = np.asarray(range(n) if positions is None else positions, dtype=float)
    positions = first.locate(positions, x)
    x = first.embed(x, positions)
    for block, own, mask in zip(model.blocks, hooks, masks, strict=True):
        if mask is None and block.attention.causal:
            mask = reference.causal_mask(n)
        x = own.enter(x, positions)
        w, entering = projections(block.attention), normed(x, block.before_attention)
        q, k, v = (np.einsum("hdm,im->hid", m, entering) for m in (w.q, w.k, w.v))
        taken = reference.steps(
            q, k, v, own, positions=positions, x=entering, mask=mask
        )
        x = x + np.einsum("mhd,hid->im", w.o, taken.out)
        mlp_output = MLP(block, x)
        x = x + mlp_output
        positions = own.update(taken.weights, taken.tokens, mlp_output)
    return normed(x, model.norm)


class EveryHook(Encoding):
    """An encoding that uses all hooks, and counts their calls."""

    def __init__(self):
        super().__init__()
        self.passed = Counter()

    def _pass(self, hook):
        self.passed[hook] += 1

    def locate(self, positions, x):
        self._pass("locate")
        return positions.double() / 2

    def embed(self, x, positions):
        self._pass("embed")
        return x + positions.sin()[..., None].to(x.dtype)

    def enter(self, x, positions):
        self._pass("enter")
        return x * (2 + positions.cos()[..., None]).to(x.dtype)

    def rotate(self, q, k, positions):
        self._pass("rotate")
        at = positions[:, None, :, None].to(q.dtype)
        return q * at.cos(), k * (2 + at.sin())

    def values(self, v, positions):
        self._pass("values")
        return v + positions[:, None, :, None].cos().to(v.dtype)

    def remember(self, x):
        self._pass("remember")
        return {"mean": x.mean(-1)}

    def scale(self, d):
        return 1 / d

    def bias(self, tokens):
        self._pass("bias")
        return tokens.memory["mean"][:, None, None] - 0.1 * tokens.offsets

    def weigh(self, logits, tokens):
        self._pass("weigh")
        return softmax(2 * logits, tokens.mask)

    def mix(self, weights, v, tokens):
        self._pass("mix")
        return weights.square() @ v

    def output(self, out, positions):
        self._pass("output")
        return out * positions[:, None, :, None].cos().to(out.dtype)

    def update(self, weights, tokens, mlp_output):
        self._pass("update")
        keys = tokens.key_positions[:, None, :, None]
        seen = (weights.double().mean(1, keepdim=True) @ keys.double())[:, 0, :, 0]
        return seen + mlp_output.double().mean(-1)


EVERY_HOOK = reference.Hooks(
    locate=lambda p, x: p / 2,
    embed=lambda x, p: x + np.sin(p)[:, None],
    enter=lambda x, p: x * (2 + np.cos(p)[:, None]),
    rotate=lambda q, k, p: (q * np.cos(p)[:, None], k * (2 + np.sin(p)[:, None])),
    values=lambda v, p: v + np.cos(p)[:, None],
    scale=lambda d: 1 / d,
    bias=lambda tokens: tokens.x.mean(-1) - 0.1 * tokens.offsets,
    weigh=lambda logits, tokens: reference.weigh(2 * logits, tokens),
    mix=lambda weights, v, tokens: weights**2 @ v,
    output=lambda out, p: out * np.cos(p)[:, None],
    update=lambda weights, tokens, mlp_output: (
        weights.mean(0) @ tokens.key_positions + mlp_output.mean(-1)
    ),
)


class Entering(Encoding):
    """A vector at the entry of each layer, and no other hook."""

    d_model = WIDTH

    def enter(self, x, positions):
        return x + positions.sin()[..., None].to(x.dtype)


ENTERING = reference.Hooks(enter=lambda x, p: x + np.sin(p)[:, None])
SINUSOIDAL = reference.Hooks(embed=lambda x, p: absolute.embed_sinusoidal(x, p, **HALF))
ROTATE = reference.Hooks(
    rotate=lambda q, k, p: tuple(rotary.rope(t, p, **HALF) for t in (q, k))
)
GATES = (torch.tensor([0.5, 2.0]), torch.tensor(normal(5, HEADS, WIDTH)).float())
TABLE = torch.tensor(normal(6, HEADS, 8)).float()


def rope():
    return RoPE(D, **HALF)


def fox():
    return FoX(WIDTH, HEADS, gate_bias=GATES[0], gate_weight=GATES[1])


def fox_hooks():
    of, weight = (t.double().numpy() for t in GATES)
    return gated.fox(gate_bias=of, gate_weight=weight)


def alibi(sides="causal"):
    return ALiBi(HEADS, slopes="authors", sides=sides)


def alibi_hooks(sides="causal"):
    return bias.alibi(heads=HEADS, slopes="authors", sides=sides)


def t5():
    return T5(HEADS, bidirectional=True, buckets=8, distance=16, table=TABLE)


def t5_hooks():
    return bias.t5(table=TABLE.double().numpy(), bidirectional=True, distance=16)


KINDS = {  # options of the model, and of the oracle
    "none": (lambda: {}, {}),
    "rope": (lambda: {"encoding": rope()}, {"hooks": ROTATE}),
    "fox": (lambda: {"encoding": fox()}, {"hooks": fox_hooks()}),
    "alibi": (lambda: {"encoding": alibi()}, {"hooks": alibi_hooks()}),
    "sinusoidal": (
        lambda: {"encoding": Sinusoidal(WIDTH, **HALF)},
        {"hooks": reference.NO_HOOKS, "first": SINUSOIDAL},
    ),
    "entering": (lambda: {"encoding": Entering()}, {"hooks": ENTERING}),
    "every hook": (lambda: {"encoding": EveryHook()}, {"hooks": EVERY_HOOK}),
    "one each": (
        lambda: {"encoding": [rope(), None, alibi()]},
        {"hooks": [ROTATE, reference.NO_HOOKS, alibi_hooks()]},
    ),
    "input and layers": (
        lambda: {
            "input": Sinusoidal(WIDTH, **HALF),
            "encoding": [None, fox(), Entering()],
        },
        {"first": SINUSOIDAL, "hooks": [reference.NO_HOOKS, fox_hooks(), ENTERING]},
    ),
}
ENCODERS = {
    name: KINDS[name]
    for name in ("none", "rope", "sinusoidal", "entering", "every hook")
} | {
    "alibi": (
        lambda: {"encoding": alibi("symmetric")},
        {"hooks": alibi_hooks("symmetric")},
    ),
    "t5": (
        lambda: {"encoding": t5()},
        {
            "hooks": bias.t5(
                table=TABLE.double().numpy(), bidirectional=True, distance=16
            )
        },
    ),
}
CASES = [(name, *KINDS[name], True) for name in KINDS]
CASES += [(name, *ENCODERS[name], False) for name in ENCODERS]
PLACES = {
    "default": None,
    "far": torch.arange(TOKENS) + 1000,
    "list": [3, 1, 4, 1, 5, 9, 2],
    "real": torch.tensor([0.5, -3.0, 7.25, 7.25, 30, 2.0, -0.125]),
    "rows": torch.tensor([[0, 1, 2, 3, 4, 5, 6], [9, 8, 0, 0, -4, 12, 7]]),
}


def of_row(positions, row):
    if isinstance(positions, torch.Tensor):
        return (positions[row] if positions.ndim == 2 else positions).numpy()
    return positions


@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize(
    "name, options, expected, causal", CASES, ids=[f"{c[0]}-{c[3]}" for c in CASES]
)
def test_it_is_what_numpy_says(name, options, expected, causal, places):
    model, x = model_of(**options(), causal=causal), tokens_of()
    out = model(x, PLACES[places])
    for row in range(2):
        at = of_row(PLACES[places], row)
        close(out[row], oracle(model, x[row].numpy(), at, **expected))


def test_a_list_of_positions_reaches_the_hooks_of_numpy_as_an_array():
    layers = [(projections(b.attention), np.zeros_like) for b in model_of().blocks]
    hooks = reference.Hooks(locate=EVERY_HOOK.locate, embed=EVERY_HOOK.embed)
    x, places = tokens_of()[0].numpy(), [*range(3, 3 + TOKENS)]
    listed, given = (
        reference.stack(x, layers, p, hooks=hooks) for p in (places, np.array(places))
    )
    assert np.array_equal(listed, given)


@pytest.mark.parametrize("tokens", [0, 1])
@pytest.mark.parametrize("name", KINDS)
def test_no_token_and_a_single_one(name, tokens):
    options, expected = KINDS[name]
    model, x = model_of(**options()), tokens_of(tokens=tokens)
    out = model(x)
    assert out.shape == x.shape
    if tokens:
        close(out[0], oracle(model, x[0].numpy(), **expected))


# No hook acts twice, and none not at all.


@pytest.mark.parametrize("as_input", [False, True])
def test_hooks_of_a_model_are_passed_once_and_those_of_a_layer_in_each(as_input):
    encoding = EveryHook()
    model = model_of(encoding=encoding, input=encoding if as_input else None)
    model(tokens_of())
    once = {"locate": 1, "embed": 1}
    layers = ("enter", "rotate", "values", "remember", "bias", "weigh", "mix")
    each = dict.fromkeys((*layers, "output", "update"), 3)
    assert model.input is encoding and encoding.passed == once | each


def test_one_each_that_is_the_input_too_acts_on_it_once():
    encoding, x = EveryHook(), tokens_of()
    model = model_of(encoding=[encoding] * 3, input=encoding)
    close(model(x)[0], oracle(model, x[0].numpy(), hooks=EVERY_HOOK))


def test_embedding_in_every_layer_is_seen():
    class InEveryLayer(Sinusoidal):
        def enter(self, x, positions):
            return self.embed(x, positions)

    x = tokens_of()
    right, wrong = (
        model_of(encoding=kind(WIDTH, **HALF)) for kind in (Sinusoidal, InEveryLayer)
    )
    assert differs(wrong(x), right(x))


def test_a_layer_without_an_encoding_does_not_get_its_neighbors():
    x = tokens_of()
    some, all_, none = (
        model_of(encoding=e)(x) for e in ([rope(), None, None], [rope()] * 3, None)
    )
    assert differs(some, all_) and differs(some, none)


def test_what_an_input_does_in_layers_is_the_layers_own_affair():
    everywhere, x = EveryHook(), tokens_of()
    model = model_of(input=everywhere)
    first = reference.Hooks(locate=EVERY_HOOK.locate, embed=EVERY_HOOK.embed)
    close(model(x)[0], oracle(model, x[0].numpy(), first=first))
    assert everywhere.passed == {"locate": 1, "embed": 1}


def test_an_update_without_a_layers_hook_still_has_weights():
    class Drifting(Encoding):
        def enter(self, x, positions):
            return x + positions.sin()[..., None].to(x.dtype)

        def update(self, weights, tokens, mlp_output):
            return EveryHook().update(weights, tokens, mlp_output)

    hooks = reference.Hooks(enter=ENTERING.enter, update=EVERY_HOOK.update)
    model, x = model_of(encoding=Drifting()), tokens_of()
    close(model(x)[0], oracle(model, x[0].numpy(), hooks=hooks))


def test_a_shared_encoding_is_one_and_own_ones_are_not():
    shared, each = fox(), [fox(), fox(), fox()]
    count = sum(p.numel() for p in shared.parameters())
    bare = sum(p.numel() for p in model_of().parameters())
    for encoding, expected in ((shared, count), (each, 3 * count)):
        model = model_of(encoding=encoding)
        assert sum(p.numel() for p in model.parameters()) - bare == expected


# Windows.


def within(window):
    mask = reference.causal_mask(TOKENS)
    return mask if window is None else mask & ~np.tri(TOKENS, k=-window, dtype=bool)


@pytest.mark.parametrize("window", [1, 3, TOKENS, 100, [2, None, 4]], ids=str)
@pytest.mark.parametrize("name", ["none", "rope", "fox", "every hook"])
def test_windows_hide_what_is_further_back(name, window):
    options, expected = KINDS[name]
    model, x = model_of(**options(), window=window), tokens_of()
    widths = window if isinstance(window, list) else [window] * 3
    masks = [within(w) for w in widths]
    close(model(x)[0], oracle(model, x[0].numpy(), **expected, masks=masks))
    off = [within(w and w + 1) for w in widths]
    wrong = oracle(model, x[0].numpy(), **expected, masks=off)
    assert (
        window in (TOKENS, 100)
        or np.abs(wrong - model(x)[0].detach().numpy()).max() > 1e-3
    )


def test_windows_of_layers_add_up():
    model, x = model_of(layers=2, window=[2, 3]), tokens_of(batch=1)
    changed = x.clone()
    changed[:, 0, 0] += 1
    moved = (model(changed) - model(x)).abs().amax((0, 2))
    assert (moved[:4] > 1e-9).all() and (moved[4:] == 0).all()


# Caches.


CACHED = [name for name in KINDS]


def decoded(model, x, steps, caches, positions=None):
    parts, at = [], 0
    for step in steps:
        here = None
        if positions is not None:
            here = torch.as_tensor(positions)[..., at : at + step]
        parts.append(model(x[:, at : at + step], here, caches=caches))
        at += step
    return torch.cat(parts, 1)


@pytest.mark.parametrize("steps", [[1] * TOKENS, [3, 1, 3], [2, 0, 5]], ids=str)
@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize("name", CACHED)
def test_decoding_with_caches_is_the_full_run(name, places, steps):
    model, x = model_of(**KINDS[name][0]()), tokens_of()
    caches, positions = model.caches(), PLACES[places]
    out = decoded(model, x, steps, caches, positions)
    assert [len(cache) for cache in caches] == [TOKENS] * 3
    close(out, model(x, positions))


@pytest.mark.parametrize("encoding", ["cope", "sticks"])
def test_decoding_with_what_content_decides_is_the_full_run(encoding):
    make = {
        "cope": lambda: CoPE(D, npos=4, scaling="code", table=torch.ones(D, 4)),
        "sticks": lambda: StickBreaking(attend_current=False, remainder="drop"),
    }[encoding]
    model, x = model_of(encoding=[make() for _ in range(3)], window=4), tokens_of()
    close(decoded(model, x, [1] * TOKENS, model.caches()), model(x))


@pytest.mark.parametrize("name", ["none", "rope", "fox", "sinusoidal", "every hook"])
def test_caches_cropped_to_the_windows_do_as_well(name):
    window = [2, 3, 4]
    model, x = model_of(**KINDS[name][0](), window=window), tokens_of()
    caches, parts = model.caches(), []
    for n in range(TOKENS):
        parts.append(model(x[:, n : n + 1], caches=caches))
        for cache, width in zip(caches, window, strict=True):
            cache.crop(-width + 1)
            assert len(cache) <= width - 1 and cache.count == n + 1
    close(torch.cat(parts, 1), model(x))


@pytest.mark.parametrize("name", CACHED)
def test_a_cache_cropped_at_its_end_goes_on_from_there(name):
    model, x = model_of(**KINDS[name][0]()), tokens_of()
    caches = model.caches()
    model(x, caches=caches)
    for cache in caches:
        cache.crop(0, 3)
    close(model(x[:, 3:], caches=caches), model(x)[:, 3:])


def test_detached_caches_stop_the_gradient_and_others_do_not():
    model, x = model_of(encoding=fox()), tokens_of().requires_grad_()
    for detached in (False, True):
        caches = model.caches()
        model(x[:, :4], caches=caches)
        for cache in caches:
            if detached:
                cache.detach()
        out = model(x[:, 4:], caches=caches).sum()
        (gradient,) = torch.autograd.grad(out, x, materialize_grads=True)
        assert (gradient[:, 4:] != 0).all()
        assert (gradient[:, :4] == 0).all() == detached
    close(model(x)[:, 4:].sum(), out)


def test_padding_with_caches_covers_every_key():
    model, x = model_of(encoding=fox()), tokens_of()
    padding = torch.zeros(2, TOKENS, dtype=torch.bool)
    padding[0, :2] = padding[1, 3] = True
    caches = model.caches()
    first = model(x[:, :5], caches=caches, key_padding_mask=padding[:, :5])
    last = model(x[:, 5:], caches=caches, key_padding_mask=padding)
    close(torch.cat((first, last), 1), model(x, key_padding_mask=padding))


REFUSED = {
    "x too wide": lambda m, x: ((torch.cat((x, x), -1),), {}),
    "padding": lambda m, x: (
        (x,),
        {"key_padding_mask": torch.zeros(2, 3, dtype=torch.bool)},
    ),
    "segments": lambda m, x: ((x,), {"segments": torch.zeros(2, 7).long()}),
    "batch": lambda m, x: ((x[:1],), {}),
    "positions": lambda m, x: ((x, range(3)), {}),
    "not finite": lambda m, x: ((x, torch.full((7,), math.nan)), {}),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_call_leaves_all_caches_as_they_were(name):
    model, x = model_of(encoding=fox()), tokens_of()
    caches = model.caches()
    model(x[:, :2], caches=caches)
    before = [dict(cache.__dict__) for cache in caches]
    arguments, options = REFUSED[name](model, x)
    with pytest.raises((TypeError, ValueError)):
        model(*arguments, **options, caches=caches)
    after = [cache.__dict__ for cache in caches]
    assert all(a[k] is b[k] for a, b in zip(after, before, strict=True) for k in a)


def test_a_refusal_by_a_later_layer_leaves_the_caches_of_earlier_ones():
    class Late(Encoding):
        refuses = False

        def bias(self, tokens):
            if self.refuses:
                raise ValueError("too late")

    late, x = Late(), tokens_of()
    model = model_of(encoding=[None, rope(), late])
    caches = model.caches()
    model(x[:, :3], caches=caches)
    late.refuses = True
    with pytest.raises(ValueError, match="too late"):
        model(x[:, 3:], caches=caches)
    assert [(len(c), c.count) for c in caches] == [(3, 3)] * 3
    late.refuses = False
    close(model(x[:, 3:], caches=caches), model(x)[:, 3:])


# Padding and packed sequences.


HIDING = {"left": [0, 1], "right": [5, 6], "middle": [2, 4]}


@pytest.mark.parametrize("where", HIDING)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("name", ["none", "rope", "fox", "alibi", "t5", "sinusoidal"])
def test_padding_is_as_if_absent(name, causal, where):
    kinds = KINDS if causal else ENCODERS
    if name not in kinds:
        return
    model, x = model_of(**kinds[name][0](), causal=causal), tokens_of()
    hidden = HIDING[where]
    seen = [n for n in range(TOKENS) if n not in hidden]
    padding = torch.zeros(2, TOKENS, dtype=torch.bool)
    padding[0, hidden] = True
    out = model(x, key_padding_mask=padding)
    close(out[0, seen], model(x[:1, seen], torch.tensor(seen))[0])
    close(out[1], model(x[1:])[0])


@pytest.mark.parametrize("name", ["none", "rope", "fox", "alibi", "sinusoidal"])
def test_packed_sequences_interleaved_too_are_separate_runs(name):
    model, x = model_of(**KINDS[name][0](), window=None), tokens_of(batch=1)
    for packed in ([0, 0, 0, 4, 4, 2, 2], [1, 0, 1, 1, 0, 2, 1]):
        segments, positions = torch.tensor([packed]), torch.zeros(TOKENS).long()
        parts = [torch.where(segments[0] == n)[0] for n in set(packed)]
        for part in parts:
            positions[part] = torch.arange(len(part)) + 10
        out = model(x, positions, segments=segments)
        for part in parts:
            close(out[:, part], model(x[:, part], positions[part]))


@pytest.mark.parametrize("name", ["rope", "every hook"])
@pytest.mark.parametrize("kv_heads", [1, 2])
def test_grouped_queries(name, kv_heads):
    options, expected = KINDS[name]
    model, x = model_of(**options(), kv_heads=kv_heads), tokens_of()
    assert model.blocks[0].attention.k.out_features == kv_heads * D
    close(model(x)[0], oracle(model, x[0].numpy(), **expected))


@pytest.mark.parametrize("route", ["folded", "sdpa", "eager"])
def test_every_layer_takes_the_route(route):
    model, x = model_of(encoding=fox(), route=route), tokens_of()
    assert [block.attention.route for block in model.blocks] == [route] * 3
    close(model(x)[0], oracle(model, x[0].numpy(), hooks=fox_hooks()))


def test_options_of_the_layers():
    model = model_of(layers=1, bias=True, expansion=3, causal=False)
    (block,) = model.blocks
    attention = block.attention
    assert attention.q.bias is not None and attention.o.bias is not None
    assert not attention.causal and block.MLP[1].out_features == 3 * WIDTH
    (default,) = model_of(layers=1).blocks
    assert default.attention.q.bias is None and default.attention.causal
    assert default.MLP[1].out_features == 4 * WIDTH


def test_coordinates_reach_every_layer():
    def turn(x, positions):
        return rotary.axial(x, positions, order="concatenated", **HALF)

    hooks = reference.Hooks(rotate=lambda q, k, p: (turn(q, p), turn(k, p)))
    for tokens in (TOKENS, 2):  # two tokens of two coordinates are not two rows
        x, places = tokens_of(tokens=tokens), normal(3, tokens, 2)
        model = model_of(encoding=[axial(), None, axial()])
        each = [hooks, reference.NO_HOOKS, hooks]
        expected = oracle(model, x[0].numpy(), places, hooks=each)
        close(model(x, torch.tensor(places))[0], expected)
    with pytest.raises(ValueError, match=r"AxialRoPE needs positions \[2, 2\] or"):
        model(x)


# What a module does.


@pytest.mark.parametrize("name", KINDS)
def test_a_state_is_loaded_and_a_copy_is_its_own(name):
    x = tokens_of()
    model, other = (model_of(**KINDS[name][0]()) for _ in range(2))
    with torch.no_grad():
        for p in other.parameters():
            p.add_(1.0)
    assert differs(other(x), model(x))
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(x), model(x))
    twin = copy.deepcopy(model)
    assert torch.equal(twin(x), model(x))
    assert not {*twin.parameters()} & {*model.parameters()}
    assert len([*twin.parameters()]) == len([*model.parameters()])


@pytest.mark.parametrize("name", KINDS)
def test_every_parameter_has_a_gradient(name):
    model = model_of(**KINDS[name][0]())
    (model(tokens_of()) * tokens_of(seed=2)).sum().backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), key
        assert key.endswith("before_attention.bias") or parameter.grad.any(), key


@pytest.mark.parametrize("name", KINDS)
def test_bfloat16_is_the_same_but_for_its_rounding(name):
    model = model_of(**KINDS[name][0]())
    x = tokens_of().to(torch.bfloat16)
    low = model.to(torch.bfloat16)
    exact = copy.deepcopy(low).double()
    out, expected = low(x, range(500, 507)), exact(x.double(), range(500, 507))
    assert out.dtype == torch.bfloat16
    # Each layer rounds its stream a handful of times, and is as steep as its weights.
    assert (out - expected).abs().max() < 64 * torch.finfo(torch.bfloat16).eps
    assert (out - expected).abs().mean() < 4 * torch.finfo(torch.bfloat16).eps


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", ["sinusoidal", "one each"])
def test_compiled_is_the_same(name):
    torch.compiler.reset()
    model = model_of(**KINDS[name][0](), layers=3)
    compiled = compiling.compiled(model, fullgraph=True)
    x = tokens_of().requires_grad_()
    for positions in (None, torch.tensor([0, 1, 900, 3, 4, 5, 6])):
        out, expected = compiled(x, positions), model(x, positions)
        close(out, expected)
        grads = [torch.autograd.grad(o.square().sum(), x)[0] for o in (out, expected)]
        close(*grads, atol=100 * ATOL)


def test_a_block_adds_attention_then_an_MLP_to_the_stream():
    block = Block(Attention(WIDTH, HEADS, encoding=rope()), expansion=2).double()
    for weight in block.parameters():
        torch.nn.init.normal_(weight)
    x, positions = tokens_of(1)[0], torch.tensor([0.5, 7, -3, 2, 40, 1, 8]).double()
    out, after = block(x[None], positions[None])
    entering = normed(x.numpy(), block.before_attention)
    seen = x.numpy() + reference.attention(
        entering,
        projections(block.attention),
        positions.numpy(),
        mask=reference.causal_mask(TOKENS),
        hooks=ROTATE,
    )
    close(out[0], seen + MLP(block, seen), 10 * ATOL)
    assert torch.equal(after[0], positions)
    assert differs(block(x[None], positions.flip(0)[None])[0], out)


# What is refused.


def build(**options):
    return lambda: Transformer(*options.pop("sizes", (WIDTH, HEADS, 2)), **options)


def sinusoidal(width=WIDTH):
    return Sinusoidal(width, **HALF)


def axial():
    return AxialRoPE(D, order="concatenated", **HALF)


def two_of_one():
    return [KVCache()] * 2


def uneven():
    caches = [KVCache(), KVCache()]
    caches[1].count = 3
    return caches


def call(*arguments, dtype=torch.float32, x=(1, 3, WIDTH), encoding=None, **options):
    def called():
        given = x if isinstance(x, torch.Tensor) else torch.zeros(x, dtype=dtype)
        model = Transformer(WIDTH, HEADS, 2, encoding=encoding)
        return model(given, *arguments, **options)

    return called


BAD = {
    "no layers": (build(sizes=(8, 2, 0)), ValueError, "layers must be a positive"),
    "half a layer": (build(sizes=(8, 2, 1.5)), TypeError, "layers must be an integer"),
    "no width": (build(expansion=0), ValueError, "expansion must be a positive"),
    "heads": (build(sizes=(8, 3, 1)), ValueError, "multiple of heads = 3"),
    "kv_heads": (build(kv_heads=3), ValueError, "multiple of kv_heads, got 2 and 3"),
    "causal": (build(causal="no"), TypeError, "causal must be True or False, got 'no'"),
    "too few encodings": (
        build(encoding=[None]),
        ValueError,
        "2 layers need as many encodings, got 1",
    ),
    "a name": (build(encoding="rope"), TypeError, "encodings must be a list.*'rope'"),
    "names": (build(encoding=["rope", None]), TypeError, "Encoding module, got 'rope'"),
    "named input": (build(input="sine"), TypeError, "Encoding module, got 'sine'"),
    "input of a layer": (
        build(encoding=[sinusoidal(), None]),
        ValueError,
        "Sinusoidal of a layer acts on the input.*input=",
    ),
    "two inputs": (
        build(encoding=sinusoidal(), input=sinusoidal()),
        ValueError,
        "Sinusoidal of a layer acts on the input",
    ),
    "no input": (
        build(input=rope()),
        ValueError,
        "RoPE does not act on the input of a model: give it as encoding=",
    ),
    "input too wide": (
        build(input=sinusoidal(16)),
        ValueError,
        "d_model = 16, the layer has d_model = 8",
    ),
    "entry too wide": (
        build(sizes=(16, 4, 2), encoding=Entering()),
        ValueError,
        "Entering was made for d_model = 8, the layer has d_model = 16",
    ),
    "heads of FoX": (
        build(encoding=FoX(8, 4)),
        ValueError,
        "FoX was made for heads = 4, the layer has heads = 2",
    ),
    "encoder of FoX": (build(encoding=fox(), causal=False), ValueError, "causal=True"),
    "axes": (
        build(encoding=[rope(), axial()]),
        ValueError,
        r"agree .* RoPE is \[\], that of AxialRoPE \[2\]",
    ),
    "axes of input": (
        build(encoding=axial(), input=sinusoidal()),
        ValueError,
        r"agree .* Sinusoidal is \[\], that of AxialRoPE \[2\]",
    ),
    "no window": (build(window=0), ValueError, "window must be a positive"),
    "windows": (build(window=[1]), ValueError, "2 layers need as many windows, got 1"),
    "real window": (build(window=1.5), TypeError, "windows must be a list.*got 1.5"),
    "route": (build(route="fast"), ValueError, "route must be"),
    "unfoldable": (build(encoding=rope(), route="folded"), ValueError, "RoPE has no"),
    "array": (call(x=torch.zeros(3)), ValueError, r"x must be .*, 8\], got \[3\]"),
    "wide": (call(x=(1, 3, 9)), ValueError, r"x must be .*, 8\], got \[1, 3, 9\]"),
    "integers": (call(dtype=torch.long), TypeError, "x must hold floats"),
    "double": (
        call(dtype=DOUBLE),
        TypeError,
        "x is torch.float64, the weights are torch.float32",
    ),
    "device": (
        call(x=torch.zeros(1, 3, WIDTH, device="meta")),
        ValueError,
        "x is on meta, the weights on cpu",
    ),
    "positions": (call(range(4)), ValueError, r"positions must be \[3\].*\[4\]"),
    "positions nan": (
        call(torch.tensor([0.0, math.nan, 1])),
        ValueError,
        "positions must be finite, got nan",
    ),
    "coordinates": (
        call(range(3), encoding=axial()),
        ValueError,
        r"positions must be \[3, 2\] or \[1, 3, 2\]",
    ),
    "padding": (
        call(key_padding_mask=torch.zeros(1, 2).bool()),
        ValueError,
        r"key_padding_mask must be \[1, 3\]",
    ),
    "segments": (call(segments=torch.zeros(1, 3)), TypeError, "segments must be int"),
    "a cache": (call(caches=KVCache()), TypeError, "caches must be a list"),
    "one cache": (call(caches=[KVCache()]), ValueError, "as many caches, got 1"),
    "no cache": (call(caches=[None] * 2), TypeError, "a KVCache, got NoneType"),
    "shared cache": (call(caches=two_of_one()), ValueError, "a cache of its own"),
    "uneven": (call(caches=uneven()), ValueError, r"equally many tokens, got \[0, 3\]"),
    "segments cached": (
        call(segments=torch.zeros(1, 3).long(), caches=[KVCache(), KVCache()]),
        ValueError,
        "segments cannot be combined with a cache",
    ),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_in_words(name):
    wrong, error, message = BAD[name]
    with pytest.raises(error, match=message):
        wrong()


def test_under_autocast_the_dtypes_may_differ():
    model = model_of(layers=1, encoding=fox()).float()
    x = tokens_of().to(torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        assert model(x).isfinite().all()
