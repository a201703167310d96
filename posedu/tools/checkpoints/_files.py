"""Safetensors files, in one or several shards: headers, and writing head by head."""

import errno
import json
import math
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import numpy as np
from jaxtyping import Int
from tqdm import tqdm

from posedu._argument_types import short_repr
from posedu.tools.checkpoints._attention import TensorType
from posedu.tools.checkpoints.conversion import ConvertError
from posedu.tools.checkpoints.planning import Plan, PlannedTensor

SUFFIX, INDEX = ".safetensors", ".safetensors.index.json"
BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
LARGEST_HEADER = 10**8  # bytes, the limit of the safetensors library
PART = 2**20  # bytes copied at once
DELAY = 1.0  # seconds of work before the progress bar is shown


@dataclass(frozen=True)
class Shard:
    """A safetensors file: its header, and where the tensors' bytes begin."""

    path: Path
    header: Mapping[str, Any]
    start: int


@dataclass(frozen=True)
class Checkpoint:
    """The shards of a checkpoint, and the path of the index if there is one."""

    shards: tuple[Shard, ...]
    index: Path | None = None

    def tensors(self) -> dict[str, TensorType]:
        """Return the shapes and dtypes of the tensors of all shards, by name."""
        return {
            name: TensorType(tuple(of["shape"]), of["dtype"])
            for shard in self.shards
            for name, of in shard.header.items()
        }


def open_checkpoint(source: Path) -> Checkpoint:
    """Read the headers of a checkpoint.

    ``source`` is a safetensors file, an index of shards, or a folder with one of them.

    Raises
    ------
    ConvertError
        A file is not of this format, or does not fit the index; or the folder does not
        determine which files are meant.
    OSError
        A file cannot be read.
    """
    if source.is_dir():
        source = _only_checkpoint(source)
    if not source.name.endswith(".json"):
        return Checkpoint((_read_header(source),))
    try:
        of_name = json.loads(source.read_bytes())["weight_map"]
        files = dict.fromkeys(of_name.values())
        if wrong := [f for f in files if Path(f).name != f or not f.endswith(SUFFIX)]:
            raise ValueError(f"{short_repr(wrong[0])} is not the name of a shard")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConvertError(
            f"{source.name} is not an index of safetensors files: {error}"
        ) from error
    shards = tuple(_read_header(source.parent / file) for file in files)
    for shard in shards:
        expected = {name for name, file in of_name.items() if file == shard.path.name}
        if differing := sorted(expected ^ {*shard.header}):
            raise ConvertError(
                f"{source.name} and {shard.path.name} differ: {differing[0]} is in one "
                "of them only"
            )
    return Checkpoint(shards, source)


def write_checkpoint(
    checkpoint: Checkpoint, target: Path, plan: Plan, *, overwrite: bool
) -> None:
    """Write a checkpoint with permuted tensors under the same names of files.

    ``target`` is a folder for a checkpoint with an index, else a file or a folder. All
    files are written in a temporary folder first and moved when they are complete, the
    index last. ``overwrite`` says whether files that exist are replaced.
    """
    paths = [shard.path for shard in checkpoint.shards]
    if checkpoint.index is not None:
        paths.append(checkpoint.index)
    elif not target.is_dir():
        _require_new([target], overwrite)
        with _temporary_folder(target.parent) as made:
            _write_all(checkpoint, made, plan)
            os.replace(made / paths[0].name, target)
        return
    folder, is_new = target, not target.exists()
    finals = [folder / path.name for path in paths]
    if checkpoint.index is not None and any(map(_is_same, paths, finals)):
        raise ConvertError(
            "a checkpoint in shards must be written to another folder, since an "
            "interruption could leave shards in both layouts"
        )
    _require_new(finals, overwrite)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with _temporary_folder(folder) as made:
            _write_all(checkpoint, made, plan)
            for final in finals:
                os.replace(made / final.name, final)
    except BaseException:
        if is_new:
            with suppress(OSError):  # of a folder in which some files are complete
                folder.rmdir()
        raise


def _write_all(checkpoint: Checkpoint, folder: Path, plan: Plan) -> None:
    """Write the converted shards, and the index, into a folder."""
    permuted = {tensor.name: tensor for tensor in plan.permuted}
    size = sum(shard.path.stat().st_size for shard in checkpoint.shards)
    with tqdm(total=size, unit="B", unit_scale=True, delay=DELAY) as progress:
        for shard in checkpoint.shards:
            progress.set_description(shard.path.name, refresh=False)
            own = [permuted[name] for name in shard.header if name in permuted]
            path = folder / shard.path.name
            with shard.path.open("rb") as old, path.open("wb") as new:
                _write_shard(shard, old, new, own, plan, progress)
            shutil.copymode(shard.path, path)
    if checkpoint.index is not None:
        shutil.copy(checkpoint.index, folder / checkpoint.index.name)


def _write_shard(
    shard: Shard,
    old: BinaryIO,
    new: BinaryIO,
    permuted: list[PlannedTensor],
    plan: Plan,
    progress: tqdm,
) -> None:
    """Copy a shard, head by head where tensors are permuted."""

    def read(size: int) -> bytes:
        data = old.read(size)
        if len(data) < size:
            raise ConvertError(f"{shard.path.name} became shorter while it was read")
        progress.update(size)
        return data

    def copy(end: int) -> None:
        while size := min(PART, end - old.tell()):
            new.write(read(size))

    offsets = {tensor: shard.header[tensor.name]["data_offsets"] for tensor in permuted}
    for tensor, (begin, end) in sorted(offsets.items(), key=lambda item: item[1]):
        copy(shard.start + begin)
        features = math.prod(tensor.shape[: tensor.axis + 1])
        for order in _orders(tensor, plan):
            size = len(order) * ((end - begin) // features)
            head = np.frombuffer(read(size), np.uint8).reshape(len(order), -1)
            new.write(head[order].tobytes())
    copy(shard.path.stat().st_size)


def _orders(tensor: PlannedTensor, plan: Plan) -> Iterator[Int[np.ndarray, "features"]]:
    """Yield the index within the head of each of its features before conversion.

    The heads are all heads of the tensor, in the order of its bytes.
    """
    order = plan.order(tensor)
    for _ in range(math.prod(tensor.shape[: tensor.axis])):
        for first in range(0, len(order), tensor.head_dim):
            yield order[first : first + tensor.head_dim] - first


@contextmanager
def _temporary_folder(folder: Path) -> Iterator[Path]:
    """Make a folder in ``folder``, and delete it at the end."""
    with TemporaryDirectory(dir=folder, prefix=".converting-") as made:
        yield Path(made)


def _require_new(paths: list[Path], overwrite: bool) -> None:
    """Raise FileExistsError if a file exists that may not be replaced."""
    for path in paths if not overwrite else ():
        if path.exists():
            raise FileExistsError(
                errno.EEXIST, "exists; give overwrite=True to replace it", str(path)
            )


def _is_same(one: Path, other: Path) -> bool:
    return other.exists() and one.samefile(other)


def _only_checkpoint(folder: Path) -> Path:
    """Return the index in a folder, or the only safetensors file if there is none."""
    indexes = sorted(folder.glob(f"*{INDEX}"))
    files = sorted(folder.glob(f"*{SUFFIX}"))
    whole = [file for file in files if folder / f"{file.stem}{INDEX}" in indexes]
    found = [*indexes, *whole] if indexes else files
    if len(found) != 1:
        names = ", ".join(path.name for path in found[:4])
        raise ConvertError(
            f"{folder} must have one safetensors file or one index of shards, got "
            f"{names or 'none'}: give the path of one"
        )
    return found[0]


def _read_header(path: Path) -> Shard:
    """Read the header of a safetensors file.

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
    return Shard(path, header, 8 + length)


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
