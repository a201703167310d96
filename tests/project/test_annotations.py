"""Tests run with the annotations of posedu checked at each call."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import jaxtyping
import numpy as np
import pytest
from jaxtyping import Float, TypeCheckError

from posedu.numpy import attention
from support.typechecking import jaxtyped_if_public, typechecker

Array = np.ndarray
checked = jaxtyped_if_public(typechecker=typechecker)


@checked
def product(a: Float[Array, "n m"], b: Float[Array, "m k"]) -> Float[Array, "n k"]:
    return a @ b


@checked
def transposed(a: Float[Array, "n m"]) -> Float[Array, "n m"]:
    return a.T


@checked
def doubled(numbers: list[float], *, how: Literal["sum", "each"]) -> Iterator[float]:
    for number in numbers:
        yield 2 * number


@checked
@dataclass
class Pair:
    first: Float[Array, "n"]
    second: Float[Array, "n"]
    next: "Pair | None" = None


@checked
def scaled(a: "Float[Array, 'n']", how: "Literal['half', 'twice']") -> "Nothing":
    return a / 2 if how == "half" else 2 * a


ONES = np.ones((2, 3))
WRONG = {
    "type": lambda: product([[1.0]], ONES),
    "dtype": lambda: product(ONES.astype(int), ONES.T),
    "rank": lambda: product(ONES[0], ONES.T),
    "one axis, two sizes": lambda: product(ONES, ONES),
    "result": lambda: transposed(ONES),
    "generator": lambda: doubled(["1"], how="sum"),
    "data class": lambda: Pair(ONES, ONES[0]),
    "data class, two sizes": lambda: Pair(ONES[0], ONES[:, 0]),
    "its own name": lambda: Pair(ONES[0], ONES[0], 3),
    "string": lambda: scaled(ONES, "half"),
    "function of posedu": lambda: attention.causal_mask("3"),
    "data class of posedu": lambda: attention.Hooks(bias=3),
}


@pytest.mark.parametrize("call", WRONG.values(), ids=WRONG)
def test_a_call_against_an_annotation_is_refused(call):
    with pytest.raises(TypeCheckError):
        call()


def test_a_wrong_result_is_told_from_a_wrong_argument():
    with pytest.raises(TypeCheckError, match="return value"):
        transposed(ONES)
    with pytest.raises(TypeCheckError) as refused:
        product(ONES, ONES)
    assert "return value" not in str(refused.value)


def test_right_calls_are_as_without_checks():
    assert product(ONES, ONES.T).tolist() == [[3, 3], [3, 3]]
    assert product(ONES.T, ONES).shape == (3, 3)  # each call has its own sizes
    assert [*doubled([1.0, 2], how="no choice")] == [2, 4]  # posedu refuses choices
    assert scaled(ONES[0], "other").tolist() == [2, 2, 2]
    assert Pair(ONES[0], ONES[0], Pair(ONES[0], ONES[0])).next.next is None
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        product(ONES)


def test_checks_can_be_switched_off(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    assert transposed(ONES).shape == (3, 2)
    assert Pair(1, 2).second == 2
