"""Conversion of checkpoints between RoPE's layouts of pairs, which keeps all logits.

The order of the rows of W_q and W_k determines which two features of a head form a pair
and the direction of its rotation: a rotation of (a, b) by −θ is a rotation of (b, a) by
θ. So a conversion permutes rows within each head of queries and keys, of their biases
and of the weights of their norms. No number changes.
"""

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np
from jaxtyping import Int
from tqdm import tqdm

from posedu._argument_types import check_types
from posedu._arguments import (
    Layout,
    RotatedEnd,
    require_bool,
    require_choice,
    require_dimension,
)
from posedu.numpy.rotary import pairs
from posedu.tools.configs._fields import short_repr

NAMED = r"(^|[._])([qk]|q_b|wq|wk|w_q|w_k|query|key)(_proj|_norm|_layernorm|)\."
"""Names of tensors with rows for every head: projections and their norms."""
PER_HEAD = NAMED + "(weight|bias)$"
PROJECTIONS = {
    "q": r"(^|[._])(q|q_b|w_?q|query)(_proj|)\.",
    "k": r"(^|[._])(k|w_?k|kv_a|key)(_proj|_proj_with_mqa|)\.",
}
SHARED = r"(^|\.)kv_a_proj_with_mqa\.(weight|bias)$"
"""Names of tensors that end with rows of one key for all heads, in latent attention."""
FUSED = r"(qkv|query_key_value|c_attn|Wqkv|in_proj)"
LAYER = r"\.\d+\."
FLOATS = ("F64", "F32", "F16", "BF16")
BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
LARGEST_HEADER = 10**8  # bytes, the limit of the safetensors library


class ConvertError(ValueError):
    """Raised for a checkpoint whose conversion could change a logit; says why."""


@check_types
@dataclass(frozen=True, kw_only=True)
class Pairs:
    """Layout of the pairs of a head's rotated features, and the direction of rotation.

    Parameters
    ----------
    layout
        ``"half"``: feature p pairs with feature p + w/2 of the w rotated features;
        ``"interleaved"``: neighbors form a pair.
    clockwise
        Whether positive positions rotate (a, b) to (a cos + b sin, …), opposite to
        RoFormer and transformers. Default: no.

    Raises
    ------
    ValueError, TypeError
        The layout is unknown, or ``clockwise`` is not a boolean.
    """

    layout: Layout
    clockwise: bool = False

    def __post_init__(self) -> None:
        require_choice("layout", self.layout, Layout)
        require_bool("clockwise", self.clockwise)

    def features(self, width: int) -> Int[np.ndarray, "two pairs"]:
        """Return the indices of the first and second feature of each pair.

        ``width`` is the number of rotated features. Positive positions rotate the first
        feature toward the second.
        """
        both = np.stack(pairs(width, layout=self.layout))
        return both[::-1] if self.clockwise else both


@check_types
@dataclass(frozen=True, kw_only=True)
class Conversion:
    """A conversion between RoPE's layouts of pairs, for heads of one dimension.

    Parameters
    ----------
    source, target
        The pairs of the checkpoint, and the pairs that it should have.
    head_dim
        Head dimension of queries and keys. The number of heads does not matter, and
        keys may have fewer heads.
    width
        Number of rotated features. Default: all.
    rotated
        Which features are rotated: ``"leading"`` (default) or ``"trailing"``, as in
        latent attention.
    within
        Prefix of the names to convert, such as ``"model.language_model."``; other
        tensors stay as they are. Default: all names.

    Raises
    ------
    ValueError, TypeError
        ``head_dim`` is not a positive integer; ``width`` is not positive, not even or
        above ``head_dim``; ``rotated`` is unknown; or ``within`` is not text.
    """

    source: Pairs
    target: Pairs
    head_dim: int
    width: int | None = None
    rotated: RotatedEnd = "leading"
    within: str = ""

    def __post_init__(self) -> None:
        require_dimension("head_dim", self.head_dim, 1)
        require_dimension("width", self.rotated_width, 2)
        require_choice("rotated", self.rotated, RotatedEnd)
        if not isinstance(self.within, str):
            raise TypeError(f"`within` must be text, got {self.within!r}")
        if self.rotated_width > self.head_dim:
            raise ValueError(
                f"`width` must be at most head_dim = {self.head_dim}, got "
                f"{self.rotated_width}"
            )

    @property
    def rotated_width(self) -> int:
        """Number of rotated features of a head: ``width``, or all ``head_dim``."""
        return self.head_dim if self.width is None else self.width

    def order(self, features: int, start: int) -> Int[np.ndarray, "features"]:
        """Return the index before conversion of each feature of a head.

        ``features`` is the number of the head's features. The rotated features begin at
        index ``start``; all others stay in place.

        Raises
        ------
        ValueError, TypeError
            The rotated features do not lie within the head.
        """
        require_dimension("features", features, 1)
        if not 0 <= start <= features - self.rotated_width:
            raise ValueError(
                f"start must be from 0 to {features - self.rotated_width}, since "
                f"{self.rotated_width} of {features} features are rotated, got {start}"
            )
        source = np.arange(features)
        here, there = (
            p.features(self.rotated_width) for p in (self.source, self.target)
        )
        source[start + there] = start + here
        return source

    def rows(self, name: str, count: int) -> Int[np.ndarray, "rows"] | None:
        """Return the index that each row of tensor ``name`` has before conversion.

        The result is ``None`` if all rows stay in place. ``count`` is the number of
        rows of the tensor.

        Raises
        ------
        ConvertError
            The name does not determine the order of rows, or rows are not whole heads.
        """
        if not name.startswith(self.within):
            return None
        if re.search(FUSED, name) and not re.search(PER_HEAD, name):
            raise ConvertError(
                f"{name} has queries, keys and values in one matrix, whose order "
                "differs between libraries; split it first"
            )
        concerns = re.search(PER_HEAD, name), re.search(SHARED, name)
        if not any(concerns):
            if _is_unknown_norm(name):
                raise ConvertError(
                    f"{name} looks like a norm of queries or keys, whose numbers must "
                    "be permuted with them; rename it to q_norm or k_norm"
                )
            if re.search(NAMED, name):
                raise ConvertError(
                    f"{name} belongs to an adapter or to quantized weights, whose "
                    "order is their own; merge them first"
                )
            return None
        if concerns[1]:
            if count < self.rotated_width:
                raise ConvertError(
                    f"{name} must have at least {self.rotated_width} rows, the rotated "
                    f"ones, got {count}"
                )
            return self.order(count, count - self.rotated_width)
        if not count or count % self.head_dim:
            raise ConvertError(
                f"{name} must have whole heads of {self.head_dim} rows, got {count}"
            )
        start = 0 if self.rotated == "leading" else self.head_dim - self.rotated_width
        own = self.order(self.head_dim, start)
        heads = np.arange(count // self.head_dim)[:, None] * self.head_dim
        return (heads + own).ravel()


def convert(state: Mapping[str, Any], conversion: Conversion) -> dict[str, Any]:
    """Return a state dict with the pairs of queries and keys in another layout.

    Parameters
    ----------
    state
        Arrays or tensors by name, of any dtype, on any device. Matrices have a row for
        each output, as in PyTorch. The state dict is not changed.
    conversion
        The layouts of pairs before and after.

    Returns
    -------
    dict
        The same names. Tensors that are not permuted are the same objects, and permuted
        ones are copies.

    Raises
    ------
    ConvertError
        There are no queries or no keys among the names, or the order of a tensor's rows
        is not known.
    """
    if not isinstance(state, Mapping):
        raise ConvertError(
            f"`state` must map names to tensors, got {short_repr(state)}"
        )
    if not isinstance(conversion, Conversion):
        raise TypeError(
            f"`conversion` must be a Conversion, got {short_repr(conversion)}"
        )
    wrong = [
        name
        for name, tensor in state.items()
        if not (isinstance(name, str) and hasattr(tensor, "shape"))
    ]
    if wrong:
        raise ConvertError(
            f"`state` must map names to tensors, {short_repr(wrong[0])} does not"
        )
    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
    plan = dict(_plan(shapes, conversion))
    return {
        name: state[name] if rows is None else state[name][rows]
        for name, rows in plan.items()
    }


@check_types
def convert_file(source: str | Path, target: str | Path, conversion: Conversion) -> int:
    """Convert the layout of pairs in a safetensors file, one tensor at a time.

    Tensors are moved as bytes, so floats of every dtype keep every bit, and memory is
    needed for one tensor only. The new file is written completely or not at all.

    Parameters
    ----------
    source, target
        Two paths; ``target`` is replaced if it exists, and may be ``source``.
    conversion
        The layouts of pairs before and after.

    Returns
    -------
    int
        The number of permuted tensors.

    Raises
    ------
    ConvertError
        As for :func:`convert`; or the file is not a safetensors file, or queries or
        keys are not floats.
    OSError
        A file cannot be read or written.
    """
    source, target = Path(source), Path(target)
    header, start = _header(source)
    shapes = {name: tuple(of["shape"]) for name, of in header.items()}
    permuted = {
        name: rows for name, rows in _plan(shapes, conversion) if rows is not None
    }
    for name in permuted:
        if header[name]["dtype"] not in FLOATS:
            raise ConvertError(
                f"{name} must be of floats, got {header[name]['dtype']}: quantized "
                "weights have scales that would have to be permuted, too"
            )
    with NamedTemporaryFile(dir=target.parent, delete=False) as made:
        try:
            with source.open("rb") as file:
                while part := file.read(2**24):
                    made.write(part)
            for name, rows in tqdm(permuted.items(), unit="tensor"):
                begin, end = header[name]["data_offsets"]
                with source.open("rb") as file:
                    file.seek(start + begin)
                    raw = np.frombuffer(file.read(end - begin), np.uint8)
                made.seek(start + begin)
                made.write(raw.reshape(len(rows), -1)[rows].tobytes())
            made.close()
            shutil.copymode(source, made.name)
            os.replace(made.name, target)
        except BaseException:
            made.close()
            os.unlink(made.name)
            raise
    return len(permuted)


def _plan(
    shapes: Mapping[str, tuple[int, ...]], conversion: Conversion
) -> Iterator[tuple[str, Int[np.ndarray, "rows"] | None]]:
    """Yield each tensor's name, and the index that each row has before conversion.

    ``shapes`` are the tensors' shapes by name. ``None`` in place of the indices means
    that all rows of the tensor stay where they are.
    """
    plan = {
        name: conversion.rows(name, shape[0] if shape and all(shape) else 0)
        for name, shape in shapes.items()
    }
    found = {
        letter: [
            name
            for name, rows in plan.items()
            if rows is not None
            and name.endswith("weight")
            and re.search(PROJECTIONS[letter], name)
        ]
        for letter in PROJECTIONS
    }
    if not found["q"] or len(found["q"]) != len(found["k"]):
        raise ConvertError(
            "there must be as many matrices of queries as of keys, such as "
            "model.layers.0.self_attn.q_proj.weight, since converting one without the "
            f"other would change every logit; got {len(found['q'])} matrices of "
            f"queries and {len(found['k'])} of keys among {len(plan)} names"
        )
    names = (name for name in found["q"] if re.search(LAYER, name))
    towers = {re.split(LAYER, name)[0] for name in names}
    if len(towers) > 1:
        raise ConvertError(
            f"there are queries and keys of several models "
            f"({', '.join(sorted(towers)[:3])}), whose heads may differ: give a prefix "
            "as `within`, and convert them one by one"
        )
    yield from plan.items()


def _is_unknown_norm(name: str) -> bool:
    """Return whether a tensor's name has words for queries or keys and for a norm.

    Norms of latent attention (``q_a_layernorm``), which come before the projections to
    heads, do not count.
    """
    *_, module, _ = ["", *name.split(".")]
    words = {*module.split("_")}
    is_norm = any("norm" in word for word in words) or "ln" in words
    return is_norm and bool(words & {"q", "k", "query", "key"}) and "a" not in words


def _header(path: Path) -> tuple[dict[str, Any], int]:
    """Read a safetensors header; return it, and the offset where tensors' bytes begin.

    The header has each tensor's dtype, shape and offsets by the tensor's name. Raises
    ConvertError if the file is not a valid safetensors file.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or not 0 < length <= min(size - 8, LARGEST_HEADER):
            raise ConvertError(
                f"{path.name} is not a safetensors file: the length of its header is "
                "wrong"
            )
        try:
            header = json.loads(file.read(length), object_pairs_hook=_unique)
            header.pop("__metadata__", None)
            last = 0
            for name, of in sorted(header.items(), key=_offsets):
                begin, end = _offsets((name, of))
                bytes_each = BYTES.get(of["dtype"])
                if not all(type(n) is int and 0 <= n <= 8 * size for n in of["shape"]):
                    raise ValueError(f"{name} has the shape {short_repr(of['shape'])}")
                if not 0 <= begin <= end <= size - 8 - length:
                    raise ValueError(f"{name} lies outside the file")
                if begin < last:
                    raise ValueError(f"{name} overlaps another tensor")
                last = end
                if bytes_each and end - begin != bytes_each * np.prod(
                    of["shape"], dtype=object
                ):
                    raise ValueError(f"the bytes of {name} do not fit its shape")
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            RecursionError,
        ) as error:
            raise ConvertError(
                f"{path.name} is not a safetensors file: {error}"
            ) from error
    return header, 8 + length


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a JSON object from ``pairs``; raise ValueError if a name is given twice.

    ``pairs`` are the names and values of one object, as the JSON parser gives them.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is given twice")
    return found


def _offsets(tensor: tuple[str, Any]) -> tuple[int, int]:
    """Return the offsets at which a tensor's bytes begin and end in the file's data.

    ``tensor`` is an entry of the safetensors header: the tensor's name and properties.
    """
    name, of = tensor
    begin, end = of["data_offsets"]
    if type(begin) is not int or type(end) is not int:
        raise ValueError(f"{name} has offsets that are not whole numbers")
    return begin, end
