"""Check the book's equations, and say what each check covers.

Every labeled claim of a chapter is claimed by exactly one call of :func:`prove`,
:func:`prove_each` or :func:`prove_sampled`, in a cell below it. The call fails, or
prints one line: what was checked, how, and for which cases. The website gathers these
lines into the proof ledger; its build fails where a claim has no check or a check no
claim.

Each of them takes a table of a display's symbols (:mod:`posedu.book.display`) in the place
of what is to be compared. Then the equation is read from the page as it is typeset, and
the line says how many of its signs, indices and exponents cannot be changed without the
check failing.
"""

import html
import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import sympy as sp
from sympy.matrices.expressions.matexpr import MatrixElement

from posedu.book.display import DisplayError, Table, changes, find, parse, sides
from posedu.book.display.semantics import holds as relation_holds

CHANGED_SAMPLES = 20  # of a sampled check are tried on each changed display


class ProofError(AssertionError):
    """A claim of the book that its check could not confirm."""


@dataclass(frozen=True)
class Proof:
    """A check that held: the equation's label, how it was done, and what it covers.

    If the equation itself was read as it is typeset, ``typeset`` counts the changes of
    it that the check refuses, and how many there are.
    """

    label: str
    how: str
    covers: str
    typeset: tuple[int, int] | None = None

    def __str__(self) -> str:
        return f"✓ {self.label}: {self.summary}. Covers {self.covers}."

    @property
    def summary(self) -> str:
        """How it was done, and how firmly the display is tied to it."""
        if self.typeset is None:
            return self.how
        refused, changed = self.typeset
        count = f": refuses {refused} of {changed} changes of it" if changed else ""
        return f"{self.how}, as typeset{count}"

    def _repr_html_(self) -> str:
        record = html.escape(json.dumps(asdict(self)), quote=True)
        how, covers = html.escape(self.summary), html.escape(self.covers)
        label = html.escape(self.label)
        return (
            f'<p class="posedu-proof" data-proof="{record}">✓ '
            f"<code>{label}</code> {how}. Covers {covers}.</p>"
        )


def prove(
    label: str,
    left: Any,
    right: Any = None,
    *,
    covers: str,
    mutant: tuple[str, Any] | None = None,
) -> None:
    """Prove ``left = right`` for all values of their symbols, or raise.

    With a table of symbols, or a list of them for several cases, in the place of both,
    the equations of the display are proved as they are typeset.

    Parameters
    ----------
    label
        The equation's label in the chapter, ``eq-…``.
    left, right
        SymPy expressions or matrices of one shape, or lists of such, for an equation
        that says several things.
    covers
        For which sizes and under which assumptions on the symbols this is the
        statement of the chapter, as the end of "Covers …".
    mutant
        Where both sides are given: the name of a wrong statement ("without its boundary
        term") and its own right side, which must differ from the left.

    Raises
    ------
    ProofError
        If the difference does not simplify to zero; the message shows it. If the mutant
        is not refused.
    DisplayError
        If the display cannot be read with the table.
    """
    how = "proved symbolically, for all values of its symbols"
    if right is None:
        tables = [left] if isinstance(left, Mapping) else list(left)
        for table in tables:
            _prove_equal(label, *_equated(label, table))
        typeset = _refused(label, tables, _is_unequal)
        _declare(Proof(label, how, covers, typeset))
        return
    _prove_equal(label, left, right)
    if mutant is not None:
        name, wrong = mutant
        if not any(map(_differ, _entries(left), _entries(wrong))):
            raise ProofError(f"{label}: nothing refuses {name}")
        how += f"; refuses {name}"
    _declare(Proof(label, how, covers))


def _prove_equal(label: str, left: Any, right: Any) -> None:
    if _shape(left) != _shape(right):
        shapes = f"{_shape(left)} and {_shape(right)}"
        raise ProofError(f"{label}: shapes {shapes} differ")
    if not _entries(left):
        raise ProofError(f"{label}: there is nothing to compare")
    pairs = zip(_entries(left), _entries(right), strict=True)
    for entry, (a, b) in enumerate(pairs):
        residual = _simplest(a - b)
        if residual != 0:
            raise ProofError(f"{label}: entry {entry} differs by {residual}")


def prove_each(
    label: str,
    cases: Iterable[Any],
    holds: Callable[[Any], bool | Table],
    *,
    covers: str,
) -> None:
    """Check exactly that ``holds`` is true of every case, or raise naming the first.

    For finite statements (all permutations of four tokens) and for rational cases
    computed without rounding. At least one case is needed, and ``holds`` must return a
    boolean: a list or a matrix is not true because it is there. Or it returns a table
    of symbols, and the display must hold with it.
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
    """Check in floating point that a bound holds and that its mutant does not.

    This is evidence, not proof. The printed line says how much of the bound was used
    and which wrong statement the same samples refuse.

    Parameters
    ----------
    label
        The equation's label in the chapter, ``eq-…``.
    use
        Draws a case from the generator that it is given and returns which fraction of
        the bound is used there: error over bound for an equality whose bound is derived
        from rounding, left side over right side for an inequality. Or it returns a
        table of numbers, and the display, an inequality, gives the fraction.
    samples
        How many cases are drawn.
    mutant
        The name of a wrong statement ("the bound without its boundary term") and its
        own ``use``, which draws from the same seed and must exceed 1 in some sample.
    covers
        Which cases are drawn, as the end of "Covers …".
    slack
        Why less than half of the bound is used, where that is so ("roundings of both
        signs cancel"): a bound that nothing comes near proves little.
    seed
        Of the generator.

    Raises
    ------
    ProofError
        If a use is above 1, negative or not finite; if less than half of the bound is
        used and nothing says why; if the mutant is not rejected.
    """
    if samples < 1:
        raise ProofError(f"{label}: no sample was drawn")
    rng = np.random.default_rng(seed)
    largest, tables = 0.0, []
    for sample in range(samples):
        drawn = use(rng)
        tables += [drawn] if isinstance(drawn, Mapping) else []
        used = _fraction(label, drawn)
        if not 0 <= used <= 1:
            raise ProofError(
                f"{label}: sample {sample} uses {used:.3g} of the bound, not 0 to 1"
            )
        largest = max(largest, used)
    share = f"{100 * largest:.{1 if largest < 0.1 else 0}f} %"
    if round(largest, 2) < 0.5 and not slack:
        raise ProofError(f"{label}: at most {share} of the bound is used; say why")
    name, wrong = mutant
    rng = np.random.default_rng(seed)
    if not any(_fraction(label, wrong(rng)) > 1 for _ in range(samples)):
        raise ProofError(f"{label}: no sample rejects {name}")
    used_as = f"at most {share} of the bound used" + (f" ({slack})" if slack else "")
    how = f"sampled {samples} times, {used_as}; rejects {name}"
    typeset = _refused(label, tables[:CHANGED_SAMPLES], _is_exceeded)
    _declare(Proof(label, how, covers, typeset))


def _fraction(label: str, used: Any) -> float:
    """``used`` as a float, from the display if it is a table; a verdict is none."""
    if isinstance(used, Mapping):
        return _display_use(parse(find(label)), used)
    if isinstance(used, bool | np.bool_):
        raise TypeError(f"{label}: a use is a fraction of the bound, got {used}")
    return float(used)


def _shape(value: Any) -> Any:
    """The shape of a matrix, those of a list's items, nothing for an expression."""
    if isinstance(value, list | tuple):
        return [_shape(item) for item in value]
    return value.shape if isinstance(value, sp.MatrixBase) else ()


def _entries(value: Any) -> list[sp.Expr]:
    """Every entry of an expression, a matrix or a list of them, in order."""
    if isinstance(value, list | tuple):
        return [entry for item in value for entry in _entries(item)]
    return list(value) if isinstance(value, sp.MatrixBase) else [_expression(value)]


def _expression(value: Any) -> sp.Expr:
    """``value`` as SymPy has it; a string is refused, as SymPy would run it."""
    try:
        return sp.sympify(value, strict=True)
    except sp.SympifyError:
        raise TypeError(
            f"what is compared must be expressions, got {type(value).__name__}"
        ) from None


def _simplest(expression: sp.Expr) -> sp.Expr:
    """Zero if SymPy can show the expression to be zero, cheapest way first."""
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


def _equated(label: str, table: Table) -> tuple[list[Any], list[Any]]:
    """The left and the right sides of a display that is made of equations."""
    relations = sides(find(label), table)
    if any(sign != "=" for sign, _, _ in relations):
        raise DisplayError(f"{label}: prove reads equations only")
    return [left for _, left, _ in relations], [right for _, _, right in relations]


def _display_use(display: Any, table: Table) -> float:
    """The largest share of its bound that an inequality of a display uses."""
    uses = []
    for sign, left, right in sides(display, table):
        if sign in ("=", ">", "\\ge"):
            raise DisplayError(f"a sampled display says a ≤ b, not a {sign} b")
        uses.append(_use(float(left), float(right)))
    return max(uses)


def _use(used: float, bound: float) -> float:
    if used == bound == 0:
        return 0.0
    return used / bound if bound > 0 else np.inf


def _refused(
    label: str, tables: Sequence[Table], fails: Callable[[Any, Table], bool]
) -> tuple[int, int] | None:
    """How many changes of a display some table refuses, and how many there are."""
    if not tables:
        return None
    verdicts = [
        any(_fails(fails, changed, table) for table in tables)
        for changed in changes(find(label))
    ]
    return sum(verdicts), len(verdicts)


def _fails(fails: Callable[[Any, Table], bool], display: Any, table: Table) -> bool:
    """Whether a changed display is false, or asks the table for what it has not."""
    try:
        return fails(display, table)
    except Exception:
        return True


def _is_unequal(display: Any, table: Table) -> bool:
    """Whether an equation of a display is false for some values of its symbols."""
    return any(
        _shape(left) != _shape(right)
        or any(map(_differ, _entries(left), _entries(right)))
        for _, left, right in sides(display, table)
    )


def _is_false(display: Any, table: Table) -> bool:
    """Whether SymPy cannot show a display's relations to be true."""
    return not all(_is_true(*relation) for relation in sides(display, table))


def _is_true(sign: str, left: Any, right: Any) -> bool:
    if sign != "=":
        return relation_holds(sign, left, right)
    if _shape(left) != _shape(right):
        return False
    pairs = zip(_entries(left), _entries(right), strict=True)
    return all(_simplest(a - b) == 0 for a, b in pairs)


def _is_exceeded(display: Any, table: Table) -> bool:
    return not 0 <= _display_use(display, table) <= 1


def _differ(left: sp.Expr, right: sp.Expr) -> bool:
    """Whether two expressions differ at one point, chosen once for each symbol."""
    residual = sp.sympify(left - right)
    letters = {s for s in residual.free_symbols if isinstance(s, sp.Symbol)}
    symbols = sorted(letters | residual.atoms(MatrixElement), key=str)
    if not all(symbol.is_commutative for symbol in symbols):
        return bool(sp.expand(residual) != 0)
    primes = map(sp.prime, itertools.count(1))  # √9 / 3 would be 1
    values = {
        symbol: sp.Integer(n) if symbol.is_integer else sp.N(sp.sqrt(n) / 3, 60)
        for symbol, n in zip(symbols, primes, strict=False)
    }
    number = sp.N(residual.xreplace(values), 30)
    return bool(abs(number) > 1e-12 if number.is_number else _simplest(residual) != 0)


def _declare(proof: Proof) -> None:
    """Show a check that held: as a line of text, or of HTML in a notebook."""
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
