"""Functions that plan and make conversions, of state dicts and of files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posedu._argument_types import check_types, short_repr
from posedu.tools.checkpoints._attention import TensorType, plan_tensors
from posedu.tools.checkpoints._files import open_checkpoint, write_checkpoint
from posedu.tools.checkpoints.conversion import Conversion, ConvertError
from posedu.tools.checkpoints.planning import Plan


def plan(source: str | Path | Mapping[str, Any], conversion: Conversion) -> Plan:
    """Return what a conversion would do with each tensor, without converting any.

    Parameters
    ----------
    source
        A state dict, as for :func:`convert`, or a path, as for :func:`convert_file`. Of
        files only the headers are read.
    conversion
        The layouts of pairs before and after.

    Returns
    -------
    Plan
        The tensors to permute, to leave and to refuse. Printed, it is a table.

    Raises
    ------
    ConvertError
        There are no queries and keys, or those of several models; or ``source`` is not
        a checkpoint.
    OSError
        A file cannot be read.
    """
    _require_conversion(conversion)
    if isinstance(source, str | Path):
        return plan_tensors(open_checkpoint(Path(source)).tensors(), conversion)
    return plan_tensors(_types("source", source), conversion)


def convert(state: Mapping[str, Any], conversion: Conversion) -> dict[str, Any]:
    """Return a state dict with the pairs of queries and keys in another layout.

    Parameters
    ----------
    state
        Arrays or tensors by name, of any float dtype, on any device. Matrices have a
        row for each output, as in PyTorch. The state dict is not changed.
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
        There are no queries or no keys among the names, or the order of a tensor's
        features is not known.
    """
    _require_conversion(conversion)
    found = plan_tensors(_types("state", state), conversion)
    found.require_complete()
    converted = dict(state)
    for tensor in found.permuted:
        index = (slice(None),) * tensor.axis + (found.order(tensor),)
        converted[tensor.name] = state[tensor.name][index]
    return converted


@check_types
def convert_file(
    source: str | Path,
    target: str | Path,
    conversion: Conversion,
    *,
    overwrite: bool = False,
) -> Plan:
    """Convert the layout of pairs in a safetensors file or in a checkpoint in shards.

    Numbers are moved as bytes, so floats of every dtype keep every bit, and head by
    head, so memory does not grow with the files. New files are written completely or
    not at all. Files without tensors, such as ``config.json``, are not copied.

    Parameters
    ----------
    source
        A safetensors file, an index of shards (``model.safetensors.index.json``), or a
        folder with one of them.
    target
        A file or a folder; for shards a folder, not that of ``source``, which is made
        if it does not exist. Shards and index have the same names as before.
    conversion
        The layouts of pairs before and after.
    overwrite
        Whether files that exist are replaced. Default: no.

    Returns
    -------
    Plan
        The tensors that were permuted and left.

    Raises
    ------
    ConvertError
        As for :func:`convert`; or a file is not a safetensors file, or queries or keys
        are not floats.
    FileExistsError
        A file exists at ``target``, and ``overwrite`` is not given.
    OSError
        A file cannot be read or written.
    """
    checkpoint = open_checkpoint(Path(source))
    found = plan_tensors(checkpoint.tensors(), conversion)
    found.require_complete()
    write_checkpoint(checkpoint, Path(target), found, overwrite=overwrite)
    return found


def _require_conversion(conversion: object) -> None:
    if not isinstance(conversion, Conversion):
        raise TypeError(
            f"`conversion` must be a Conversion, got {short_repr(conversion)}"
        )


def _types(argument: str, state: Mapping[str, Any]) -> dict[str, TensorType]:
    """Return the shapes and dtypes of tensors by name.

    ``argument`` is the name of the argument ``state``, for the error message.
    """
    if not isinstance(state, Mapping):
        raise ConvertError(
            f"`{argument}` must map names to tensors, got {short_repr(state)}"
        )
    for name, tensor in state.items():
        is_tensor = hasattr(tensor, "shape") and hasattr(tensor, "dtype")
        if not isinstance(name, str) or not is_tensor:
            raise ConvertError(
                f"`{argument}` must map names to tensors, {short_repr(name)} does not"
            )
    return {
        name: TensorType(tuple(tensor.shape), str(tensor.dtype).rpartition(".")[2])
        for name, tensor in state.items()
    }
