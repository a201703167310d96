"""Proofs read the displayed formulas strictly, so that the two cannot differ."""

import re

import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from posedu.book import proof
from posedu.book.display import DisplayError, find, mutants, parse, sides
from posedu.book.proof import ProofError, prove, prove_each, prove_sampled
from posedu.sympy.attention import softmax
from posedu.sympy.rotary import rotation
from support import ROOT

a, b, i, j, t, x = sp.symbols("a b i j t x", real=True)
s, omega = sp.Function("s"), sp.Function("omega")
A, B = sp.MatrixSymbol("A", 2, 2), sp.MatrixSymbol("B", 2, 2)
column = sp.Matrix(sp.symbols("q:2", real=True))
table = {"a": a, "b": b, "i": i, "j": j, "t": t, "x": x, "s": s, "omega": omega}
table |= {"q": column, "A": sp.Matrix(A), "B": sp.Matrix(B), "v": [5, 6, 7], "n": 2}
table |= {"v'": [8, 9], "d b": [10, 11], "M": sp.Matrix([[1, -2], [3, 4]])}

READINGS = {
    "product": (r"a b", a * b),
    "fraction": (r"\frac{a}{b} + \tfrac12", a / b + sp.Rational(1, 2)),
    "slash": (r"a b / \sqrt x", a * b / sp.sqrt(x)),
    "leading minus": (r"-a + b", b - a),
    "powers": (r"a^2 b^{-t}", a**2 * b**-t),
    "exponential": (r"e^{-a t}", sp.exp(-a * t)),
    "exponential of a matrix": (
        r"e^{a \begin{pmatrix} 0 & t \\ 0 & 0 \end{pmatrix}}",
        sp.Matrix([[1, a * t], [0, 1]]),
    ),
    "imaginary unit": (r"e^{\mathrm i a}", sp.exp(sp.I * a)),
    "indices": (r"s_{ij}", s(i, j)),
    "index of a sum": (r"s_{i,j+1}", s(i, j + 1)),
    "twice an index": (r"\omega_{2i}", omega(2 * i)),
    "sequence": (r"v_1 + v_{n}", 13),
    "entries of a column": (r"q_0 + q_{n-1}", sum(column)),
    "argument up to a sign": (r"\cos \omega_i t - a", sp.cos(omega(i) * t) - a),
    "argument to a space": (r"\cos a \, \sin b \, x", sp.cos(a) * sp.sin(b) * x),
    "argument with a group": (r"\cos \omega_i (i - j)", sp.cos(omega(i) * (i - j))),
    "group is the argument": (r"\log (a) \, x", sp.log(a) * x),
    "power of a function": (r"\sin^2 \tfrac{a}{2}", sp.sin(a / 2) ** 2),
    "sum": (r"\sum_{l=1}^{n} v_l a + b", 13 * a + b),
    "sum of a square": (r"\sum_{l<n} (v_l)^2 (a + b)", 61 * (a + b)),
    "sum to a bound": (r"\sum_{l < n} v_l", 11),
    "sum between bounds": (r"\sum_{1 \le l \le n} v_l", 13),
    "empty sum": (r"\sum_{l=1}^{0} v_l + a", a),
    "product of terms": (r"\prod_{l \le n} v_l", 210),
    "largest": (r"\max_{l < n} v_l", 6),
    "bounds that depend on each other": (
        r"\sum_{l < 3,\, p < l} v_p v_l",
        35 + 42 + 30,
    ),
    "terms of a condition": (r"\sum_{l < 3 :\, v_l < 7} v_l", 11),
    "sequence with a superscript": (r"v^1 + v_0", 11),
    "name with a prime": (r"v_0' + v_0", 13),
    "differential": (r"\mathrm d b_1", 11),
    "accent on a command": (r"\tilde\alpha b", 12 * b),
    "softmax": (r"\softmax_{l \le n} (v_l)", None),
    "softmax of a column": (r"\softmax(q)_1 + a", softmax(list(column))[1] + a),
    "transpose": (r"q^\top q", column.dot(column)),
    "norm": (r"\lVert q \rVert^2", column.dot(column)),
    "largest sum of a row": (r"\lVert M \rVert_\infty a", 7 * a),
    "logarithm to a base": (r"\log_2 8 a", 3 + sp.log(a, 2)),
    "natural logarithm": (r"\ln (a) b", sp.log(a) * b),
    "inner product": (r"\langle q, q \rangle", column.dot(column)),
    "determinant": (r"\det A", A[0, 0] * A[1, 1] - A[0, 1] * A[1, 0]),
    "commutator": (
        r"[A, B]",
        sp.Matrix(A) * sp.Matrix(B) - sp.Matrix(B) * sp.Matrix(A),
    ),
    "matrix": (
        r"\begin{pmatrix} a & -b \\ & 1 \end{pmatrix}",
        sp.Matrix([[a, -b], [0, 1]]),
    ),
    "cases": (r"\begin{cases} a & n < 2, \\ b & n = 2, \end{cases}", b),
    "matrix of blocks": (
        r"\begin{pmatrix} M & 0 \\ 0 & a \end{pmatrix}",
        sp.Matrix([[1, -2, 0], [3, 4, 0], [0, 0, a]]),
    ),
    "diagonal": (r"\diag(q)", sp.diag(*column)),
    "blocks": (r"\diag_p \begin{pmatrix} v_p \end{pmatrix}", sp.diag(5, 7)),
    "sizes and alignment": (
        r"\begin{aligned} & \bigl( a \\ & + b \bigr) \end{aligned}",
        a + b,
    ),
    "factorial": (r"n! a", 2 * a),
    "conjugate": (r"\overline{\mathrm i a}", -sp.I * a),
    "positive part": (r"\bigl[ a \bigr]_+ - [-b]_+", sp.Max(a, 0) - sp.Max(-b, 0)),
    "limit": (r"\lim_{t \to 0} \frac{\sin t}{t} + a", 1 + a),
    "limit at infinity": (r"\lim_{t \to \infty} (1 + a / t)", 1),
    "integral": (r"\int_0^b (3 t^2 + 1)\, dt - a", b**3 + b - a),
    "bars": (r"\bigl| a \bigr| + \lvert b\rvert", sp.Abs(a) + sp.Abs(b)),
}


@pytest.mark.parametrize("latex, value", READINGS.values(), ids=READINGS)
def test_a_display_is_read_as_the_book_writes(latex, value):
    known = table | {"p in": [0, 2], "l": 1, "int dt": t**3 + t}
    known |= {"tilde alpha": 12}
    ((sign, left, right),) = sides(f"{latex} = x", known)
    if value is None:
        value = sp.exp(6) / (sp.exp(5) + sp.exp(6) + sp.exp(7))
    assert sign == "=" and right == x
    assert not any(sp.Matrix([sp.simplify(left - value)]))


def test_relations_are_read_in_order():
    chain = sides(r"a = b < x, \quad t \le 1", table)
    assert chain == [("=", a, b), ("<", b, x), ("\\le", t, 1)]


def test_words_about_quantifiers_are_left_out():
    assert sides(r"a = b \qquad \text{for all } a, b", table) == [("=", a, b)]


@pytest.mark.parametrize(
    "latex, message",
    [
        (r"a / b x = t", "a slash is followed by one factor"),
        (r"\cos a / b = t", "needs parentheses"),
        (r"a \pm b = x", "two statements"),
        (r"a \iff x = t", "each side of an equivalence needs a relation"),
        (r"\sum_{t=1}^{\infty} a = x", "needs an antidifference under 'sum t'"),
        (r"\sum^{\infty} a = x", "needs its variable and its start"),
        (r"\frac{\partial a}{\partial 2} = x", "must be by a symbol"),
        (r"a' = x", "a prime is the derivative of a function"),
        (r"a + \dots + b = x", "cannot be parsed from"),
        (r"\sum_p v_p = a", "needs the values of p under 'p in'"),
        (r"y = a", "has no value for y"),
        (r"a_i = b", "a is a scalar"),
        (r"s = a", None),
        (r"a", "needs a relation"),
        (r"\cos = a", "needs an argument"),
        (r"\sin^2 = a", "needs an argument"),
        (r"\lim_t a = x", "needs its variable"),
        (r"\int_0^1 a = x", "must end with a thin space and dx"),
        (r"\int^1 a\, dt = x", "needs two bounds"),
        (r"\int_0^1 a\, dt = x", "needs an antiderivative under 'int dt'"),
    ],
)
def test_what_can_be_read_in_two_ways_or_in_none_is_refused(latex, message):
    if message is None:  # a function is no value
        with pytest.raises((DisplayError, TypeError)):
            prove_page(latex, table)
    else:
        with pytest.raises(DisplayError, match=message):
            sides(latex, table)


def prove_page(latex, symbols):
    left, right = sides(latex, symbols)[0][1:]
    prove("eq-x", left, right, covers="")


@pytest.fixture
def page(tmp_path, monkeypatch):
    """A folder with one page, in which every check is run."""

    def write(latex):
        text = f"words\n\n$$\nz = z\n$$ (def-z)\n\n$$\n{latex}\n$$ (eq-x)\n\nmore"
        (tmp_path / "page.md").write_text(text)

    monkeypatch.chdir(tmp_path)
    return write


def test_the_display_with_the_label_is_found(page):
    page(r"R_i = R_{i}")
    assert find("eq-x") == "R_i = R_{i}"
    with pytest.raises(DisplayError, match="no page in this folder displays eq-y"):
        find("eq-y")


ROTATIONS = {"R": lambda n: rotation(n, [t], layout="half"), "i": i, "j": j}


def test_a_proved_display_counts_what_it_refuses(page, capsys):
    page(r"R_i^\top R_j = R_{j-i} ,")
    prove("eq-x", ROTATIONS, covers="one pair")
    assert capsys.readouterr().out == (
        "✓ eq-x: proved symbolically, for all values of its symbols, as printed "
        "here; refuses 5 of 5 mutants. Covers one pair.\n"
    )


@pytest.mark.parametrize(
    "wrong",
    [r"R_i^\top R_j = R_{j+i}", r"R_i R_j = R_{j-i}", r"R_i^\top R_i = R_{j-i}"],
)
def test_a_flipped_display_is_refused(page, wrong):
    page(wrong)
    with pytest.raises(ProofError, match="eq-x"):
        prove("eq-x", ROTATIONS, covers="one pair")


def test_no_symbol_of_many_is_tried_at_one(page, capsys):
    page("abcfghu^i = abcfghu^i")
    symbols = dict(zip("abcfghu", sp.symbols("a b c f g h u"), strict=True))
    prove("eq-x", symbols | {"i": i}, covers="")
    assert "refuses 2 of 2 mutants" in capsys.readouterr().out


def test_a_change_that_says_the_same_is_not_counted_as_refused(page, capsys):
    page(r"\cos (i - j) = \cos (j - i)")
    prove("eq-x", {"i": i, "j": j}, covers="")
    assert "refuses 2 of 2 mutants" in capsys.readouterr().out
    page(r"\cos (-i) = \cos i")
    prove("eq-x", {"i": i}, covers="")
    assert "refuses 0 of 1 mutants" in capsys.readouterr().out


def test_a_change_of_one_index_of_two_is_read(page, capsys):
    page(r"s_{ij} = s_{ij}")
    prove("eq-x", {"s": lambda i, j: i, "i": i, "j": j}, covers="")
    assert "refuses 2 of 4 mutants" in capsys.readouterr().out


def test_entries_of_a_matrix_symbol_are_numbers_like_others(page, capsys):
    page(r"\sin^2 (-A_{0,1}) = 1 - \cos^2 A_{0,1}")
    prove("eq-x", {"A": sp.Matrix(A)}, covers="")
    assert "refuses 7 of 8 mutants" in capsys.readouterr().out


def test_a_display_without_anything_to_change_is_read_all_the_same(page, capsys):
    page(r"S = S \cup S")
    prove_each("eq-x", [1], lambda _: {"S": sp.FiniteSet(1, 2)}, covers="")
    assert (
        "checked exactly in 1 case, as printed here. Covers" in capsys.readouterr().out
    )


def test_a_side_is_negated_where_there_is_no_sign_index_or_exponent(page, capsys):
    page("x = f(x)")
    prove("eq-x", {"f": lambda x: x, "x": x}, covers="")
    assert "refuses 1 of 1 mutants" in capsys.readouterr().out
    page(r"\det M = 0")
    prove("eq-x", {"M": sp.zeros(2, 2), "det": lambda m: m.det()}, covers="")
    assert "refuses 1 of 1 mutants" in capsys.readouterr().out
    page(r"\lvert x \rvert = \lvert t \rvert \iff f(x) = f(t)")
    cases = [(-1, 1), (0, 0), (2, 3)]

    def at(case):
        return dict(zip("xt", case, strict=True), f=lambda x: x * x)

    prove_each("eq-x", cases, at, covers="")
    assert "refuses 2 of 2 mutants" in capsys.readouterr().out


@pytest.mark.parametrize(
    "chapter, labels",
    [
        ("floater", {"eq-floater-raised", "eq-floater-off"}),
        ("learned-embeddings", {"eq-learned-first"}),
    ],
)
def test_formulas_of_the_book_without_a_sign_refuse_a_negated_side(
    chapter, labels, monkeypatch
):
    """Run the chapter's cells up to the checks of the formulas."""
    execute = pytest.importorskip("posedu_sphinx.site.execute")
    path = ROOT / f"book/absolute/{chapter}.md"
    monkeypatch.chdir(path.parent)
    found, names = {}, {"__name__": "__main__"}
    monkeypatch.setattr(
        proof, "_declare", lambda made: found.update({made.label: made})
    )
    for cell in execute.read(path).cells:
        if cell.cell_type == "code" and not labels <= found.keys():
            exec(cell.source, names)
    assert {found[label].typeset for label in labels} == {(1, 1)}


def test_every_formula_of_the_book_that_can_be_read_has_a_mutant():
    parsed = 0
    for path in sorted((ROOT / "book").rglob("*.md")):
        labels = re.findall(r"^\s*\$\$ \((eq-[\w-]+)\)$", path.read_text("utf-8"), re.M)
        for label in labels:
            try:
                tree = parse(find(label, path.parent))
            except DisplayError:
                continue
            parsed += 1
            assert next(mutants(tree), None) is not None, label
    assert parsed > 250


def test_an_inequality_is_proved_by_the_sign_of_a_product(page, capsys):
    y = sp.Symbol("y", real=True)
    page(r"y^2 = y y \ge 2 y - 1")
    prove("eq-x", {"y": y}, covers="")
    assert "as printed here; refuses 2 of 2 mutants" in capsys.readouterr().out
    page(r"y^2 > 2 y - 1")  # not at 1
    with pytest.raises(ProofError, match="is not shown"):
        prove("eq-x", {"y": y}, covers="")
    page(r"2 y - 1 \le y^2")
    prove("eq-x", {"y": y}, covers="")
    page(r"2 y - 2 < y^2")
    with pytest.raises(ProofError, match="is not shown"):  # true, but no product
        prove("eq-x", {"y": y}, covers="")


def test_the_modulus_of_a_rounded_complex_number_is_a_number():
    at = {"R": lambda z: 1 + z + z**2 / 2, "z": sp.Float(0.73), "n": 177}
    latex = r"\lvert R(\mathrm i z)^n - e^{\mathrm i n z} \rvert = n"
    ((_, left, _),) = sides(latex, at)
    R = 1 + 0.73j + 0.73j**2 / 2
    assert float(left) == pytest.approx(abs(R**177 - np.exp(177 * 0.73j)), rel=1e-9)


def test_sets_of_integers_are_compared(page, capsys):
    page(r"S = \{0, \dots, n - 1\} \cup \{n + 2, \dots, 6\}")
    sets = {2: (0, 1, 4, 5, 6), 5: range(5)}

    def at(n):
        return {"S": sp.FiniteSet(*sets[n]), "n": n}

    prove_each("eq-x", sets, at, covers="")
    assert "as printed here; refuses 2 of 2 mutants" in capsys.readouterr().out
    sets[2] = (0, 1, 5, 6)
    with pytest.raises(ProofError, match="fails for"):
        prove_each("eq-x", sets, at, covers="")


def test_derivatives_are_read(page, capsys):
    page(r"\frac{\partial f(x)}{\partial x} = f'(x) = 2 x")
    prove("eq-x", {"f": lambda x: x**2, "x": x}, covers="")
    assert "refuses 1 of 1 mutants" in capsys.readouterr().out  # without the prime
    with pytest.raises(ProofError, match="differs by"):
        prove("eq-x", {"f": lambda x: x**2 + x, "x": x}, covers="")


def test_a_derivative_by_a_logarithm_is_one_by_a_symbol(page, capsys):
    page(r"\frac{\partial f^2}{\partial \log f} = 2 f^2")
    prove("eq-x", {"f": sp.exp(x)}, covers="")
    assert "refuses 2 of 2 mutants" in capsys.readouterr().out


def test_an_infinite_sum_is_what_its_antidifference_says_and_no_other(page, capsys):
    n, q = sp.Symbol("n", positive=True), sp.Rational(1, 3)
    page(r"\sum_{n=1}^{\infty} q^n = \frac{1}{2}")
    at = {"n": n, "q": q}
    prove("eq-x", at | {"sum n": -(q**n) / (1 - q)}, covers="")
    assert "refuses 1 of 1 mutants" in capsys.readouterr().out
    with pytest.raises(ProofError, match="differs by"):
        prove("eq-x", at | {"sum n": -(q**n) / 2 * 3 + q}, covers="")
        prove("eq-x", at | {"sum n": -(q**n)}, covers="")


def test_an_equivalence_needs_both_or_neither(page, capsys):
    page(r"2 i \le n \iff i < n - i + 1")
    cases = [(i, n) for i in range(5) for n in range(9)]

    def at(case):
        return {"i": case[0], "n": case[1]}

    prove_each("eq-x", cases, at, covers="")
    assert "as printed here; refuses 2 of 2 mutants" in capsys.readouterr().out
    page(r"2 i \le n \iff i < n - i")
    with pytest.raises(ProofError, match="fails for"):
        prove_each("eq-x", cases, at, covers="")


def test_an_integral_is_what_its_antiderivative_says_and_no_other(page, capsys):
    page(r"\int_1^\infty \frac{a}{x^2}\, dx = a")
    at = {"a": a, "x": x}
    prove("eq-x", at | {"int dx": -a / x}, covers="")
    assert "refuses 2 of 2 mutants" in capsys.readouterr().out
    with pytest.raises(ProofError, match="differs by"):  # the same at both ends
        prove("eq-x", at | {"int dx": -a / x**2}, covers="")


def test_cases_are_read_from_the_display(page, capsys):
    page(r"\sum_{l=0}^{n} l = n (n + 1) / 2 , \quad n < 9")
    prove_each("eq-x", range(9), lambda n: {"n": n}, covers="n < 9")
    line = capsys.readouterr().out
    assert "checked exactly in 9 cases, as printed here; refuses 2 of 2 mutants" in line
    with pytest.raises(ProofError, match="fails for 9"):
        prove_each("eq-x", range(10), lambda n: {"n": n}, covers="")


def test_a_bound_is_read_from_the_display(page, capsys):
    page(r"\lvert a + b \rvert \le \lvert a \rvert + \lvert b \rvert")

    def draw(rng):
        return dict(zip("ab", rng.normal(size=2), strict=True))

    def half(rng):
        return 2 * abs(sum(drawn := draw(rng).values())) / sum(map(abs, drawn))

    options = {"samples": 40, "mutant": ("half the bound", half), "covers": ""}
    prove_sampled("eq-x", draw, **options)
    assert "at most 100 % of the bound used" in (line := capsys.readouterr().out)
    assert "refuses 1 of 2 mutants" in line  # |a − b| obeys the bound as well
    page(r"\lvert a + b \rvert \le \lvert a \rvert - \lvert b \rvert")
    with pytest.raises(ProofError, match="of the bound, not 0 to 1"):
        prove_sampled("eq-x", draw, **options)
    page(r"\lvert a \rvert - \lvert a \rvert \le - \lvert b \rvert")
    with pytest.raises(ProofError, match="uses inf of the bound"):
        prove_sampled("eq-x", draw, **options)
    page(r"a = b")
    with pytest.raises(DisplayError, match="a sampled display must be a ≤ b"):
        prove_sampled("eq-x", draw, **options)


def test_a_sampled_equation_is_allowed_its_rounding(page, capsys):
    page("a = b^2")

    def draw(rng, allowed=0.1):
        b, error = rng.uniform((-2, -0.1), (2, 0.1))
        return {"a": b**2 + error, "b": b, "rounding": allowed}

    wrong = "half of it", lambda rng: draw(rng, 0.05)
    options = {"samples": 40, "mutant": wrong, "covers": ""}
    prove_sampled("eq-x", draw, **options)
    assert "refuses 1 of 1 mutants" in capsys.readouterr().out
    with pytest.raises(ProofError, match="of the bound, not 0 to 1"):
        prove_sampled("eq-x", wrong[1], **options)


@pytest.mark.parametrize(
    "latex, count",
    [
        (r"a + b = x", 1),
        (r"-a = x^2", 2),
        (r"q^\top q = s_{ij}", 3),
        (r"\sum_{l=0}^{n-1} v_l = a", 3),
        (r"R^{\text{axial}}_i = A_+", 1),
        (r"A^{(1)}_{ij} = e^{-a}", 4),
        (r"\int_0^\infty a\, dt = b", 1),
        (r"\lim_{t \to \infty} v_t = b", 1),
    ],
)
def test_every_sign_index_and_exponent_is_changed_once(latex, count):
    variants = list(mutants(latex))
    assert len(variants) == count
    assert len(set(variants)) == count and parse(latex) not in variants


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=6))
def test_sums_of_numbers_are_what_python_says(numbers):
    latex = " ".join(f"{'+' if n >= 0 else '-'} {abs(n)}" for n in numbers)
    assert sides(f"{latex} = 0", {}) == [("=", sum(numbers), 0)]


@given(st.integers(1, 4), st.integers(0, 3))
def test_softmax_over_keys_is_numpys(length, key):
    z = np.linspace(-1, 1, length)
    if key >= length:
        return
    ((_, left, _),) = sides(
        r"\softmax_j (z_j) = 0", {"z": list(z), "j": key, "j in": range(length)}
    )
    assert float(left) == pytest.approx(np.exp(z[key]) / np.exp(z).sum(), rel=1e-14)
