"""The checks of equations accept true statements and nothing else."""

import json
import re
from html import unescape
from itertools import permutations

import numpy as np
import pytest
import sympy as sp

from posedu.book.proof import Proof, ProofError, prove, prove_each, prove_sampled

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

SYMBOLIC = "proved symbolically, for all values of its symbols"
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
    "nothing": (sp.Matrix(0, 0, []), sp.Matrix(0, 0, []), "sides to compare are empty"),
}


@pytest.mark.parametrize("left, right", TRUE.values(), ids=TRUE)
def test_prove_accepts_what_is_true(left, right, capsys):
    prove("eq-true", left, right, covers="all real angles")
    line = f"✓ eq-true: {SYMBOLIC}. Covers all real angles.\n"
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


@pytest.mark.parametrize(
    "verdict", [1, "yes", [False], sp.S.true, a < 1, np.array([True]), None], ids=str
)
def test_prove_each_takes_nothing_but_a_boolean_for_a_verdict(verdict):
    with pytest.raises(TypeError, match="eq-open: holds must return a boolean"):
        prove_each("eq-open", [a], lambda _: verdict, covers="")


@pytest.mark.parametrize("verdict", [True, np.True_])
def test_prove_each_takes_both_kinds_of_boolean(verdict):
    prove_each("eq-bool", [0], lambda _: verdict, covers="")
    with pytest.raises(ProofError, match="eq-bool: fails for 0"):
        prove_each("eq-bool", [0], lambda _: np.logical_not(verdict), covers="")


def test_prove_names_a_wrong_statement_that_it_refuses(capsys):
    x = sp.Symbol("x", positive=True)
    whole, wrong = (x + 1) ** 2, ("the square without its mixed term", x**2 + 1)
    prove("eq-p", sp.expand(whole), whole, covers="x", mutant=wrong)
    assert capsys.readouterr().out == (
        "✓ eq-p: proved symbolically, for all values of its symbols; "
        "refuses the mutant “the square without its mixed term”. Covers x.\n"
    )
    prove("eq-p", [x, whole], [x, whole], covers="x", mutant=("two", [x, x]))
    with pytest.raises(
        ProofError, match="nothing refuses the mutant “the same in other words”"
    ):
        same = ("the same in other words", x**2 + 2 * x + 1)
        prove("eq-p", whole, whole, covers="x", mutant=same)


def test_an_undefined_function_has_one_result_for_each_argument():
    x, f = sp.Symbol("x", positive=True), sp.Function("f")
    whole = f(x + sp.sqrt(5 + 2 * sp.sqrt(6)))  # which is √2 + √3
    wrong = ("another argument", f(x + sp.sqrt(5)))
    prove("eq-f", whole, whole, covers="x", mutant=wrong)
    with pytest.raises(
        ProofError, match="nothing refuses the mutant “the same argument”"
    ):
        same = ("the same argument", f(x + sp.sqrt(2) + sp.sqrt(3)))
        prove("eq-f", whole, whole, covers="x", mutant=same)


WRONG = ("a bound of half the size", lambda rng: 2.0)


def sampled(uses, mutant=WRONG, **options):
    """Run ``prove_sampled`` with these uses, one a sample."""
    uses = list(uses)
    values = iter(uses)
    options = {"samples": len(uses), "covers": "d"} | options
    prove_sampled("eq-s", lambda rng: next(values), mutant=mutant, **options)


@pytest.mark.parametrize(
    "largest, used",
    [
        (0.5, "50 % of the bound used"),
        (1.0, "100 % of the bound used"),
        (0.0312, "3.1 % of the bound used (why)"),
        (0.0, "0.0 % of the bound used (why)"),
    ],
)
def test_prove_sampled_reports_the_largest_use_and_the_mutant(largest, used, capsys):
    sampled([0.0, largest, 0.0], slack="why" if largest < 0.5 else None)
    assert capsys.readouterr().out == (
        f"✓ eq-s: sampled 3 times, at most {used}; "
        "refuses the mutant “a bound of half the size”. Covers d.\n"
    )


def test_prove_sampled_asks_why_nothing_comes_near_a_bound():
    with pytest.raises(ProofError, match="eq-s: at most 49 % of the bound is used"):
        sampled([0.1, 0.49])


def test_prove_sampled_draws_the_same_cases_each_time_and_for_the_mutant():
    drawn = [[], [], []]
    for own in drawn[:2]:
        prove_sampled(
            "eq-s",
            lambda rng, own=own: own.append(rng.normal()) or 0.5,
            samples=4,
            mutant=WRONG,
            covers="",
        )
    prove_sampled(
        "eq-s",
        lambda rng: 0.5,
        samples=4,
        mutant=("m", lambda rng: drawn[2].append(rng.normal()) or len(drawn[2]) - 2),
        covers="",
    )
    assert drawn[0] == drawn[1] == drawn[2] and len(set(drawn[0])) == 4


@pytest.mark.parametrize("used", [1 + 1e-15, 2.0, -1e-300, np.inf, -np.inf, np.nan])
def test_prove_sampled_rejects_a_violation_and_what_is_no_fraction(used):
    with pytest.raises(ProofError, match=r"eq-s: sample 1 uses .* of the bound"):
        sampled([0.0, used, 0.0])


@pytest.mark.parametrize("used", [True, False, np.True_])
def test_a_verdict_is_no_use(used):
    with pytest.raises(TypeError, match="eq-s: a use is a fraction of the bound, got"):
        sampled([used])
    with pytest.raises(TypeError, match="eq-s: a use is a fraction of the bound, got"):
        sampled([0.5], mutant=("m", lambda rng: used))


@pytest.mark.parametrize("used", [0.0, 1.0, np.nan, -np.inf])
def test_prove_sampled_rejects_a_mutant_that_survives(used):
    with pytest.raises(
        ProofError, match="eq-s: no sample refuses the mutant “the wrong sign”"
    ):
        sampled([0.5, 0.5], mutant=("the wrong sign", lambda rng: used))


def test_a_mutant_needs_one_sample_that_rejects_it():
    uses = iter([0.5, 1.5, 0.5])
    sampled([0.5] * 3, mutant=("m", lambda rng: next(uses)))


@pytest.mark.parametrize("samples", [0, -1])
def test_prove_sampled_needs_a_sample(samples):
    with pytest.raises(ProofError, match="no sample was drawn"):
        sampled([], samples=samples)


@pytest.mark.parametrize("holds", [True, False])
def test_a_real_bound_and_its_mutant(holds):
    """|a + b| ≤ |a| + |b|, its mutant without |b|; and that the wrong way round."""

    def triangle(rng):
        x, y = rng.normal(size=2)
        return abs(x + y) / (abs(x) + abs(y))

    def short(rng):
        x, y = rng.normal(size=2)
        return abs(x + y) / abs(x)

    use, wrong = (triangle, short) if holds else (short, triangle)
    options = {"samples": 50, "mutant": ("the bound without |b|", wrong), "covers": ""}
    if holds:
        prove_sampled("eq-t", use, **options)
    else:
        with pytest.raises(ProofError, match="eq-t: sample"):
            prove_sampled("eq-t", use, **options)


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
        "typeset": None,
    }
    assert "<d" not in page


def test_markup_in_a_label_is_shown_and_not_obeyed():
    page = Proof("eq-<img src=x>", "how <i>", "covers <u>")._repr_html_()
    assert not re.search("<(img|i|u)>?", page)


def test_in_a_notebook_the_record_is_displayed(monkeypatch, capsys):
    core = pytest.importorskip("IPython")
    shown = []
    monkeypatch.setattr(core, "get_ipython", lambda: object())
    monkeypatch.setattr("IPython.display.display", shown.append)
    prove("eq-x", a, a, covers="all")
    how = "proved symbolically, for all values of its symbols"
    assert shown == [Proof("eq-x", how, "all")] and capsys.readouterr().out == ""


@pytest.mark.parametrize("used", [sp.nan, -1, np.nan])
def test_each_inequality_of_a_sampled_display_is_asked(used, monkeypatch):
    monkeypatch.setattr("posedu.book.proof.find", lambda label: "a \\le b, c \\le b")
    table = {"a": sp.Rational(6, 10), "b": 1, "c": used}
    with pytest.raises(ProofError, match=r"eq-s: sample 0 uses .* of the bound"):
        prove_sampled("eq-s", lambda rng: table, samples=1, mutant=WRONG, covers="")
