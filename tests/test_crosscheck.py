"""The cross-check accepts the faces and refuses published wrong versions of them."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from posedu.catalog import CATALOG
from posedu.crosscheck import CrossCheck, Row, crosscheck, features, inside
from posedu.numpy.gated import cope, forgetting_attention, log_gates
from posedu.numpy.rotary import rope
from posedu.numpy.stickbreaking import stick_breaking
from posedu.torch import FoX, RoPE, StickBreaking, turn_pairs


@pytest.mark.parametrize("name", CATALOG)
def test_the_faces_agree(name):
    result = crosscheck(name)
    assert result.ok, str(result)
    assert {row.faces for row in result.results} == {"sympy–numpy", "numpy–torch"}
    trained = {"parameters"} if CATALOG[name].learned == "yes" else set()
    assert {row.what for row in result.results} == {"forward", "gradient"} | trained
    assert {row.dtype for row in result.results} == {"float64", "float32", "bfloat16"}
    fewest = 10 if CATALOG[name].inputs else 18
    assert all(row.cases >= fewest for row in result.results)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n, e in CATALOG.items() if not e.inputs])
def test_the_compiled_face_agrees(name, monkeypatch, unchecked):
    monkeypatch.setattr(features, "SIZES", (64,))
    result = crosscheck(name, compiled=True)
    assert result.ok, str(result)
    assert "numpy–torch.compile" in {row.faces for row in result.results}


IN_A_PROCESS_OF_ITS_OWN = """
import sys
from dataclasses import replace
from posedu.catalog import CATALOG
from posedu.crosscheck import crosscheck, inside

record = CATALOG[sys.argv[1]]
CATALOG[sys.argv[1]] = replace(record, variants=record.variants[:1])
inside.SIZES = (inside.COMPILED_SIZE,)
result = crosscheck(sys.argv[1], compiled=True)
print(result)
sys.exit(not result.ok)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n, e in CATALOG.items() if e.inputs])
def test_the_compiled_face_agrees_inside_attention(name):
    # Not even unchecked can the compiler look through the checks of a kernel's class.
    command = [sys.executable, "-c", IN_A_PROCESS_OF_ITS_OWN, name]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "numpy–torch.compile" in run.stdout


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
    monkeypatch.setattr(features, "SIZES", (4,))
    monkeypatch.setitem(globals(), "wrong_face", wrong)
    record = replace(CATALOG["rope"], **{face: f"{__name__}:wrong_face"})
    monkeypatch.setitem(CATALOG, "rope", record)
    result = crosscheck("rope")
    assert not result.ok
    failed = {(row.faces, row.what) for row in result.results if not row.ok}
    assert caught in failed
    assert "✗ outside" in str(result)
    assert "✗ outside" in result._repr_html_()


def reversed_stick(q, k, v, **options):
    """The published mistake: older keys break the stick first."""
    flipped = stick_breaking(q[:, ::-1], k[:, ::-1], v[:, ::-1], **options)
    return flipped[:, ::-1]


def scaled_gates(q, k, v, x, *, gate_weight, gate_bias):
    """D over √d, as a published hybrid has it."""
    c = log_gates(x, gate_weight, gate_bias) / np.sqrt(q.shape[-1])
    return forgetting_attention(q, k, v, c)


def swapped_ends(q, k, v, *, table, scaling):
    """The fraction weighs the floor."""
    return cope(q, k, v, table=table[..., ::-1], scaling=scaling)


class NoGradientToGates(FoX):
    """The right values, and gates that learn nothing."""

    def log_gates(self, x):
        return super().log_gates(x).detach() + 0 * self.gate_bias * x.sum()

    remember = log_gates


class LowPrecisionSums(FoX):
    """Cumulative sums in bf16, which holds no more than eight bits of them."""

    def bias(self, tokens):
        c = tokens.memory.bfloat16().cumsum(1).mT.to(tokens.memory.dtype)
        return c[..., :, None] - c[..., None, :]


class CutAtFifteenHalves(StickBreaking):
    """Softplus cut where float32 sees it."""

    def forward(self, q, k, v):
        z = q @ k.mT / q.shape[-1] ** 0.5
        cost = torch.where(z > 7.5, z, torch.log1p(z.clamp(max=80).exp()))
        seen = torch.ones_like(z).tril(0 if self.attend_current else -1) > 0
        cost = cost.masked_fill(~seen, 0)
        spent = cost.flip(-1).cumsum(-1).flip(-1)
        return (z - spent).masked_fill(~seen, -torch.inf).exp() @ v


@pytest.mark.parametrize(
    ("name", "face", "wrong", "caught"),
    [
        ("stickbreaking", "numpy", reversed_stick, ("sympy–numpy", "forward")),
        ("stickbreaking", "torch", CutAtFifteenHalves, ("numpy–torch", "forward")),
        ("fox", "numpy", scaled_gates, ("sympy–numpy", "forward")),
        ("fox", "torch", LowPrecisionSums, ("numpy–torch", "forward")),
        ("fox", "torch", NoGradientToGates, ("numpy–torch", "parameters")),
        ("cope", "numpy", swapped_ends, ("sympy–numpy", "forward")),
    ],
)
def test_a_wrong_face_inside_attention_is_caught(
    name, face, wrong, caught, monkeypatch
):
    monkeypatch.setattr(inside, "SIZES", (4,))
    monkeypatch.setitem(globals(), "wrong_face", wrong)
    record = replace(CATALOG[name], **{face: f"{__name__}:wrong_face"})
    record = replace(record, variants=record.variants[:1])
    monkeypatch.setitem(CATALOG, name, record)
    result = crosscheck(name)
    failed = {(row.faces, row.what) for row in result.results if not row.ok}
    assert caught in failed, str(result)


def test_nothing_compared_is_no_agreement():
    assert not CrossCheck("rope", ()).ok


def test_nan_is_outside_every_bound():
    row = Row("numpy–torch", "forward", "cpu", "float32", 1, np.inf, np.inf)
    assert not row.ok


def test_unknown_names_are_refused():
    with pytest.raises(KeyError, match="alibi"):
        crosscheck("alibi")
