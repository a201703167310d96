"""Hostile inputs to attention: hidden tokens, pieces, casts, errors, far positions."""

import contextlib
import copy
import itertools
import math
import pickle

import numpy as np
import pytest
import sympy as sp
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from posedu.numpy import attention as reference
from posedu.numpy import bias as biases
from posedu.numpy import gated, stickbreaking
from posedu.sympy import attention as symbolic
from posedu.sympy import bias as symbolic_biases
from posedu.sympy import gated as symbolic_gated
from posedu.sympy import stickbreaking as symbolic_stick
from posedu.torch import (
    DAPE,
    FIRE,
    T5,
    TUPE,
    ALiBi,
    Attention,
    CoPE,
    DeBERTa,
    Encoding,
    FoX,
    FoXPro,
    Inkling,
    KERPLELog,
    KVCache,
    MusicTransformer,
    RoPE,
    Sandwich,
    Shaw,
    Sinusoidal,
    StickBreaking,
    TransformerXL,
    attend,
)
from posedu.torch.routes import choose_route
from posedu.torch.separable_bias import attend_folded
from posedu.torch.tiled_attention import Limits
from support import bounds

DOUBLE = torch.float64
HEADS, KV_HEADS, D, D_MODEL = 4, 2, 4, 5
seeds = st.integers(0, 2**32 - 1)


def numbers(seed):
    """A generator of normal tensors."""
    generator = torch.Generator().manual_seed(seed)
    return lambda *shape: torch.randn(*shape, generator=generator, dtype=DOUBLE)


def made(seed=0):
    """Every encoding of attention, with parameters that are not where they start."""
    normal = numbers(seed)
    keys = dict(gates="keys", d_model=D_MODEL, gate_heads=HEADS)
    made = {
        "none": Encoding(),
        "rope": RoPE(D, layout="half", frequencies=[-0.3], attention_factor=1.3),
        "alibi": ALiBi(HEADS, slopes="authors"),
        "t5": T5(
            HEADS, bidirectional=False, buckets=4, distance=5, table=normal(HEADS, 4)
        ),
        "fox": FoX(D_MODEL, HEADS, gate_weight=normal(HEADS, D_MODEL)),
        "fox key": FoX(D_MODEL, HEADS, form="key", gate_weight=normal(HEADS, D_MODEL)),
        "cope": CoPE(D, npos=3, scaling="code", heads=HEADS, table=normal(HEADS, D, 3)),
        "cope values": CoPE(
            D, npos=3, scaling="paper", gates="values", table=normal(D, 3)
        ),
        "cope keys": CoPE(D, npos=3, scaling="code", table=normal(D, 3), **keys),
        "shaw": Shaw(
            D,
            past=2,
            future=1,
            heads=HEADS,
            key_table=normal(HEADS, 4, D),
            value_table=normal(HEADS, 4, D),
        ),
        "music": MusicTransformer(
            D, table_length=3, beyond="zero", key_table=normal(3, D)
        ),
        "music values": MusicTransformer(
            D,
            table_length=2,
            beyond="clip",
            values=True,
            key_table=normal(2, D),
            value_table=normal(2, D),
        ),
        "inkling": Inkling(
            HEADS,
            D_MODEL,
            divisor="root",
            table_length=3,
            d_rel=2,
            floor=2.0,
            distance_basis=normal(2, 3),
        ),
        "xl": TransformerXL(D, HEADS, 6, layout="half"),
        "xl clamped": TransformerXL(D, HEADS, 6, layout="interleaved", clamp=2),
        "deberta": DeBERTa(D, HEADS, 6, span=2, rows="paper", index="paper"),
        "stick": StickBreaking(attend_current=False, remainder="own"),
        "stick sink": StickBreaking(
            attend_current=True,
            remainder="sink",
            heads=HEADS,
            d=D,
            sink=normal(HEADS, D),
        ),
    }
    for name in ("xl", "xl clamped", "deberta"):
        with torch.no_grad():
            for p in made[name].parameters():
                p.copy_(normal(*p.shape) / 2)
    return {name: encoding.double() for name, encoding in made.items()}


def routes(encoding):
    """All routes that serve, but the slow FlexAttention (see ``test_attention``)."""
    for route in ("folded", "sdpa", "eager", "fused"):
        with contextlib.suppress(ValueError):
            yield choose_route(encoding, route)


SERVED = [(name, r) for name, encoding in made().items() for r in routes(encoding)]
served = pytest.mark.parametrize("name, route", SERVED)
named = pytest.mark.parametrize("name", made())


def inputs(normal, batch, tokens):
    """Queries, keys and values of grouped heads, and the layer's input."""
    return (
        normal(batch, HEADS, tokens, D),
        normal(batch, KV_HEADS, tokens, D),
        normal(batch, KV_HEADS, tokens, D),
        normal(batch, tokens, D_MODEL),
    )


def cut(given, start, stop):
    """Some tokens of the inputs."""
    *heads, x = given
    return *(t[:, :, start:stop] for t in heads), x[:, start:stop]


def close(actual, expected, atol=1e-11):
    torch.testing.assert_close(actual, expected, rtol=0, atol=atol)


# What is hidden is as if absent; what is cut up is as if whole.


@served
@given(seeds, st.booleans(), st.booleans())
@settings(max_examples=3)
def test_padding_and_packing_anywhere_are_separate_runs(name, route, seed, pad, pack):
    if route == "fused" and pack:
        return
    normal, encoding = numbers(seed), made(seed)[name]
    given = inputs(normal, 2, 7)
    padding = normal(2, 7) < -0.3 if pad else torch.zeros(2, 7, dtype=torch.bool)
    segments = (normal(2, 7) < 0).long() - 1 if pack else None
    positions = (20 * normal(2, 7)).round().long()
    with torch.no_grad():
        *qkv, x = given
        out = attend(
            *qkv,
            encoding,
            x=x,
            positions=positions,
            key_padding_mask=padding,
            segments=segments,
            route=route,
        )
        kinds = torch.zeros(2, 7) if segments is None else segments
        for row in range(2):
            for kind in kinds[row].unique():
                own = (kinds[row] == kind) & ~padding[row]
                q, k, v = (t[row : row + 1, :, own] for t in qkv)
                alone = attend(
                    q,
                    k,
                    v,
                    encoding,
                    x=x[row : row + 1, own],
                    positions=positions[row, own],
                )
                close(out[row, :, own], alone[0])


@served
@given(seeds, st.sampled_from([None, 1, 3]), st.lists(st.integers(0, 7), max_size=4))
@settings(max_examples=3)
def test_pieces_through_caches_are_full_runs_and_two_do_not_mix(
    name, route, seed, window, cuts
):
    if route == "fused":
        window = None
    normal, encoding = numbers(seed), made(seed)[name]
    both = [inputs(normal, 2, 7) for _ in range(2)]
    padding = normal(2, 7) < -0.5
    options = dict(window=window, route=route)
    caches, parts = (KVCache(), KVCache()), ([], [])
    pieces = itertools.pairwise((0, *sorted(cuts), 7))
    with torch.no_grad():
        for start, stop in pieces:
            for given, cache, part in zip(both, caches, parts, strict=True):
                *qkv, x = cut(given, start, stop)
                mask = padding[:, :stop]
                part.append(
                    attend(
                        *qkv,
                        encoding,
                        x=x,
                        cache=cache,
                        key_padding_mask=mask,
                        **options,
                    )
                )
                assert cache.count == len(cache) == stop
        for (*qkv, x), part in zip(both, parts, strict=True):
            full = attend(*qkv, encoding, x=x, key_padding_mask=padding, **options)
            close(torch.cat(part, 2), full)


REFUSED = {
    "window": dict(window=0),
    "mask": dict(key_padding_mask=torch.zeros(2, 9, dtype=torch.bool)),
    "segments": dict(segments=torch.zeros(2, 3, dtype=torch.long)),
    "infinite": dict(positions=[0.0, 1.0, math.inf]),
    "few": dict(positions=range(2)),
    "rows": dict(x=torch.zeros(1, 3, D_MODEL, dtype=DOUBLE)),
}


@served
def test_after_refusals_copies_and_crops_a_cache_goes_on(name, route):
    encoding, given = made()[name], inputs(numbers(1), 2, 8)
    *qkv, x = given
    cache = KVCache()
    with torch.no_grad():
        full = attend(*qkv, encoding, x=x, route=route)
        *head, before = cut(given, 0, 5)
        attend(*head, encoding, x=before, cache=cache, route=route)
        *tail, after = cut(given, 5, 8)
        held = dict(cache.__dict__)
        for bad in REFUSED.values():
            options = dict(x=after, cache=cache, route=route) | bad
            with pytest.raises((TypeError, ValueError)):
                attend(*tail, encoding, **options)
            assert all(cache.__dict__[key] is value for key, value in held.items())
        cache.crop(0, 7)
        for other in (pickle.loads(pickle.dumps(cache)), copy.deepcopy(cache), cache):
            out = attend(*tail, encoding, x=after, cache=other, route=route)
            close(out, full[:, :, 5:])
            other.crop(0, 6)
            *rest, last = cut(given, 6, 8)
            out = attend(*rest, encoding, x=last, cache=other, route=route)
            close(out, full[:, :, 6:])


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("route", ["eager", "sdpa"])
def test_who_sees_no_one_hears_nothing(route, causal):
    """One half of the heads looks ahead, and there is padding; the other back."""
    encoding = ALiBi(HEADS, slopes="authors", sides="one-sided")
    *qkv, _ = (t.requires_grad_() for t in inputs(numbers(0), 3, 3))
    padding = torch.eye(3, dtype=torch.bool)
    options = dict(causal=causal, key_padding_mask=padding, route=route)
    out = attend(*qkv, encoding, **options)
    assert (out == 0).all(-1).any() and out.isfinite().all()
    assert all(g.isfinite().all() for g in torch.autograd.grad(out.sum(), qkv))


@served
def test_cropping_to_a_window_is_that_window(name, route):
    if route == "fused":
        return
    encoding, given = made()[name], inputs(numbers(2), 2, 6)
    *qkv, x = given
    cache, parts = KVCache(), []
    with torch.no_grad():
        for i in range(6):
            *one, own = cut(given, i, i + 1)
            parts.append(attend(*one, encoding, x=own, cache=cache, route=route))
            cache.crop(-2)
        expected = attend(*qkv, encoding, x=x, window=3)
    close(torch.cat(parts, 2), expected)


def of_positions():
    """The encodings of :func:`made` and others with a bias of positions."""
    threshold = dict(threshold=5.0, activation="relu", later="zero")
    others = {
        "fire": FIRE(HEADS, **threshold),
        "dape": DAPE(HEADS, over=FIRE(HEADS, **threshold), kernel=1, residual=True),
        "kerple": KERPLELog(HEADS, scaling="code"),
        "sandwich": Sandwich(HEADS, width=8, index_from=1, diagonal="kept"),
        "slopes that are no powers of 2": ALiBi(6, slopes="geometric"),
        "tupe": TUPE(D, HEADS, 6, 50, first_token="rows", norm=False, relative=True),
    }
    normal = numbers(4)
    for encoding in others.values():
        with torch.no_grad():
            for name, p in encoding.double().named_parameters():
                if not name.endswith("multiplier"):  # of FIRE's threshold: 1
                    p.copy_(normal(*p.shape))
    return made() | others


ABSOLUTE = ("fire", "dape", "tupe", "inkling")


@pytest.mark.parametrize("queries", [1, 2])
@pytest.mark.parametrize("name", of_positions())
def test_few_keys_of_a_cache_may_have_far_positions(name, queries):
    """A cache that lost its oldest tokens and was moved, and all positions given."""
    encoding, normal = of_positions()[name], numbers(5)
    heads = encoding.heads or HEADS
    given = [normal(2, heads, 12, D) for _ in range(3)], normal(2, 12, D_MODEL)

    def taken(start, stop):
        return [t[:, :, start:stop] for t in given[0]], given[1][:, start:stop]

    # RoPE's angles are rounded there, TUPE has no such rows, Inkling moves no keys.
    far = {"rope": 2**15, "tupe": 20, "inkling": 0}.get(name, 2**45)
    for route in routes(encoding):
        for start, shift in ((8, 0), (7, far), (9, -2 if far else 0)):
            cache, (old, x) = KVCache(), taken(0, 12 - queries)
            attend(*old, encoding, x=x, cache=cache, route=route)
            cache.crop(start)
            if shift:
                cache.move(encoding, shift)
            new, x = taken(12 - queries, 12)
            out = attend(*new, encoding, x=x, cache=cache, route=route)
            kept, x = taken(start, 12)
            for moved in {shift, shift if name in ABSOLUTE else 0}:
                at = range(start + moved, 12 + moved)
                fresh = attend(*kept, encoding, x=x, positions=at, route=route)
                close(out, fresh[:, :, -queries:])


BLOCKS = {
    "whole": {},
    "keys shifted": dict(v_shift=False, output_gate="silu"),
    "values shifted": dict(k_shift=False, qk_norm=False),
    "folded": dict(route="folded"),
}


def block(name, seed):
    """A FoX Pro block whose parameters are drawn."""
    normal, made = numbers(seed), FoXPro(D_BLOCK, 2, **BLOCKS[name]).double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(normal(*parameter.shape) / D_BLOCK**0.5)
    return made


D_BLOCK = 8


def off_by_roundings(run, x):
    """Return the error bound, in the norm, of a run in float64; two differ by twice it.

    It is right for an input off by 64 u, as many roundings as there are from x to the
    output: eight products and sums of up to 8 terms. Four inputs off at random are
    tried, and their largest difference is taken twice.
    """
    off, expected = 64 * bounds.U64, run(x)
    moved = [
        run(x * (1 + off * numbers(seed)(*x.shape).sign())) - expected
        for seed in range(4)
    ]
    own = off * (1 + expected.abs().max().item())
    return 2 * (max(d.abs().max().item() for d in moved) + own)


@pytest.mark.parametrize("name", BLOCKS)
@given(seeds, st.sampled_from(["left", "right", "middle", "any"]), st.booleans())
@settings(max_examples=5, derandomize=True)
def test_a_block_with_padding_or_packing_is_separate_runs(name, seed, where, pack):
    """Hidden tokens are shifted into no key, and their gates count for none."""
    module, normal = block(name, seed), numbers(seed + 1)
    x, n = normal(2, 7, D_BLOCK), torch.arange(7)
    hidden = {
        "left": (n < 3).expand(2, -1),
        "right": (n > 4).expand(2, -1),
        "middle": ((n > 1) & (n < 5)).expand(2, -1),
        "any": normal(2, 7) < -0.3,
    }[where]
    segments = (normal(2, 7) < 0).long() if pack else torch.zeros(2, 7).long()
    with torch.no_grad():
        options = dict(key_padding_mask=hidden, segments=segments if pack else None)
        out = module(x, **options)
        loud = module(x + 1e3 * hidden[..., None], **options)
        for row, kind in itertools.product(range(2), range(2)):
            own = (segments[row] == kind) & ~hidden[row]
            if own.any():
                alone, bound = x[row : row + 1, own], off_by_roundings(module, x)
                close(out[row, own], module(alone)[0], 2 * bound)
                close(loud[row, own], out[row, own], 2 * bound)


@pytest.mark.parametrize("name", BLOCKS)
@given(seeds, st.lists(st.integers(0, 7), max_size=4), st.booleans())
@example(0, [3, 3], False)
@settings(max_examples=5, derandomize=True)
def test_a_block_in_pieces_of_any_length_is_a_full_run(name, seed, cuts, pad):
    """Pieces may be empty, and may follow a call that was refused."""
    module, normal, cache = block(name, seed), numbers(seed + 1), KVCache()
    x = normal(2, 7, D_BLOCK)
    hidden = normal(2, 7) < -0.3 if pad else torch.zeros(2, 7, dtype=torch.bool)
    parts = []
    with torch.no_grad():
        for start, stop in itertools.pairwise((0, *sorted(cuts), 7)):
            piece, mask = x[:, start:stop], hidden[:, :stop]
            parts.append(module(piece, cache=cache, key_padding_mask=mask))
            held = dict(vars(cache))
            for bad in (dict(x=x[:1]), dict(x=x, key_padding_mask=hidden[:1])):
                with pytest.raises((TypeError, ValueError)):
                    module(**bad, cache=cache)
            assert all(vars(cache)[name] is value for name, value in held.items())
        full = module(x, key_padding_mask=hidden)
        close(torch.cat(parts, 1), full, 2 * off_by_roundings(module, x))


@pytest.mark.parametrize("how", ["interleaved", "first is padding"])
def test_a_shift_stays_within_its_segment(how):
    torch.manual_seed(0)
    module, x = FoXPro(8, 2).double(), numbers(1)(1, 6, 8)
    segments, own, padding = torch.tensor([[0, 1] * 3]), slice(1, None, 2), None
    if how == "first is padding":
        segments, own = torch.tensor([[0, 0, 0, 1, 1, 1]]), slice(4, None)
        padding = torch.tensor([[False] * 3 + [True] + [False] * 2])
    with torch.no_grad():
        out = module(x, segments=segments, key_padding_mask=padding)
        close(out[:, own], module(x[:, own]))


@pytest.mark.parametrize("what", ["positions", "keys"])
def test_a_cache_keeps_what_it_saw_when_the_caller_writes_over_it(what):
    q, k, v, _ = inputs(numbers(3), 1, 3)
    encoding, cache, parts = made()["alibi"], KVCache(), []
    expected = attend(q, k, v, encoding)
    place, buffer = torch.tensor([0]), torch.empty(1, KV_HEADS, 1, D, dtype=DOUBLE)
    for i in range(3):
        key = k[:, :, i : i + 1]
        if what == "keys":
            key = buffer.copy_(key)
        tokens = q[:, :, i : i + 1], key, v[:, :, i : i + 1]
        at = place if what == "positions" else None
        parts.append(attend(*tokens, encoding, positions=at, cache=cache))
        place += 1
    close(torch.cat(parts, 2), expected)


# Gradients.


@served
def test_first_derivatives_are_right_and_second_are_right_or_refused(name, route):
    encoding = made()[name]
    given = [t.requires_grad_() for t in inputs(numbers(4), 1, 3)]
    padding = torch.tensor([[True, False, False]])

    def run(q, k, v, x, *_):
        return attend(q, k, v, encoding, x=x, key_padding_mask=padding, route=route)

    given += encoding.parameters()
    torch.autograd.gradcheck(run, given, fast_mode=True)
    try:
        torch.autograd.gradgradcheck(run, given, fast_mode=True)
    except RuntimeError as refusal:
        words = "second derivative|derivative for aten::.* is not implemented"
        with pytest.raises(RuntimeError, match=words):
            raise refusal


@served
def test_a_gradient_does_not_depend_on_which_others_are_wanted(name, route):
    encoding, given = made()[name], inputs(numbers(5), 2, 4)
    up = numbers(6)(2, HEADS, 4, D)

    def gradients(wanted):
        own = [t.clone().requires_grad_(n in wanted) for n, t in enumerate(given)]
        *qkv, x = own
        out = attend(*qkv, encoding, x=x, route=route)
        if not out.requires_grad:
            return [None]
        return torch.autograd.grad(
            (out * up).sum(), [own[n] for n in wanted], allow_unused=True
        )

    together = gradients(range(4))
    for n in range(4):
        (alone,) = gradients([n])
        if together[n] is None:
            assert alone is None
        else:
            close(alone, together[n])


# The bias that is folded into queries and keys.


def in_the_open(q, k, v, b, scale):
    """Causal attention with the bias b_j − b_i, in float64."""
    logits = scale * q.double() @ k.double().mT + b[..., None, :] - b[..., :, None]
    seen = torch.ones(logits.shape[-2:], dtype=torch.bool).tril()
    return logits.masked_fill(~seen, -math.inf).softmax(-1) @ v.double()


FALLS = {
    "one strong": lambda n: torch.tensor([0.5, 1e-4])[:, None] * torch.arange(n),
    "constant": lambda n: torch.full((2, n), 1e6),
    "wandering": lambda n: numbers(7)(2, n).cumsum(-1),
    "stronger than exp can hold": lambda n: 1e6 * torch.arange(n).expand(2, n),
}


@pytest.mark.parametrize("n", [1023, 1024, 1025])
@pytest.mark.parametrize("fall", FALLS)
def test_both_sides_of_the_length_where_tiles_begin(n, fall):
    normal = numbers(8)
    q, k, v = (normal(2, n, 2, d).transpose(1, 2) for d in (4, 4, 3))
    b = FALLS[fall](n).double()[None]
    out = attend_folded(q, k, v, -b, b, limits=Limits(causal=True), scale=0.5)
    close(out, in_the_open(q, k, v, b, 0.5), 1e-9)


@pytest.mark.parametrize("d_v", [1, 4, 5, 9])
def test_values_may_be_longer_than_keys(d_v):
    normal, encoding = numbers(9), made()["alibi"]
    q, k, v = (normal(1, HEADS, 3, d) for d in (D, D, d_v))
    expected = attend(q, k, v, encoding)
    close(attend(q, k, v, encoding, route="folded"), expected)


@pytest.mark.parametrize("strength", [1.0, 50.0, 1000.0])
def test_sums_beyond_the_largest_float16_are_folded(strength):
    normal = numbers(10)
    q, k, v = (normal(1, 1, 300, 8).half() for _ in range(3))
    b = strength * torch.arange(300, dtype=DOUBLE)[None, None]
    out = attend_folded(q, k, v, -b, b, limits=Limits(causal=True), scale=8**-0.5)
    u = bounds.roundoff(torch.float16)
    # Logits of at most 6 are in float32, weights and values are rounded.
    largest = v.double().abs().max().item()
    close(out.double(), in_the_open(q, k, v, b, 8**-0.5), 4 * u * largest)


@pytest.mark.parametrize("d", [8, 16, 32])
@pytest.mark.parametrize("padded", [False, True])
def test_large_sums_cancel_in_gradients_too(d, padded):
    """Old tokens, whose gates hardly forget, come before new ones that forget all."""
    normal, n = numbers(11), 200
    encoding = FoX(1, 1, gate_weight=torch.ones(1, 1))
    x = torch.where(torch.arange(n) < n // 2, 9.0, -500.0)[None, :, None].double()
    q, k, v, up = (normal(1, 1, n, d) for _ in range(4))
    mask = torch.arange(n)[None] < padded

    def gradients(dtype, route):
        own = [t.to(dtype).requires_grad_() for t in (q, k, v)]
        options = dict(x=x.to(dtype), key_padding_mask=mask, route=route)
        out = attend(*own, copy.deepcopy(encoding).to(dtype), **options)
        return torch.autograd.grad((out * up.to(dtype)).sum(), own)

    exact, folded = gradients(DOUBLE, "eager"), gradients(torch.float32, "folded")
    # A logit that matters is off by E, of which the bias, at most 0.02 there, has no
    # part; a weight by 2E of itself, and what its row has in common by as much again.
    u, scale = bounds.roundoff(torch.float32), d**-0.5
    e = (d + 8) * u * (scale * abs(q) @ abs(k).mT + 0.02).amax().item()
    log_gates = encoding.double().log_gates(x).detach()[..., 0]
    c = log_gates.cumsum(-1)
    hidden = torch.ones(n, n, dtype=torch.bool).triu(1) | mask[0]
    logits = scale * q @ k.mT + (c[:, :, None] - c[:, None])[:, None]
    weights = logits.masked_fill(hidden, -math.inf).softmax(-1).nan_to_num()
    most = weights * (abs(up) @ abs(v).mT)
    most = most + weights * most.sum(-1, keepdim=True)
    most = (4 * e + (n + 8) * u) * most
    assert ((folded[0] - exact[0]).abs() <= scale * most @ abs(k)).all()
    assert ((folded[1] - exact[1]).abs() <= scale * most.mT @ abs(q)).all()


# Inputs that posedu refuses, with its own messages.


def tensors(tokens=3, d=D, d_v=D, batch=1):
    normal = numbers(12)
    return [normal(batch, HEADS, tokens, n).float() for n in (d, d, d_v)]


def sink(**options):
    sizes = dict(heads=HEADS, d=D)
    return StickBreaking(attend_current=True, remainder="sink", **(sizes | options))


def on_meta(which):
    return [t.to("meta") if n == which else t for n, t in enumerate(tensors())]


def cached(first, second, cast=torch.float32):
    """Some tokens of one layer, then some of another, with one cache."""
    cache, x = KVCache(), numbers(13)(1, 3, 8).float()
    first(x, cache=cache)
    return second.to(cast)(x.to(cast), cache=cache)


def cope(gates):
    sizes = dict(d_model=8, gate_heads=2) if gates == "keys" else {}
    return Attention(
        8, 2, encoding=CoPE(4, npos=3, scaling="code", gates=gates, **sizes)
    )


def is_own(last) -> bool:
    """Return whether an error was raised by posedu, not by a library below it."""
    raised = str(last.statement).lstrip().startswith("raise")
    return raised and "posedu" in str(last.path)


BAD = {
    "causal": lambda: attend(*tensors(), causal="no"),
    "encoding": lambda: attend(*tensors(), RoPE),
    "a model's": lambda: attend(*tensors(), Sinusoidal(D, layout="half")),
    "device of q": lambda: attend(*on_meta(0)),
    "device of k": lambda: attend(*on_meta(1)),
    "no features": lambda: attend(*tensors(d=0)),
    "gates from short values": lambda: attend(
        *tensors(d_v=3), CoPE(D, npos=3, scaling="code", gates="values")
    ),
    "sink and long values": lambda: attend(*tensors(d_v=5), sink()),
    "sink and single values": lambda: attend(*tensors(d_v=1), sink(), route="fused"),
    "attend_current": lambda: StickBreaking(attend_current="no", remainder="drop"),
    "bidirectional": lambda: T5(HEADS, bidirectional="no"),
    "ragged positions": lambda: attend(
        *tensors(2), RoPE(D, layout="half"), positions=[[0, 1], [0]]
    ),
    "cache without shifts": lambda: cached(
        FoXPro(8, 2, k_shift=False, v_shift=False), FoXPro(8, 2)
    ),
    "cache with shifts": lambda: cached(
        FoXPro(8, 2), FoXPro(8, 2, k_shift=False, v_shift=False)
    ),
    "cache without gate keys": lambda: cached(cope("content"), cope("keys")),
    "cache with gate keys": lambda: cached(cope("keys"), cope("content")),
    "cache of another dtype": lambda: cached(Attention(8, 2), Attention(8, 2), DOUBLE),
    "complex frequencies": lambda: RoPE(
        D, layout="half", frequencies=torch.ones(2, dtype=torch.complex64)
    ),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_by_posedu_itself(name, unchecked):
    with pytest.raises((TypeError, ValueError)) as refusal:
        BAD[name]()
    last = refusal.traceback[-1]
    assert "posedu" in str(last.path) and str(last.statement).lstrip().startswith(
        "raise"
    )


def test_a_time_scale_however_short_has_a_finite_gate():
    start = FoX(8, 3, gate_bias=(1e-4, 1.0)).gate_bias
    close(start[0].item(), -1e4, 1e-2)
    with np.errstate(over="raise"):
        start = gated.constant_gate_bias(3, shortest=1e-4, longest=1.0)
    np.testing.assert_allclose(start[0], -1e4, rtol=1e-12)


@pytest.mark.parametrize("route", ["eager", "fused"])
def test_no_sequence_at_all_may_stop_early(route):
    encoding = StickBreaking(attend_current=True, remainder="drop", stop=0.1)
    out = attend(*tensors(batch=0), encoding, route=route)
    assert out.shape == (0, HEADS, 3, D)


# The other implementations refuse as well.


def arrays(d=4, d_v=4):
    rng = np.random.default_rng(0)
    return [rng.normal(size=(2, 3, n)) for n in (d, d, d_v)]


X = np.random.default_rng(1).normal(size=(3, 5))
FALLING = {
    "alibi": biases.alibi(heads=2, slopes="authors"),
    "fox": gated.fox(gate_bias=np.zeros(2)),
    "cope": gated.cope(table=np.ones((4, 3)), scaling="code"),
    "stick": stickbreaking.stick_breaking(attend_current=True, remainder="drop"),
}


@pytest.mark.parametrize("name", FALLING)
def test_numpy_refuses_what_is_causal_without_a_causal_mask(name, unchecked):
    reference.attend(*arrays(), FALLING[name], x=X)
    with pytest.raises(ValueError, match="causal"):
        reference.attend(*arrays(), FALLING[name], x=X, causal=False)


NUMPY_BAD = {
    "no features": lambda: reference.attend(*arrays(d=0)),
    "nan gates": lambda: reference.attend(
        *arrays(), gated.fox(gate_bias=np.full(2, np.nan), form="key"), x=X
    ),
    "sink": lambda: reference.attend(
        *arrays(),
        stickbreaking.stick_breaking(
            attend_current=True, remainder="sink", sink=np.ones((1, 4))
        ),
    ),
    "gates from short values": lambda: reference.attend(
        *arrays(d_v=3),
        gated.cope(table=np.ones((4, 3)), scaling="code", gates="values"),
    ),
    "two axes": lambda: reference.attend(
        *arrays(), FALLING["alibi"], positions=np.ones((3, 2))
    ),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", NUMPY_BAD)
def test_numpy_refuses_bad_input_itself(name, unchecked):
    with pytest.raises((TypeError, ValueError)) as refusal:
        NUMPY_BAD[name]()
    last = refusal.traceback[-1]
    assert "posedu" in str(last.path) and str(last.statement).lstrip().startswith(
        "raise"
    )


def matrices(heads=2, tokens=3):
    return [sp.Matrix(tokens, 2, lambda i, j, h=h: i - j + h) for h in range(heads)]


def over_symbols(hooks=symbolic.NO_HOOKS, q=2, k=2, v=2, keys=3, **options):
    return symbolic.attend(
        matrices(q), matrices(k, keys), matrices(v, keys), hooks, **options
    )


SYMPY_BAD = {
    "more keys": lambda: over_symbols(keys=4),
    "few positions": lambda: over_symbols(positions=[0, 1]),
    "slopes of other heads": lambda: over_symbols(
        symbolic_biases.alibi(heads=4, slopes="authors")
    ),
    "gates of other heads": lambda: over_symbols(
        symbolic_gated.fox(gate_bias=[0, 0], gate_weight=sp.ones(3, 2)), x=sp.ones(3, 2)
    ),
    "no input": lambda: over_symbols(symbolic_gated.fox(gate_bias=[0, 0])),
    "sinks of other heads": lambda: over_symbols(
        symbolic_stick.stick_breaking(
            attend_current=True, remainder="sink", sink=sp.ones(3, 2)
        )
    ),
}


@pytest.mark.parametrize("name", SYMPY_BAD)
def test_sympy_refuses_bad_input_itself(name, unchecked):
    with pytest.raises((TypeError, ValueError)) as refusal:
        SYMPY_BAD[name]()
    last = refusal.traceback[-1]
    assert "posedu" in str(last.path) and str(last.statement).lstrip().startswith(
        "raise"
    )


@pytest.mark.parametrize(
    "call", [attend, lambda q, k, v, e, positions: e(q, positions)]
)
def test_heads_after_tokens_are_named_as_such(call):
    q = torch.randn(2, 7, HEADS, D)  # [batch, tokens, heads, d]
    rope = RoPE(D, layout="half")
    for positions in (range(7), torch.arange(7).expand(2, -1)):
        with pytest.raises(ValueError, match=r"the axes are \[batch, heads, tokens, d"):
            call(q, q, q, rope, positions=positions)
    with pytest.raises(ValueError, match=r"got shape \[5\]$"):
        call(q, q, q, rope, positions=range(5))
