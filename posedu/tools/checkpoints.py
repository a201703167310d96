"""Checkpoints from one order of pairs to another, and no logit moves.

Which two features of a head are a pair, and which way it turns, is a matter of the
order of the rows of W_q and W_k: a rotation by −θ of (a, b) is one by θ of (b, a). So
a conversion permutes rows within each head, of queries and of keys alike, of their
biases and of the weights that normalize them. No number changes.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np
from jaxtyping import Int
from tqdm import tqdm

from posedu._arguments import (
    LAYOUTS,
    TURNED,
    require_bool,
    require_choice,
    require_dimension,
)
from posedu.numpy.rotary import pairs
from posedu.tools.configs._fields import shown

NAMED = r"(^|[._])([qk]|q_b|wq|wk|w_q|w_k|query|key)(_proj|_norm|_layernorm|)\."
"""Names of what has rows for every head: projections, and their norms."""
PER_HEAD = NAMED + "(weight|bias)$"
PROJECTIONS = {
    "q": r"(^|[._])(q|q_b|w_?q|query)(_proj|)\.",
    "k": r"(^|[._])(k|w_?k|kv_a|key)(_proj|_proj_with_mqa|)\.",
}
SHARED = r"(^|\.)kv_a_proj_with_mqa\.(weight|bias)$"
"""Names of what ends with rows of one key for all heads, as in latent attention."""
FUSED = r"(qkv|query_key_value|c_attn|Wqkv|in_proj)"
LAYER = r"\.\d+\."
FLOATS = ("F64", "F32", "F16", "BF16")
BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
LARGEST_HEADER = 10**8  # bytes, as the safetensors library has it


class ConvertError(ValueError):
    """A checkpoint whose conversion could move a logit, and why."""


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """How the turning features of a head are paired, and which way they turn.

    Parameters
    ----------
    layout
        ``"half"``: feature p with feature p + w/2 of the w that turn;
        ``"interleaved"``: neighbors.
    clockwise
        Whether positive positions turn (a, b) to (a cos + b sin, …), the other way than
        RoFormer and transformers. Default no.

    Raises
    ------
    ValueError, TypeError
        An unknown layout, a ``clockwise`` that is no boolean.
    """

    layout: str
    clockwise: bool = False

    def __post_init__(self) -> None:
        require_choice("layout", self.layout, LAYOUTS)
        require_bool("clockwise", self.clockwise)

    def features(self, width: int) -> Int[np.ndarray, "two pairs"]:
        """The two features of every pair, first the one that turns to the other."""
        both = np.stack(pairs(width, layout=self.layout))
        return both[::-1] if self.clockwise else both


@dataclass(frozen=True, kw_only=True)
class Conversion:
    """From one order of pairs to another, for heads of one kind.

    Parameters
    ----------
    source, target
        How features are paired now, and how they are to be.
    head_dim
        Features of a head of queries and keys. The number of heads does not matter, so
        that of keys may be another.
    width
        How many of them turn. Default: all.
    turned
        Which of them: ``"leading"`` (default) or ``"trailing"``, as in latent
        attention.
    within
        What the names begin with that are converted, as ``"model.language_model."``;
        the others stay. Default: all.

    Raises
    ------
    ValueError, TypeError
        Numbers that are not positive, not even or too large; unknown ``turned``.
    """

    source: Pairs
    target: Pairs
    head_dim: int
    width: int | None = None
    turned: str = "leading"
    within: str = ""

    def __post_init__(self) -> None:
        require_dimension("head_dim", self.head_dim, 1)
        require_dimension("width", self.turning, 2)
        require_choice("turned", self.turned, TURNED)
        if not isinstance(self.within, str):
            raise TypeError(f"within must be text, got {self.within!r}")
        if self.turning > self.head_dim:
            raise ValueError(
                f"width must be at most head_dim = {self.head_dim}, got {self.turning}"
            )

    @property
    def turning(self) -> int:
        """How many features turn."""
        return self.head_dim if self.width is None else self.width

    def order(self, features: int, start: int) -> Int[np.ndarray, "features"]:
        """Of so many features, which turn from ``start`` on: where each comes from."""
        found = np.arange(features)
        here, there = (p.features(self.turning) for p in (self.source, self.target))
        found[start + there] = start + here
        return found

    def rows(self, name: str, count: int) -> Int[np.ndarray, "rows"] | None:
        """Where the rows of a tensor come from; ``None`` where they stay.

        Raises
        ------
        ConvertError
            A name of which it cannot be told, or rows that are not whole heads.
        """
        if not name.startswith(self.within):
            return None
        if re.search(FUSED, name) and not re.search(PER_HEAD, name):
            raise ConvertError(
                f"{name}: queries, keys and values in one matrix, in an order that "
                "libraries disagree on; split it first"
            )
        concerns = re.search(PER_HEAD, name), re.search(SHARED, name)
        if not any(concerns):
            if re.search(NAMED, name):
                raise ConvertError(
                    f"{name}: of an adapter or of quantized weights, with an order of "
                    "its own; merge it first"
                )
            return None
        if concerns[1]:
            if count < self.turning:
                raise ConvertError(
                    f"{name} has {count} rows, fewer than the {self.turning} that turn"
                )
            return self.order(count, count - self.turning)
        if not count or count % self.head_dim:
            raise ConvertError(
                f"{name} has {count} rows, which are no whole heads of {self.head_dim}"
            )
        start = 0 if self.turned == "leading" else self.head_dim - self.turning
        own = self.order(self.head_dim, start)
        heads = np.arange(count // self.head_dim)[:, None] * self.head_dim
        return (heads + own).ravel()


def convert(state: Mapping[str, Any], how: Conversion) -> dict[str, Any]:
    """A state dict with its pairs in another order.

    Parameters
    ----------
    state
        Arrays or tensors by name, of any dtype, on any device. Matrices have a row for
        each output, as in PyTorch. Not changed.
    how
        From which order to which.

    Returns
    -------
    dict
        The same names. What is not permuted is the same object; what is, a copy.

    Raises
    ------
    ConvertError
        There are no queries or no keys among the names, or a tensor of which it cannot
        be told whether it would be right.
    """
    if not isinstance(state, Mapping):
        raise ConvertError(f"a state dict maps names to tensors, got {shown(state)}")
    wrong = [
        name
        for name, tensor in state.items()
        if not (isinstance(name, str) and hasattr(tensor, "shape"))
    ]
    if wrong:
        raise ConvertError(f"{shown(wrong[0])} is no name of a tensor")
    plan = dict(
        _plan({name: tuple(tensor.shape) for name, tensor in state.items()}, how)
    )
    return {
        name: state[name] if rows is None else state[name][rows]
        for name, rows in plan.items()
    }


def convert_file(source: str | Path, target: str | Path, how: Conversion) -> int:
    """Convert a safetensors file, one tensor at a time.

    Nothing is loaded as a number, so every dtype of floats is as it was to the last
    bit, and no more memory is taken than one tensor needs. The new file is there when
    it is whole, or not at all.

    Parameters
    ----------
    source, target
        Two paths; ``target`` is replaced if it exists, and may be ``source``.
    how
        From which order to which.

    Returns
    -------
    int
        How many tensors were permuted.

    Raises
    ------
    ConvertError
        As :func:`convert`; a file that is not of the format; queries or keys that are
        no floats.
    OSError
        A file that cannot be read or written.
    """
    source, target = Path(source), Path(target)
    header, start = _header(source)
    shapes = {name: tuple(of["shape"]) for name, of in header.items()}
    moved = {name: rows for name, rows in _plan(shapes, how) if rows is not None}
    for name in moved:
        if header[name]["dtype"] not in FLOATS:
            raise ConvertError(
                f"{name} is {header[name]['dtype']}: quantized weights have scales "
                "that would have to move, too"
            )
    with NamedTemporaryFile(dir=target.parent, delete=False) as made:
        try:
            with source.open("rb") as file:
                while part := file.read(2**24):
                    made.write(part)
            for name, rows in tqdm(moved.items(), unit="tensor"):
                begin, end = header[name]["data_offsets"]
                with source.open("rb") as file:
                    file.seek(start + begin)
                    raw = np.frombuffer(file.read(end - begin), np.uint8)
                made.seek(start + begin)
                made.write(raw.reshape(len(rows), -1)[rows].tobytes())
            made.close()
            os.replace(made.name, target)
        except BaseException:
            made.close()
            os.unlink(made.name)
            raise
    return len(moved)


def _plan(
    shapes: Mapping[str, tuple[int, ...]], how: Conversion
) -> Iterator[tuple[str, Int[np.ndarray, "rows"] | None]]:
    """Each name and where its rows come from."""
    plan = {
        name: how.rows(name, shape[0] if shape else 0) for name, shape in shapes.items()
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
            f"{len(found['q'])} matrices of queries and {len(found['k'])} of keys "
            f"among {len(plan)} names, as in model.layers.0.self_attn.q_proj.weight; "
            "one without the other would move every logit"
        )
    names = (name for name in found["q"] if re.search(LAYER, name))
    towers = {re.split(LAYER, name)[0] for name in names}
    if len(towers) > 1:
        raise ConvertError(
            f"queries and keys of several models ({', '.join(sorted(towers)[:3])}), "
            "whose heads may differ: say within which names, and convert them one by "
            "one"
        )
    yield from plan.items()


def _header(path: Path) -> tuple[dict[str, Any], int]:
    """The tensors of a safetensors file, and where their bytes begin."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or not 0 < length <= min(size - 8, LARGEST_HEADER):
            raise ConvertError(
                f"{path.name} is no safetensors file: its header's length"
            )
        try:
            header = json.loads(file.read(length), object_pairs_hook=_unique)
            header.pop("__metadata__", None)
            last = 0
            for name, of in sorted(header.items(), key=_offsets):
                begin, end = _offsets((name, of))
                bytes_each = BYTES.get(of["dtype"])
                if any(type(n) is not int or n < 0 for n in of["shape"]):
                    raise ValueError(f"{name} has the shape {shown(of['shape'])}")
                if not 0 <= begin <= end <= size - 8 - length:
                    raise ValueError(f"{name} lies outside")
                if begin < last:
                    raise ValueError(f"{name} overlaps another")
                last = end
                if bytes_each and end - begin != bytes_each * np.prod(
                    of["shape"], dtype=object
                ):
                    raise ValueError(f"{name} has not the bytes of its shape")
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            RecursionError,
        ) as error:
            raise ConvertError(
                f"{path.name} is no safetensors file: {error}"
            ) from error
    return header, 8 + length


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, no name of which stands twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice")
    return found


def _offsets(tensor: tuple[str, Any]) -> tuple[int, int]:
    """Where the bytes of a tensor begin and end."""
    name, of = tensor
    begin, end = of["data_offsets"]
    if type(begin) is not int or type(end) is not int:
        raise ValueError(f"{name} has offsets that are no whole numbers")
    return begin, end
