"""The cross-check accepts the faces and refuses published wrong versions of them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from posedu import crosscheck as module
from posedu.catalog import CATALOG
from posedu.crosscheck import CrossCheck, Row, crosscheck
from posedu.numpy.rotary import rope
from posedu.torch import RoPE, turn_pairs


@pytest.mark.parametrize("name", CATALOG)
def test_the_faces_agree(name):
    result = crosscheck(name)
    assert result.ok, str(result)
    assert {row.faces for row in result.rows} == {"sympy–numpy", "numpy–torch"}
    trained = {"parameters"} if CATALOG[name].learned == "yes" else set()
    assert {row.what for row in result.rows} == {"forward", "gradient"} | trained
    assert {row.dtype for row in result.rows} == {"float64", "float32", "bfloat16"}
    assert all(row.cases >= 18 for row in result.rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", CATALOG)
def test_the_compiled_face_agrees(name, monkeypatch, unchecked):
    monkeypatch.setattr(module, "SIZES", (64,))
    result = crosscheck(name, compiled=True)
    assert result.ok, str(result)
    assert "numpy–torch.compile" in {row.faces for row in result.rows}


def backwards(x, positions, **options):
    return rope(x, -np.asarray(positions), **options)


def other_layout(x, positions, *, layout):
    swap = {"half": "interleaved", "interleaved": "half"}
    return rope(x, positions, layout=swap[layout])


class Float32Angles(RoPE):
    """The published way: position times inverse frequency in float32."""

    def forward(self, x, positions):
        omega = self.base ** (-2 * torch.arange(self.d // 2) / self.d)
        angle = positions.float()[..., None] * omega
        cos, sin = angle.cos(), angle.sin()
        if x.dtype == torch.float64:
            cos, sin = cos.double(), sin.double()
        return turn_pairs(x, cos, sin, layout=self.layout)


class Detached(RoPE):
    """The right values, and no gradient to the input."""

    def forward(self, x, positions):
        return super().forward(x, positions).detach() + 0 * x


@pytest.mark.parametrize(
    ("face", "wrong", "caught"),
    [
        ("numpy", backwards, ("sympy–numpy", "forward")),
        ("numpy", other_layout, ("sympy–numpy", "gradient")),
        ("torch", Float32Angles, ("numpy–torch", "forward")),
        ("torch", Detached, ("numpy–torch", "gradient")),
    ],
)
def test_a_wrong_face_is_caught(face, wrong, caught, monkeypatch):
    monkeypatch.setattr(module, "SIZES", (4,))
    monkeypatch.setitem(globals(), "wrong_face", wrong)
    record = replace(CATALOG["rope"], **{face: f"{__name__}:wrong_face"})
    monkeypatch.setitem(CATALOG, "rope", record)
    result = crosscheck("rope")
    assert not result.ok
    failed = {(row.faces, row.what) for row in result.rows if not row.ok}
    assert caught in failed
    assert "✗ outside" in str(result)
    assert "✗ outside" in result._repr_html_()


def test_nothing_compared_is_no_agreement():
    assert not CrossCheck("rope", ()).ok


def test_nan_is_outside_every_bound():
    row = Row("numpy–torch", "forward", "cpu", "float32", 1, np.inf, np.inf)
    assert not row.ok


def test_unknown_names_are_refused():
    with pytest.raises(KeyError, match="alibi"):
        crosscheck("alibi")
