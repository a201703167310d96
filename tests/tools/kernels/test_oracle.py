"""No mutant kernel passes the cases, and verdicts name the mistake."""

import json
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
import torch

from posedu.catalog import CATALOG
from posedu.command import main as command
from posedu.crosscheck.common import parameters_of, rounded
from posedu.numpy.attention import attend
from posedu.numpy.bias import alibi
from posedu.numpy.rotary import rope
from posedu.tools.kernels import check as module
from posedu.tools.kernels import check_kernel, oracle
from posedu.tools.kernels.mutants import Reference, mutants
from posedu.tools.kernels.oracle import KINDS, OracleError, Solution, cases, save
from posedu.torch import RoPE
from support import ROOT

pytestmark = pytest.mark.usefixtures("unchecked")
HALF = dict(layout="half")
FEATURES = [n for n, e in CATALOG.items() if e.kind == "features"]
EVERY = ("sinusoidal", "rope", "axial", "m-rope")
"""Encodings whose mutants are all tried; of the others, one mutant of each name is."""
FEW = ("sign", "off by one", "axis order", "nothing", "attention_factor", "factor")
INSIDE = ("alibi", "t5")
SAME = (
    *({"turns", "unit"}, {"nothing", "bias"}, {"members", "first"}),
    *({"distance limit", "buckets"}, {"distance limit", "distance"}),
)
NUMBERS = {
    **{"base": 500.0, "attention_factor": 0.5, "factor": 0.5},
    "scale of angles": 0.75,
}
MADE = module._cases
_cases = cache(lambda name, d, options: MADE(name, d, dict(options)))


@pytest.fixture
def cached_cases(monkeypatch):
    """Cache cases, so that they are made once for many kernels."""
    monkeypatch.setattr(
        module, "_cases", lambda name, d, options: _cases(name, d, (*options.items(),))
    )


def options_of(name, number=0):
    return dict(CATALOG[name].variants[number].keywords)


def solved(reference, x, positions, parameters):
    """The output of a reference, by rows, or by heads if positions differ by head."""
    at = np.asarray(reference.positions(positions, x.shape))
    lead = at.ndim - 1 - (positions.ndim == 3)
    out = np.empty_like(x)
    for row in np.ndindex(at.shape[:lead]):
        out[row] = reference.implementation(
            x[row], at[row], **reference.options, **parameters
        )
    return out


def kernel_of(name, options, change=lambda reference: reference):
    """A kernel in NumPy that computes a changed reference."""
    implementation = CATALOG[name].implementation("numpy")
    if CATALOG[name].kind == "features":
        return lambda x, at, **parameters: solved(
            change(Reference(implementation, options)), x, at, parameters
        ).astype(x.dtype)

    def attention(q, k, v, positions, causal, **parameters):
        own = (
            {"heads": q.shape[1]}
            if "heads" in CATALOG[name].implementation_sizes
            else {}
        )
        reference = change(Reference(implementation, {**options, **own}))
        at = reference.positions(positions, q.shape)
        hooks = reference.implementation(**reference.options, **parameters)
        return np.stack(
            [
                attend(q[n], k[n], v[n], hooks, positions=at[n], causal=causal)
                for n in range(len(q))
            ]
        )

    return attention


# Mutants that no case tells from what is right, or from one another: half turns have
# the period 2, and a table of 16 rows has one row for all vertices (n, n).
ALIKE = {
    "nerf": {"off by two", "position limit"},
    "hash-grid": {"position limit", "decoding"},
}
PAIRS = {"hash-grid": [{"nothing", "padding"}]}


@pytest.mark.parametrize("name", FEATURES)
def test_each_mutant_is_refused_and_named(name, cached_cases):
    """All options of the first variant are given, so that no other variant fits."""
    options = options_of(name)
    shared = dict(CATALOG[name].variants[0].options)
    case = cases(name, **options)[0]
    named, given = [], {"tensors": "numpy", "dtypes": ["float64"], **options}
    table = mutants(case)
    if name not in EVERY:
        table = {mutant.name: mutant for mutant in table}.values()
    if CATALOG[name].learned and CATALOG[name].axes:  # Matrix exponentials are slow.
        table = [mutant for mutant in table if mutant.name in FEW]
        unit = CATALOG[name].divisor(CATALOG[name].variants[0])
        given["d"] = -(-8 // unit) * unit
    for mutant in table:
        change = mutant.change
        if mutant.start:
            number = NUMBERS[mutant.name]

            def change(r, change=change, number=number):
                return change(r, number)

        verdict = check_kernel(kernel_of(name, shared, change), name, **given)
        if verdict.faults in (("raises",), ("not finite",)):
            continue  # No table has such a row.
        if verdict.ok:  # A table has few rows, whose numbers bfloat16 represents.
            few = ("beyond", "precision of positions")
            assert mutant.name in ALIKE.get(name, few)
            assert name in ALIKE or "tokens" in CATALOG[name].sizes
            continue
        told = {*verdict.faults, mutant.name}
        same = told == {mutant.name} or told in (*SAME, *PAIRS.get(name, ()))
        assert same, (mutant.description, verdict.message)
        assert verdict.failures
        named.append(mutant.name)
    assert len(named) >= 3


@pytest.mark.parametrize("name", INSIDE)
def test_each_mutant_of_a_bias_is_refused_and_named(name, cached_cases, monkeypatch):
    where = ("consecutive", "rows, the first padded", "64 tokens")
    few = {n: replace(oracle._SHAPES[n], slopes="none") for n in where}
    monkeypatch.setattr(oracle, "_SHAPES", few)
    options = options_of(name)
    case = cases(name, **options)[0]
    named = set()
    given = {"tensors": "numpy", "dtypes": ["float64"], **options}
    shared = dict(CATALOG[name].variants[0].options)
    for mutant in mutants(case):
        if mutant.start or (mutant.name in named and mutant.name != "scale"):
            continue
        verdict = check_kernel(kernel_of(name, shared, mutant.change), name, **given)
        if verdict.ok or verdict.faults == ("raises",):
            continue
        same = (
            verdict.faults == (mutant.name,) or {*verdict.faults, mutant.name} in SAME
        )
        assert same, (mutant.description, verdict.message)
        named.add(mutant.name)
    assert named >= {"bias", "heads", "scale", "sign"}


@pytest.mark.parametrize("name", [*FEATURES, "alibi"])
def test_the_right_implementation_passes_in_every_dtype(name, cached_cases):
    """posedu's own modules take all three dtypes."""
    encoding = CATALOG[name]
    number = 1 if name == "alibi" else 0  # ALiBi with biases on both sides.
    variant = encoding.variants[number]
    if name == "alibi":
        kernel = kernel_of(name, dict(variant.options))
        verdict = check_kernel(kernel, name, tensors="numpy", **variant.keywords)
        assert verdict.ok, str(verdict)
        assert verdict.dtypes == ("float64", "float32")
        return

    def kernel(x, positions, **parameters):
        for sizes in ((), ("heads",)):
            made = replace(variant, sizes=sizes)
            own = encoding.make(made, d=x.shape[-1], heads=x.shape[1] if sizes else 1)
            tensors = parameters_of(own)
            if all(tensors[n].shape == p.shape for n, p in parameters.items()):
                break
        own = own.to(torch.promote_types(x.dtype, torch.float32))
        with torch.no_grad():
            for n, p in parameters.items():
                parameters_of(own)[n].copy_(p)
        return own(x, positions)

    verdict = check_kernel(kernel, name, **variant.keywords)
    assert verdict.ok, str(verdict)
    assert verdict.dtypes == ("float64", "float32", "bfloat16")
    assert "gradients" in verdict.message


def test_the_cases_are_what_kernels_get_wrong():
    by_id = {
        case.id.removeprefix("layout=half, "): case for case in cases("rope", **HALF)
    }
    assert {str(c) for c in by_id.values()} == {f"layout=half, {n}" for n in by_id}
    assert by_id["position 10^6"].positions.max() > 10**6
    assert by_id["12 heads"].inputs["x"].shape[1] == 12
    assert by_id["3 key heads for 12"].inputs["x"].shape[1] == 3
    assert len(by_id["rows, the first padded"].positions) == 3
    packed = by_id["packed"].positions
    assert (np.diff(packed) < 0).any()
    assert by_id["after a prefix of 37"].positions.min() == 37
    for case in by_id.values():
        x = case.inputs["x"]
        assert (rounded(x, torch.bfloat16) == x).all()
    grids = [c for c in cases("axial", order="alternating") if "grid" in c.id]
    rows, columns = grids[0].positions[0].max(0)
    assert rows != columns and not grids[0].positions[0, :2].any()
    grouped = [c for c in cases("alibi", sides="causal") if "12 heads" in c.id]
    assert (
        grouped[0].inputs["q"].shape[1] == 12 and grouped[0].inputs["k"].shape[1] == 3
    )
    assert grouped[0].causal


def test_gradients_are_those_of_the_torch_implementation():
    """The reference's transposed matrix agrees with autograd."""
    for case in cases("rope", **HALF):
        x = torch.tensor(case.inputs["x"], requires_grad=True)
        out = RoPE(x.shape[-1], layout="half")(x, torch.tensor(case.positions))
        (gradient,) = torch.autograd.grad(out, x, torch.tensor(case.upstream))
        off = np.abs(gradient.numpy() - case.gradients["x"])
        assert isinstance(case.solution, Solution)
        assert (off <= case.solution.gradient_bound(torch.float64)).all()


def rope_in_halves(x, positions, *, base=10000.0, sign=1, angles=torch.float64):
    """RoPE in the half layout, as most libraries write it."""
    d = x.shape[-1]
    omega = base ** (-torch.arange(0, d, 2, dtype=angles) / d)
    angle = sign * positions[:, None, :, None].to(angles) * omega
    cos, sin = (torch.cat((t, t), -1).to(x.dtype) for t in (angle.cos(), angle.sin()))
    other = torch.cat((-x[..., d // 2 :], x[..., : d // 2]), -1)
    return x * cos + other * sin


def test_faults_in_pairs_and_rounded_angles_are_named(cached_cases):
    verdict = check_kernel(
        partial(rope_in_halves, sign=-1, base=5e5), **HALF, dtypes=["float64"]
    )
    assert verdict.faults == ("sign", "base")
    assert "500,000" in verdict.message
    coarse = partial(rope_in_halves, angles=torch.float32)
    verdict = check_kernel(coarse, **HALF, angles="float64")
    assert verdict.faults == ("precision",) and "float32" in verdict.message
    allowed = check_kernel(coarse, **HALF)
    assert allowed.ok and any("bfloat16" in text for text in allowed.remarks)
    assert allowed.angles == "float32" and "angles in float32" in allowed.message
    given = dict(**HALF, dtypes=["float32"])
    both = check_kernel(partial(coarse, sign=-1), **given, angles="float64")
    assert both.faults == ("sign", "precision")
    assert check_kernel(partial(coarse, sign=-1), **given).faults == ("sign",)

    def rounds(x, at):
        return rope_in_halves(x, at.to(x.dtype))

    verdict = check_kernel(rounds, **HALF)
    assert verdict.faults == ("precision of positions",)


def test_a_kernel_that_computes_in_float32_with_exact_angles_is_right(cached_cases):
    def narrow(x, positions):
        return rope_in_halves(x.float(), positions).to(x.dtype)

    verdict = check_kernel(narrow, **HALF, dtypes=["float64"])
    assert verdict.ok and any("computes in float32" in t for t in verdict.remarks)


def test_a_variant_that_a_kernel_refuses_is_not_the_one():
    def shared(x, positions, frequencies):
        if frequencies.ndim == 3:
            raise ValueError("one for all heads")
        module = CATALOG["mixed"].implementation("torch")(
            x.shape[-1], layout="interleaved"
        )
        module = module.to(torch.promote_types(x.dtype, torch.float32))
        with torch.no_grad():
            module.frequencies.copy_(frequencies)
        return module(x, positions)

    assert check_kernel(shared, "mixed", layout="interleaved", dtypes=["float64"]).ok


def test_given_frequencies_and_an_attention_factor_are_held_and_their_loss_named():
    slow = tuple(float(w) for w in 10000.0 ** (-np.arange(8) / 8) / 4)
    options = dict(layout="half", frequencies=slow, attention_factor=1.5)
    given = dict(d=16, dtypes=["float64"], **options)

    def right(x, at):
        return RoPE(x.shape[-1], **options)(x, at)

    assert check_kernel(right, **given).ok

    def plain(x, at):
        return right(x, at) / 1.5

    verdict = check_kernel(plain, **given)
    assert verdict.faults == ("attention_factor",) and "1, not 1.5" in verdict.message

    def unscaled(x, at):
        return 1.5 * rope_in_halves(x, at)

    assert check_kernel(unscaled, **given).faults in (
        ("frequencies",),
        ("scale of angles",),
    )


def test_the_table_of_published_kernels_says_what_it_was_made_of():
    """`python tests/oracles/kernels.py` makes it with libraries not installed here."""
    path = ROOT / "book/data/kernels.json"
    table = json.loads(path.read_text("utf-8"))
    assert {row["library"] for row in table["kernels"]} < {*table["versions"]}
    by_name = {row["function"]: row for row in table["kernels"]}
    assert len(by_name) == len(table["kernels"]) >= 19
    wrong = {n for n, row in by_name.items() if not row["right_with_float32_angles"]}
    assert wrong == {"deepseek_v3", "rotate_queries_or_keys"}
    assert by_name["deepseek_v3"]["faults_with_float32_angles"] == ["order of output"]
    assert not by_name["FluxPosEmbed"]["faults"]
    assert by_name["llama"]["faults"] == ["precision"]


def test_an_option_that_is_not_given_is_found(cached_cases):
    verdict = check_kernel(rope_in_halves, "rope", angles="float64")
    assert verdict.ok and verdict.options["layout"] == "half"
    assert any("layout='half'" in text for text in verdict.remarks)


def test_an_unknown_fault_has_a_place(cached_cases):
    def odd(x, positions, table):
        y = x + table[positions].to(x.dtype)
        y[..., 5] += (positions == 3).to(y.dtype)
        return y

    verdict = check_kernel(odd, "learned", beyond="raise", dtypes=["float64"])
    assert verdict.faults == ("unknown",)
    assert "position 3, features 5" in verdict.failures[0]
    assert "position 3" in str(verdict)


def test_a_wrong_gradient_is_named(cached_cases):
    class Forward(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, at):
            ctx.save_for_backward(at)
            return rope_in_halves(x, at)

        @staticmethod
        def backward(ctx, gradient):
            return rope_in_halves(
                gradient, *ctx.saved_tensors
            ), None  # It rotates on, where it should rotate back.

    verdict = check_kernel(Forward.apply, **HALF, dtypes=["float64"])
    assert verdict.faults == ("gradient",) and "negated" in verdict.message

    def nothing(x, at):
        return rope_in_halves(x.detach(), at) + 0 * x

    verdict = check_kernel(nothing, **HALF, dtypes=["float64"])
    assert verdict.faults == ("gradient",) and "it is 0" in verdict.message
    verdict = check_kernel(lambda x, at: rope_in_halves(x.detach(), at), **HALF)
    assert verdict.ok and any("no gradient" in text for text in verdict.remarks)


def raising(x, positions):
    raise RuntimeError("no\nsuch kernel")


def changing(x, positions):
    x.mul_(2)
    return x


HOSTILE = {
    "raises": raising,
    "in place": changing,
    "type": lambda x, at: None,
    "shape": lambda x, at: x[..., :1],
    "not finite": lambda x, at: x * float("nan"),
    "dtype": lambda x, at: x.to(torch.int64),
}


@pytest.mark.parametrize("fault", HOSTILE)
def test_hostile_kernels_get_a_verdict(fault, cached_cases):
    verdict = check_kernel(HOSTILE[fault], **HALF)
    assert verdict.faults == (fault,) and not verdict.ok
    assert "\n" not in verdict.message and "layout=half" in verdict.message


def lines(q, k, v, positions, causal, bias=-1.0, by_positions=False):
    """ALiBi with geometric slopes, as libraries write it."""
    n, heads = q.shape[2], torch.arange(q.shape[1]).to(q)
    k, v = (t.repeat_interleave(q.shape[1] // k.shape[1], 1) for t in (k, v))
    m = 2.0 ** (-8 * (heads + 1) / len(heads))[:, None, None]
    at = positions if by_positions else torch.arange(n).expand(positions.shape)
    far = (positions[:, None, :, None] - positions[:, None, None, :]).abs()
    scores = q @ k.mT / q.shape[-1] ** 0.5 + bias * m * far
    if causal:
        later = at[:, None, :, None] < at[:, None, None, :]
        scores = scores.masked_fill(later, -torch.inf)
    return scores.softmax(-1) @ v


ALIBI = dict(slopes="geometric", dtypes=["float64"])


def test_a_causal_mask_by_positions_is_named(cached_cases):
    """It shows later tokens of a packed row; a row of one text does not tell."""
    wrong = partial(lines, by_positions=True)
    verdict = check_kernel(wrong, "alibi", sides="causal", **ALIBI)
    assert verdict.faults == ("mask",) and "in the row" in verdict.message
    assert [p.partition(",")[0] for p in verdict.failures] == ["packed", "rows"]


def one_sided(q, k, v, positions, causal, sign):
    """Each half of the heads attends to one side."""
    half = q.shape[1] // 2
    k, v = (t.repeat_interleave(q.shape[1] // k.shape[1], 1) for t in (k, v))
    m = 2.0 ** (-8 * (torch.arange(half).to(q) + 1) / half)
    m = torch.cat((m, m))[:, None, None]
    far = (positions[:, None, :, None] - positions[:, None, None, :]).expand(
        -1, 2 * half, -1, -1
    )
    scores = q @ k.mT / q.shape[-1] ** 0.5 + sign * m * far.abs()
    hidden = torch.cat((far[:, :half] < 0, far[:, half:] > 0), 1)
    scores = scores.masked_fill(hidden, -torch.inf)
    if causal:
        scores = scores.masked_fill(
            torch.ones(q.shape[2:3] * 2).triu(1) > 0, -torch.inf
        )
    return scores.softmax(-1) @ v


@pytest.mark.parametrize("sign, fault", [(-1, ()), (1, ("sign",)), (0, ("bias",))])
def test_faults_of_a_bias_that_hides_keys_are_named(sign, fault, cached_cases):
    """Minus infinity must not be multiplied by 0 or −1."""
    verdict = check_kernel(
        partial(one_sided, sign=sign), "alibi", sides="one-sided", **ALIBI
    )
    assert verdict.faults == fault, str(verdict)


@pytest.mark.filterwarnings("error")
def test_an_unknown_fault_raises_no_warning(cached_cases):
    """Some mutants that are tried divide 0 by 0."""
    odd = partial(lines, bias=-1.7, by_positions=True)
    verdict = check_kernel(lambda *a, **own: odd(*a, **own) ** 3, "alibi", **ALIBI)
    assert verdict.faults == ("unknown",)


def of_llama(q, k, cos, sin):
    return q * cos, k * sin


class Layer(torch.nn.Module):
    def forward(self, x, positions, cache):
        return x


@pytest.mark.parametrize(
    "kernel, name, call",
    [
        (of_llama, "mixed", "kernel(x, positions, frequencies=…)"),
        (Layer(), "rope", "kernel(x, positions)"),
        (lambda x: x, "mixed", "kernel(x, positions, frequencies=…)"),
        (lambda q, k, v, at: q, "alibi", "kernel(q, k, v, positions, causal=…)"),
    ],
)
def test_a_kernel_with_other_arguments_is_told_the_call(
    kernel, name, call, cached_cases
):
    verdict = check_kernel(kernel, name, dtypes=["float64"])
    assert verdict.faults == ("raises",) and verdict.message.endswith(call)
    assert not verdict.ran and verdict.exit_status == 2
    assert verdict.message.startswith("cannot run: it raises TypeError")


@pytest.mark.parametrize("kernel", [lambda x, at: x + None, partial(int, 1)])
def test_other_type_errors_do_not_mention_the_call(kernel, cached_cases):
    verdict = check_kernel(kernel, **HALF)
    assert verdict.faults == ("raises",) and "it is called as" not in verdict.message


def test_a_kernel_may_take_one_dtype_alone(cached_cases):
    def single(x, positions):
        if x.dtype != torch.float32:
            raise TypeError("float32 alone")
        return rope_in_halves(x, positions)

    verdict = check_kernel(single, **HALF)
    assert verdict.ok and verdict.dtypes == ("float32",)
    assert sum("the kernel refuses" in text for text in verdict.remarks) == 2
    asked = check_kernel(single, **HALF, dtypes=["float64"])
    assert asked.faults == ("raises",) and not asked.ran


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: cases("ropes"), "must be an encoding, got 'ropes'"),
        (lambda: cases("tape"), "layer to layer"),
        (lambda: cases("cape"), "samples positions"),
        (lambda: cases("rope", theta=1.0), "its options are attention_factor, base"),
        (lambda: cases("rope", layout="halves"), "halves"),
        (lambda: cases("rope", d=7), "7"),
        (lambda: cases("rope", d=10**8), "at most 1024"),
        (lambda: check_kernel(rope_in_halves, "rope", layout="halves"), "halves"),
        (lambda: check_kernel(rope_in_halves, tensors="jax"), "tensors"),
        (lambda: check_kernel(rope_in_halves, dtypes=["float8"]), "float8"),
        (
            lambda: check_kernel(rope_in_halves, tensors="numpy", dtypes=["bfloat16"]),
            "no bfloat16",
        ),
        (lambda: check_kernel(rope_in_halves, angles="exact"), "exact"),
        (lambda: save("rope", "rope.txt"), ".npz"),
        (lambda: oracle.parse_options(["half"]), "NAME=VALUE"),
        (lambda: oracle.parse_options(["d=8"], ["d"]), "d cannot be given"),
        (lambda: check_kernel(rope_in_halves, dtypes=[]), "must name a dtype"),
    ],
)
def test_bad_input_is_refused_in_words(call, says):
    with pytest.raises(OracleError, match=says):
        call()


def test_kinds_that_serve_are_those_of_the_catalog():
    assert {*KINDS} < {encoding.kind for encoding in CATALOG.values()}


@pytest.mark.parametrize("name", ["axial", "kerple-log"])
def test_the_file_is_read_with_numpy_alone(name, tmp_path, cached_cases):
    options = options_of(name)
    made = save(name, tmp_path / "cases.npz", **options)
    with np.load(tmp_path / "cases.npz", allow_pickle=False) as file:
        readme = json.loads(str(file["README"]))
        arrays = {key: file[key] for key in file.files}
    assert [case["id"] for case in readme["cases"]] == [case.id for case in made]
    stems = {key.replace("NNN.", "") for key in readme["keys"]}
    kinds = {stem.rpartition(".")[0] or stem for stem in stems}
    for number, case in enumerate(made):
        own = {k[4:]: a for k, a in arrays.items() if k.startswith(f"{number:03}.")}
        assert {k.split(".")[0] for k in own} <= {k.split(".")[0] for k in kinds}
        assert (own["expected"] == case.expected).all()
        assert (own["bound.bfloat16"] == case.bound("bfloat16")).all()
        for label, x in case.inputs.items():
            assert (own[f"input.{label}"] == x).all()
            if not case.is_decoding:
                assert (own[f"gradient.{label}"] == case.gradients[label]).all()
        if "slope" in own:
            slope = sum(
                (own[f"direction.{n}"] * own[f"gradient.{n}"]).sum()
                for n in case.inputs
            )
            assert abs(slope - own["slope"]) <= own["slope_bound.float64"]
    assert [*tmp_path.iterdir()] == [tmp_path / "cases.npz"]


def test_command_lines(tmp_path, capsys, monkeypatch, cached_cases):
    out = str(tmp_path / "rope.npz")
    assert command(["oracle", "rope", "layout=half", "--out", out]) == 0
    assert "10 cases" in capsys.readouterr().out
    assert command(["oracle", "ropes", "--out", out]) == 2
    (tmp_path / "somebodys.py").write_text(
        "from posedu.torch import RoPE\n"
        "def right(x, at): return RoPE(x.shape[-1], layout='half')(x, at)\n"
        "def wrong(x, at): return right(x, at + 1)\n"
        "def other(x, at, table): return x\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    half = ["--encoding", "rope", "layout=half"]
    assert command(["kernel", "somebodys:right", *half]) == 0
    wrong = ["kernel", "somebodys:wrong", *half, "--dtypes", "float64"]
    assert command(wrong) == 1
    assert "one too large" in capsys.readouterr().out
    assert command(["kernel", "somebodys:other", *half]) == 2
    given = ["frequencies=(1.0, 0.5)", "d=4"]
    assert command([*wrong[:-2], given[0], "--d", "4", "--json"]) == 1
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert said["options"]["frequencies"] == [1.0, 0.5] and not said["ok"]
    for name in ("somebodys:none", "nobodys:right", "right", "json:__name__"):
        assert command(["kernel", name, *half]) == 2
    assert command(["kernel", "somebodys:right", "--device", "nowhere"]) == 2
    assert command(["kernel", "somebodys:right", given[1]]) == 2
    assert command(["kernel", "somebodys:right", "--encoding", "tape"]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_the_reference_itself_is_no_kernel_of_a_mutant():
    """A kernel that takes NumPy arrays is checked with tensors='numpy'."""

    def kernel(x, at):
        return rope(x, at, layout="half").astype(x.dtype)

    assert check_kernel(kernel, **HALF, tensors="numpy").ok

    def hooks(heads):
        return alibi(heads=heads, slopes="geometric")

    def attention(q, k, v, at, causal):
        heads = q.shape[1]
        pairs = zip(q, k, v, at, strict=True)
        return np.stack([attend(*t, hooks(heads), positions=p) for *t, p in pairs])

    verdict = check_kernel(
        attention, "alibi", tensors="numpy", slopes="authors", sides="causal"
    )
    assert verdict.faults == ("slopes",) and "geometric" in verdict.message


@pytest.mark.parametrize("bound", [np.nan, -1.0])
def test_a_bound_that_is_no_number_is_a_failure(bound, monkeypatch):
    monkeypatch.setattr(
        oracle.Case, "bound", lambda self, *_, **__: np.full_like(self.expected, bound)
    )
    assert not check_kernel(rope_in_halves, **HALF).ok


def test_a_function_is_needed_for_a_kernel():
    with pytest.raises(TypeError, match="kernel must be a function, got None"):
        check_kernel(None)
