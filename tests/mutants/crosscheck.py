"""Faults that every row of a cross-check must reject, and a tally that commits them."""

from dataclasses import replace

import numpy as np

from posedu import crosscheck as package
from posedu.catalog import CATALOG
from posedu.crosscheck import crosscheck
from posedu.crosscheck.common import Tally

FAULTS = {"doubled": 2.0, "flipped": -1.0, "10 % too large": 1.1, "10 % too small": 0.9}

UNSEEN = {"fire": "out_bias", "dape": "out_bias"}  # the same for all keys of a query


class FaultyTally(Tally):
    """Also what each comparison would have said of faulty results and gradients.

    ``noticed`` holds, for each row, tensor and fault, the largest part of the bound
    that the fault used.
    """

    noticed: dict

    def __init__(self):
        super().__init__()
        type(self).noticed = {}

    def add(self, implementations, what, device, dtype, tensor, left, right, bound):
        """Compare, and compare the fault."""
        super().add(implementations, what, device, dtype, tensor, left, right, bound)
        if not np.any(left) and not np.any(right):
            return  # a tensor that nothing depends on: no factor is a fault
        for fault, factor in FAULTS.items():
            key = (implementations, what, str(dtype), tensor, fault)
            used = np.max(np.abs(factor * left - right) / bound, initial=0.0)
            self.noticed[key] = max(self.noticed.get(key, 0.0), float(used))


def committed(name, variant, monkeypatch):
    """The cross-check of one variant, and the faults that it does not reject."""
    record = replace(CATALOG[name], variants=(variant,))
    monkeypatch.setitem(CATALOG, name, record)
    monkeypatch.setattr(package, "Tally", FaultyTally)
    result = crosscheck(name)
    missed = {key: used for key, used in FaultyTally.noticed.items() if used <= 1}
    return result, {k: used for k, used in missed.items() if k[3] != UNSEEN.get(name)}


def variants_of(*kinds):
    """The variants of these kinds, with names for the tests."""
    records = [e for e in CATALOG.values() if e.kind in kinds]
    chosen = [(e.name, v) for e in records for v in e.variants]
    names = [" ".join(map(str, (n, *v.keywords.values(), *v.sizes))) for n, v in chosen]
    return dict(argnames="name, variant", argvalues=chosen, ids=names)


def require_agreement(result, missed, variant, learned):
    """Assert that all rows are there, hold, and miss no fault."""
    assert result.ok, str(result)
    assert missed == {}
    rows = result.results
    assert {row.dtype for row in rows} == {"float64", "float32", "bfloat16"}
    trained = {"parameters"} if learned else set()
    assert {row.what for row in rows} == {"forward", "gradient"} | trained
    assert variant.exact or "sympy–numpy" not in {row.implementations for row in rows}
