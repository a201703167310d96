"""Mutants that every row of a cross-check must reject, and a tally that tries them."""

from dataclasses import replace

import numpy as np

from posedu import crosscheck as package
from posedu.catalog import CATALOG
from posedu.crosscheck import crosscheck
from posedu.crosscheck.common import Tally

MUTANTS = {
    "doubled": 2.0,
    "flipped": -1.0,
    "10 % too large": 1.1,
    "10 % too small": 0.9,
}
"""Factors of a result or gradient."""

UNSEEN = {"fire": "out_bias", "dape": "out_bias"}
"""Parameters whose effect is equal for all keys of a query, so that it cancels."""


class MutantTally(Tally):
    """A tally that also compares each mutant of every result and gradient.

    ``used_by_mutants`` holds the largest share of the bound that a mutant used, for
    each row, tensor and mutant.
    """

    used_by_mutants: dict

    def __init__(self):
        super().__init__()
        type(self).used_by_mutants = {}

    def add(self, implementations, what, device, dtype, tensor, left, right, bound):
        """Add a comparison, and compare its mutants."""
        super().add(implementations, what, device, dtype, tensor, left, right, bound)
        if not np.any(left) and not np.any(right):
            return  # Nothing depends on this tensor, so a factor changes nothing.
        for mutant, factor in MUTANTS.items():
            key = (implementations, what, str(dtype), tensor, mutant)
            used = np.max(np.abs(factor * left - right) / bound, initial=0.0)
            largest = max(self.used_by_mutants.get(key, 0.0), float(used))
            self.used_by_mutants[key] = largest


def crosscheck_with_mutants(name, variant, monkeypatch):
    """The cross-check of one variant, and the mutants that it does not reject."""
    record = replace(CATALOG[name], variants=(variant,))
    monkeypatch.setitem(CATALOG, name, record)
    monkeypatch.setattr(package, "Tally", MutantTally)
    result = crosscheck(name)
    used = MutantTally.used_by_mutants
    missed = {key: share for key, share in used.items() if share <= 1}
    return result, {k: used for k, used in missed.items() if k[3] != UNSEEN.get(name)}


def variants_of(*kinds):
    """Arguments of ``parametrize``: the variants of these kinds, with names."""
    records = [e for e in CATALOG.values() if e.kind in kinds]
    chosen = [(e.name, v) for e in records for v in e.variants]
    names = [" ".join(map(str, (n, *v.keywords.values(), *v.sizes))) for n, v in chosen]
    return dict(argnames="name, variant", argvalues=chosen, ids=names)


def require_agreement(result, missed, variant, learned):
    """Assert that all rows are there, hold, and reject every mutant."""
    assert result.ok, str(result)
    assert missed == {}
    rows = result.results
    assert {row.dtype for row in rows} == {"float64", "float32", "bfloat16"}
    trained = {"parameters"} if learned else set()
    assert {row.what for row in rows} == {"forward", "gradient"} | trained
    implementations = {row.implementations for row in rows}
    assert variant.has_symbolic or "sympy–numpy" not in implementations
