"""Implementations inside attention agree by every route; every row rejects mutants."""

import pytest

from mutants import crosscheck_results as mutants
from posedu.catalog import CATALOG
from posedu.torch.attention import ROUTES

pytestmark = pytest.mark.usefixtures("compiler", "unchecked")


@pytest.mark.parametrize(**mutants.variants_of("hooks", "layers", "block"))
def test_the_implementations_agree_and_every_row_rejects_mutants(
    name, variant, monkeypatch
):
    result, missed = mutants.crosscheck_with_mutants(name, variant, monkeypatch)
    trained = variant.parameters or CATALOG[name].parameters
    mutants.require_agreement(result, missed, variant, trained != "0")
    routes = {
        row.implementations.removeprefix("numpy–torch ") for row in result.results
    }
    assert "eager" in routes and routes - {"sympy–numpy"} <= {*ROUTES}
