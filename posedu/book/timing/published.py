"""Timings of forms of one computation, and of published code beside them.

Published functions in plain PyTorch are read from fla-core (the files ``naive.py``,
which run without Triton) where it is installed.
"""

import argparse
import importlib.metadata
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor

from posedu._command_line import whole_number
from posedu.book.provenance import file_label, keep_memory
from posedu.book.timing.results import Timing


def naive(name: str) -> ModuleType | None:
    """Return fla-core's plain PyTorch file of one operation, ``None`` without it."""
    if not is_installed("fla-core"):
        return None
    package = importlib.metadata.distribution("fla-core")
    path = Path(str(package.locate_file(f"fla/ops/{name}/naive.py")))
    spec = importlib.util.spec_from_file_location(f"naive_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def is_installed(library: str) -> bool:
    """Return whether a published library is installed."""
    try:
        return bool(importlib.metadata.version(library))
    except importlib.metadata.PackageNotFoundError:
        return False


def libraries_to_time(*names: str) -> tuple[list[str], dict[str, str]]:
    """Return the libraries that are installed, and the reason why others are missing.

    ``names`` are all libraries whose code is timed.
    """
    installed = [name for name in names if is_installed(name)]
    return installed, {n: "not installed" for n in names if n not in installed}


def error(out: Tensor, exact: Tensor) -> float:
    """Return the relative error of the outputs of heads in the Euclidean norm.

    ``exact`` is [batch, heads, tokens, d]; ``out`` may have the heads after the tokens,
    as published code does.
    """
    if out.shape != exact.shape:
        out = out.transpose(1, 2)
    return float((out.double() - exact).norm() / exact.norm())


def run_timing(
    name: str,
    time: Callable[..., Timing],
    repeats: Mapping[int, int],
    arguments: Sequence[str] | None,
) -> int:
    """Run the command of a module that times by lengths; print and save its table.

    ``time(repeats, seed=…, save_to=…)`` makes the result, ``repeats`` being the timed
    calls by length, of which the command may choose some. ``name`` is the module's
    name, and the first part of that of the file. ``arguments`` are the command's
    arguments, ``None`` for the process's own. Return the exit status: 130 after an
    interrupt, else 0.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m posedu.book.timing.{name}",
        description=(time.__doc__ or "").partition("\n")[0],
    )
    parser.add_argument(
        "--lengths", type=int, nargs="+", choices=[*repeats], default=[*repeats]
    )
    parser.add_argument("--seed", type=whole_number(0), default=0)
    parser.add_argument("--folder", default=".", help="folder of the result file")
    options = parser.parse_args(arguments)
    keep_memory()
    torch.set_num_threads(1)
    label = file_label(torch.device("cpu"))
    path = Path(options.folder) / f"{name.replace('_', '-')}-{label}.json"
    chosen = {length: repeats[length] for length in options.lengths}
    try:
        result = time(chosen, seed=options.seed, save_to=path)
    except (ValueError, OSError) as wrong:
        parser.error(str(wrong))
    print(f"{result}\nin {path}")
    return 0 if result.complete else 130
