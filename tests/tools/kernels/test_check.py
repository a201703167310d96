"""Kernels that are wrong at some distances only, and those that are right."""

import time
from dataclasses import replace
from functools import cache, partial
from inspect import signature

import numpy as np
import pytest
import torch

from posedu.catalog import CATALOG
from posedu.crosscheck import attention_hooks
from posedu.crosscheck.common import Tally
from posedu.numpy.attention import attend
from posedu.tools._foreign_code import Interruption
from posedu.tools.kernels import check, check_kernel, distances
from posedu.tools.kernels.explanation import MENDS
from posedu.tools.kernels.mutants import MutatedCase, mutants
from posedu.tools.kernels.oracle import KINDS, Case, cases, cases_of

pytestmark = pytest.mark.usefixtures("unchecked")
HALF = dict(layout="half")
F64, F32, BF16 = torch.float64, torch.float32, torch.bfloat16


def bfloat16(x):
    """Rounded to bfloat16, in the given dtype."""
    return x.to(BF16).to(x.dtype)


def rotated(x, positions, *, angles=F32, sign=1, at=None, omega=None, angle=None):
    """RoPE in the half layout, with one part changed by a function."""
    d = x.shape[-1]
    frequencies = 10000.0 ** (-torch.arange(0, d, 2, dtype=angles) / d)
    frequencies = omega(frequencies) if omega else frequencies
    positions = at(positions) if at else positions
    theta = sign * positions[:, None, :, None].to(angles) * frequencies
    theta = angle(theta) if angle else theta
    cos, sin = (torch.cat((t, t), -1).to(x.dtype) for t in (theta.cos(), theta.sin()))
    other = torch.cat((-x[..., d // 2 :], x[..., : d // 2]), -1)
    return x * cos + other * sin


def in_bfloat16(x, positions):
    """Positions, frequencies, angles, cosines and sines in bfloat16."""
    d = x.shape[-1]
    omega = 10000.0 ** (-torch.arange(0, d, 2, dtype=BF16) / d)
    theta = positions[:, None, :, None].to(BF16) * omega
    cos, sin = (torch.cat((t, t), -1).to(x.dtype) for t in (theta.cos(), theta.sin()))
    other = torch.cat((-x[..., d // 2 :], x[..., : d // 2]), -1)
    return x * cos + other * sin


def proportional(omega):
    """The first half of the frequencies of all features, as neuronx#106."""
    return omega * (torch.arange(len(omega)) < len(omega) // 2)


def partly(x, positions, width=8):
    """Rotate the first features alone."""
    whole = rotated(x[..., :width], positions)
    return torch.cat((whole, x[..., width:]), -1)


def decoding_at_zero(positions):
    return positions if positions.shape[1] > 1 else 0 * positions


WRONG_ROTATIONS = {
    "sign": (partial(rotated, sign=-1), "negated"),
    "inv_freq": (partial(rotated, omega=bfloat16), "frequencies (inv_freq) are roun"),
    "inv_freq, exact": (partial(rotated, angles=F64, omega=bfloat16), "(inv_freq)"),
    "positions": (partial(rotated, at=lambda p: p.to(BF16).long()), "positions are ro"),
    "angles": (partial(rotated, angle=bfloat16), "are rounded to bfloat16"),
    "all in bfloat16": (in_bfloat16, "bfloat16"),
    "proportional": (partial(rotated, omega=proportional), "proportional"),
    "proportional, exact": (
        partial(rotated, angles=F64, omega=proportional),
        "proportional",
    ),
    "partial": (partly, "8 of 16 features"),
    "far": (partial(rotated, at=lambda p: p.clamp(max=8191)), "from 8,192 on"),
    "16 bits": (partial(rotated, at=lambda p: p % 65536), "modulo 65,536"),
    "position 0": (partial(rotated, at=lambda p: p + (p == 0)), "position 0 is taken"),
    "negative": (partial(rotated, at=lambda p: p.clamp(min=0)), "negative positions"),
    "decoding": (partial(rotated, at=decoding_at_zero), "a row of one token"),
    "packing": (partial(rotated, at=lambda p: p.cummax(1).values), "never fall"),
    "odd": (lambda x, p: rotated(x, p) + 0.1 * (p == 3)[:, None, :, None], "differs"),
    "base": (partial(rotated, omega=lambda w: w**1.01), "the base is 10,965"),
    "uneven": (partial(rotated, omega=lambda w: w * (1 + w / 9)), "differs"),
}


@pytest.mark.parametrize("fault", WRONG_ROTATIONS)
def test_a_wrong_rotation_is_named_or_differs(fault):
    kernel, says = WRONG_ROTATIONS[fault]
    verdict = check_kernel(kernel, **HALF)
    assert not verdict.ok and verdict.exit_status == 1
    assert says in verdict.message
    if says == "differs":
        assert verdict.faults == ("unknown",) and "first at position" in verdict.message
    else:
        assert "; also" not in verdict.message
        assert all(name in (*MENDS, "rotary_dim", "base") for name in verdict.faults)


def alibi(
    q, k, v, positions, causal, *, change=None, slopes=None, query=None, aligned=True
):
    """ALiBi with geometric slopes, also for one query, with one part changed."""
    heads, (n, keys) = q.shape[1], (q.shape[2], k.shape[2])
    k, v = (t.repeat_interleave(heads // k.shape[1], 1) for t in (k, v))
    h = torch.arange(1, heads + 1).double()
    m = slopes(h, heads) if slopes else 2.0 ** (-8 * h / heads)
    at = positions[:, -n:]
    at = query(at) if query and n < keys else at
    far = at[:, None, :, None] - positions[:, None, None, :]
    far = change(far) if change else far
    scores = q @ k.mT / q.shape[-1] ** 0.5 - m.to(q.dtype)[:, None, None] * far
    if causal:
        hidden = torch.ones(n, keys).triu(1 + keys - n if aligned else 1) > 0
        scores = scores.masked_fill(hidden, -torch.inf)
    return scores.softmax(-1) @ v


def t5(q, k, v, positions, causal, table, *, sides=1, change=None, steps=None):
    """T5's bias as transformers computes it, also for one query."""
    heads, (n, keys) = q.shape[1], (q.shape[2], k.shape[2])
    k, v = (t.repeat_interleave(heads // k.shape[1], 1) for t in (k, v))
    far = positions[:, -n:, None] - positions[:, None, :]
    far = change(far) if change else far
    buckets = table.shape[1] // sides
    exact = buckets // 2
    size = far.abs() if sides == 2 else far.clamp(min=0)
    ratio = torch.log(size.float() / exact) / np.log(128 / exact)
    steps = steps or (lambda size, ratio, exact: ratio * (buckets - exact))
    large = (
        (exact + steps(size, ratio, exact)).nan_to_num(0, 1e9).clamp(max=buckets - 1)
    )
    bucket = torch.where(size < exact, size, large.long())
    bucket = bucket + (buckets * (far < 0) if sides == 2 else 0)
    scores = q @ k.mT + table.to(q.dtype)[:, bucket].transpose(0, 1)
    if causal:
        hidden = torch.ones(n, keys).triu(1 + keys - n) > 0
        scores = scores.masked_fill(hidden, -torch.inf)
    return scores.softmax(-1) @ v


ALIBI = dict(slopes="geometric", sides="causal")
SYMMETRIC = dict(slopes="geometric", sides="symmetric")
T5 = dict(bidirectional=False, scale="one", buckets=32, distance=128)
ENCODER = {**T5, "bidirectional": True}


def on_ranks(h, heads):
    return 2.0 ** (-8 * ((h - 1) % 4 + 1) / heads)


def of_ranks(h, heads):
    return 2.0 ** (-8 * ((h - 1) % 4 + 1) / min(heads, 4))


def wrong_bias(kernel, name, options, says, **changed):
    return partial(kernel, **changed), name, options, says


def fox(q, k, v, positions, causal, x, gate_bias, gate_weight, inputs=lambda x: x):
    """FoX from the layer's input of all tokens."""
    (n, d), keys = q.shape[2:], k.shape[2]
    k, v = (t.repeat_interleave(q.shape[1] // k.shape[1], 1) for t in (k, v))
    x = (inputs(x) if n < keys else x).to(gate_bias.dtype)  # float32 at least
    gates = (x @ gate_weight.mT + gate_bias).mT
    c = torch.nn.functional.logsigmoid(gates).cumsum(-1)
    scores = q @ k.mT / d**0.5 + c[..., -n:, None] - c[..., None, :]
    hidden = torch.ones(n, keys).triu(1 + keys - n) > 0
    return scores.masked_fill(hidden, -torch.inf).softmax(-1).to(q.dtype) @ v


def fox_on_ranks(*arguments, gate_bias, gate_weight, **more):
    first = torch.arange(len(gate_bias)) % 4
    return fox(
        *arguments, gate_bias=gate_bias[first], gate_weight=gate_weight[first], **more
    )


FOX = dict(form="difference")
WRONG_BIASES = {
    "fox on ranks": wrong_bias(fox_on_ranks, "fox", FOX, "begin anew after 4"),
    "fox without cached inputs": wrong_bias(
        *(fox, "fox", FOX, "the layer's input of this token is used for all"),
        inputs=lambda x: x[:, -1:].expand_as(x),
    ),
    "to 8": wrong_bias(
        alibi, "alibi", ALIBI, "beyond 8", change=lambda d: d.clamp(max=8)
    ),
    "float16": wrong_bias(
        alibi, "alibi", ALIBI, "65,504", change=lambda d: d.clamp(max=65504)
    ),
    "distance 0": wrong_bias(
        alibi, "alibi", ALIBI, "distance 0", change=lambda d: d + (d == 0)
    ),
    "later": wrong_bias(
        alibi, "alibi", ALIBI, "a later key", change=lambda d: d.clamp(min=0)
    ),
    "later, symmetric": wrong_bias(
        alibi, "alibi", SYMMETRIC, "a later key", change=lambda d: d.clamp(min=0)
    ),
    "8h/n": wrong_bias(alibi, "alibi", ALIBI, "8h/n", slopes=lambda h, n: 8 * h / n),
    "ranks": wrong_bias(alibi, "alibi", ALIBI, "begin anew after 4", slopes=on_ranks),
    "heads of a rank": wrong_bias(
        alibi, "alibi", ALIBI, "a model of 4 heads", slopes=of_ranks
    ),
    "mask": wrong_bias(alibi, "alibi", ALIBI, "first key alone", aligned=False),
    "query": wrong_bias(
        partial(alibi, change=torch.abs),
        *("alibi", SYMMETRIC, "one query is taken"),
        query=lambda at: 0 * at,
    ),
    "without logarithm": wrong_bias(
        t5, "t5", T5, "from 16 on", steps=lambda size, ratio, exact: 0 * ratio
    ),
    "from 15 on": wrong_bias(
        t5, "t5", T5, "from 15 on", change=lambda d: d.clamp(max=15)
    ),
    "linear": wrong_bias(
        *(t5, "t5", T5, "equally wide"),
        steps=lambda size, ratio, exact: (size - exact) / (128 - exact) * exact,
    ),
    "unscaled": wrong_bias(
        *(t5, "t5", T5, "is not divided"),
        steps=lambda size, ratio, exact: torch.log(size / exact) * exact,
    ),
    "encoder, to 64": wrong_bias(
        partial(t5, sides=2), "t5", ENCODER, "64", change=lambda d: d.clamp(-64, 64)
    ),
    "odd": wrong_bias(
        alibi, "alibi", ALIBI, "differs", change=lambda d: d + 0.1 * (d == 40)
    ),
}


@pytest.mark.parametrize("fault", WRONG_BIASES)
def test_a_bias_that_is_wrong_at_some_distances_is_named(fault):
    kernel, name, options, says = WRONG_BIASES[fault]
    verdict = check_kernel(kernel, name, dtypes=["float64"], **options)
    assert not verdict.ok and says in verdict.message, str(verdict)


@pytest.mark.parametrize(
    "kernel, name, options",
    [
        (alibi, "alibi", ALIBI),
        (partial(alibi, change=torch.abs), "alibi", SYMMETRIC),
        (t5, "t5", T5),
        (partial(t5, sides=2), "t5", ENCODER),
        (fox, "fox", FOX),
    ],
)
def test_an_ordinary_bias_is_right_in_every_dtype(kernel, name, options):
    verdict = check_kernel(kernel, name, **options)
    assert verdict.ok, str(verdict)
    assert verdict.dtypes == ("float64", "float32", "bfloat16")
    assert verdict.coverage.endswith("to 100,000 seen") and not verdict.untried


@pytest.mark.parametrize("given", [{}, {"slopes": "authors"}])
def test_a_fault_that_is_an_option_not_given_says_so(given):
    verdict = check_kernel(alibi, "alibi", dtypes=["float64"], **given)
    assert verdict.faults == ("slopes",)
    hint = "if that is meant, test with the option slopes"
    assert (hint in verdict.message) is not bool(given)


def test_another_fault_does_not_ask_for_an_option():
    clipped = partial(t5, sides=2, steps=lambda size, ratio, exact: 0 * ratio)
    given = dict(bidirectional=True, scale="one", distance=16)
    verdict = check_kernel(clipped, "t5", dtypes=["float64"], **given)
    assert verdict.faults == ("buckets",)
    assert "if that is meant" not in verdict.message


@pytest.mark.parametrize("name", ["fox", "inkling", "cope"])
def test_a_decoding_step_has_the_input_of_all_tokens(name):
    variant = CATALOG[name].variants[TRIED[name][0]]
    made = cases_of(CATALOG[name], variant, None)
    (case,) = [case for case in made if case.is_decoding]
    assert case.inputs["q"].shape[2] == 1
    assert case.inputs["x"].shape[1] == case.positions.shape[1] == distances.KEYS


def reference(name, variant):
    """The reference as a kernel in NumPy, which takes no decoding step."""
    encoding = CATALOG[name]
    implementation = encoding.implementation("numpy")
    asked = signature(implementation).parameters
    options = dict(variant.options)

    def features(x, at, **parameters):
        rows = zip(x, at, strict=True)
        out = [implementation(t, p, **options, **parameters) for t, p in rows]
        return np.stack(out).astype(x.dtype)

    def block(x, at, **parameters):
        own = {"heads": x.shape[-1] // 4} if "heads" in asked else {}
        places = [{"positions": p} if "positions" in asked else {} for p in at]
        rows = zip(x, places, strict=True)
        out = [implementation(t, **p, **own, **options, **parameters) for t, p in rows]
        return np.stack(out).astype(x.dtype)

    def attention(q, k, v, at, causal, x=None, **parameters):
        sizes = {"heads": q.shape[1], "d": q.shape[-1]}
        own = {n: sizes[n] for n in encoding.implementation_sizes if n in sizes}
        hooks = implementation(**options, **own, **parameters)
        x = [None] * len(q) if x is None else x
        rows = zip(q, k, v, at, x, strict=True)
        return np.stack(
            [attend(*t, hooks, positions=p, x=y, causal=causal) for *t, p, y in rows]
        )

    return {"features": features, "block": block, "hooks": attention}[encoding.kind]


@pytest.mark.parametrize("name", [n for n, e in CATALOG.items() if e.kind in KINDS])
def test_the_reference_of_every_encoding_is_right(name):
    variant = CATALOG[name].variants[0]
    options = {} if name == "dape" else variant.keywords
    given = dict(tensors="numpy", dtypes=["float64", "float32"], **options)
    verdict = check_kernel(reference(name, variant), name, **given)
    assert verdict.ok, str(verdict)
    assert verdict.seen or CATALOG[name].axes
    assert len(str(verdict).splitlines()) <= 40


TRIED = {
    **{"rope": (0, 1), "sinusoidal": (0,), "m-rope": (0,), "mixed": (1,)},
    **{"alibi": (0,), "t5": (0,), "shaw": (1,), "fire": (0,), "kerple-log": (0,)},
    **{"pope": (0,), "inkling": (0,), "fox": (0,), "cope": (2,)},
}
"""Numbers of the configurations of each encoding whose mutants are all tried.

The last three read the layer's input.
"""
NUMBERS = {
    **{"base": 500.0, "attention_factor": 0.5, "factor": 0.5},
    "scale of angles": 0.75,
}
NEEDED_OTHERWISE = {
    "consecutive": "the least input that shows most faults, cited first",
    "after a prefix of 37": "positions that begin after 0, without other difficulties",
    "large and small numbers": "kernels whose sums lose small numbers",
    "12 heads": "kernels that hold for powers of two only",
    "3 key heads for 12": "kernels that hold for even numbers of heads only",
    "one token": "a softmax of one logit is 1, whatever the bias",
    "64 tokens": "kernels that take no decoding step",
    "grid 3 × 5 after a prefix": "kernels that mistake the sides of an image",
}
EQUAL = {
    "off by one": "an encoding of distances does not depend on a shift",
    "off by two": "an encoding of distances does not depend on a shift",
    "sign": "a symmetric encoding does not depend on the sign",
    "decoding": "a causal bias that is linear moves all logits of a query alike",
    "form": "a term for all keys of a query alike changes no weight",
}


@cache
def failing(name, number):
    """For each mutant of an encoding, the names of the test cases that refuse it."""
    made = cases_of(CATALOG[name], CATALOG[name].variants[number], None)
    found = []
    for mutant in mutants(made[0]):
        change = mutant.change
        if mutant.start:
            value = NUMBERS[mutant.name]
            change = partial(lambda r, c, x: c(r, x), c=change, x=value)
        names = set()
        for case in made:
            try:
                with np.errstate(all="ignore"):
                    off = np.abs(MutatedCase(case, change).output() - case.expected)
            except (TypeError, ValueError, IndexError):
                names.add("not such an encoding")
                continue
            if not (off <= case.bound("float64")).all():
                names.add(case.difficulty)
        found.append((mutant, names))
    return [case.difficulty for case in made], found


@pytest.mark.parametrize("name", TRIED)
def test_each_mutant_fails_a_case(name):
    _, found = failing(name, TRIED[name][0])
    passing = {mutant.name for mutant, names in found if not names}
    assert passing <= {*EQUAL} and len(passing) < len(found) / 5
    if CATALOG[name].kind == "features":
        assert not passing


def test_each_case_is_needed_by_a_mutant_or_has_its_reason():
    """Without the case, some mutant would pass."""
    for kind in ("features", "hooks"):
        names = [n for n in TRIED if CATALOG[n].kind == kind]
        made, needed = set(), set()
        for name in names:
            for number in TRIED[name]:
                own, found = failing(name, number)
                made |= {*own}
                needed |= {min(names) for _, names in found if len(names) == 1}
        assert made - needed <= {*NEEDED_OTHERWISE}, kind
        assert len(needed) >= 5


@pytest.mark.parametrize("name", TRIED)
def test_every_list_has_mutants_of_each_range(name):
    _, found = failing(name, TRIED[name][0])
    names = {mutant.name for mutant, _ in found}
    if name in ("fox", "cope"):  # They depend on the order of tokens alone.
        assert {"head offset", "decoding", "mask"} <= names
        assert not {"nothing", "position limit", "distance 0"} & names
        return
    far = {"position limit", "distance limit"} & names
    assert far and "decoding" in names
    if CATALOG[name].kind == "features":
        assert {"position 0", "negative positions"} <= names
    else:
        assert {"head offset", "negative positions"} <= names
        assert "distance 0" in names or name == "pope"  # PoPE has no bias.
    if name in ("rope", "m-rope", "sinusoidal"):
        assert "precision of frequencies" in names


def test_edges_of_buckets_are_among_the_distances():
    case = cases("t5", **T5)[0].solution
    chosen = distances.distances(case, distances.FARTHEST)
    starts = [16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113]
    assert {n - k for n in starts for k in (0, 1)} <= {*chosen}
    assert {1000, 100_000} <= {*chosen}


@pytest.mark.parametrize(
    "name", [n for n, e in CATALOG.items() if e.kind == "hooks" and e.axes is None]
)
def test_the_last_query_has_its_row_of_the_whole_output(name):
    """Also if the other queries are left out, as for a bias of distances."""
    encoding = CATALOG[name]
    shape = attention_hooks.Shape(4, (tuple(range(6)),), is_grouped=True, group=2)
    variant = replace(encoding.variants[0], heads=4)
    case = attention_hooks.draw_case(Tally(), encoding, variant, shape, 0)
    last = distances.at_last_query(case).evaluate()
    assert last.shape[2] == 1
    assert np.allclose(case.expected[:, :, -1:], last, rtol=0, atol=1e-12)


def of_transformers(q, k, cos, sin, position_ids=None, unsqueeze_dim=1):
    """apply_rotary_pos_emb of transformers."""
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)

    def half(x):
        return torch.cat((-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]), -1)

    return q * cos + half(q) * sin, k * cos + half(k) * sin


def neighbors(x, cos, sin):
    """One tensor, pairs of neighbors, as Cohere rotates."""
    other = torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
    return x * cos.unsqueeze(1) + other * sin.unsqueeze(1)


def neighbors_of_halves(q, k, cos, sin):
    """Pairs of neighbors, with cosines given twice, as GLM rotates."""
    n = cos.shape[-1] // 2
    cos, sin = (t[..., :n].repeat_interleave(2, -1) for t in (cos, sin))
    return neighbors(q, cos, sin), neighbors(k, cos, sin)


@pytest.mark.parametrize(
    "kernel, layout",
    [
        (of_transformers, "half"),
        (neighbors, "interleaved"),
        (neighbors_of_halves, "interleaved"),
    ],
)
@pytest.mark.parametrize("knows", [True, False])
def test_a_kernel_of_cosines_and_sines_is_adapted(kernel, layout, knows):
    verdict = check_kernel(kernel, **(dict(layout=layout) if knows else {}))
    assert verdict.ok and verdict.options["layout"] == layout, str(verdict)
    own = dict(base=5e5, attention_factor=1.2)
    assert check_kernel(kernel, layout=layout, **own).ok
    if kernel is of_transformers:
        sections = dict(sections=(3, 3, 2), order="interleaved", layout="half")
        assert check_kernel(kernel, "m-rope", d=16, **sections).ok


def test_cosines_with_an_axis_for_heads_are_given_where_others_fail():
    def broadcast(q, k, cos, sin):
        def half(x):
            a, b = x.chunk(2, -1)
            return torch.cat((-b, a), -1)

        return q * cos + half(q) * sin, k * cos + half(k) * sin

    verdict = check_kernel(broadcast)
    assert verdict.ok and verdict.options["layout"] == "half", str(verdict)
    assert any("[batch, 1, tokens, d]" in remark for remark in verdict.remarks)
    assert not any("[batch, 1" in r for r in check_kernel(of_transformers).remarks)
    verdict = check_kernel(lambda q, k, cos, sin: broadcast(q, k, cos, -sin), **HALF)
    assert verdict.faults == ("sign",)


def t5_bias(query_positions, key_positions, table, *, largest=128, far=torch.log):
    """T5's bias alone; ``far`` is the scale of far buckets."""
    offsets = (query_positions[:, None] - key_positions).clamp(min=0)
    exact = table.shape[1] // 2
    ratio = offsets.clamp(min=exact).double() / exact
    more = far(ratio) / far(torch.tensor(largest / exact)) * exact
    bucket = torch.where(offsets < exact, offsets, (exact + more).long())
    return table[:, bucket.clamp(max=table.shape[1] - 1)]


def one_bucket_each(query_positions, key_positions, table):
    """T5's bias whose far buckets have one distance each."""
    offsets = (query_positions[:, None] - key_positions).clamp(0, table.shape[1] - 1)
    return table[:, offsets]


@pytest.mark.parametrize("tensors", ["torch", "numpy"])
def test_a_kernel_that_returns_a_bias_is_adapted(tensors):
    def alibi_bias(query_positions, key_positions, heads):
        slopes = 2.0 ** (-8.0 * np.arange(1, heads + 1) / heads)
        if tensors == "torch":
            slopes = torch.tensor(slopes, device=query_positions.device)
        return -slopes[:, None, None] * (query_positions[:, None] - key_positions)

    own = dict(ALIBI, tensors=tensors)
    verdict = check_kernel(alibi_bias, "alibi", **own)
    assert verdict.ok and verdict.seen.endswith("to 100,000"), str(verdict)

    def steeper(query_positions, key_positions, heads):
        return 2 * alibi_bias(query_positions, key_positions, heads)

    assert check_kernel(steeper, "alibi", **own).faults == ("twice",)


def test_a_bias_without_a_logarithm_is_named():
    assert check_kernel(t5_bias, "t5", **T5).ok
    linear = partial(t5_bias, far=lambda ratio: ratio - 1)
    for kernel, text in ((linear, "equally wide"), (one_bucket_each, "one distance")):
        verdict = check_kernel(kernel, "t5", **T5)
        assert verdict.faults == ("buckets",), str(verdict)
        assert text in verdict.message and "without a logarithm" in verdict.message


def test_a_shift_of_all_features_where_some_rotate_is_named():
    """Cached keys are moved by their whole width in llama.cpp#4889."""
    verdict = check_kernel(rotated, "rerotation", d=16, rotary_dim=8, **HALF)
    assert verdict.faults == ("rotary_dim",)
    assert "16 of 16 features are rotated, not 8" in verdict.message


def test_wrong_kernels_of_cosines_and_sines_are_named():
    def minus(q, k, cos, sin):
        return of_transformers(q, k, cos, -sin)

    def first(q, k, cos, sin):
        return of_transformers(q, k, cos, sin)[0], k

    assert check_kernel(minus, **HALF).faults == ("sign",)
    verdict = check_kernel(first, **HALF)
    assert verdict.faults == ("nothing",)
    assert any("keys" in remark for remark in verdict.remarks)


def test_a_kernel_that_cannot_run_is_not_called_wrong():
    def other(q, k, cos, sin, sections):
        return q

    verdict = check_kernel(other, **HALF)
    assert not verdict.ok and not verdict.ran and verdict.exit_status == 2
    assert verdict.message.startswith("cannot run: it raises TypeError")

    def short(x, positions):
        if positions.max() > 5000:
            raise IndexError("no such row")
        return rotated(x, positions)

    verdict = check_kernel(short, **HALF)
    assert verdict.ran and verdict.exit_status == 1 and "10^6" in verdict.message


class Leaving(BaseException):
    """Error of a kernel that is no Exception."""


class LeavingGradient(torch.autograd.Function):
    """The identity, whose gradient raises an error that is no Exception."""

    @staticmethod
    def forward(ctx, x):
        """Return x."""
        return x.clone()

    @staticmethod
    def backward(ctx, upstream):
        """Raise the error."""
        raise Leaving("gone")


@pytest.mark.parametrize("error", [SystemExit(0), Leaving("gone"), GeneratorExit()])
def test_a_kernel_that_ends_the_process_is_said_to_raise(error):
    def ending(x, positions):
        raise error

    verdict = check_kernel(ending, **HALF)
    assert not verdict.ran and verdict.exit_status == 2
    assert f"it raises {type(error).__name__}" in verdict.message

    def far(x, positions):
        if positions.max() > 5000:
            raise error
        return rotated(x, positions)

    assert check_kernel(far, **HALF).exit_status == 1
    verdict = check_kernel(lambda x, p: LeavingGradient.apply(rotated(x, p)), **HALF)
    assert verdict.message.startswith("its gradient raises Leaving: gone")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Interruption()])
def test_an_interruption_ends_a_check(error):
    def ending(x, positions):
        raise error

    with pytest.raises(type(error)):
        check_kernel(ending, **HALF)


def test_what_was_not_tried_is_said():
    def numbered(q, k, v, causal):
        at = torch.arange(k.shape[2]).expand(len(k), -1)
        return alibi(q, k, v, at, causal)

    verdict = check_kernel(numbered, "alibi", **ALIBI)
    assert verdict.ok and verdict.seen == "distances 0 to 299"
    assert "packed" in verdict.coverage and "no positions" in verdict.coverage
    assert verdict.coverage in str(verdict)

    def square(q, k, v, positions, causal):
        if q.shape != v.shape and q.shape[1] == v.shape[1]:
            raise ValueError("no caches")
        return alibi(q, k, v, positions, causal)

    verdict = check_kernel(square, "alibi", **ALIBI)
    assert verdict.ok and "one query" in verdict.coverage
    assert check_kernel(lambda x: x, **HALF).faults == ("nothing",)


def test_a_table_without_negative_rows_is_tested_without_them():
    """A negative index takes a row from the table's end."""

    def of_rows(x, positions):
        rows = torch.arange(int(positions.max()) + 1)
        return rotated(x, rows[positions % len(rows)])

    verdict = check_kernel(of_rows, **HALF)
    assert not verdict.ok
    assert [p.partition(",")[0] for p in verdict.failures] == ["negative positions"]
    verdict = check_kernel(of_rows, **HALF, negative=False)
    assert verdict.ok and verdict.seen == "positions 0 to 1,000,003"

    def refusing(x, positions):
        return rotated(x, torch.arange(int(positions.max()) + 1)[positions])

    verdict = check_kernel(refusing, **HALF)
    assert verdict.ok and "not tried: negative positions" in verdict.coverage


def test_given_frequencies_are_not_printed():
    omega = tuple(10000.0 ** (-np.arange(64) / 64) / 4)
    verdict = check_kernel(rotated, layout="half", frequencies=omega, d=128)
    lines = str(verdict).splitlines()
    assert not verdict.ok and len(lines) <= 40 and max(map(len, lines)) < 200
    assert "frequencies=(64 numbers)" in str(verdict)


def test_a_verdict_on_a_rotation_takes_a_second():
    """An unknown fault is compared with all mutants, and all pairs."""
    for fault, kernel in (("right", rotated), ("odd", WRONG_ROTATIONS["odd"][0])):
        start = time.process_time()
        check_kernel(kernel)
        assert time.process_time() - start < 4, fault


def _t5(bucket):
    """A kernel of T5's bias with 32 buckets, in which ``bucket`` maps far distances."""

    def bias(query_positions, key_positions, *, table):
        offsets = key_positions - query_positions[:, None]
        far = offsets.abs()
        near = torch.where(far < 8, far, bucket(far).clamp(max=15))
        return table[:, near + 16 * (offsets > 0)]

    return bias


@pytest.mark.parametrize(
    ("bucket", "words"),
    [
        (lambda far: far, "one distance each, without a logarithm"),
        (lambda far: 8 + (far - 8) * 8 // 120, "equally wide, without a logarithm"),
    ],
)
def test_buckets_without_a_logarithm_are_named_so(bucket, words):
    """The first are also those of a largest distance of 16, which says less."""
    verdict = check_kernel(
        _t5(bucket), "t5", buckets=32, distance=128, dtypes=["float64"]
    )
    assert verdict.faults == ("buckets",) and words in verdict.message


def test_whether_a_kernel_fails_takes_the_bounds_of_few_cases(monkeypatch):
    """The same answer as from all cases; a wrong kernel has it from the first bound."""
    asked = []
    bound = Case.bound

    def counted(self, *given, **named):
        asked.append(self.difficulty)
        return bound(self, *given, **named)

    monkeypatch.setattr(Case, "bound", counted)
    given = [*cases("rope", layout="half")]
    for shift, fails in ((0.0, False), (1e6, True)):
        outs = [case.expected.copy() for case in given]
        outs[-1] += shift
        run = check._Run(torch.float64, given, outs, [None] * len(given))
        asked.clear()
        assert run.fails("float64") == bool(run.failing("float64")) == fails
        asked.clear()
        assert run.fails("float64") == fails
        assert len(asked) == (1 if fails else len(given))
