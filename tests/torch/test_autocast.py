"""Every encoding under autocast, forward and gradients, against float64."""

from contextlib import nullcontext, suppress
from dataclasses import replace

import pytest
import torch
from torch.nn import functional

from posedu.catalog import CATALOG
from posedu.crosscheck import autocast, crosscheck
from posedu.crosscheck.autocast import draw_numbers, reference, run_under_autocast
from posedu.crosscheck.common import CPU
from posedu.torch import (
    Attention,
    CoPE,
    FoX,
    FoXPro,
    StickBreaking,
    _autograd,
    attention,
    routes,
    separable_bias,
    tiled_attention,
)
from posedu.torch.stickbreaking import stickbreaking

pytestmark = pytest.mark.usefixtures("unchecked", "untraced_flex")

CASES = {
    entry.label(variant): (entry, variant)
    for entry in CATALOG.values()
    if entry.kind != "positions"  # of float64 or integers, which autocast never sees
    for variant in entry.variants
}


@pytest.mark.parametrize("case", CASES)
def test_every_encoding_is_as_exact_as_its_products(case, monkeypatch):
    entry, variant = CASES[case]
    record = replace(entry, variants=(variant,))
    monkeypatch.setitem(CATALOG, entry.name, record)
    dtypes = autocast.DTYPES if variant is entry.variants[0] else autocast.DTYPES[:1]
    monkeypatch.setattr(autocast, "DTYPES", dtypes)
    result = crosscheck(entry.name, modes=("autocast",))
    assert result.ok, str(result)
    assert {row.dtype for row in result.results} == {str(t)[6:] for t in dtypes}
    trained = {"parameters"} if not entry.of_model else set()
    assert {row.what for row in result.results} >= {"forward", "gradient"} | trained


def used(layer, numbers, expected, bounds):
    """The largest error under autocast as a part of its bound."""
    found = run_under_autocast(layer, numbers, torch.bfloat16, CPU)
    return max(
        ((a.double() - b).abs() / bound).max().item()
        for a, b, bound in zip(found, expected, bounds, strict=True)
    )


def shielded_nowhere(monkeypatch):
    """Autocast reaches into layers and kernels, not into their backward passes."""
    for module in (attention, separable_bias, stickbreaking, tiled_attention):
        monkeypatch.setattr(module, "without_autocast", lambda x: nullcontext())
    monkeypatch.setattr(attention, "lowered", lambda *tensors: tensors)


def stored_as_it_is(monkeypatch):
    """The kernel is given the bias in its dtype without its largest taken off."""

    def sdpa(encoding, tokens):
        mask = encoding.bias(tokens).to(tokens.q.dtype)
        return functional.scaled_dot_product_attention(
            tokens.q,
            tokens.k,
            tokens.v,
            attn_mask=mask.masked_fill(~tokens.mask, -torch.inf),
            scale=encoding.scale(tokens.d),
        )

    monkeypatch.setitem(routes.BY_NAME, "sdpa", sdpa)


def sticks():
    """Long logits: where the backward pass forms others, weights are no weights."""
    encoding = StickBreaking(attend_current=False, remainder="drop")
    layer = Attention(32, 2, encoding=encoding, route="fused")
    numbers = draw_numbers(layer, tokens=64)
    with torch.no_grad():
        layer.q.weight *= 2
        layer.k.weight *= 2
    return layer, numbers


def counted():
    """More gates than vectors, all nearly 1, of a table without kinks."""
    largest = 257  # bfloat16 has 256 and 258
    table = torch.randn(8, 1) * torch.arange(largest + 1) / largest
    layer = Attention(16, 2, encoding=CoPE(8, npos=largest + 1, scaling="code"))
    x, positions, upstream = draw_numbers(layer, tokens=300)
    with torch.no_grad():
        layer.encoding.table.copy_(table)
        layer.k.weight.copy_(layer.q.weight)
    return layer, (0.1 * x + 1, positions, upstream)


def keyed():
    """The form of FoX whose bias grows with the length."""
    layer = Attention(16, 2, encoding=FoX(16, 2, form="key"), route="sdpa")
    return layer, draw_numbers(layer, tokens=64)


def normed():
    """Queries that a gain makes float32 again, with the bias among their features."""
    layer = FoXPro(16, 2, route="folded")
    return layer, draw_numbers(layer, tokens=64)


FAULTS = {
    "sticks": (sticks, shielded_nowhere),
    "counted": (counted, shielded_nowhere),
    "keyed": (keyed, stored_as_it_is),
    "normed": (normed, shielded_nowhere),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_was_wrong_under_autocast_is_outside_its_bound(name, monkeypatch):
    torch.manual_seed(2)
    made, fault = FAULTS[name]
    layer, numbers = made()
    stored = layer.route == "sdpa"
    known = reference(layer, numbers, torch.bfloat16, stored=stored)
    right = used(layer, numbers, *known)
    fault(monkeypatch)
    wrong = torch.inf
    with suppress(RuntimeError, IndexError):  # a position beyond the table
        wrong = used(layer, numbers, *known)
    assert right < 1 < wrong


def test_what_a_product_is_given_is_lowered_under_autocast_alone():
    single, double = torch.zeros(2), torch.zeros(2, dtype=torch.float64)
    kept = _autograd.lowered(single, double)
    assert kept[0] is single and kept[1] is double
    with torch.autocast("cpu", torch.bfloat16):
        low, same = _autograd.lowered(single, double)
    assert low.dtype == torch.bfloat16 and same is double
