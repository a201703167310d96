"""The cross-check rejects published mutants of the implementations."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from posedu.catalog import CATALOG
from posedu.crosscheck import (
    CrossCheck,
    Row,
    attention_hooks,
    autocast,
    crosscheck,
    features,
)
from posedu.crosscheck.common import CPU, Tally, compiled_dtypes, difference
from posedu.crosscheck.position_precision import error_by_position
from posedu.crosscheck.rounding import Arithmetic
from posedu.numpy.attention import Hooks, attend
from posedu.numpy.gated import cope, forget_bias, log_gates
from posedu.numpy.rotary import rope
from posedu.torch import FoX, RoPE, StickBreaking, rotate_pairs
from support.compiling import BACKEND

pytestmark = pytest.mark.usefixtures("compiler")

# A compiler takes seconds for each variant. One variant of every record is enough for
# the code that encodings share, and each module's tests compile its own code.
COMPILING = """
import functools, sys
from dataclasses import replace
import torch
from posedu.catalog import CATALOG
from posedu.crosscheck import crosscheck

torch.compile = functools.partial(torch.compile, backend=sys.argv[1])
for name, record in CATALOG.items():
    CATALOG[name] = replace(record, variants=record.variants[:1])
    result = crosscheck(name, modes=("compiled",))
    assert result.ok, str(result)
    assert all("compile" in row.implementations for row in result.results), name
    print(name)
"""


@pytest.mark.slow
def test_the_compiled_implementations_agree():
    # The compiler cannot trace the run-time checks of a kernel's class, so this runs in
    # a process without them.
    command = [sys.executable, "-c", COMPILING, BACKEND]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.split() == [*CATALOG]


def failures(name, implementation, mutant, monkeypatch):
    """The rows that a mutant fails, for the record's first variant."""
    monkeypatch.setattr(features, "SIZES", (4,))
    record = replace(CATALOG[name], variants=CATALOG[name].variants[:1])
    right = record.implementation(implementation)
    monkeypatch.setattr(sys.modules[right.__module__], right.__name__, mutant)
    monkeypatch.setitem(CATALOG, name, record)
    result = crosscheck(name)
    assert result.ok == (not any(not row.ok for row in result.results))
    return result, {
        (row.implementations.split()[0], row.what, row.dtype)
        for row in result.results
        if not row.ok
    }


def backwards(x, positions, **options):
    return rope(x, -np.asarray(positions), **options)


def other_layout(x, positions, *, layout):
    swap = {"half": "interleaved", "interleaved": "half"}
    return rope(x, positions, layout=swap[layout])


class Float32Angles(RoPE):
    """Published mutant: position times inverse frequency in float32."""

    def forward(self, x, positions):
        omega = self.base ** (-2 * torch.arange(self.d // 2) / self.d)
        angle = positions.float()[..., None] * omega
        cos, sin = angle.cos(), angle.sin()
        if x.dtype == torch.float64:
            cos, sin = cos.double(), sin.double()
        return rotate_pairs(x, cos, sin, layout=self.layout)


class Detached(RoPE):
    """Mutant with the right values and no gradient to the input."""

    def forward(self, x, positions):
        return super().forward(x, positions).detach() + 0 * x


@pytest.mark.parametrize(
    ("implementation", "mutant", "caught"),
    [
        ("numpy", backwards, ("sympy–numpy", "forward", "float64")),
        ("numpy", other_layout, ("sympy–numpy", "gradient", "float64")),
        ("torch", Float32Angles, ("numpy–torch", "forward", "float32")),
        ("torch", Detached, ("numpy–torch", "gradient", "bfloat16")),
    ],
)
def test_a_mutant_is_caught(implementation, mutant, caught, monkeypatch):
    result, failed = failures("rope", implementation, mutant, monkeypatch)
    assert caught in failed, str(result)
    assert "✗ outside" in str(result)
    assert "✗ outside" in result._repr_html_()


def reversed_stick(*, attend_current, **options):
    """Published mutant: older keys break the stick first."""

    def weigh(logits, tokens):
        seen = np.broadcast_to(tokens.mask, logits.shape)
        hidden = np.where(seen, logits, -700.0)
        n = logits.shape[-1]
        before = np.tri(n, k=0 if attend_current else -1, dtype=bool)
        cost = np.where(before, np.logaddexp(0.0, hidden), 0.0)
        spent = np.cumsum(cost, axis=-1)
        return np.where(before, np.exp(hidden - spent), 0.0)

    return Hooks(weigh=weigh)


def scaled_gates(*, gate_weight, gate_bias, form):
    """Published mutant: the bias divided by √d, as in a published hybrid."""

    def bias(tokens):
        gates = log_gates(tokens.x, gate_weight, gate_bias)
        return forget_bias(gates) / np.sqrt(tokens.d)

    return Hooks(bias=bias)


def swapped_ends(*, table, **options):
    """Mutant: the fraction weighs the floor."""
    return cope(table=table[..., ::-1], **options)


class NoGradientToGates(FoX):
    """Mutant with the right values and gates without gradient."""

    def log_gates(self, x):
        return super().log_gates(x).detach() + 0 * self.gate_bias * x.sum()


class LowPrecisionSums(FoX):
    """Mutant: cumulative sums in bf16, which keeps eight bits of them."""

    def fold(self, tokens):
        c = tokens.memory["log_gates"].bfloat16().cumsum(1).mT.double()
        return c, -c


class CutAtFifteenHalves(StickBreaking):
    """Mutant: softplus is cut at 7.5, where float32 shows the difference."""

    def weigh(self, logits, tokens):
        z = logits
        cost = torch.where(z > 7.5, z, torch.log1p(z.clamp(max=80).exp()))
        seen = torch.ones_like(z).tril(0 if self.attend_current else -1) > 0
        cost = cost.masked_fill(~seen, 0)
        spent = cost.flip(-1).cumsum(-1).flip(-1)
        return (z - spent).masked_fill(~seen, -torch.inf).exp()


class CoarseKeys(FoX):
    """Mutant: keys pass through bf16 in every dtype."""

    def rotate(self, q, k, positions):
        return q, k.bfloat16().to(k.dtype)


class ShiftedGradient(FoX):
    """Mutant with the right values; each query gets its neighbor's gradient."""

    def rotate(self, q, k, positions):
        neighbors = q.roll(1, -2)
        return q.detach() + neighbors - neighbors.detach(), k


@pytest.mark.parametrize(
    ("name", "implementation", "mutant", "caught"),
    [
        (
            "stickbreaking",
            "numpy",
            reversed_stick,
            ("sympy–numpy", "forward", "float64"),
        ),
        (
            "stickbreaking",
            "torch",
            CutAtFifteenHalves,
            ("numpy–torch", "forward", "float32"),
        ),
        ("fox", "numpy", scaled_gates, ("sympy–numpy", "forward", "float64")),
        ("fox", "torch", LowPrecisionSums, ("numpy–torch", "forward", "float32")),
        ("fox", "torch", NoGradientToGates, ("numpy–torch", "parameters", "bfloat16")),
        ("fox", "torch", CoarseKeys, ("numpy–torch", "forward", "float64")),
        ("fox", "torch", ShiftedGradient, ("numpy–torch", "gradient", "bfloat16")),
        ("cope", "numpy", swapped_ends, ("sympy–numpy", "forward", "float64")),
    ],
)
def test_a_mutant_inside_attention_is_caught(
    name, implementation, mutant, caught, monkeypatch, unchecked
):
    small, large = attention_hooks.SHAPES[0], attention_hooks.SHAPES[3]
    monkeypatch.setattr(attention_hooks, "SHAPES", (small, large))
    result, failed = failures(name, implementation, mutant, monkeypatch)
    assert caught in failed, str(result)


def test_a_kink_is_noticed_and_the_input_drawn_again():
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(3, 1, 4, 4))
    hooks = cope(table=rng.normal(size=(4, 4)), scaling="code")

    def decisions(q, **amounts):
        arithmetic = Arithmetic(**amounts)
        attend(*map(arithmetic.wrap, (q, k, v)), arithmetic.hooks(hooks))
        return arithmetic.decisions

    assert decisions(q) == decisions(q, stored=1e-9, inner=1e-9, summed=1e-9)
    assert decisions(q) != decisions(-3 * q)
    tally = Tally()
    record = CATALOG["cope"]
    shape = replace(attention_hooks.SHAPES[2], slopes="none")
    attention_hooks.draw_case(tally, record, record.variants[2], shape, 0)
    assert tally.redrawn
    text = CrossCheck("cope", (), tally.redrawn).caption()
    assert f"{tally.redrawn} inputs next to a kink were drawn again" in text


def test_rounding_leaves_the_reference_as_it_is():
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(3, 2, 5, 4))
    exact, rough = Arithmetic(), Arithmetic(stored=1e-3)
    same = attend(*map(exact.wrap, (q, k, v)), exact.hooks(Hooks()))
    other = attend(*map(rough.wrap, (q, k, v)), rough.hooks(Hooks()))
    again = rough.again()
    repeated = attend(*map(again.wrap, (q, k, v)), again.hooks(Hooks()))
    expected = attend(q, k, v)
    assert (np.asarray(same) == expected).all()
    assert (np.asarray(other) == repeated).all()
    assert 1e-5 < np.abs(np.asarray(other) - expected).max() < 1e-2


def test_errors_are_uniform_independent_and_relative_to_what_is_summed():
    x = Arithmetic(inner=1e-6).wrap(np.ones(10_000))
    errors = np.asarray(x * 2 * 3 * 5 * 7) / 210 - 1
    assert errors.std() == pytest.approx(1e-6 * np.sqrt(4 / 3), rel=0.05)
    summed = Arithmetic(summed=1e-6).wrap(np.tile([1.0, -1.0], (10_000, 50)))
    errors = np.asarray(summed.sum(-1))  # Each sum is of 100 numbers that cancel.
    assert errors.std() == pytest.approx(100e-6 * np.sqrt(99 / 3), rel=0.05)


def test_the_error_of_a_sum_covers_sums_one_after_another():
    """Compiled kernels add so, and exceeded a bound of one rounding in all sixfold."""
    n, rng = 128, np.random.default_rng(0)
    terms = rng.uniform(0.5, 1, (2000, n)).astype(np.float32)
    inputs = Arithmetic(summed=2.0**-24).wrap(terms.astype(float))
    trusted = np.asarray(inputs @ np.ones(n)) - inputs.view(np.ndarray).sum(-1)
    found = np.cumsum(terms, axis=-1)[:, -1] - inputs.view(np.ndarray).sum(-1)
    assert trusted.std() / 3 < found.std() < trusted.std()
    assert found.std() > 3 * 2.0**-24 * terms.sum(-1).mean() / np.sqrt(3)


def test_what_is_clipped_is_decided_and_exact():
    at = Arithmetic(inner=1e-3)
    clipped = np.clip(at.wrap(np.array([-1.0, 0.5, 3.0])), 0, 1)
    assert np.asarray(clipped).tolist() == [0, 0.5, 1]
    other = Arithmetic(inner=1e-3)
    np.clip(other.wrap(np.array([0.1, 0.5, 3.0])), 0, 1)
    assert len(at.decisions) == 1
    assert at.decisions != other.decisions


def test_a_difference_knows_its_error():
    for f, slope in ((np.exp, 1.0), (lambda t: np.sin(8 * t), 8.0)):
        value, error = difference(f)
        assert abs(value - slope) < error + 1e-13
    _, error = difference(lambda t: abs(t - 0.1))  # There is a kink within the step.
    assert error > 1e-3


def test_a_line_along_which_a_wave_bends_is_shortened(monkeypatch):
    # In these draws a wave is at its top, where its speed and its bend are small. A row
    # was 117 times its bound: the difference was wrong, the implementations were right.
    monkeypatch.setattr(features, "SIZES", (1,))
    record = CATALOG["fourier-learned"]
    variants = tuple(replace(each, has_symbolic=False) for each in record.variants)
    record = replace(record, variants=variants)
    monkeypatch.setitem(CATALOG, "fourier-learned", record)
    result = crosscheck("fourier-learned", seed=20)
    assert result.ok, str(result)


def test_nothing_compared_is_no_agreement():
    assert not CrossCheck("rope", ()).ok


def test_the_verdict_is_a_line_over_the_table():
    row = Row("numpy–torch", "forward", "cpu", "float64", 7, 1e-16, 0.25)
    rows = row, replace(row, what="gradient", used=0.5)
    verdict = CrossCheck("rope", rows).verdict()
    assert verdict.line.startswith(
        "✓ The implementations of RoPE agree: of 14 comparisons none"
    )
    assert "50%" in verdict.line and "forward" in str(verdict.table)
    failing = CrossCheck(
        "attention", (row, replace(row, used=2.0)), failed={"flex": "no"}
    )
    assert failing.verdict().line == (
        "✗ The implementations of attention do not agree: 2 of 3 rows did not hold."
    )
    assert CrossCheck("rope", ()).verdict().line.startswith("✗")


@pytest.mark.parametrize("lefts", [[[np.nan]], [[0.5], [np.nan, 0.5]], [[np.nan], [9]]])
def test_nan_is_outside_every_bound_and_the_largest_error(lefts):
    tally = Tally()
    for left in map(np.array, lefts):
        tally.add("a", "b", "cpu", "float32", "out", left, np.zeros(len(left)), 10.0)
    (row,) = tally.rows()
    assert isinstance(row, Row) and not row.ok
    assert row.error == row.used == np.inf


def test_unknown_names_and_modes_are_refused():
    with pytest.raises(KeyError, match="ropes"):
        crosscheck("ropes")
    with pytest.raises(ValueError, match=r"'eager' or .*got 'fast'"):
        crosscheck("rope", modes=("fast",))


def test_a_result_is_saved_and_loaded_and_what_failed_is_no_agreement(tmp_path):
    row = Row("a", "forward", "cpu", "float32", 1, 0.0, 0.5)
    made = {"device": "some", "versions": {"torch": "2"}, "date": "today"}
    result = CrossCheck("rope", (row,), made=made, failed={"flex": "no"})
    assert result.caption().endswith("; some, torch 2, today; flex failed (no)")
    result.save(tmp_path / "rope.json")
    assert CrossCheck.load(tmp_path / "rope.json") == result
    assert not result.ok and replace(result, failed={}).ok


def pretend_to_train_flex(monkeypatch):
    """Remove FlexAttention's refusal of gradients on a CPU, whose code is the same."""
    for module in (attention_hooks, autocast):
        monkeypatch.setattr(module, "trains_flex", lambda device: True)
    flex_attention = sys.modules["torch.nn.attention.flex_attention"]
    monkeypatch.setattr(flex_attention, "_validate_device", lambda *tensors: None)


def test_flex_attention_s_gradients_are_compared_where_it_has_any(
    monkeypatch, unchecked
):
    pretend_to_train_flex(monkeypatch)
    monkeypatch.setattr(
        attention_hooks,
        "SHAPES",
        (attention_hooks.SHAPES[0], attention_hooks.SHAPES[-1]),
    )
    record = CATALOG["fox"]
    variants = record.variants[:1]
    monkeypatch.setitem(CATALOG, "fox", replace(record, variants=variants))
    result = crosscheck("fox", modes=("eager", "autocast"), devices=[CPU])
    assert result.ok, str(result)
    compared = {
        (r.implementations, r.what)
        for r in result.results
        if "flex" in r.implementations
    }
    assert compared == {
        (implementations, what)
        for implementations in ("numpy–torch flex", "float64–autocast flex")
        for what in ("forward", "gradient", "parameters")
    }


def test_compiled_flex_attention_is_compared_where_it_has_gradients(
    monkeypatch, unchecked
):
    asked, compile = [], torch.compile

    def count_calls(run, **given):
        if given != {"fullgraph": True}:  # FlexAttention calls torch.compile, too.
            return compile(run, **given)
        asked.append(run)
        return run

    monkeypatch.setattr(torch, "compile", count_calls)
    record = CATALOG["alibi"]
    variants = record.variants[:1]
    monkeypatch.setitem(CATALOG, "alibi", replace(record, variants=variants))
    assert crosscheck("alibi", modes=("flex",), devices=[CPU]).results == ()
    assert crosscheck("rope", modes=("flex",), devices=[CPU]).results == ()
    pretend_to_train_flex(monkeypatch)
    result = crosscheck("alibi", modes=("flex",), devices=[CPU])
    assert result.ok and len(asked) == 1, str(result)
    compared = {(r.implementations, r.what, r.dtype) for r in result.results}
    assert compared == {
        ("numpy–torch flex, compiled", what, dtype)
        for what in ("forward", "gradient")
        for dtype in ("float32", "bfloat16")
    }


@pytest.mark.parametrize("native", [True, False])
def test_a_gpu_that_emulates_bfloat16_compiles_float32_alone(native, monkeypatch):
    both = (torch.float32, torch.bfloat16)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **given: native)
    assert compiled_dtypes(CPU) == both
    compiled = compiled_dtypes(torch.device("cuda"))
    assert compiled == (both if native else both[:1])


def test_the_error_near_a_position_is_the_largest_of_its_window():
    def exact(at):
        return np.stack([at, -at], axis=1).astype(float)

    def off_at_9(at):
        return torch.from_numpy(exact(at.numpy()) + 0.5 * (at.numpy() == 9)[:, None])

    tables = {"right": lambda at: torch.stack([at, -at], 1), "off at 9": off_at_9}
    found = error_by_position(tables, exact, [4, 9, 10, 13, 14], window=4)
    assert found["right"].tolist() == [0] * 5
    assert found["off at 9"].tolist() == [0, 0, 0.5, 0.5, 0]
    assert error_by_position(tables, exact, [2])["right"].tolist() == [0]
    for wrong in (dict(limits=[0]), dict(limits=[8], window=0)):
        with pytest.raises(ValueError, match=r"(limit|window) must be a positive"):
            error_by_position(tables, exact, **wrong)


def test_the_first_configurations_are_a_part_and_say_so(monkeypatch):
    monkeypatch.setattr(features, "SIZES", (4,))
    every, first = crosscheck("rope"), crosscheck("rope", configurations=1)
    count = len(CATALOG["rope"].variants)
    assert first.ok and first.scope == f"1 of {count} configurations"
    assert first.scope in first.caption() and first.scope in str(first.verdict())
    assert sum(r.cases for r in first.results) < sum(r.cases for r in every.results)
    assert every.scope == "" == crosscheck("rope", configurations=count).scope
    assert len(every.results) == len(first.results)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("configurations", [0, -1, 1.5, "1"])
def test_configurations_are_a_positive_number(configurations):
    with pytest.raises((TypeError, ValueError), match="configurations must be"):
        crosscheck("rope", configurations=configurations)


@pytest.mark.parametrize(
    "left, bound",
    [([0.0, 5.0], [0.0, 1e-9]), ([0, 5], [1, np.nan]), ([0, 1], [1, -2]), ([1], [0])],
)
def test_a_comparison_that_is_no_number_fails(left, bound):
    tally = Tally()
    left = np.array(left, dtype=float)
    where = ("numpy–torch", "forward", CPU, torch.float32, "out")
    tally.add(*where, left, np.zeros_like(left), np.array(bound))
    (row,) = tally.rows()
    assert row.used > 1 and not row.ok
    assert not replace(row, used=-1.0).ok and not replace(row, used=np.nan).ok


def test_no_error_uses_nothing_of_any_bound():
    tally = Tally()
    where = ("numpy–torch", "forward", CPU, torch.float32, "out")
    tally.add(*where, np.zeros(2), np.zeros(2), np.array([0.0, 1.0]))
    assert tally.rows()[0].ok


def test_an_ordinary_error_of_nan_is_seen(monkeypatch):
    broken = lambda x, positions, **options: np.full_like(x, np.nan)  # noqa: E731
    monkeypatch.setattr(
        type(CATALOG["rope"]), "implementation", lambda self, name: broken
    )
    record = replace(CATALOG["rope"], variants=CATALOG["rope"].variants[:1])
    monkeypatch.setattr(type(record), "make", lambda *_, **__: RoPE(48, layout="half"))
    assert np.isnan(features.ordinary_error(record))


@pytest.mark.parametrize(
    "options",
    [{"devices": []}, {"modes": ()}, {"seed": -1}, {"seed": 2**70}, {"devices": ["a"]}],
)
def test_a_crosscheck_of_nothing_is_refused(options, unchecked):
    with pytest.raises((TypeError, ValueError), match=next(iter(options))):
        crosscheck("rope", configurations=1, **options)
