"""The checks of equations accept what is true, and nothing else."""

import json
import re
from html import unescape
from itertools import permutations

import numpy as np
import pytest
import sympy as sp

from posedu.proof import Proof, ProofError, prove, prove_each, prove_sampled

a, b, t = sp.symbols("a b t", real=True)
R = sp.Matrix([[sp.cos(a), -sp.sin(a)], [sp.sin(a), sp.cos(a)]])

TRUE = {
    "expanded": ((a + b) ** 2, a**2 + 2 * a * b + b**2),
    "one angle": (sp.sin(a) ** 2 + sp.cos(a) ** 2, 1),
    "sum of angles": (
        sp.cos(a - b),
        sp.cos(a) * sp.cos(b) + sp.sin(a) * sp.sin(b),
    ),
    "half angle": (sp.cos(a) - 1, -2 * sp.sin(a / 2) ** 2),
    "complex": (sp.exp(sp.I * a), sp.cos(a) + sp.I * sp.sin(a)),
    "matrix": (R.T * R, sp.eye(2)),
    "composition": (R * R.subs(a, b), R.subs(a, a + b)),
    "row": (sp.Matrix([[a, b]]), sp.Matrix([[a, b]])),
    "assumption": (sp.sqrt(t**2), sp.Abs(t)),
}

FALSE = {
    "sign": (R.T * R.subs(a, b), R.subs(a, a - b), "entry 1"),
    "transpose": (R, R.T, "entry 1"),
    "last entry": (sp.diag(1, 1, a), sp.diag(1, 1, b), "entry 8 differs by a - b"),
    "without its assumption": (sp.sqrt(t**2), t, "entry 0"),
    "rounding": (0.1 + 0.2, 0.3, "entry 0"),
    "not a number": (sp.nan, sp.nan, "nan"),
    "infinity": (sp.oo, sp.oo, "nan"),
    "row and column": (sp.Matrix([[a, b]]), sp.Matrix([a, b]), r"shapes \(1, 2\)"),
    "sizes": (sp.eye(2), sp.eye(3), r"\(2, 2\) and \(3, 3\)"),
    "one of several": ([a, sp.eye(2)], [a, 2 * sp.eye(2)], "entry 1"),
    "fewer": ([a, b], [a], r"\[\(\), \(\)\] and \[\(\)\]"),
    "rows of a list": (
        [sp.Matrix([[a, b]]), sp.Matrix([[a]])],
        [sp.Matrix([[a, b]]), sp.Matrix([[b]])],
        "entry 2",
    ),
    "nothing": (sp.Matrix(0, 0, []), sp.Matrix(0, 0, []), "nothing to compare"),
}


@pytest.mark.parametrize("left, right", TRUE.values(), ids=TRUE)
def test_prove_accepts_what_is_true(left, right, capsys):
    prove("eq-true", left, right, covers="all real angles")
    line = "✓ eq-true: proved symbolically, for all values. Covers all real angles.\n"
    assert capsys.readouterr().out == line


@pytest.mark.parametrize("left, right, message", FALSE.values(), ids=FALSE)
def test_prove_rejects_what_is_not(left, right, message, capsys):
    with pytest.raises(ProofError, match=f"eq-false: .*{message}"):
        prove("eq-false", left, right, covers="nothing")
    assert capsys.readouterr().out == ""


def test_prove_each_counts_its_cases(capsys):
    prove_each("eq-all", permutations(range(3)), lambda p: sum(p) == 3, covers="n = 3")
    prove_each("eq-one", [0], lambda n: n == 0, covers="zero")
    assert capsys.readouterr().out.splitlines() == [
        "✓ eq-all: checked exactly in 6 cases. Covers n = 3.",
        "✓ eq-one: checked exactly in 1 case. Covers zero.",
    ]


def test_prove_each_names_the_first_case_that_fails():
    with pytest.raises(ProofError, match="eq-some: fails for 3"):
        prove_each("eq-some", range(9), lambda n: n < 3, covers="")
    with pytest.raises(ProofError, match="eq-none: no case was given"):
        prove_each("eq-none", [], lambda n: True, covers="")


def test_prove_each_does_not_take_an_open_relation_for_true():
    with pytest.raises(TypeError, match="truth value"):
        prove_each("eq-open", [a], lambda x: x < 1, covers="")


def test_prove_sampled_reports_the_worst(capsys):
    amounts = iter([1e-16, 3e-16, 2e-16])
    prove_sampled("eq-s", lambda rng: next(amounts), samples=3, bound=1e-15, covers="d")
    line = "✓ eq-s: sampled 3 times, worst 3e-16, bound 1e-15. Covers d.\n"
    assert capsys.readouterr().out == line


def test_prove_sampled_draws_the_same_cases_each_time():
    drawn = [[], []]
    for values in drawn:
        prove_sampled(
            "eq-s",
            lambda rng, values=values: values.append(rng.normal()) or 0.0,
            samples=4,
            bound=0,
            covers="",
        )
    assert drawn[0] == drawn[1] and len(set(drawn[0])) == 4


def test_an_inequality_may_be_met_with_any_margin(capsys):
    prove_sampled("eq-i", lambda rng: -np.inf, samples=1, bound=0, covers="all")
    assert "✓ eq-i" in capsys.readouterr().out


@pytest.mark.parametrize("amount", [2e-15, np.inf, np.nan])
def test_prove_sampled_rejects_a_violation(amount):
    amounts = iter([0.0, amount, 0.0])
    with pytest.raises(ProofError, match="eq-s: sample 1 is off by"):
        prove_sampled(
            "eq-s", lambda r: next(amounts), samples=3, bound=1e-15, covers=""
        )


@pytest.mark.parametrize("samples", [0, -1])
def test_prove_sampled_needs_a_sample(samples):
    with pytest.raises(ProofError, match="no sample was drawn"):
        prove_sampled("eq-s", lambda rng: 0.0, samples=samples, bound=1, covers="")


def test_a_failed_proof_fails_a_test_and_a_notebook():
    assert issubclass(ProofError, AssertionError)


def test_ledger_can_read_the_record_back():
    proof = Proof("eq-x", "proved for 0 < d & \"all\" 'i'", "<d ≥ 2>")
    page = proof._repr_html_()
    record = re.search(r'data-proof="([^"]*)"', page)[1]
    assert json.loads(unescape(record)) == {
        "label": "eq-x",
        "how": proof.how,
        "covers": proof.covers,
    }
    assert "<d" not in page


def test_in_a_notebook_the_record_is_displayed(monkeypatch, capsys):
    core = pytest.importorskip("IPython")
    shown = []
    monkeypatch.setattr(core, "get_ipython", lambda: object())
    monkeypatch.setattr("IPython.display.display", shown.append)
    prove("eq-x", a, a, covers="all")
    how = "proved symbolically, for all values"
    assert shown == [Proof("eq-x", how, "all")] and capsys.readouterr().out == ""
