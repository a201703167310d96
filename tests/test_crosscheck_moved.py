"""Faces that move positions agree, and no row of the comparison accepts a fault."""

import faults
import pytest

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.mark.parametrize(**faults.variants_of("positions"))
def test_the_faces_agree_and_every_row_rejects_faults(name, variant, monkeypatch):
    result, missed = faults.committed(name, variant, monkeypatch)
    assert result.ok, str(result)
    assert missed == {}
    rows = {(row.faces, row.what, row.dtype) for row in result.results}
    fast = {("numpy–torch", "forward", t) for t in ("float64", "float32", "bfloat16")}
    assert rows == fast | {("sympy–numpy", "forward", "float64")}
    assert all(row.cases >= 5 for row in result.results)
