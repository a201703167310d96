"""Provenance of a measurement: device, versions, commit and settings."""

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from posedu import __version__
from posedu._argument_types import check_types

KEPT_MEMORY = MappingProxyType(
    {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "100000000000"}
)
"""Environment in which glibc keeps freed memory; read once, when a process starts."""


@check_types
def provenance(
    device: torch.device, seed: int, libraries: Sequence[str] = ()
) -> dict[str, Any]:
    """Return how a result is made: date, device, threads, seed, commit and versions.

    The entry ``memory`` says whether the process keeps freed memory
    (:func:`keep_memory`). ``libraries`` are packages whose versions are listed besides
    those of Python, posedu, torch and NumPy.
    """
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "device": _device_name(device),
        "threads": torch.get_num_threads(),
        "memory": "kept" if keeps_memory() else "system",
        "seed": seed,
        "commit": commit(),
        "versions": {
            "python": platform.python_version(),
            "posedu": __version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            **{library: version(library) for library in libraries},
        },
    }


@check_types
def same_making(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two provenances are equal except for the date.

    A provenance (``one``, ``other``) has a result's device, versions, commit and
    settings, as :func:`provenance` returns them.
    """
    return one | {"date": None} == other | {"date": None}


@check_types
def file_label(device: torch.device) -> str:
    """Return the device's part of a result file's name: ``cpu``, or a GPU's name.

    A GPU's name is in lowercase, its words joined by hyphens.
    """
    if device.type == "cpu":
        return "cpu"
    return re.sub(r"[^a-z0-9]+", "-", _device_name(device).lower()).strip("-")


def keep_memory() -> None:
    """Restart this process so that it keeps freed memory, unless it does already.

    Without this, large freed tensors go back to the system, and allocating the next
    ones costs time. The restart sets the environment variables of :data:`KEPT_MEMORY`.
    """
    if not keeps_memory():
        os.execve(sys.executable, sys.orig_argv, os.environ | KEPT_MEMORY)


def keeps_memory() -> bool:
    """Return whether this process has the environment variables of :data:`KEPT_MEMORY`.

    With these variables a process keeps freed memory instead of returning it to the
    system.
    """
    return all(os.environ.get(name) == value for name, value in KEPT_MEMORY.items())


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if "model name" in line]
    return models[0] if models else platform.machine()


def commit() -> str | None:
    """Return posedu's git commit; None if it is unknown.

    "+" is added if files differ from the commit.
    """
    return _installed_commit() or _checked_out_commit()


def _installed_commit() -> str | None:
    """Return posedu's git commit as pip recorded it; None if not installed from git."""
    try:
        origin = distribution("posedu").read_text("direct_url.json")
    except PackageNotFoundError:
        return None
    return json.loads(origin or "{}").get("vcs_info", {}).get("commit_id")


def _checked_out_commit() -> str | None:
    package = Path(__file__).parents[1]

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(package), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "book/provenance.py")
        changed = git("status", "--porcelain", "--", ".")
        return git("rev-parse", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None
