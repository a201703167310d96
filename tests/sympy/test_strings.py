"""No symbolic function runs a string, as SymPy would where it expects a number."""

import contextlib
import importlib
import inspect
import os
import pkgutil
from collections import deque
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
import sympy as sp

import posedu.sympy
from posedu.book.display import sides
from posedu.book.display.semantics import holds
from posedu.book.proof import prove, prove_each
from posedu.catalog import CATALOG
from posedu.crosscheck.layers import run_layers
from posedu.sympy.attention import attend, steps

CODE = "__import__('os').environ.__setitem__('POSEDU_RAN', '1')"
CODES = (CODE, [CODE], [CODE] * 2, [[CODE] * 4] * 4, [[[CODE] * 2] * 2] * 2)
CODES += ((CODE,), {CODE: 1}, {1: CODE}, {CODE}, frozenset([CODE]), deque([CODE]))


@pytest.fixture(autouse=True)
def _fresh(unchecked, monkeypatch):
    monkeypatch.delenv("POSEDU_RAN", raising=False)


def run(function, *arguments, **keywords):
    """Whatever a call gives or raises, no string of it was run."""
    with contextlib.suppress(Exception):
        function(*arguments, **keywords)
    assert "POSEDU_RAN" not in os.environ


def good_arguments(encoding):
    """Return the arguments by name of a symbolic implementation's first variant."""
    variant, is_inside = encoding.variants[0], encoding.kind != "features"
    variant = replace(variant, sizes=())  # parameters that all heads share
    d, heads = 2 * encoding.divisor(variant), 1 + is_inside
    module = encoding.make(variant, d=d, heads=heads)
    given = encoding.keywords(variant, d=d, heads=heads) | {
        name.replace(".", "_"): sp.Matrix(p.tolist())
        if p.ndim == 2 and is_inside
        else p.tolist()
        for name, p in chain(module.named_parameters(), module.named_buffers())
    }
    if encoding.kind == "features":
        given["position"] = [1] * encoding.axes if encoding.axes else 1
        given["x"] = sp.ones(d, 1)
    elif encoding.kind == "positions":
        draws = module.draw(1, 2)
        given |= {name: t[0].tolist() for name, t in draws.items()}
        given["positions"] = [0, 1]
    elif encoding.kind == "block":
        given["x"] = sp.ones(2, d * heads)
    return given, d


def call(encoding, given, d, positions=(0, 1)):
    """A symbolic implementation, inside attention where it gives hooks."""
    given = dict(given)
    implementation = encoding.implementation("sympy")
    heads = (sp.ones(2, d),) * 2
    if encoding.kind == "layers":
        places = heads, heads, heads, sp.ones(2, 2 * d), positions
        return run_layers(steps, implementation(**given), *places)
    if encoding.kind == "hooks":
        if encoding.axes is not None:
            positions = [[at] * encoding.axes for at in positions]
        options = {"x": sp.ones(2, 2 * d), "positions": positions}
        return attend(heads, heads, heads, implementation(**given), **options)
    places = [
        given.pop(name) for name in ("x", "position", "positions") if name in given
    ]
    return implementation(*places, **given)


@pytest.mark.parametrize("name", CATALOG)
def test_no_implementation_runs_a_string(name):
    encoding = CATALOG[name]
    given, d = good_arguments(encoding)
    call(encoding, given, d)
    for argument in given:
        for code in CODES:
            run(call, encoding, given | {argument: code}, d)
    if (
        encoding.kind == "features"
        and "frequencies"
        in inspect.signature(encoding.implementation("sympy")).parameters
    ):
        run(call, encoding, given | {"position": CODE, "frequencies": [1]}, d)
    run(call, encoding, given, d, positions=(CODE, CODE))


def functions():
    """Every function of the symbolic implementation, where it is made."""
    for found in pkgutil.walk_packages(posedu.sympy.__path__, "posedu.sympy."):
        for name, member in vars(importlib.import_module(found.name)).items():
            is_own = getattr(member, "__module__", "") == found.name
            if is_own and name[0] != "_" and inspect.isfunction(member):
                yield f"{found.name}.{name}", member


MEMBERS = dict(functions())
OTHERS = (2, [1, 2], sp.ones(2, 2), "half")  # what stands in all other places


@pytest.mark.parametrize("name", MEMBERS)
def test_no_function_runs_a_string(name):
    function = MEMBERS[name]
    parameters = inspect.signature(function).parameters.values()
    places = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
    words = {
        p.name: p.default if p.default is not p.empty else "half"
        for p in parameters
        if p.kind is p.KEYWORD_ONLY
    }
    for other in OTHERS:
        for code in CODES:
            for place in range(len(places)):
                given = [code if n == place else other for n in range(len(places))]
                run(function, *given, **words)
            for word in words:
                run(function, *[other] * len(places), **words | {word: code})


@pytest.mark.parametrize("left, right", [(CODE, 1), (1, CODE), ([CODE], [1])])
def test_no_proof_runs_a_string(left, right):
    with pytest.raises(TypeError, match="each side must be a number or an expression"):
        prove("eq-x", left, right, covers="nothing")
    run(prove_each, "eq-x", [CODE], lambda case: True, covers="nothing")
    for code in CODES:
        run(prove, "eq-x", code, 0, covers="nothing")
    assert "POSEDU_RAN" not in os.environ


DISPLAYS = [
    r"\cos x = 1",
    "x = 1",
    r"\max(x, 1) = 1",
    "x_0 = 1",
    r"\lvert x \rvert = 1",
]
DISPLAYS += [
    r"\begin{pmatrix} x \end{pmatrix} = 1",
    "x < 1",
    "x(1) = 1",
    "x^2 = 1",
    "x! = 1",
]
DISPLAYS += [
    "2^x = 1",
    r"\sum_x x = 1",
    r"\sum_{l=x}^3 l = 2",
    "e^{x_0} = 1",
    "1/x = 1",
]


@pytest.mark.parametrize("display", DISPLAYS)
def test_no_display_runs_a_string_of_its_table(display):
    def compare(table):
        for relation in sides(display, table):
            holds(*relation)

    for code in (*CODES, np.array([CODE]), lambda *given: CODE, lambda *given: {CODE}):
        run(compare, {"x": code, "x in": code})
