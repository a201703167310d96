"""Packages import in one direction, and old names give their new ones."""

import gzip
import importlib
import inspect
import json
import subprocess
import sys

import pytest

from posedu._renamed import successor, table
from support import ROOT

OLD = json.loads(
    gzip.decompress((ROOT / "tests/oracles/public-0.2.json.gz").read_bytes())
)
"""Every public module of 0.2: its names, their parameters and methods."""


def test_imports_point_from_the_book_to_the_library_and_never_back():
    code = "from importlinter import cli; cli.lint_imports_command()"
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        [*command, "--no-cache", "--no-logo"],
        cwd=ROOT,
        env={"PYTHONPATH": "book/_ext", "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:]


def test_importing_pytorch_modules_evaluates_no_annotation():
    """Evaluating them took two thirds of the time.

    A custom operator needs it, and so does the reference, for fields of a named tuple.
    """
    evaluating = set()
    for path in (ROOT / "posedu/torch").rglob("*.py"):
        text = path.read_text("utf-8")
        if "from jaxtyping" in text and "import annotations" not in text:
            evaluating.add(path.name)
    assert evaluating == {"stickbreaking.py", "attention.py"}


def test_an_arrow_from_the_library_to_the_book_is_refused(tmp_path):
    """The contract rejects a library module that imports a figure."""
    package = tmp_path / "posedu"
    for folder in ("", "book", "numpy"):
        (package / folder).mkdir(exist_ok=True)
        (package / folder / "__init__.py").touch()
    (package / "book/figures.py").touch()
    (package / "numpy/bad.py").write_text("import posedu.book.figures\n")
    (tmp_path / ".importlinter").write_text(
        "[importlinter]\nroot_package = posedu\n[importlinter:contract:one]\n"
        "name = one\ntype = forbidden\nsource_modules = posedu.numpy\n"
        "forbidden_modules = posedu.book\n"
    )
    code = "from importlinter.cli import lint_imports_command as c; c()"
    done = subprocess.run(
        [sys.executable, "-c", code, "--no-cache", "--config", ".importlinter"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "BROKEN" in done.stdout, done.stdout


def parameters(function):
    try:
        names = {*inspect.signature(function).parameters}
    except (ValueError, TypeError):
        return set()
    return names | {*getattr(function, "choices", ())}  # keywords of an Experiment


def found(name):
    """The object of a full name, or ``None`` if there is none."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            thing = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        try:
            for part in parts[cut:]:
                thing = getattr(thing, part)
        except (AttributeError, ImportError):
            return None
        return thing
    return None


def lost_names():
    """The old names that are neither there nor renamed, nor said to be gone."""
    known = table()
    for module, names in OLD.items():
        new_module = known["modules"].get(module, module)
        if found(new_module) is None:
            yield module
            continue
        for name, entry in names.items():
            full = f"{module}.{name}"
            new = known["names"].get(full, f"{new_module}.{name}")
            if full in known["gone"]:
                continue
            thing = found(new)
            if thing is None and not isinstance(new, type(None)):
                yield full
                continue
            yield from lost_parameters(full, entry.get("parameters"), thing)
            for method, given in (entry.get("methods") or {}).items():
                old = f"{full}.{method}"
                if old in known["gone"]:
                    continue
                own = found(known["names"].get(old, f"{new}.{method}"))
                if own is None:
                    yield old
                elif given is not None:
                    yield from lost_parameters(old, given, own)


def lost_parameters(full, names, thing):
    known, there = table(), parameters(thing)
    for name in names or ():
        old = f"{full}({name})"
        if known["parameters"].get(old, name) not in there and old not in known["gone"]:
            yield old


def test_every_public_name_of_0_2_is_there_or_says_its_new_one():
    assert sorted(lost_names()) == []


def test_a_name_that_is_left_out_of_the_list_is_noticed(monkeypatch):
    from posedu import _renamed

    shorter = {kind: dict(names) for kind, names in table().items()}
    del shorter["names"]["posedu.torch.turn_pairs"]
    monkeypatch.setattr(_renamed, "table", lambda: shorter)
    monkeypatch.setitem(globals(), "table", lambda: shorter)
    assert "posedu.torch.turn_pairs" in [*lost_names()]


@pytest.mark.parametrize(
    ("old", "refused"),
    [
        ("posedu.check", "posedu.check"),
        ("posedu.practice.diagnose", "posedu.practice"),  # its package comes first
        ("posedu.torch.folding", "posedu.torch.folding"),
    ],
)
def test_an_old_module_says_its_new_name(old, refused):
    words = f"{refused} is named {successor(refused)} since"
    with pytest.raises(ImportError, match=words):
        importlib.import_module(old)


def is_of_a_module_that_stayed(name):
    """True if what stands before the name's last dot is a module of 0.3."""
    module = name.rpartition(".")[0]
    return module not in table()["modules"] and module.rpartition(".")[2].islower()


STAYED = [name for name in table()["names"] if is_of_a_module_that_stayed(name)]


@pytest.mark.parametrize("old", STAYED)
def test_an_old_name_says_its_new_one(old):
    module, _, name = old.rpartition(".")
    with pytest.raises(ImportError, match=f"{old} is named .* since posedu 0.3"):
        exec(f"from {module} import {name}")


def test_a_name_that_never_was_is_an_ordinary_error():
    with pytest.raises(ImportError, match="cannot import name 'never'"):
        exec("from posedu.torch import never")
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'posedu\.never'"):
        importlib.import_module("posedu.never")
