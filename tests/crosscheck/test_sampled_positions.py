"""Implementations that sample positions agree, and every row rejects mutants."""

import pytest

from mutants import crosscheck_results as mutants

pytestmark = pytest.mark.usefixtures("compiler", "unchecked")


@pytest.mark.parametrize(**mutants.variants_of("positions"))
def test_the_implementations_agree_and_every_row_rejects_mutants(
    name, variant, monkeypatch
):
    result, missed = mutants.crosscheck_with_mutants(name, variant, monkeypatch)
    assert result.ok, str(result)
    assert missed == {}
    rows = {(row.implementations, row.what, row.dtype) for row in result.results}
    of_torch = {
        ("numpy–torch", "forward", dtype)
        for dtype in ("float64", "float32", "bfloat16")
    }
    assert rows == of_torch | {("sympy–numpy", "forward", "float64")}
    assert all(row.cases >= 5 for row in result.results)
