"""Bad input from a table: each message says what was given and what is needed."""

import ast
import inspect
import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import sympy as sp
import torch

import posedu
from posedu.numpy import (
    absolute,
    attention,
    bias,
    gated,
    relative,
    rotary,
    stickbreaking,
)
from posedu.numpy.frequencies import frequencies as geometric
from posedu.numpy.frequencies import wavelengths
from posedu.sympy import absolute as symbolic
from posedu.sympy import rotary as symbolic_rotary
from posedu.sympy.frequencies import frequencies as exact_frequencies
from posedu.torch import (
    Attention,
    CoPE,
    Encoding,
    FoX,
    FoXPro,
    KVCache,
    RoPE,
    Sinusoidal,
    StickBreaking,
    convert_layout,
    rotate_pairs,
)
from posedu.torch import absolute as torch_absolute
from posedu.torch import attention as torch_attention
from posedu.torch import bias as torch_bias
from posedu.torch import relative as torch_relative
from posedu.torch import rotary as torch_rotary

# These are posedu's own errors, as its users meet them; with the annotations checked,
# the checker would speak first.
pytestmark = pytest.mark.usefixtures("unchecked", "untraced_flex")

ROWS = []


def bad(name, error, words, call, *arguments, **options):
    """A row: this call raises ``error``, with all of ``words`` in its message."""
    row = (partial(call, *arguments, **options), error, words)
    ROWS.append(pytest.param(*row, id=f"{len(ROWS)} {name}"))


half = {"layout": "half"}
x8 = np.zeros((3, 8))
t8 = torch.zeros(3, 8)
b8 = torch.zeros(2, 3, 8)
layer = Attention(8, 4, kv_heads=2)


def weights(heads=4, kv_heads=2, d=2, d_model=8, **replaced):
    shapes = {
        "q": (heads, d, d_model),
        "k": (kv_heads, d, d_model),
        "v": (kv_heads, d, d_model),
        "o": (d_model, heads, d),
    }
    shapes |= replaced
    return attention.Projections(**{n: np.zeros(s) for n, s in shapes.items()})


# Dimensions.

for name, call in {
    "numpy.frequencies": geometric,
    "numpy.wavelengths": wavelengths,
    "numpy.sinusoidal": lambda d: absolute.sinusoidal(0, d, **half),
    "numpy.offset_matrix": lambda d: absolute.offset_matrix(1, d, **half),
    "numpy.pairs": partial(rotary.pairs, **half),
    "numpy.rotation": lambda d: rotary.rotation(0, d, **half),
    "numpy.rotation partly": lambda r: rotary.rotation(0, 8, rotary_dim=r, **half),
    "numpy.layout_permutation": rotary.layout_permutation,
    "numpy.decay_bound": lambda d: rotary.decay_bound(0, d),
    "torch.Sinusoidal": partial(Sinusoidal, **half),
    "torch.RoPE": partial(RoPE, **half),
    "torch.RoPE partly": lambda r: RoPE(8, rotary_dim=r, **half),
    "sympy.frequencies": exact_frequencies,
    "sympy.layout_matrix": symbolic_rotary.layout_matrix,
}.items():
    for d, nearest in ((7, 8), (1, 2), (0, 2), (-4, 2)):
        words = (
            "positive multiple of 2",
            f"got {d}",
            f"nearest valid value is {nearest}",
        )
        bad(f"{name} of {d}", ValueError, words, call, d)
    for d in (True, 4.0, "4"):
        words = "must be an integer", f"got {d!r}"
        bad(f"{name} of {d!r}", TypeError, words, call, d)
    if "partly" in name:
        bad(f"{name} of 10", ValueError, ("at most d = 8", "got 10"), call, 10)

# The first of several.

words = "positions must be finite", "got inf"
several = [0, np.inf, np.nan]
bad("the first bad position", ValueError, words, rotary.rope, x8, several, **half)

next_alone = np.tri(3, dtype=bool)
next_alone[0, 1] = True
bad(
    "a mask that allows one later key",
    ValueError,
    ("the encoding is causal, the mask is not",),
    partial(attention.steps, *(np.zeros((1, 3, 2)) for _ in "qkv"), mask=next_alone),
    stickbreaking.stick_breaking(attend_current=True, remainder="drop"),
)

# Bases, layouts, spacings.

for name, call in {
    "numpy.frequencies": partial(geometric, 4),
    "numpy.rotation": partial(rotary.rotation, 0, 4, **half),
    "torch.Sinusoidal": partial(Sinusoidal, 4, **half),
    "torch.RoPE": partial(RoPE, 4, **half),
    "sympy.frequencies": partial(exact_frequencies, 4),
}.items():
    for base in (1, 1.0, 0.5, 0, -10000, float("nan"), float("inf")):
        words = "base must be finite and greater than 1", f"got {base:g}"
        bad(f"{name} with base {base}", ValueError, words, call, base=base)
    for base in (True, 1j):
        words = "base must be a number", f"got {base!r}"
        bad(f"{name} with base {base!r}", TypeError, words, call, base=base)

for name, call in {
    "numpy.sinusoidal": lambda x: absolute.sinusoidal(0, 4, layout=x),
    "numpy.offset_matrix": lambda x: absolute.offset_matrix(0, 4, layout=x),
    "numpy.rope": lambda x: rotary.rope(x8, range(3), layout=x),
    "numpy.to_complex": lambda x: rotary.to_complex(x8, layout=x),
    "numpy.convert_layout to": lambda x: rotary.convert_layout(
        x8[0], 1, source="half", target=x
    ),
    "numpy.convert_layout from": lambda x: rotary.convert_layout(
        x8[0], 1, source=x, target="half"
    ),
    "torch.Sinusoidal": lambda x: Sinusoidal(4, layout=x),
    "torch.RoPE": lambda x: RoPE(4, layout=x),
    "torch.rotate_pairs": lambda x: rotate_pairs(t8, t8[:, :4], t8[:, :4], layout=x),
    "torch.convert_layout to": lambda x: convert_layout(
        t8[0], 1, source="half", target=x
    ),
    "torch.convert_layout from": lambda x: convert_layout(
        t8[0], 1, source=x, target="half"
    ),
    "sympy.embed": lambda x: symbolic.embed_sinusoidal(sp.zeros(4, 1), 0, layout=x),
    "sympy.rope": lambda x: symbolic_rotary.rope(sp.zeros(4, 1), 0, layout=x),
}.items():
    for layout in ("neox", "Half", None):
        words = "must be 'interleaved' or 'half'", f"got {layout!r}"
        bad(f"{name} in layout {layout!r}", ValueError, words, call, layout)

for name, call in {
    "numpy": partial(geometric, 4),
    "torch": partial(Sinusoidal, 4, **half),
    "sympy": partial(exact_frequencies, 4),
}.items():
    words = "spacing must be 'paper' or 'tensor2tensor'", "got 'fairseq'"
    bad(f"{name} spacing", ValueError, words, call, spacing="fairseq")

for name, call in {
    "Sinusoidal": partial(Sinusoidal, 4),
    "RoPE": partial(RoPE, 4),
    "sinusoidal": partial(absolute.sinusoidal, 0, 4),
    "rotation": partial(rotary.rotation, 0, 4),
}.items():
    bad(f"{name} without a layout", TypeError, ("required", "'layout'"), call)

# Positions.

for name, call in {
    "sinusoidal": lambda p: absolute.sinusoidal(p, 8, **half),
    "embed_sinusoidal": partial(absolute.embed_sinusoidal, x8, **half),
    "rope": partial(rotary.rope, x8, **half),
    "rope_dense": partial(rotary.rope_dense, x8, **half),
    "rope_complex": partial(rotary.rope_complex, x8, **half),
    "decay_bound": lambda p: rotary.decay_bound(p, 8),
    "rope_linear_attention": partial(rotary.rope_linear_attention, x8, x8, x8, **half),
    "attention": partial(attention.attention, x8, weights()),
}.items():
    for value in (np.nan, np.inf, -np.inf):
        words = "must be finite", f"got {value}"
        bad(f"numpy.{name} at {value}", ValueError, words, call, [0, value, 2])
    words = "float16", "2048", "float32 or float64"
    bad(f"numpy.{name} in float16", TypeError, words, call, np.zeros(3, np.float16))
    for p in (np.array([True, False, True]), np.zeros(3, complex), np.array(["a"] * 3)):
        words = "real numbers", f"got dtype {p.dtype}"
        bad(f"numpy.{name} of {p.dtype}", TypeError, words, call, p)

for name, call in {
    "Sinusoidal": partial(Sinusoidal(8, **half), t8),
    "Sinusoidal.table": Sinusoidal(8, **half).table,
    "RoPE": partial(RoPE(8, **half), t8),
    "RoPE.table": RoPE(8, **half).table,
    "RoPE.rotate": partial(RoPE(8, **half).rotate, t8, t8),
    "Attention": partial(layer, b8),
    "Attention with RoPE": partial(Attention(8, 2, encoding=RoPE(4, **half)), b8),
}.items():
    for value in (torch.nan, torch.inf):
        words = "must be finite", f"got {value}"
        bad(f"{name} at {value}", ValueError, words, call, torch.tensor([0, value, 2]))
    for dtype, exact in ((torch.bfloat16, "256"), (torch.float16, "2048")):
        words = str(dtype), exact, "float32 or float64"
        bad(f"{name} in {dtype}", TypeError, words, call, torch.zeros(3, dtype=dtype))
    for dtype in (torch.bool, torch.complex64):
        words = "real numbers", f"got {dtype}"
        bad(f"{name} of {dtype}", TypeError, words, call, torch.zeros(3, dtype=dtype))
    words = "a tensor, a range or a list", "got ndarray"
    bad(f"{name} of ndarray", TypeError, words, call, np.arange(3))
    if "table" not in name:
        words = "positions are on meta", "cpu", "move one of them"
        bad(f"{name} on meta", ValueError, words, call, torch.zeros(3, device="meta"))

for name, call in {
    "offset": absolute.offset_matrix,
    "position": rotary.rotation,
}.items():
    for value, shape in (([1, 2], "[2]"), (np.zeros((1, 1)), "[1, 1]")):
        words = f"{name} must be one number", f"got shape {shape}"
        bad(f"{name} of {shape}", ValueError, words, call, value, 4, **half)
    words = f"{name} must be finite", "got nan"
    bad(f"{name} nan", ValueError, words, call, np.nan, 4, **half)

for shape in ((2,), (4,), (1,), (), (3, 1), (1, 3), (2, 3, 3)):
    for name, call, p in (
        ("numpy.rope", partial(rotary.rope, b8.numpy(), **half), np.zeros(shape)),
        (
            "numpy.embed",
            partial(absolute.embed_sinusoidal, b8.numpy(), **half),
            np.zeros(shape),
        ),
        ("RoPE", partial(RoPE(8, **half), b8), torch.zeros(shape)),
        ("Sinusoidal", partial(Sinusoidal(8, **half), b8), torch.zeros(shape)),
    ):
        if shape == (1, 3):
            continue  # one row for the whole batch
        words = "[tokens] or [batch, tokens]", "[2, 3, 8]", f"got shape {list(shape)}"
        bad(f"{name} with positions {shape}", ValueError, words, call, p)
    if shape != (1, 3):
        call = partial(Attention(8, 4, encoding=RoPE(2, **half)), b8)
        words = "positions must be [3] or [2, 3]", f"got shape {list(shape)}"
        name = f"Attention with positions {shape}"
        bad(name, ValueError, words, call, torch.zeros(shape))
for shape in ((2,), (4,), (1,), ()):
    words = "positions must be [3] or [2, 3]", f"got shape {list(shape)}"
    bad(f"NoPE with {shape}", ValueError, words, layer, b8, torch.zeros(shape))
for p in (range(2), range(0, 3, 2), range(3, 0), range(9)):
    words = "[tokens] or [batch, tokens]", f"got shape [{len(p)}]"
    bad(f"RoPE with {p}", ValueError, words, RoPE(8, **half), t8, p)

# Features.

for name, call in {
    "embed_sinusoidal": partial(absolute.embed_sinusoidal, positions=range(3), **half),
    "rope": partial(rotary.rope, positions=range(3), **half),
    "rope_dense": partial(rotary.rope_dense, positions=range(3), **half),
    "rope_complex": partial(rotary.rope_complex, positions=range(3), **half),
    "to_complex": partial(rotary.to_complex, **half),
}.items():
    words = "positive multiple of 2", "got 7"
    bad(f"numpy.{name} of odd width", ValueError, words, call, np.zeros((3, 7)))
    for dtype in (np.int64, bool, complex):
        x = np.zeros((3, 8), dtype)
        words = "x must hold floats", f"got dtype {x.dtype}"
        bad(f"numpy.{name} of {x.dtype}", TypeError, words, call, x)

words = "x must be [..., tokens, d]", "got shape [8]"
bad("numpy.rope of one axis", ValueError, words, rotary.rope, x8[0], [0], **half)
call = partial(rotary.rope_dense, **half)
for x in (b8.numpy(), x8[0]):
    words = "x must be [tokens, d]", f"got shape {list(x.shape)}"
    bad(f"numpy.rope_dense of {x.shape}", ValueError, words, call, x, range(3))

for q, k, v, error, words in (
    (
        x8,
        x8[:2],
        x8,
        ValueError,
        ("q and k must be [..., tokens, d]", "[3, 8], [2, 8]"),
    ),
    (x8, x8, x8[:2], ValueError, ("v [..., tokens, d_v]", "and [2, 8]")),
    (x8[0], x8[0], x8, ValueError, ("[..., tokens, d]", "[8], [8]")),
    (x8, x8, x8.astype(np.int64), TypeError, ("v must hold floats", "int64")),
    (x8.astype(np.int64), x8, x8, TypeError, ("q must hold floats", "int64")),
):
    call = partial(rotary.rope_linear_attention, positions=range(3), **half)
    bad("numpy.rope_linear_attention", error, words, call, q, k, v)

for name, module in {"RoPE": RoPE, "Sinusoidal": Sinusoidal}.items():
    for x, error, words in (
        (t8.long(), TypeError, ("x must hold floats", "torch.int64")),
        (t8.bool(), TypeError, ("x must hold floats", "torch.bool")),
        (t8.cfloat(), TypeError, ("x must hold floats", "torch.complex64")),
        (x8, TypeError, ("x must be a torch.Tensor", "ndarray")),
        ([[0.0] * 8] * 3, TypeError, ("x must be a torch.Tensor", "list")),
        (t8[:, :6], ValueError, ("[..., tokens, 8]", "got shape [3, 6]")),
        (t8[0], ValueError, ("[..., tokens, d]", "got shape [8]")),
        (t8[0, 0], ValueError, ("x must be", "tokens", "got shape []")),
    ):
        bad(f"{name} of {words[-1]}", error, words, module(8, **half), x, range(3))

words = "q and k must agree", "torch.float32 [3, 8]", "torch.float64 [3, 8]"
bad("RoPE", ValueError, words, RoPE(8, **half).rotate, t8, t8.double(), range(3))
for k in (t8[:2], torch.zeros(3, 12), t8[0]):
    words = "q and k must agree", "[3, 8]", str(list(k.shape))
    bad("RoPE", ValueError, words, RoPE(8, **half).rotate, t8, k, range(3))
for q, k, words in (
    (t8, x8, ("k must be a torch.Tensor", "ndarray")),
    (x8, t8, ("q must be a torch.Tensor", "ndarray")),
    (t8, t8.int(), ("k must hold floats", "torch.int32")),
):
    bad("RoPE", TypeError, words, RoPE(8, **half).rotate, q, k, range(3))

t4 = torch.zeros(3, 4)
for x, cos, sin, error, words in (
    (x8, t4, t4, TypeError, ("x must be a torch.Tensor", "ndarray")),
    (t8.int(), t4, t4, TypeError, ("x must hold floats", "torch.int32")),
    (t8, t4.int(), t4.int(), TypeError, ("cos must hold floats", "torch.int32")),
    (t8, t4, t4[:2], ValueError, ("must be alike", "[3, 4]", "[2, 4]")),
    (t8, t4, t4.double(), ValueError, ("must be alike", "float32", "float64")),
    (t8, t4.half(), t4.half(), TypeError, ("float32 or float64", "got torch.float16")),
    (t8.double(), t4, t4, TypeError, ("no coarser", "float64", "got torch.float32")),
    (t8, t4[:2], t4[:2], ValueError, ("[..., tokens, pairs]", "[3, 8]", "got [2, 4]")),
    (t8, t8, t8, ValueError, ("[..., tokens, pairs]", "[3, 8]", "got [3, 8]")),
    (t8, t4[0], t4[0], ValueError, ("[..., tokens, pairs]", "got [4]")),
    (t8, t4[None], t4[None], ValueError, ("broadcast over x", "got [1, 3, 4]")),
    (t8, t4.to("meta"), t4.to("meta"), ValueError, ("on meta", "x on cpu")),
):
    bad("rotate_pairs", error, words, rotate_pairs, x, cos, sin, **half)
for out in (t8, t8.view(3, 8)):
    words = ("out must not share memory with x",)
    bad(
        "rotate_pairs in place",
        ValueError,
        words,
        rotate_pairs,
        t8,
        t4,
        t4,
        out=out,
        **half,
    )

for name, out in {
    "shape": torch.zeros(3, 6),
    "length": torch.zeros(2, 8),
    "dtype": t8.double(),
    "device": torch.zeros(3, 8, device="meta"),
}.items():
    given = f"got {out.dtype} {list(out.shape)} on {out.device}"
    words = "out must be torch.float32 [3, 8] on cpu", given
    call = partial(rotate_pairs, t8, *RoPE(8, **half).table(range(3)), **half)
    bad(f"rotate_pairs with out of other {name}", ValueError, words, call, out=out)

for implementation, convert, w in (
    ("numpy", rotary.convert_layout, x8[0]),
    ("torch", convert_layout, t8[0]),
):
    call = partial(convert, source="half", target="interleaved")
    for heads, error, words in (
        (3, ValueError, ("multiple of heads = 3", "[8]")),
        (0, ValueError, ("heads must be a positive", "got 0")),
        (True, TypeError, ("heads must be an integer", "got True")),
        (8, ValueError, ("d must be a positive multiple of 2", "got 1")),
    ):
        bad(
            f"{implementation}.convert_layout for {heads} heads",
            error,
            words,
            call,
            w,
            heads,
        )
    words = "first axis", "got shape []"
    bad(
        f"{implementation}.convert_layout of a scalar", ValueError, words, call, w[0], 1
    )
    words = "at most d = 4", "got 6"
    bad(
        f"{implementation}.convert_layout partly",
        ValueError,
        words,
        call,
        w,
        2,
        rotary_dim=6,
    )

# Attention.

for arguments, options, error, words in (
    ((8, 3), {}, ValueError, ("d_model must be a multiple of heads = 3", "got 8")),
    ((8, 4), {"kv_heads": 3}, ValueError, ("multiple of kv_heads", "4 and 3")),
    ((8, 4), {"kv_heads": 8}, ValueError, ("multiple of kv_heads", "4 and 8")),
    ((8, 4), {"kv_heads": 0}, ValueError, ("kv_heads must be a positive", "got 0")),
    ((8, 0), {}, ValueError, ("heads must be a positive", "got 0")),
    ((8, True), {}, TypeError, ("heads must be an integer", "got True")),
    ((8, 2.0), {}, TypeError, ("heads must be an integer", "got 2.0")),
    ((0, 1), {}, ValueError, ("d_model must be a positive", "got 0")),
    ((8.0, 1), {}, TypeError, ("d_model must be an integer", "got 8.0")),
    ((8, 2), {"d": 0}, ValueError, ("d must be a positive", "got 0")),
    ((8, 2), {"d": True}, TypeError, ("d must be an integer", "got True")),
    (
        (8, 2),
        {"route": "flash"},
        ValueError,
        ("'sdpa' or 'flex' or 'eager'", "'flash'"),
    ),
    ((8, 2), {"encoding": RoPE}, TypeError, ("must be an Encoding module", "RoPE")),
    ((8, 2), {"encoding": "rope"}, TypeError, ("must be an Encoding module", "'rope'")),
):
    bad(f"Attention, {words[-1]}", error, words, Attention, *arguments, **options)

filled = KVCache()
layer(b8, cache=filled)
MASK = "key_padding_mask"
no, zeros = torch.zeros(2, 3, dtype=torch.bool), torch.zeros(2, 3, dtype=torch.int64)
for x, options, error, words in (
    (b8.long(), {}, TypeError, ("x must hold floats", "torch.int64")),
    (b8.numpy(), {}, TypeError, ("x must be a torch.Tensor", "ndarray")),
    (b8[0], {}, ValueError, ("[batch, tokens, 8]", "got [3, 8]")),
    (b8[..., :6], {}, ValueError, ("[batch, tokens, 8]", "got [2, 3, 6]")),
    (b8.to("meta"), {}, ValueError, ("x is on meta", "weights on cpu", "move one")),
    (b8, {MASK: zeros.float()}, TypeError, (MASK, "boolean", "torch.float32")),
    (b8, {MASK: zeros}, TypeError, (MASK, "boolean", "torch.int64")),
    (b8, {MASK: [[False] * 3] * 2}, TypeError, (MASK, "torch.Tensor", "list")),
    (b8, {MASK: no.T}, ValueError, (MASK, "must be [2, 3]", "got [3, 2]")),
    (b8, {MASK: no[0]}, ValueError, (MASK, "must be [2, 3]", "got [3]")),
    (b8, {MASK: no.to("meta")}, ValueError, (MASK, "meta", "cpu")),
    (b8, {MASK: no, "cache": filled}, ValueError, ("must be [2, 6]", "got [2, 3]")),
    (b8, {"segments": zeros[:, :2]}, ValueError, ("must be [2, 3]", "got [2, 2]")),
    (b8, {"segments": zeros.float()}, TypeError, ("must be integers", "torch.float32")),
    (b8, {"segments": zeros.to("meta")}, ValueError, ("segments", "meta", "cpu")),
    (b8, {"segments": [[0] * 3] * 2}, TypeError, ("segments", "torch.Tensor", "list")),
    (b8, {"segments": zeros, "cache": KVCache()}, ValueError, ("segments", "cache")),
    (b8[:1], {"cache": filled}, ValueError, ("cache", "[2, 2, 2]", "got [1, 2, 2]")),
):
    bad(f"Attention of {[*options, words[-1]]}", error, words, layer, x, **options)
words = "the cache holds", "[2, 2, 2]", "got [2, 4, 2]"
bad("another layer's cache", ValueError, words, Attention(8, 4), b8, cache=filled)
words = "RoPE was made for d = 8, the layer has d = 4", "2 key-value heads"
call = partial(Attention, 8, 2, encoding=RoPE(8, **half))
bad("RoPE of another head dimension", ValueError, words, call)


def attend(x=x8, options=None, **of_weights):
    return attention.attention(x, weights(**of_weights), **(options or {}))


for options, error, words in (
    ({"x": x8.astype(np.int64)}, TypeError, ("x must hold floats", "int64")),
    ({"x": x8[0]}, ValueError, ("x must be [tokens, d_model]", "got shape [8]")),
    ({"kv_heads": 3}, ValueError, ("multiple of kv_heads", "4 and 3")),
    ({"kv_heads": 0}, ValueError, ("kv_heads must be a positive", "got 0")),
    ({"d_model": 6}, ValueError, ("w.q must be [4, 2, 8]", "got shape [4, 2, 6]")),
    ({"k": (2, 3, 8)}, ValueError, ("w.k must be [2, 2, 8]", "got shape [2, 3, 8]")),
    ({"v": (1, 2, 8)}, ValueError, ("w.v must be [2, 2, 8]", "got shape [1, 2, 8]")),
    ({"o": (8, 2, 4)}, ValueError, ("w.o must be [8, 4, 2]", "got shape [8, 2, 4]")),
    ({"options": {"positions": [0, 1]}}, ValueError, ("must be [3]", "shape [2]")),
    (
        {"options": {"mask": np.ones((2, 3), bool)}},
        ValueError,
        ("mask must be [3, 3]", "got shape [2, 3]"),
    ),
    (
        {"options": {"mask": np.ones((3, 3))}},
        TypeError,
        ("mask must be boolean", "got dtype float64"),
    ),
):
    bad(f"numpy.attention, {words[-1]}", error, words, attend, **options)
words = "logits must hold floats", "int64"
bad("softmax", TypeError, words, attention.softmax, np.zeros((2, 2), np.int64))
words = "mask must be [2, 3]", "got shape [3, 3]"
ones = np.ones((3, 3), bool)
bad("softmax", ValueError, words, attention.softmax, np.zeros((2, 3)), ones)


# What once gave a wrong result without a word.

ROW = torch.randn(1, 2, 3, 4)
POSITIONS = {
    "int64 beyond float64": (
        [2**53, 0, 1],
        torch.int64,
        ValueError,
        "9007199254740992",
    ),
    "float64 beyond itself": ([-1e30, 0, 1], torch.float64, ValueError, "be below"),
    "float32 beyond itself": ([2.0**24, 0, 1], torch.float32, ValueError, "16777216"),
    "float8": ([1.0, 2, 3], torch.float8_e4m3fn, TypeError, "only up to 16"),
    "float8 of another kind": ([1.0, 2, 3], torch.float8_e5m2, TypeError, "up to 8"),
    "uint64": ([1, 2, 3], torch.uint64, TypeError, "must be real numbers"),
}
for name, (values, dtype, error, words) in POSITIONS.items():
    given = torch.tensor(values).to(dtype)
    rotate = RoPE(4, **half)
    bad(f"torch, {name}", error, (words,), rotate, ROW, given)
    call = partial(torch_attention.attend, ROW, ROW, ROW, rotate, positions=given)
    bad(f"attend, {name}", error, (words,), call)
for given in (range(2**60, 2**60 + 3), range(2**70, 2**70 + 3)):
    words = "must be below 9007199254740992", f"got {given}"
    bad(f"a range to {given}", ValueError, words, RoPE(4, **half), ROW, given)
for given, error, words in (
    (np.array([2**53, 0, 1]), ValueError, "int64 must be below 9007199254740992"),
    (np.array([2**64 - 1, 0, 1], np.uint64), ValueError, "uint64 must be below"),
    (np.array([2**24, 0, 1], np.float32), ValueError, "float32 must be below 16777216"),
    ([1e300, 0, 1], ValueError, "float64 must be below 9007199254740992"),
    (np.array([1, 2, 3], "m8[s]"), TypeError, "real numbers, got dtype timedelta64[s]"),
    (np.ma.masked_array([1, 2, 3], [0, 1, 0]), TypeError, "have no mask of its own"),
    ([[1, 2], [3]], ValueError, "positions must be an array, but"),
):
    bad(f"numpy, {words}", error, (words,), rotary.rope, x8, given, **half)
masked = np.ma.masked_array(x8, x8 > 0)
bad("a masked x", TypeError, ("x must have no mask",), rotary.rope, masked, [0], **half)

for x in (torch.zeros(3, 4), np.zeros((3, 4))):  # as many tokens as a batch would have
    rotate = (
        RoPE(4, **half) if isinstance(x, torch.Tensor) else partial(rotary.rope, **half)
    )
    at = 0 * x[:, :3]
    words = "positions must be [tokens]", "got shape [3, 3]"
    bad(
        f"rows of positions for one {type(x).__name__}",
        ValueError,
        words,
        rotate,
        x,
        at,
    )

for module in (RoPE(4, **half), Sinusoidal(4, **half)):
    for dtype, words in (
        (torch.int32, "must hold floats, got torch.int32"),
        (torch.bool, "must hold floats, got torch.bool"),
        (torch.complex64, "must hold floats, got torch.complex64"),
        (torch.float8_e5m2, "floats of 16 bits or more, got torch.float8_e5m2"),
        ("float32", "must be a torch.dtype, got 'float32'"),
        (None, "must be a torch.dtype, got None"),
    ):
        what = f"table of {type(module).__name__} in {dtype}"
        bad(what, TypeError, (words,), module.table, range(3), dtype=dtype)

vectors = np.ones((4, 2))
for x in (np.asarray(1.0), x8[0]):
    words = "x must be [..., tokens, d]", f"got shape {list(x.shape)}"
    options = {"order": "concatenated"} | half
    bad("rope", ValueError, words, rotary.rope, x, range(4), **half)
    bad("axial", ValueError, words, rotary.axial, x, vectors, **options)
    call = partial(rotary.mixed, x, vectors, frequencies=vectors, **half)
    bad("mixed", ValueError, words, call)
    bad("rerotation", ValueError, words, rotary.rerotation, x, range(4), **half)
    rows = {"cos_coefficients": np.ones((4, 2)), "sin_coefficients": np.ones((4, 2))}
    options = {"length": 16, "padding": "zero"} | rows | half
    bad("fope", ValueError, words, rotary.fope, x, range(4), **options)
bad(
    "an odd d of M-RoPE",
    ValueError,
    ("d must be a positive multiple of 2, got 13",),
    partial(rotary.m_rope, np.zeros((3, 13)), np.zeros((3, 3)), sections=(2, 2, 2)),
    order="sectioned",
    **half,
)
for name, call in {
    "log": partial(bias.kerple_log, log_r1=np.zeros(1), log_r2=np.zeros(2)),
    "power": partial(bias.kerple_power, log_r1=np.zeros(1), logit_r2=np.zeros(2)),
}.items():
    words = ("must have one number for each head, got log_r1 [1] and",)
    bad(f"heads of KERPLE, {name}", ValueError, words, call, scaling="code")
one = {n: np.zeros(1) for n in ("log_r1", "logit_r2", "log_r3", "logit_r4")}
hooks = bias.kerple_power(**one, scaling="code")
words = "a bias must be one number, [3, 3] or [2, 3, 3] for 2 heads", "[1, 3, 3]"
bad(
    "KERPLE's weight",
    ValueError,
    words,
    attention.attend,
    *[np.ones((2, 3, 4))] * 3,
    hooks,
)
for positions, error, words in (
    (3, TypeError, ("positions must be a torch.Tensor", "got int")),
    (torch.ones(2).half(), TypeError, ("positions are torch.float16",)),
):
    call = partial(torch_relative.log_temperature, floor=2.0, alpha=0.1)
    bad("log_temperature", error, words, call, positions)
for value in (10**400, -(10**400)):
    options = {"beyond": "zero", "std": value}
    words = ("std must be finite and not negative",)
    bad("std", ValueError, words, torch_absolute.Learned, 8, 4, **options)
    bad("base", ValueError, ("base must be finite",), RoPE, 8, base=value, **half)
    words = ("attention_factor must be finite",)
    bad("factor", ValueError, words, RoPE, 8, attention_factor=value, **half)

# What once raised NumPy's or Python's own error.
one, point = np.ones(1), np.asarray(1.0)
fire_options = {"threshold": 4.0, "activation": "relu", "later": "zero"}
fire_options |= {"c": one, "multiplier": one, "hidden_weight": np.ones((1, 1))}
fire_options |= {"out_weight": np.ones((1, 1)), "out_bias": one}
call = partial(bias.fire, **fire_options)
bad("fire", ValueError, ("got shapes [[1, 1], [],",), call, hidden_bias=point)
dape_options = {"over": None, "residual": True, "hidden_weight": point}
dape_options |= {"out_weight": point, "out_bias": point, "hidden_bias": point}
bad("dape", ValueError, ("got shapes [[], [], [], []]",), bias.dape, **dape_options)
words = ("gate_bias must be [heads], got shape []",)
bad("fox", ValueError, words, gated.fox, gate_weight=None, gate_bias=point)
words = ("x must be [..., tokens, d], got shape [2]",)
bad("rope_complex", ValueError, words, rotary.rope_complex, [1.0, 2.0], [0], **half)
words = ("must be [tokens] or [rows, tokens], got shapes [] and []",)
bad("randomized", ValueError, words, absolute.randomized, 1, sample=1)
words = ("sections must be a count for each axis",)
bad("sections", TypeError, words, rotary.m_rope_axes, np.array(2), order="sectioned")
words = ("matrices must be [..., 4, 4], got shape [3, 3]",)
bad("camera", ValueError, words, rotary.inverse_camera_matrix, np.ones((3, 3)))
words = ("image_dim must be an integer",)
bad("image", TypeError, words, rotary.image_frequencies, np.ones(3))
call = partial(bias.kerple_log_bias, [1, 2], r2=1.0)
bad("kerple_log_bias", TypeError, ("r1 must be real numbers",), call, r1="x")
call = partial(bias.kerple_power_bias, [1, 2], r1=1.0)
bad("kerple_power_bias", TypeError, ("r2 must be real numbers",), call, r2=None)
call = partial(relative.inkling, r_proj_weight=np.ones((4, 3)), divisor="width")
call = partial(call, distance_basis=np.ones((2, 5)))
bad("inkling", ValueError, ("must be [4], got shape []",), call, r_proj_bias=1.5)
eye = np.eye(4)
block = {"q_weight": eye, "k_weight": eye, "v_weight": eye, "o_weight": eye}
block |= {"encoding_gate_weight": np.ones((2, 4)), "encoding_gate_bias": np.ones(2)}
for name in block:
    call = partial(gated.fox_pro, np.ones((3, 4)), output_gate=None)
    bad("fox_pro", TypeError, (f"{name} must hold",), call, **block | {name: None})
names = "q_weight", "kv_down_weight", "k_up_weight", "v_up_weight", "o_weight"
call = partial(rotary.mla, np.ones((3, 4)), [0, 1, 2], heads=2, **half)
bad(
    "mla",
    TypeError,
    ("o_weight must hold",),
    call,
    **dict.fromkeys(names, eye) | {"o_weight": None},
)
hooks = {"table": np.ones((4, 3)), "scaling": "paper", "gates": "keys"}
call = partial(gated.cope, **hooks)
words = ("gate_keys_weight must hold floats",)
bad("cope", TypeError, words, call, gate_keys_weight=1)
call = partial(attention.attend, *[np.ones((2, 3, 4))] * 3, x=np.ones((3, 8)))
wrong = gated.cope(**hooks, gate_keys_weight=np.ones((4, 8)))
bad("cope", ValueError, ("gate_keys_weight must be [8, 8], [heads",), call, wrong)
options = {"threshold": 4.0, "activation": "relu", "later": "zero", "c": 1e300}
words = ("c must be at most 3.40282e+38 in size",)
bad("FIRE", ValueError, words, torch_bias.FIRE, 2, **options)

# Angles that float64 does not hold to 24 bits after the point.
FAR, PLANE = 2.0**40, {"axes": 2}
far_at = np.full((3, 2), FAR)
waves = dict(unit="radians", layout="half", first="cos", amplitude="one")
angle = ("angles must be at most 2**29 in size",)
norm = ("norms of exponents must be at most 2**29 in size",)
order = {"order": "concatenated"}
for module, words in (
    (torch_rotary.MixedRoPE(8, frequencies=torch.ones(4, 2), **half), angle),
    (torch_rotary.AxialRoPE(8, **order, **half), angle),
    (torch_rotary.STRING(8, form="cayley"), angle),
    (torch_rotary.STRING(8, form="circulant"), angle),
    (torch_rotary.LieRE(8, block=4), norm),
    (torch_rotary.LieRE(8, block=8), norm),
    (torch_rotary.ComRoPEAP(8, block=4), norm),
    (torch_absolute.FourierRandom(8, sigma=1.0, axes=2, **waves), angle),
    (torch_absolute.FourierRandom(8, sigma=1.0, **waves), angle),
):
    at = torch.tensor(far_at)
    at = at if module.position_shape else at[:, 0]
    bad(f"far from 0, {type(module).__name__}", ValueError, words, module, t8, at)
three = {"sections": (2, 1, 1), "order": "sectioned"} | half
at = torch.tensor(np.full((3, 3), FAR))
bad("far from 0, M-RoPE", ValueError, angle, torch_rotary.MRoPE(8, **three), t8, at)
bad("far from 0", ValueError, angle, rotary.m_rope, x8, at.numpy(), **three)
for call, words in (
    (partial(rotary.mixed, frequencies=vectors, **half), angle),
    (partial(rotary.axial, **order, **half), angle),
    (
        partial(rotary.string, form="circulant", coefficients=x8[:2] + np.arange(8)),
        angle,
    ),
    (partial(rotary.liere, entries=np.ones((2, 2, 6)), block=4), norm),
):
    bad("far from 0, NumPy", ValueError, words, call, x8, far_at)
call = absolute.fourier_features
bad("far from 0, NumPy", ValueError, angle, call, far_at, vectors, **waves)

memory = torch.zeros(40)
turned = memory[:24].view(3, 8)
for name, cos, sin in (
    ("cos", memory[24:36].view(3, 4), torch.zeros(3, 4)),
    ("sin", torch.zeros(3, 4), memory[24:36].view(3, 4)),
):
    words = (f"out must not share memory with {name}",)
    call = partial(rotate_pairs, t8.view(3, 8), cos, sin, out=turned, **half)
    bad(f"rotate_pairs over its {name}", ValueError, words, call)
shared = np.zeros(40, np.float32)
before, after = (torch.from_numpy(shared[n : n + 24]).view(3, 8) for n in (0, 8))
call = partial(rotate_pairs, before, t4, t4, out=after, **half)
bad("rotate_pairs through NumPy", ValueError, ("share memory with x",), call)
call = partial(rotate_pairs, t8, t4, t4, out=torch.zeros(1, 8).expand(3, 8), **half)
bad("rotate_pairs into one row", ValueError, ("memory for each of its numbers",), call)

table_34, one = np.ones((4, 3)), np.ones((1, 1))
for at in (-0.5, 2.5, math.nan):
    words = "positions must be 0 to 2", f"got {at}"
    for function, of in (
        (gated.interpolated_vectors, table_34),
        (gated.interpolated_scalars, np.ones((1, 3))),
    ):
        bad(f"{function.__name__} at {at}", ValueError, words, function, at * one, of)

for given, error, words in (
    ((1e-320, 1), ValueError, "must be 1e-30 ≤ shortest ≤ longest, got 1e-320"),
    ((1.0, math.inf), ValueError, "longest must be finite, got inf"),
    ((1, 2, 3), ValueError, "must be two time scales, got 3"),
    (1e300, ValueError, "gate_bias must be finite"),
    (torch.full((3,), math.nan), ValueError, "gate_bias must be finite"),
    (True, TypeError, "gate_bias must be a number, got True"),
    ("0", TypeError, "gate_bias must be a number, got '0'"),
):
    bad(f"FoX from {given}", error, (words,), FoX, 8, 3, gate_bias=given)

drop = {"remainder": "drop"}
for word, call in {
    "causal": partial(attention.attend, *[np.ones((1, 3, 4))] * 3),
    "attend_current": partial(stickbreaking.stick_breaking, **drop),
    "attend_current ": partial(StickBreaking, **drop),
    "k_shift": partial(FoXPro, 8, 2),
    "bias": partial(Attention, 8, 2),
}.items():
    for given in ("no", None, 1):
        words = (f"{word.strip()} must be True or False, got {given!r}",)
        bad(f"{word} = {given!r}", TypeError, words, call, **{word.strip(): given})

own_keys = {"gates": "keys", "d_model": 8, "gate_heads": 2}
call = partial(torch_attention.attend, ROW, ROW, ROW)
bad(
    "x of another dtype than gate keys",
    TypeError,
    ("x is torch.float64, the weights are torch.float32",),
    partial(call, CoPE(4, npos=3, scaling="code", **own_keys), x=b8[:1].double()),
)
bad(
    "a size that no tensor has",
    ValueError,
    ("d must be at most 2147483647", f"got {2**70}"),
    partial(RoPE, 2**70, **half),
)


@pytest.mark.parametrize("call, error, words", ROWS)
def test_bad_input_is_refused_with_what_was_given_and_needed(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error
    for word in words:
        assert word in str(caught.value)


# What must work.


@pytest.mark.parametrize("tokens", [0, 1])
@pytest.mark.parametrize("batch", [(), (0,), (1,), (2, 3)], ids=str)
def test_length_zero_and_one_work(tokens, batch):
    x = np.ones((*batch, tokens, 8))
    for positions in (range(5, 5 + tokens), np.arange(tokens), np.full(tokens, 7.5)):
        assert absolute.embed_sinusoidal(x, positions, **half).shape == x.shape
        assert rotary.rope(x, positions, **half).shape == x.shape
        z = rotary.rope_complex(x, positions, **half)
        assert z.shape == (*x.shape[:-1], 4)
    for positions in (range(5, 5 + tokens), torch.arange(tokens), torch.zeros(tokens)):
        t = torch.tensor(x, requires_grad=True)
        for layout in ("interleaved", "half"):
            for module in (Sinusoidal(8, layout=layout), RoPE(8, layout=layout)):
                out = module(t, positions)
                assert out.shape == x.shape
                assert torch.autograd.grad(out.sum(), t)[0].shape == x.shape


@pytest.mark.parametrize("tokens", [0, 1])
def test_attention_of_length_zero_and_one(tokens):
    x, mask = np.ones((tokens, 8)), attention.causal_mask(tokens)
    for out in (
        attention.attention(x, weights()),
        attention.attention(x, weights(), mask=mask),
        rotary.rope_dense(x, range(tokens), **half),
        rotary.rope_linear_attention(x, x, x, range(tokens), **half),
    ):
        assert out.shape == x.shape
    t, padding = torch.ones(2, tokens, 8), torch.zeros(2, tokens, dtype=torch.bool)
    for route in ("sdpa", "flex", "eager"):
        for encoding in (None, RoPE(2, **half), Encoding()):
            module = Attention(8, 4, kv_heads=2, route=route, encoding=encoding)
            cache = KVCache()
            with torch.no_grad():
                assert module(t).shape == t.shape
                assert module(t, cache=cache).shape == t.shape
                packed = module(t, key_padding_mask=padding, segments=padding.int())
            assert packed.shape == t.shape and len(cache) == tokens


def test_one_row_of_positions_serves_the_batch():
    x, row = torch.randn(2, 3, 8), torch.tensor([[4, 7, 5]])
    layer = Attention(8, 2, encoding=RoPE(4, **half))
    for call in (RoPE(8, **half), Sinusoidal(8, **half), layer):
        assert torch.equal(call(x, row), call(x, row[0]))
        assert torch.equal(call(x, row), call(x, row.expand(2, 3)))


def test_large_numbers_and_small_dtypes_are_taken():
    waves = dict(unit="radians", layout="half", first="cos", amplitude="one")
    for module in (
        torch_absolute.Learned(8, 4, beyond="zero", std=10**30),
        torch_absolute.FourierRandom(8, sigma=10**30, **waves),
        torch_rotary.LieRE(8, block=4, scale=10**30),
        FoX(8, 2, gate_bias=2**70),
    ):
        assert all(t.isfinite().all() for t in module.state_dict().values())
    assert bias.alibi_slopes(np.int64(6), slopes="authors", bias_max=2**70).shape == (
        6,
    )
    options = {"span": 400, "rows": "microsoft", "distance": 512}
    rows = torch_relative.deberta_rows(
        torch.tensor([-3, 3], dtype=torch.int8), **options
    )
    assert rows.tolist() == [397, 403]
    far = torch_rotary.XPos(8, layout="half", center=0, gamma=1e300)
    assert far.reach(torch.float32) > 1e300
    hooks = rotary.xpos(layout="half", center=0, gamma=1e300)
    assert attention.attend(*[np.ones((2, 3, 8))] * 3, hooks).shape == (2, 3, 8)


def test_numbers_of_every_kind_are_numbers():
    assert geometric(np.int64(4), base=np.float32(100)).tolist() == [1, 0.1]
    assert RoPE(np.int32(4), base=100, **half).base == 100
    expected = absolute.sinusoidal([3.0], 4, **half)
    for position in ([3], (3,), range(3, 4), np.array([3], np.uint8), np.float32([3])):
        assert np.array_equal(absolute.sinusoidal(position, 4, **half), expected)
    for position in (3, 3.0, np.int8(3), np.array(3)):
        assert np.array_equal(absolute.sinusoidal(position, 4, **half), expected[0])
        assert rotary.rotation(position, 4, **half).shape == (4, 4)
        assert absolute.offset_matrix(position, 4, **half).shape == (4, 4)
    for x in (np.ones((1, 4), np.float16), np.ones((1, 4), np.longdouble), [[1.0] * 4]):
        assert rotary.rope(x, [3], **half).dtype == np.float64


def functions(*packages):
    """The syntax tree of every function in the packages of implementations."""
    for package in packages:
        for path in sorted((Path(posedu.__file__).parent / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.FunctionDef):
                    yield path, node


def test_choices_are_annotated_as_the_literals_that_they_are_checked_against():
    """A plain ``str`` would let a type checker pass a misspelled choice."""
    checked = 0
    for path, function in functions("numpy", "sympy", "torch"):
        arguments = [*function.args.args, *function.args.kwonlyargs]
        annotated = {a.arg: ast.unparse(a.annotation or a) for a in arguments}
        for call in ast.walk(function):
            if (
                isinstance(call, ast.Call)
                and ast.unparse(call.func) == "require_choice"
            ):
                value, literal = map(ast.unparse, call.args[1:])
                if value in annotated:
                    words = annotated[value].split(" | ")
                    assert literal in words, f"{path}: {function.name}, {value}"
                    checked += 1
    assert checked > 100


PUBLIC = [
    pytest.param(member, id=f"{module.__name__}.{name}")
    for module in (absolute, attention, rotary, torch_absolute, torch_rotary)
    for name, member in vars(module).items()
    if callable(member) and member.__module__ == module.__name__ and name[0] != "_"
]


@pytest.mark.parametrize("call", PUBLIC)
def test_conventions_are_keywords_and_the_base_is_the_paper_s(call):
    """A layout given by place could be taken for another argument."""
    conventions = {"layout", "base", "spacing", "rotary_dim", "source", "target"}
    for name, parameter in inspect.signature(call).parameters.items():
        if name in conventions:
            assert parameter.kind is parameter.KEYWORD_ONLY, name
        if name in {"layout", "source", "target"}:
            assert parameter.default is parameter.empty, name
        if name == "base":
            assert parameter.default == 10000


LOOKS = {
    "RoPE.table": (RoPE(8, **half).table, 1),
    "RoPE": (partial(RoPE(8, **half), t8), 1),
    "RoPE.rotate": (partial(RoPE(8, **half).rotate, t8, t8), 1),
    "Sinusoidal.table": (Sinusoidal(8, **half).table, 1),
    "Sinusoidal": (partial(Sinusoidal(8, **half), t8), 1),
    "Attention": (partial(layer, b8), 1),
    "Attention with RoPE": (partial(Attention(8, 2, encoding=RoPE(4, **half)), b8), 2),
}


@pytest.mark.parametrize("call, times", LOOKS.values(), ids=LOOKS)
def test_positions_are_looked_at_once_by_each_that_takes_them(call, times, monkeypatch):
    # On a GPU every look waits for the device.
    looks, look = [], torch.Tensor.all
    monkeypatch.setattr(torch.Tensor, "all", lambda t: looks.append(t) or look(t))
    call(torch.arange(3.0))
    assert len(looks) == times
