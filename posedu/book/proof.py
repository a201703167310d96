"""Checks of the book's equations, with the cases that each check covers.

Every claim of a chapter (a displayed formula with a label ``eq-…``) is checked by
exactly one call of :func:`prove`, :func:`prove_each` or :func:`prove_sampled`, in a
notebook cell below it. The call fails, or prints one line: what was checked, how, and
for which cases. The website collects these lines in the proof ledger, a page that lists
all claims; its build fails if a claim has no check or a check no claim.

In place of the values to compare, each of the three functions also takes a table of the
values of the formula's symbols (:mod:`posedu.book.display`). Then the formula is read
from the page as it is typeset, and the printed line counts its mutants (copies with one
sign, index or exponent changed) that the check refuses.
"""

import html
import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef
from sympy.matrices.expressions.matexpr import MatrixElement

from posedu._argument_types import check_types, short_repr
from posedu._arguments import require_seed
from posedu.book.display import DisplayError, Table, find, mutants, parse, sides
from posedu.book.display.semantics import holds as relation_holds
from posedu.sympy._expressions import expression

MUTANT_SAMPLES = 20  # samples of a check that are tried on each mutant of a display


class ProofError(AssertionError):
    """Error for a formula of the book that its check does not confirm."""


@check_types
@dataclass(frozen=True)
class Proof:
    """A successful check of a claim, which is a labeled formula of the book.

    ``label`` is the formula's label, ``how`` the method of the check, ``covers`` the
    cases that the check covers. If the formula was read as it is typeset, ``typeset``
    has two numbers: mutants (copies with one sign, index or exponent changed) that the
    check refuses, and all mutants.
    """

    label: str
    how: str
    covers: str
    typeset: tuple[int, int] | None = None

    def __str__(self) -> str:
        return f"✓ {self.label}: {self.summary}. Covers {self.covers}."

    @property
    def summary(self) -> str:
        """Method of the check, and how many of the formula's mutants the check refuses.

        Mutants are copies with one sign, index or exponent changed.
        """
        if self.typeset is None:
            return self.how
        refused, total = self.typeset
        count = f"; refuses {refused} of {total} mutants" if total else ""
        return f"{self.how}, as printed here{count}"

    def _repr_html_(self) -> str:
        record = html.escape(json.dumps(asdict(self)), quote=True)
        how, covers = html.escape(self.summary), html.escape(self.covers)
        label = html.escape(self.label)
        return (
            f'<p class="posedu-proof" data-proof="{record}">✓ '
            f"<code>{label}</code> {how}. Covers {covers}.</p>"
        )


@check_types
def prove(
    label: str,
    left: Any,
    right: Any = None,
    *,
    covers: str,
    mutant: tuple[str, Any] | None = None,
) -> None:
    """Prove ``left = right`` for all values of their symbols, or raise.

    With a table of symbols' values in place of both sides, or a list of tables for
    several cases, the displayed equations with the label are proved as they are
    typeset.

    Parameters
    ----------
    label
        The equation's label in the chapter, ``eq-…``.
    left, right
        SymPy expressions or matrices of one shape, or lists of them for an equation
        with several statements.
    covers
        Sizes and assumptions on the symbols for which the chapter's statement is
        proved, as the end of the printed sentence "Covers …".
    mutant
        The name of a wrong statement ("without its boundary term") and its right side,
        which must differ from the left; only where both sides are given.

    Raises
    ------
    ProofError
        If the difference does not simplify to zero; the message shows it. If the mutant
        is not refused.
    DisplayError
        If the displayed equations cannot be evaluated with the table.
    """
    how = "proved symbolically, for all values of its symbols"
    if right is None:
        tables = [left] if isinstance(left, Mapping) else left
        if not (
            isinstance(tables, Sequence)
            and tables
            and all(isinstance(table, Mapping) for table in tables)
        ):
            raise TypeError(
                f"{label}: without a right side, left must be a table of values or a "
                f"list of tables, got {short_repr(left)}"
            )
        for table in tables:
            _prove_display(label, sides(find(label), table))
        typeset = _refused(label, tables, _is_unequal)
        _declare(Proof(label, how, covers, typeset))
        return
    _prove_equal(label, left, right)
    if mutant is not None:
        name, wrong = mutant
        if not any(map(_differ, _entries(left), _entries(wrong))):
            raise ProofError(f"{label}: nothing refuses the mutant “{name}”")
        how += f"; refuses the mutant “{name}”"
    _declare(Proof(label, how, covers))


def _prove_equal(label: str, left: Any, right: Any) -> None:
    if _shape(left) != _shape(right):
        shapes = f"{_shape(left)} and {_shape(right)}"
        raise ProofError(f"{label}: shapes {shapes} differ")
    if not _entries(left):
        raise ProofError(f"{label}: the sides to compare are empty")
    pairs = zip(_entries(left), _entries(right), strict=True)
    for entry, (a, b) in enumerate(pairs):
        residual = _simplest(a - b)
        if residual != 0:
            raise ProofError(f"{label}: entry {entry} differs by {residual}")


@check_types
def prove_each(
    label: str,
    cases: Iterable[Any],
    holds: Callable[[Any], bool | Table],
    *,
    covers: str,
) -> None:
    """Check exactly that a claim holds in every case; raise for the first failure.

    This is for finite statements (all permutations of four tokens) and for rational
    cases computed without rounding. ``cases``, at least one, are the values for which
    the function ``holds`` evaluates the claim. ``holds`` must return a boolean, since a
    list or a matrix would be true whatever its entries are; or it returns a table of
    symbols' values, with which the displayed formula with this ``label`` must hold.
    ``covers`` names the cases, as the end of "Covers …".
    """
    count, tables, display = 0, [], None
    for case in cases:
        verdict = holds(case)
        if isinstance(verdict, Mapping):
            tables.append(verdict)
            display = display or parse(find(label))
            verdict = not _is_false(display, verdict)
        if not isinstance(verdict, bool | np.bool_):
            raise TypeError(
                f"{label}: holds must return a boolean, got {verdict!r} for {case}"
            )
        if not verdict:
            raise ProofError(f"{label}: fails for {case}")
        count += 1
    if count == 0:
        raise ProofError(f"{label}: no case was given")
    plural = "case" if count == 1 else "cases"
    typeset = _refused(label, tables, _is_false)
    how = f"checked exactly in {count} {plural}"
    _declare(Proof(label, how, covers, typeset))


@check_types
def prove_sampled(
    label: str,
    use: Callable[[np.random.Generator], float | Table],
    *,
    samples: int,
    mutant: tuple[str, Callable[[np.random.Generator], float | Table]],
    covers: str,
    slack: str | None = None,
    seed: int = 0,
) -> None:
    """Check in random cases that a bound holds and that its (wrong) mutant does not.

    This is evidence in floating point, not proof. The mutant is a wrong statement in
    place of the bound. The printed line says which share of the bound was used and
    which wrong statement the same samples refuse.

    Parameters
    ----------
    label
        The equation's label in the chapter, ``eq-…``.
    use
        A function that draws a case from the given generator and returns the fraction
        of the bound that is used: error over bound for an equality whose bound is
        derived from rounding, left side over right side for an inequality. It may also
        return a table of the symbols' values, with which the displayed inequality with
        this label gives the fraction. For an equation the table also has the error that
        roundings allow, under ``"rounding"``.
    samples
        Number of cases that are drawn.
    mutant
        The name of a wrong statement ("the bound without its boundary term") and its
        own ``use``, which draws from the same seed and must exceed 1 in some sample.
    covers
        Cases that are drawn, as the end of the printed sentence "Covers …".
    slack
        The reason if less than half of the bound is used ("roundings of both signs
        cancel"). The reason is required then, since such a bound proves little.
    seed
        Seed of the generator.

    Raises
    ------
    ProofError
        If a fraction is above 1, negative or not finite; if less than half of the bound
        is used and no reason is given; if the mutant is not refused.
    """
    if samples < 1:
        raise ProofError(f"{label}: no sample was drawn")
    rng = np.random.default_rng(require_seed(seed))
    largest, tables = 0.0, []
    for sample in range(samples):
        result = use(rng)
        tables += [result] if isinstance(result, Mapping) else []
        used = _fraction(label, result)
        if not 0 <= used <= 1:
            raise ProofError(
                f"{label}: sample {sample} uses {used:.3g} of the bound, not 0 to 1"
            )
        largest = max(largest, used)
    share = f"{100 * largest:.{1 if largest < 0.1 else 0}f} %"
    if round(largest, 2) < 0.5 and not slack:
        raise ProofError(
            f"{label}: at most {share} of the bound is used; give the reason as slack"
        )
    name, wrong = mutant
    rng = np.random.default_rng(seed)
    if not any(_fraction(label, wrong(rng)) > 1 for _ in range(samples)):
        raise ProofError(f"{label}: no sample refuses the mutant “{name}”")
    used_as = f"at most {share} of the bound used" + (f" ({slack})" if slack else "")
    how = f"sampled {samples} times, {used_as}; refuses the mutant “{name}”"
    typeset = _refused(label, tables[:MUTANT_SAMPLES], _is_exceeded)
    _declare(Proof(label, how, covers, typeset))


def _fraction(label: str, used: Any) -> float:
    """Return the fraction of a bound that is used, as a float.

    ``used`` is the fraction itself, or a table of symbols' values, with which the
    displayed inequality named ``label`` gives the fraction. A boolean raises TypeError.
    """
    if isinstance(used, Mapping):
        return _display_use(parse(find(label)), used)
    if isinstance(used, bool | np.bool_):
        raise TypeError(f"{label}: a use is a fraction of the bound, got {used}")
    return float(used)


def _shape(value: Any) -> Any:
    """Return a matrix's shape, () for an expression, a list of shapes for a list."""
    if isinstance(value, list | tuple):
        return [_shape(item) for item in value]
    return value.shape if isinstance(value, sp.MatrixBase) else ()


def _entries(value: Any) -> list[sp.Expr]:
    """Return all entries of an expression, a matrix or a list of these, as one list."""
    if isinstance(value, list | tuple):
        return [entry for item in value for entry in _entries(item)]
    if isinstance(value, sp.MatrixBase):
        return list(value)
    return [expression("each side", value)]


def _simplest(expression: sp.Expr) -> sp.Expr:
    """Simplify an expression until SymPy shows that it is 0; cheapest method first.

    If no method gives 0, the result of the last one is returned.
    """
    attempts = (
        sp.expand,
        lambda e: sp.expand(sp.expand_trig(sp.expand(e))),
        lambda e: sp.expand(e.rewrite(sp.exp)),
        sp.trigsimp,
        sp.simplify,
        lambda e: sp.simplify(e.rewrite(sp.exp)),
    )
    for attempt in attempts:
        simplified = attempt(expression)
        if simplified == 0:
            return sp.S.Zero
    return simplified


def _prove_display(label: str, relations: list[tuple[str, Any, Any]]) -> None:
    """Raise ProofError unless all relations of a display hold.

    An inequality holds if the difference of its sides, as a product of factors, has a
    known sign.
    """
    equations = [(left, right) for sign, left, right in relations if sign == "="]
    if equations:
        lefts, rights = map(list, zip(*equations, strict=True))
        _prove_equal(label, lefts, rights)
    for sign, left, right in relations:
        if sign != "=":
            larger = left - right if sign in (">", "\\ge") else right - left
            known = "is_positive" if sign in ("<", ">") else "is_nonnegative"
            margins = (sp.factor(form(larger)) for form in (sp.sympify, _simplest))
            if not any(getattr(margin, known) for margin in margins):
                raise ProofError(f"{label}: {left} {sign} {right} is not shown")


def _display_use(display: Any, table: Table) -> float:
    """Return the largest ratio, left over right side, of the displayed inequalities.

    ``display`` is the formula, ``table`` has the values of the formula's symbols. The
    ratio of an equation is the largest error of an entry over the table's
    ``"rounding"``. The ratio is infinite if a right side is not positive, 0 if both
    sides are 0. If no ratio is above 1, one that is negative or NaN is returned.
    """
    uses = []
    for sign, left, right in sides(display, table):
        if sign == "=" and "rounding" in table:
            same = _shape(left) == _shape(right)
            error = max(abs(e) for e in _entries(left - right)) if same else np.inf
            uses.append(_use(float(error), table["rounding"]))
            continue
        if sign in ("=", ">", "\\ge"):
            raise DisplayError(f"a sampled display must be a ≤ b, got a {sign} b")
        uses.append(_use(float(left), float(right)))
    return max(uses, key=lambda use: (use > 1, not use >= 0, use))


def _use(used: float, bound: float) -> float:
    if used == bound == 0:
        return 0.0
    return used / bound if bound > 0 else np.inf


def _refused(
    label: str, tables: Sequence[Table], fails: Callable[[Any, Table], bool]
) -> tuple[int, int] | None:
    """Return the numbers of a formula's refused mutants and of all its mutants.

    ``label`` is the formula's label. Mutants are copies with one sign, index or
    exponent changed. A mutant is refused if ``fails(mutant, table)`` is true for at
    least one of the ``tables`` of symbols' values. Without tables the result is None.
    """
    if not tables:
        return None
    verdicts = [
        any(_fails(fails, mutant, table) for table in tables)
        for mutant in mutants(find(label))
    ]
    return sum(verdicts), len(verdicts)


def _fails(fails: Callable[[Any, Table], bool], display: Any, table: Table) -> bool:
    """Return whether the function ``fails`` is true of a mutant, or raises an error.

    The mutant ``display`` is a changed copy of a formula; ``table`` has the values of
    its symbols.
    """
    try:
        return fails(display, table)
    except Exception:
        return True


def _is_unequal(display: Any, table: Table) -> bool:
    """Return whether a displayed relation is false at fixed numbers.

    ``table`` has the values of the relation's symbols. Fixed numbers take the place of
    those symbols that remain in these values.
    """
    return any(
        _shape(left) != _shape(right)
        or any(map(_differ, _entries(left), _entries(right)))
        if sign == "="
        else not relation_holds(sign, _at_fixed_numbers(left - right), 0)
        for sign, left, right in sides(display, table)
    )


def _is_false(display: Any, table: Table) -> bool:
    """Return whether SymPy cannot show that a displayed formula's relations hold.

    A relation is an equation or an inequality; ``table`` has the values of the
    formula's symbols.
    """
    return not all(_is_true(*relation) for relation in sides(display, table))


def _is_true(sign: str, left: Any, right: Any) -> bool:
    if sign != "=" or isinstance(left, sp.Set):
        return relation_holds(sign, left, right)
    if _shape(left) != _shape(right):
        return False
    pairs = zip(_entries(left), _entries(right), strict=True)
    return all(_simplest(a - b) == 0 for a, b in pairs)


def _is_exceeded(display: Any, table: Table) -> bool:
    return not 0 <= _display_use(display, table) <= 1


def _differ(left: sp.Expr, right: sp.Expr) -> bool:
    """Return whether two expressions differ with fixed numbers for their symbols.

    An undefined function has a fixed result for each of its arguments. If symbols do
    not commute or no number results, the expressions differ unless SymPy shows that the
    difference is 0.
    """
    residual = sp.sympify(left - right)
    letters = {s for s in residual.free_symbols if isinstance(s, sp.Symbol)}
    symbols = sorted(letters | residual.atoms(MatrixElement), key=str)
    if not all(symbol.is_commutative for symbol in symbols):
        return bool(sp.expand(residual) != 0)
    number = _at_fixed_numbers(residual)
    return bool(abs(number) > 1e-12 if number.is_number else _simplest(residual) != 0)


def _at_fixed_numbers(expression: sp.Expr) -> sp.Expr:
    """Return an expression's value with fixed numbers for its symbols.

    An undefined function has a fixed result for each of its arguments.
    """
    letters = {s for s in expression.free_symbols if isinstance(s, sp.Symbol)}
    symbols = sorted(letters | expression.atoms(MatrixElement), key=str)
    primes = map(sp.prime, itertools.count(1))  # √n / 3 with n = 9 would be 1
    values = {
        symbol: sp.Integer(n) if symbol.is_integer else sp.N(sp.sqrt(n) / 3, 60)
        for symbol, n in zip(symbols, primes, strict=False)
    }
    at = expression.xreplace(values)
    called = {f: f.func(*(sp.N(x, 20) for x in f.args)) for f in at.atoms(AppliedUndef)}
    results = {
        call: sp.N(sp.sqrt(n) / 3, 60)
        for call, n in zip(sorted(set(called.values()), key=str), primes, strict=False)
    }
    return sp.N(at.xreplace({f: results[call] for f, call in called.items()}), 30)


def _declare(proof: Proof) -> None:
    """Show a successful check as a line of text, or as HTML in a notebook."""
    try:
        from IPython import get_ipython
        from IPython.display import display
    except ImportError:
        print(proof)
        return
    if get_ipython() is None:
        print(proof)
    else:
        display(proof)
