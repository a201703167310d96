"""Implementations that change features agree, and every row rejects mutants."""

import pytest

from mutants import crosscheck_results as mutants
from posedu.catalog import CATALOG
from posedu.crosscheck.features import ordinary_error

pytestmark = pytest.mark.usefixtures("compiler", "unchecked")


@pytest.mark.parametrize(**mutants.variants_of("features"))
def test_the_implementations_agree_and_every_row_rejects_mutants(
    name, variant, monkeypatch
):
    result, missed = mutants.crosscheck_with_mutants(name, variant, monkeypatch)
    mutants.require_agreement(result, missed, variant, CATALOG[name].learned)
    exact = {"sympy–numpy"} if variant.has_symbolic else set()
    assert {row.implementations for row in result.results} == {"numpy–torch"} | exact
    assert all(row.cases >= 9 for row in result.results)


@pytest.mark.parametrize("name", ["mixed", "fope"])
def test_ordinary_features_agree_and_a_mutant_is_seen(name, monkeypatch):
    encoding = CATALOG[name]
    assert ordinary_error(encoding) < 1e-12
    right = encoding.implementation("numpy")

    def backwards(x, positions, **options):
        return right(x, -positions, **options)

    implementations = {"numpy": backwards, "torch": encoding.implementation("torch")}
    monkeypatch.setattr(
        type(encoding), "implementation", lambda self, which: implementations[which]
    )
    assert ordinary_error(encoding) > 0.1


def test_an_encoding_inside_attention_has_no_ordinary_error():
    with pytest.raises(ValueError, match="ALiBi does not change features"):
        ordinary_error(CATALOG["alibi"])
