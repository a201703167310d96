"""Faces inside attention agree on every route, and no row accepts a fault."""

import faults
import pytest

from posedu.catalog import CATALOG
from posedu.torch.attention import ROUTES

pytestmark = pytest.mark.usefixtures("unchecked", "traced")


@pytest.mark.parametrize(**faults.variants_of("doors", "layers", "block"))
def test_the_faces_agree_and_every_row_rejects_faults(name, variant, monkeypatch):
    result, missed = faults.committed(name, variant, monkeypatch)
    trained = variant.parameters or CATALOG[name].parameters
    faults.require_agreement(result, missed, variant, trained != "0")
    routes = {row.faces.removeprefix("numpy–torch ") for row in result.results}
    assert "eager" in routes and routes - {"sympy–numpy"} <= {*ROUTES}
