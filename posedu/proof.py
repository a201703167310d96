"""Check the book's equations, and say what each check covers.

Every labelled claim of a chapter is claimed by exactly one call of :func:`prove`,
:func:`prove_each` or :func:`prove_sampled`, in a cell below it. The call fails, or
prints one line: what was checked, how, and for which cases. The website gathers these
lines into the proof ledger; its build fails where a claim has no check or a check no
claim.
"""

import html
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import sympy as sp


class ProofError(AssertionError):
    """A claim of the book that its check could not confirm."""


@dataclass(frozen=True)
class Proof:
    """A check that held: the equation's label, how it was done, and what it covers."""

    label: str
    how: str
    covers: str

    def __str__(self) -> str:
        return f"✓ {self.label}: {self.how}. Covers {self.covers}."

    def _repr_html_(self) -> str:
        record = html.escape(json.dumps(asdict(self)), quote=True)
        how, covers = html.escape(self.how), html.escape(self.covers)
        label = html.escape(self.label)
        return (
            f'<p class="posedu-proof" data-proof="{record}">✓ '
            f"<code>{label}</code> {how}. Covers {covers}.</p>"
        )


def prove(label: str, left: Any, right: Any, *, covers: str) -> None:
    """Prove ``left = right`` for all values of their symbols, or raise.

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

    Raises
    ------
    ProofError
        If the difference does not simplify to zero; the message shows it.
    """
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
    _declare(Proof(label, "proved symbolically, for all values", covers))


def prove_each(
    label: str, cases: Iterable[Any], holds: Callable[[Any], bool], *, covers: str
) -> None:
    """Check exactly that ``holds`` is true of every case, or raise naming the first.

    For finite statements (all permutations of four tokens) and for rational cases
    computed without rounding. At least one case is needed, and ``holds`` must return a
    boolean: a list or a matrix is not true because it is there.
    """
    count = 0
    for case in cases:
        verdict = holds(case)
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
    _declare(Proof(label, f"checked exactly in {count} {plural}", covers))


def prove_sampled(
    label: str,
    use: Callable[[np.random.Generator], float],
    *,
    samples: int,
    mutant: tuple[str, Callable[[np.random.Generator], float]],
    covers: str,
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
        from rounding, left side over right side for an inequality.
    samples
        How many cases are drawn.
    mutant
        The name of a wrong statement ("the bound without its boundary term") and its
        own ``use``, which draws from the same seed and must exceed 1 in some sample.
    covers
        Which cases are drawn, as the end of "Covers …".
    seed
        Of the generator.

    Raises
    ------
    ProofError
        If a use is above 1, negative or not finite; if the mutant is not rejected.
    """
    if samples < 1:
        raise ProofError(f"{label}: no sample was drawn")
    rng = np.random.default_rng(seed)
    largest = 0.0
    for sample in range(samples):
        used = _fraction(label, use(rng))
        if not 0 <= used <= 1:
            raise ProofError(
                f"{label}: sample {sample} uses {used:.3g} of the bound, not 0 to 1"
            )
        largest = max(largest, used)
    name, wrong = mutant
    rng = np.random.default_rng(seed)
    if not any(_fraction(label, wrong(rng)) > 1 for _ in range(samples)):
        raise ProofError(f"{label}: no sample rejects {name}")
    share = f"{100 * largest:.{1 if largest < 0.1 else 0}f} %"
    how = f"sampled {samples} times, at most {share} of the bound used; rejects {name}"
    _declare(Proof(label, how, covers))


def _fraction(label: str, used: Any) -> float:
    """``used`` as a float; a verdict is none."""
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
