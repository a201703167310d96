"""The project's own files agree with each other."""

import ast
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.util import find_spec

import pytest
import yaml
from packaging.requirements import Requirement

import posedu
from posedu.catalog import CATALOG, IMPLEMENTATIONS, ROPE_SCALINGS
from posedu_sphinx import ROOT
from posedu_sphinx.navigation import contents

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOW = (ROOT / ".github/workflows/book.yml").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
ALLOWED = {
    *("book", "notebooks", "posedu", "tests", ".github", ".ci"),
    *("_config.yml", "_toc.yml", "requirements.txt", "pyproject.toml", "Makefile"),
    *("README.md", "LICENSE", "LICENSE-TEXT", "CITATION.cff", "CHANGELOG.md"),
    *("CONTRIBUTING.md", ".pre-commit-config.yaml", ".pre-commit-hooks.yaml"),
    ".gitignore",
}


def tracked():
    command = ["git", "ls-files"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_nothing_else_at_the_root():
    assert {name.split("/")[0] for name in tracked()} <= ALLOWED


def test_one_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert PROJECT["project"]["version"] == posedu.__version__ == citation["version"]
    assert f"Version {posedu.__version__}" in (
        ROOT / "book/reference/cite.md"
    ).read_text("utf-8")


def test_the_package_asks_for_lower_bounds_only_and_the_pins_meet_them():
    pins = {}
    for line in (ROOT / "requirements.txt").read_text("utf-8").splitlines():
        if "==" in line:
            name, _, version = line.partition("==")
            pins[name.lower()] = version
    for line in PROJECT["project"]["dependencies"]:
        requirement = Requirement(line)
        assert {s.operator for s in requirement.specifier} == {">="}, line
        assert requirement.specifier.contains(pins[requirement.name]), line


def test_the_pythons_are_listed_once_and_start_at_the_lowest():
    lines = PROJECT["project"]["classifiers"]
    pythons = [line.rpartition(" :: ")[2] for line in lines if "Python ::" in line]
    assert PROJECT["project"]["requires-python"] == f">={pythons[0]}"
    minors = [int(python.removeprefix("3.")) for python in pythons]
    assert minors == list(range(minors[0], minors[0] + len(minors)))
    elsewhere = README + (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert not [python for python in pythons[1:] if python in elsewhere + WORKFLOW]


PROGRAMS = re.findall(r"```python\n(.*?)```", README, re.S)
SHAPES = {
    "loss": (),
    "long": (1, 1024, 1000),
    "sampled": (1, 48),
    "y": (2, 8, 128, 64),
    "classes": (2, 10),
}


@pytest.mark.parametrize(("program", "name"), zip(PROGRAMS, SHAPES, strict=True))
def test_the_programs_of_the_readme_run(program, name):
    scope = {}
    exec(program, scope)
    assert scope[name].shape == SHAPES[name]
    assert scope[name].isfinite().all()
    assert len(program.splitlines()) <= 20


@pytest.mark.parametrize(
    "target",
    ["book", "test", "slowest", "serve", "quick", "lab", "new", "address", "notebooks"],
)
def test_every_target_that_is_promised_exists(target):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{target}:", makefile, re.M)


def test_ci_calls_the_readme_s_test_command_and_no_other():
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert re.findall(r"^make .*$", script, re.M) == ["make test"]
    assert "make test" in README


def test_what_the_workflow_imports_is_there():
    (imported,) = re.findall(r'python -c "import (posedu[^"]*)"', WORKFLOW)
    names = re.split(r",\s+", imported)
    assert {"posedu.torch", "posedu.book.explorables", "posedu.tools"} <= {*names}
    assert [name for name in names if not find_spec(name)] == []


def imported_at_once(path):
    """The packages that a module imports when it is imported."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            yield from (name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module.partition(".")[0]


def test_without_the_book_s_tools_its_tests_are_left_out_and_the_others_run(
    monkeypatch,
    pytestconfig,
):
    """The workflow's package job installs no more than this."""
    project = PROJECT["project"]
    asked = project["dependencies"] + project["optional-dependencies"]["experiments"]
    names = {Requirement(line).name for line in asked} - {"scikit-learn"}
    installed = names | {"sklearn", "posedu", "beartype", "hypothesis", "pytest"}
    installed |= {"mpmath"}  # SymPy's numbers
    assert 'pip install ".[experiments]"' in WORKFLOW
    assert "pip install beartype hypothesis pytest\n" in WORKFLOW
    conftest = pytestconfig.pluginmanager.get_plugin(str(ROOT / "tests/conftest.py"))
    monkeypatch.setattr(conftest, "find_spec", lambda name: None)
    kept = {
        path.stem: {*imported_at_once(path)}
        for path in (ROOT / "tests").rglob("*.py")
        if not conftest.pytest_ignore_collect(path)
    }
    oracles = [path.stem for path in (ROOT / "tests/oracles").glob("*.py")]
    commands = {"run": {"coverage"}} | {name: {"transformers"} for name in oracles}
    commands["timm_models"] = {"timm"}
    del commands["recurrent_fla"]  # It loads the files of a folder.
    del commands["packed_kernels"]  # It stands in for modules that are not installed.
    commands["packed_hybrids"] = {"oracles"}  # Its processes import transformers.
    for name in ("gguf_architectures", "config_families"):
        del commands[name]  # They read files with the standard library.
    commands["library_code"] = {
        *("rotary_embedding_torch", "torchdiffeq", "torchscale", "x_transformers")
    }
    known = (
        installed
        | {*sys.stdlib_module_names}
        | {*kept, "support", "mutants", "probes"} - {*commands}
    )
    foreign = {name: imports - known for name, imports in kept.items()}
    assert {name: f for name, f in foreign.items() if f} == commands
    assert {"test_rope", "test_digits"} <= {*kept} and "test_site" not in kept


def test_every_page_of_the_contents_exists():
    for name in contents.documents():
        assert any((ROOT / f"{name}{s}").exists() for s in (".md", ".ipynb")), name


def test_every_page_of_a_chapter_has_cells():
    """Such a page is offered as a notebook."""
    of_chapters = [
        name for name in contents.documents() if contents.is_of_a_chapter(name)
    ]
    for name in of_chapters:
        text = (ROOT / f"{name}.md").read_text(encoding="utf-8")
        assert "format_name: myst" in text and "```{code-cell}" in text, name


def test_importing_the_package_is_cheap():
    code = (
        "import sys, posedu, posedu.catalog; "
        "print([m for m in ('torch', 'sympy', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_the_reference_implementations_need_nothing_but_numpy():
    code = (
        "import sys, posedu.numpy; "
        "print([m for m in ('torch', 'sympy', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_every_implementation_is_exported_by_its_package_under_one_name():
    packages = {
        implementation: import_module(f"posedu.{implementation}")
        for implementation in IMPLEMENTATIONS
    }
    maps = {
        method.implementation("numpy").__name__ for method in ROPE_SCALINGS.values()
    }
    shared = [name for name in packages["numpy"].__all__ if name not in maps]
    assert shared == packages["sympy"].__all__
    for encoding in CATALOG.values():
        for implementation, package in packages.items():
            name = encoding.implementation(implementation).__name__
            assert name in package.__all__, (
                f"posedu.{implementation} does not export {name}"
            )
            assert getattr(package, name) is encoding.implementation(implementation)
