"""On what a result was made: what a reader needs in order to judge or repeat it."""

import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

KEPT_MEMORY = MappingProxyType(
    {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "100000000000"}
)
"""Environment in which glibc keeps freed memory; read once, as a process starts."""


def provenance(
    device: torch.device, seed: int, libraries: Sequence[str] = ()
) -> dict[str, Any]:
    """Date, device, threads, memory, seed, commit and versions."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "device": _device_name(device),
        "threads": torch.get_num_threads(),
        "memory": "kept" if keeps_memory() else "system",
        "seed": seed,
        "commit": _commit(),
        "versions": {
            "python": platform.python_version(),
            "posedu": version("posedu"),
            "torch": torch.__version__,
            "numpy": np.__version__,
            **{library: version(library) for library in libraries},
        },
    }


def keeps_memory() -> bool:
    """Whether this process keeps freed memory, see :data:`KEPT_MEMORY`."""
    return all(os.environ.get(name) == value for name, value in KEPT_MEMORY.items())


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if "model name" in line]
    return models[0] if models else platform.machine()


def _commit() -> str | None:
    """The commit that the package is at, with "+" if its files were changed since."""
    package = Path(__file__).parent

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(package), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", ".")
        return git("rev-parse", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None
