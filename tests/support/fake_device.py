"""Tests on a fake device, whose tensors reveal copies and synchronization."""

from contextlib import suppress
from unittest.mock import patch

import pytest
import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode

from posedu.catalog import CATALOG
from posedu.torch import Attention, KVCache, RoPE, StickBreaking, Transformer, cache

DEVICE = "pretended"
D, TOKENS = 8, 6

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.fixture(scope="module", autouse=True)
def registered():
    """Register the device once in a process."""
    if not hasattr(torch, DEVICE):
        backend_registration._setup_privateuseone_for_python_backend(DEVICE)


class Watched(TorchDispatchMode):
    """A mode that refuses copies between host and device.

    Fake tensors themselves raise if code reads a value (``.item()``, ``int``, ``bool``,
    ``tolist``), if a shape depends on one, and if an operation mixes devices.
    """

    making = False  # seeded parameters are sampled on the host, and copied once

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        if Watched.making and function is torch.ops.aten._to_copy.default:
            return out
        flat = torch.utils._pytree.tree_leaves((args, kwargs, out))
        found = {t.device.type for t in flat if isinstance(t, torch.Tensor) and t.ndim}
        assert len(found) < 2, f"{function} copies between {found}"
        return out


class Pretended:
    """A context that makes fake tensors on the device."""

    def __enter__(self):
        self.modes = [FakeTensorMode(), torch.device(DEVICE), Watched()]
        for mode in self.modes:
            mode.__enter__()

    def __exit__(self, *error):
        for mode in reversed(self.modes):
            mode.__exit__(*error)


SEEDED = ("random", "fourier-random", "fourier-learned")
ROUTES = ("eager", "sdpa", "folded", "fused")


def model_of(entry, variant, route, heads):
    """Return a layer or model with a variant, ``None`` if the route cannot serve it."""
    d = -(-D // entry.divisor(variant)) * entry.divisor(variant)
    width = heads * d
    with suppress(ValueError):
        if entry.kind == "block":
            return entry.implementation("torch")(
                width, heads, route=route, **variant.keywords
            )
        Watched.making = entry.name in SEEDED
        encoding = entry.make(variant, d=d, heads=heads)
        Watched.making = False
        if entry.of_model:
            model = Transformer(width, heads, 2, encoding=encoding)
            return model if route == "eager" else None
        causal = encoding.needs_causal or not hasattr(encoding, "bidirectional")
        return Attention(width, heads, encoding=encoding, route=route, causal=causal)
    return None


def positions_of(axes, kind=""):
    """Return integer and real positions; scalar ones may be omitted or per token."""
    if kind == "positions":
        return [None, range(TOKENS), torch.arange(TOKENS)]
    shape = (TOKENS,) if axes is None else (TOKENS, axes)
    given = [torch.zeros(shape, dtype=torch.int64), torch.zeros(shape)]
    return given if axes else [None, range(3, 3 + TOKENS), *given]


RUNS = [
    pytest.param(entry, variant, route, id=f"{entry.label(variant)}-{route}")
    for entry in CATALOG.values()
    for variant in entry.variants
    for route in ROUTES
    if model_of(entry, variant, route, variant.heads) is not None
]


@pytest.mark.parametrize("entry, variant, route", RUNS)
def test_all_happens_on_the_device(entry, variant, route):
    with Pretended():
        model = model_of(entry, variant, route, variant.heads)
        mask = None
        every = route == "eager" and variant is entry.variants[0]
        for positions in positions_of(entry.axes, entry.kind)[0 if every else -1 :]:
            x = torch.randn(2, TOKENS, model.d_model, requires_grad=True)
            out = model(x, positions, key_padding_mask=mask)
            out.sum().backward()
            assert out.device.type == x.grad.device.type == DEVICE
            mask = torch.zeros(2, TOKENS, dtype=torch.bool)


FIRST = [
    run
    for run in RUNS
    if run.values[1] is run.values[0].variants[0] and run.values[2] != "fused"
]


@pytest.mark.parametrize("entry, variant, route", FIRST)
def test_a_cache_grows_moves_and_forgets_on_the_device(entry, variant, route):
    with Pretended(), torch.no_grad():
        model = model_of(entry, variant, route, variant.heads).eval()
        at = positions_of(entry.axes, entry.kind)[-1]
        is_model = isinstance(model, Transformer)
        if is_model and model.input.needs_whole_sequence:
            pytest.skip("its positions need all tokens of a sequence")
        caches = model.caches() if is_model else [KVCache()]
        cached = {"caches": caches} if is_model else {"cache": caches[0]}
        for start, stop in (0, 4), (4, 5), (5, 6):
            x = torch.randn(2, stop - start, model.d_model)
            out = model(x, at[start:stop], **cached)
            assert out.device.type == caches[-1].k.device.type == DEVICE
        if not is_model:
            encoding = getattr(model, "shared", model.encoding)
            one = -1 if entry.axes is None else torch.ones(TOKENS, entry.axes)
            # A move compares angles on the device, which synchronizes once. No other
            # part of it may synchronize.
            unread = patch.object(cache, "can_read", return_value=False)
            with unread, suppress(ValueError):  # keys that cannot be moved
                caches[0].move(encoding, one)
                caches[0].drop(encoding, 1, 3)
                assert caches[0].k.device.type == DEVICE


def copying(x):
    return x * torch.ones(TOKENS, device="cpu").to(x.device)


def mixing(x):
    return x * torch.ones(TOKENS, device="cpu")


def making(x):
    return x * torch.tensor([1.0] * TOKENS, device=x.device)


FAULTS = {
    "copy": copying,
    "mixed": mixing,
    "from a list": making,
    "item": lambda x: x * x.sum().item(),
    "int": lambda x: x * int(x.sum()),
    "bool": lambda x: x if x.isfinite().all() else 2 * x,
    "list": lambda x: x * x.tolist()[0],
    "shape": lambda x: x[x > 0],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_a_device_would_suffer_from_is_found(fault):
    with Pretended(), pytest.raises((RuntimeError, AssertionError)):
        FAULTS[fault](torch.ones(TOKENS))


def test_stopping_early_looks_at_the_sticks():
    stopping = StickBreaking(attend_current=True, remainder="drop", stop=0.01)
    with Pretended(), pytest.raises(DataDependentOutputException):
        layer = Attention(16, 2, encoding=stopping, route="fused")
        layer(torch.randn(1, TOKENS, 16))


def test_frequencies_of_its_own_go_where_the_module_goes_and_stay_exact():
    rope = RoPE(4, layout="half", frequencies=[1.0, 0.1])
    assert rope.bfloat16().frequencies.dtype == torch.float64
    assert rope.to("meta").frequencies.device.type == "meta"


@pytest.mark.parametrize("name", CATALOG)
def test_another_default_device_does_not_matter(name):
    entry = CATALOG[name]
    model = model_of(entry, entry.variants[0], "eager", entry.variants[0].heads)
    torch.manual_seed(0)
    x, positions = torch.randn(1, TOKENS, model.d_model), list(range(TOKENS))
    if entry.axes is not None:
        positions = [[float(n)] * entry.axes for n in positions]
    expected = model(x, positions)
    with torch.device("meta"):
        assert torch.equal(model(x, positions), expected)
