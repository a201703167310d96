"""Faces that change features agree, and no row of the comparison accepts a fault."""

import faults
import pytest

from posedu.catalog import CATALOG

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.mark.parametrize(**faults.variants_of("features"))
def test_the_faces_agree_and_every_row_rejects_faults(name, variant, monkeypatch):
    result, missed = faults.committed(name, variant, monkeypatch)
    faults.require_agreement(result, missed, variant, CATALOG[name].learned)
    assert {row.faces for row in result.results} <= {"sympy–numpy", "numpy–torch"}
    assert all(row.cases >= 9 for row in result.results)
