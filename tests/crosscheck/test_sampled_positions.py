"""Implementations that move positions agree, and no row of the comparison accepts a fault."""

import pytest

from mutants import crosscheck as mutants

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.mark.parametrize(**mutants.variants_of("positions"))
def test_the_implementations_agree_and_every_row_rejects_faults(
    name, variant, monkeypatch
):
    result, missed = mutants.committed(name, variant, monkeypatch)
    assert result.ok, str(result)
    assert missed == {}
    rows = {(row.implementations, row.what, row.dtype) for row in result.results}
    fast = {("numpy–torch", "forward", t) for t in ("float64", "float32", "bfloat16")}
    assert rows == fast | {("sympy–numpy", "forward", "float64")}
    assert all(row.cases >= 5 for row in result.results)
