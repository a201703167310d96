"""GRAPE-M, GRAPE-A, GRAPE-AP: loops, special cases, texts alone, published mistakes."""

import math

import numpy as np
import pytest
import sympy as sp
import torch

from posedu.numpy import path as reference
from posedu.sympy.path import lifted_score, unipotent
from posedu.torch import GRAPEA, GRAPEAP, GRAPEM, ALiBi, Attention, RoPE, attend
from support.path import DOUBLE, normal, rotation_weights, texts_alone

D, HEADS, TOKENS = 8, 2, 9
WIDTH = HEADS * D
SLOPES = (2**-4, 2**-8)


def softplus(z):
    return math.log1p(math.exp(z))


def sigmoid(z):
    return 1 / (1 + math.exp(-z))


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def moved(module, seed=0):
    """The module in float64, with parameters that are not where they start."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for p in module.parameters():
            p.normal_(0, 0.7)
    return module.double()


def m_of(phase="sigmoid", layout="half", per_head=False):
    options = {"layout": layout, "phase": phase, "per_head": per_head}
    return moved(GRAPEM(WIDTH, HEADS, D, **options))


def a_of(gates="both", unit_vectors=True):
    options = {"gates": gates, "unit_vectors": unit_vectors}
    return moved(GRAPEA(HEADS, D, slopes="authors", **options))


def ap_of(normalized="key", layout="half", probe_d=4):
    options = {"normalized": normalized, "layout": layout, "probe_d": probe_d}
    return moved(GRAPEAP(WIDTH, HEADS, slopes="authors", **options))


def probes(*shape):
    options = {"slopes": "authors", "layout": "half", "normalized": "key"}
    return options | {"probe_weight": np.ones((HEADS, *shape))}


def drawn(tokens=TOKENS, seed=1):
    q, k = normal(2, 1, HEADS, tokens, D, seed=seed)
    return q, k, normal(1, tokens, WIDTH, seed=seed + 1)


def weights_of(module, q, k, x, **options):
    v = torch.eye(q.shape[2], dtype=DOUBLE).expand(1, q.shape[1], -1, -1)
    return attend(q, k, v, module, x=x, **options).detach()[0].numpy()


def weights_with(bias, q, k, scale=D**-0.5):
    """Attention weights of one head with a bias (i, j) as a function, by loops."""
    weights = np.zeros((len(q), len(q)))
    for i in range(len(q)):
        for j in range(i + 1):
            score = dot(q[i].tolist(), k[j].tolist()) * scale
            weights[i, j] = math.exp(score + bias(i, j))
    return weights / weights.sum(1, keepdims=True)


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)


# GRAPE-M


def m_steps(module, x, h, divisor=16.0):
    """The angles that the tokens of head h add, token by token."""
    row = h if len(module.phase_weight) > 1 else 0
    theta = module.log_frequencies.detach().exp().numpy()
    steps = []
    for token in x[0]:
        z = dot(module.phase_weight[row].tolist(), token.tolist())
        z += module.phase_bias[row].item()
        phase = softplus(z) if module.phase == "softplus" else sigmoid(z / divisor)
        steps.append(phase * theta)
    return np.array(steps)


@pytest.mark.parametrize("layout", ("half", "interleaved"))
@pytest.mark.parametrize("phase", ("sigmoid", "softplus"))
@pytest.mark.parametrize("per_head", (False, True))
def test_grape_m_is_the_loop(layout, phase, per_head):
    module, (q, k, x) = m_of(phase, layout, per_head), drawn()
    found = weights_of(module, q, k, x)
    for h in range(HEADS):
        given = q[0, h].numpy(), k[0, h].numpy(), m_steps(module, x, h), layout
        close(found[h], rotation_weights(*given, sign=1, first_key=0))


M_MUTANTS = {
    "the key's own phase left out": dict(first_key=1),
    "counter-clockwise": dict(sign=-1),
    "the phase not divided by 16": dict(divisor=1.0),
}


@pytest.mark.parametrize("name", M_MUTANTS)
def test_wrong_versions_of_grape_m_differ(name):
    change = {"sign": 1, "first_key": 0, "divisor": 16.0} | M_MUTANTS[name]
    module, (q, k, x) = m_of(), drawn()
    steps = m_steps(module, x, 0, change.pop("divisor"))
    wrong = rotation_weights(q[0, 0].numpy(), k[0, 0].numpy(), steps, "half", **change)
    assert np.abs(weights_of(module, q, k, x)[0] - wrong).max() > 1e-2


def test_the_path_of_grape_m_ends_before_the_query():
    """The score of query and key reads the key's token, and not the query's."""
    module, (q, k, x) = m_of(), drawn()
    last = weights_of(module, q, k, x)[:, -1]
    changed = x.clone()
    changed[:, -1] += 1
    close(weights_of(module, q, k, changed)[:, -1], last)
    changed = x.clone()
    changed[:, 4] += 1
    gap = np.log(weights_of(module, q, k, changed)[:, -1] / last)
    gap -= gap[:, -1:]
    assert np.abs(gap[:, 5:]).max() < 1e-12 and np.abs(gap[:, 4]).min() > 1e-3


def test_grape_m_of_phases_1_is_rope_with_the_pair_s_features_exchanged():
    module, (q, k, x) = (
        GRAPEM(WIDTH, HEADS, D, layout="half", phase="softplus"),
        drawn(),
    )
    module = module.double()
    with torch.no_grad():
        module.phase_bias.fill_(math.log(math.e - 1))
        module.log_frequencies.copy_(
            torch.tensor([10000 ** (-2 * p / D) for p in range(D // 2)]).log()
        )
    exchanged = (t.roll(D // 2, -1) for t in (q, k))
    expected = weights_of(RoPE(D, layout="half"), *exchanged, x)
    np.testing.assert_allclose(weights_of(module, q, k, x), expected, rtol=0, atol=1e-6)
    unchanged = weights_of(RoPE(D, layout="half"), q, k, x)
    assert np.abs(weights_of(module, q, k, x) - unchanged).max() > 1e-2


@pytest.mark.parametrize("phase, start", [("sigmoid", 0.3937), ("softplus", 0.001)])
def test_where_phases_start(phase, start):
    """The published target is 1e−3; the code's sigmoid starts at 0.394."""
    module = GRAPEM(WIDTH, HEADS, D, layout="half", phase=phase)
    phases = module.remember(torch.randn(1, 3, WIDTH))["phases"]
    torch.testing.assert_close(phases, torch.full((1, 3, 1), start), rtol=0, atol=5e-5)


def test_no_phases_are_no_encoding():
    module, (q, k, x) = m_of("softplus"), drawn()
    with torch.no_grad():
        module.phase_weight.zero_()
        module.phase_bias.fill_(-40)
    close(weights_of(module, q, k, x), weights_of(None, q, k, x))


def test_weights_of_a_norm_after_the_rotation_make_the_score_absolute():
    """The authors' order: a factor for each feature, then unequal within a pair."""
    q, k = normal(2, D, seed=3).numpy()
    gains = np.linspace(0.5, 1.5, D)

    def score(first, gains):
        def turned(t, angle):
            z = (t[: D // 2] + 1j * t[D // 2 :]) * np.exp(-1j * angle)
            return np.concatenate((z.real, z.imag)) * gains

        return turned(q, first + 0.4) @ turned(k, first)

    assert abs(score(2.0, gains) - score(0.0, gains)) > 0.1
    assert abs(score(2.0, np.ones(D)) - score(0.0, np.ones(D))) < 1e-12


# GRAPE-A


def a_bias(module, q, k, h, *, root=True, key=None):
    """The bias of head h as a function of query and key, by numbers."""
    weights = {"query": module.query_weight, "key": module.key_weight}

    def gate(name, vector):
        if weights[name] is None:
            return 0.0
        w = weights[name][h].tolist()
        if module.unit_vectors:
            w = [value / math.sqrt(dot(w, w)) for value in w]
        return softplus(dot(w, vector.tolist()) / (math.sqrt(D) if root else 1))

    size = SLOPES[h] * softplus(module.omega[h].item())
    return lambda i, j: (
        -(i - j)
        * size
        * (gate("query", q[i]) + gate("key", k[j if key is None else i]))
    )


@pytest.mark.parametrize("gates", ("query", "key", "both"))
@pytest.mark.parametrize("unit_vectors", (False, True))
def test_grape_a_is_the_loop(gates, unit_vectors):
    module, (q, k, x) = a_of(gates, unit_vectors), drawn()
    found = weights_of(module, 5 * q, 5 * k, x)
    for h in range(HEADS):
        own = 5 * q[0, h], 5 * k[0, h]
        close(found[h], weights_with(a_bias(module, *own, h), *own))


def test_wrong_versions_of_grape_a_differ():
    module, (q, k, x) = a_of(), drawn()
    q, k = 5 * q, 5 * k
    found = weights_of(module, q, k, x)[0]
    for wrong in (
        a_bias(module, q[0, 0], k[0, 0], 0, root=False),
        a_bias(module, q[0, 0], k[0, 0], 0, key="the query's"),
        a_bias(a_of(unit_vectors=False), q[0, 0], k[0, 0], 0),
    ):
        assert np.abs(found - weights_with(wrong, q[0, 0], k[0, 0])).max() > 1e-3


@pytest.mark.parametrize("gates, gate", [("key", 1), ("query", 1), ("both", 2)])
def test_grape_a_without_vectors_is_alibi(gates, gate):
    """The gates are log 2 each: ω with softplus(ω) = 1/log 2 or 1/log 4 undoes them."""
    module, (q, k, x) = a_of(gates), drawn()
    with torch.no_grad():
        for weight in filter(torch.is_tensor, (module.query_weight, module.key_weight)):
            weight.zero_()
        module.omega.fill_(math.log(math.expm1(1 / (gate * math.log(2)))))
    close(weights_of(module, q, k, x), weights_of(ALiBi(2, slopes="authors"), q, k, x))


def test_grape_a_reads_the_ends_and_not_the_path():
    module, (q, k, x) = a_of(), drawn()
    last = weights_of(module, q, k, x)[:, -1]
    other = k.clone()
    other[:, :, 1:5] = normal(1, HEADS, 4, D, seed=8)
    gap = np.log(weights_of(module, q, other, x)[:, -1] / last)
    close(np.diff(gap[:, [0, 5, 6, 7, 8]]), 0)


# GRAPE-AP


def ap_bias(module, x, h, *, both=None, after=1, turn=-1, shift=0, both_turned=False):
    """The bias of head h by three loops, with probes as lists of complex numbers."""
    weight = module.probe_weight[h].tolist()
    n, both = len(weight), module.normalized == "both" if both is None else both

    def probe(t, is_scaled):
        p = [dot(row, x[0, t].tolist()) for row in weight]
        size = math.sqrt(dot(p, p) / n + 2**-23) if is_scaled else 1
        p = [value / size for value in p]
        if module.layout == "half":
            return np.array(p[: n // 2]) + 1j * np.array(p[n // 2 :])
        return np.array(p[0::2]) + 1j * np.array(p[1::2])

    def bias(i, j):
        total = 0.0
        for t in range(j + after, i + after):
            key = probe(t, True) * np.exp(turn * 1j * (t + shift))
            query = probe(i, both)
            if both_turned:
                query = query * np.exp(turn * 1j * (i + shift))
            z = (query.conj() * key).sum().real / n
            total += SLOPES[h] * math.log(sigmoid(z))
        return total

    return bias


@pytest.mark.parametrize("normalized", ("key", "both"))
@pytest.mark.parametrize("layout", ("half", "interleaved"))
def test_grape_ap_is_the_loop(normalized, layout):
    module, (q, k, x) = ap_of(normalized, layout), drawn()
    found = weights_of(module, q, k, x)
    for h in range(HEADS):
        close(found[h], weights_with(ap_bias(module, x, h), q[0, h], k[0, h]))


AP_MUTANTS = {
    "both probes normalized": dict(both=True),
    "the key's own edge in place of the query's": dict(after=0),
    "counter-clockwise": dict(turn=1),
    "the query's probe rotated too": dict(both_turned=True),
    "positions from 1": dict(shift=1),
}


@pytest.mark.parametrize("name", AP_MUTANTS)
def test_wrong_versions_of_grape_ap_differ(name):
    module, (q, k, x) = ap_of(), drawn()
    wrong = weights_with(ap_bias(module, x, 0, **AP_MUTANTS[name]), q[0, 0], k[0, 0])
    assert np.abs(weights_of(module, q, k, x)[0] - wrong).max() > 1e-4


def test_grape_ap_changes_with_a_shift_of_all_positions():
    module, (q, k, x) = ap_of(), drawn()
    at, whole = torch.arange(TOKENS), weights_of(module, q, k, x)
    assert np.abs(weights_of(module, q, k, x, positions=at + 1) - whole).max() > 1e-4
    alibi = ALiBi(2, slopes="authors")
    shifted = weights_of(alibi, q, k, x, positions=at + 1)
    close(shifted, weights_of(alibi, q, k, x))


def test_grape_ap_without_probes_is_alibi_with_slopes_times_log_2():
    module, (q, k, x) = ap_of(), drawn()
    torch.nn.init.zeros_(module.probe_weight)
    alibi = ALiBi(2, slopes=math.log(2) * torch.tensor(SLOPES, dtype=DOUBLE))
    close(weights_of(module, q, k, x), weights_of(alibi, q, k, x))


def test_paths_of_one_query_add_up():
    """Row by row b_ij = b_il + b_lj of the same query i; across queries it is not."""
    module, (_, _, x) = ap_of(), drawn()
    bias = ap_bias(module, x, 0)
    own = bias(8, 2) - bias(8, 5)
    changed = x.clone()
    changed[:, 6:8] += 1
    after = ap_bias(module, changed, 0)
    assert after(8, 2) - after(8, 5) == pytest.approx(own, abs=1e-14)
    assert abs(own - bias(5, 2)) > 1e-3


# Published mistakes


def test_the_published_lift_of_fox_has_the_other_sign():
    """Appendix C: H = I + ψE, scored with the inverse transpose, gives q·k − D."""
    d = sp.log(sp.Rational(1, 2))
    q, k = sp.Matrix([[3]]), sp.Matrix([[5]])
    published = unipotent(1, d).T
    assert lifted_score(q, k, published.inv().T) == 15 - d
    assert lifted_score(q, k, unipotent(1, d)) == 15 + d


def test_the_published_difference_of_sums_is_over_other_tokens():
    """A_u = Σ_{l<u} a_l: A_t − A_j holds a_j … a_(t−1), and not a_(j+1) … a_t."""
    a = sp.symbols("a:4")

    def before(u):
        return sum(a[:u])

    assert before(3) - before(1) == a[1] + a[2] != sum(a[2:4])


def test_the_published_generator_turns_the_other_way():
    """L(a, b) = a bᵀ − b aᵀ of the first two basis vectors is −J, clockwise."""
    a, b = sp.eye(2).col(0), sp.eye(2).col(1)
    generator = a * b.T - b * a.T
    assert generator == -sp.Matrix([[0, -1], [1, 0]])


# All three


ENCODINGS = {"m": m_of, "a": a_of, "ap": ap_of}


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("kv_heads", (2, 1))
def test_pieces_padding_and_packing_are_the_texts_alone(name, kv_heads):
    torch.manual_seed(0)
    encoding = ENCODINGS[name]()
    layer = Attention(WIDTH, HEADS, encoding=encoding, kv_heads=kv_heads).double()
    texts_alone(layer, TOKENS)


@pytest.mark.parametrize("name", ENCODINGS)
def test_gradients(name):
    module = ENCODINGS[name]()
    q, k, x = (t.requires_grad_() for t in drawn(tokens=4))
    v = normal(1, HEADS, 4, 3, seed=5)
    assert torch.autograd.gradcheck(
        lambda q, k, x, *_: attend(q, k, v, module, x=x),
        (q, k, x, *module.parameters()),
    )


@pytest.mark.parametrize("name", ENCODINGS)
def test_in_bfloat16_only_inputs_and_outputs_are_rounded(name):
    """Angles and biases are not: the output is off by a few units of 2⁻⁸."""
    module, (q, k, x) = ENCODINGS[name]().bfloat16(), drawn(tokens=200)
    q, k, x, v = (t.bfloat16() for t in (q, k, x, normal(1, HEADS, 200, D, seed=5)))
    found = attend(q, k, v, module, x=x)
    wide = (t.double() for t in (q, k, v))
    exact = attend(*wide, module.double(), x=x.double())
    assert (found - exact).abs().max() < 8 * 2**-8 * v.abs().max()


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: m_of(phase="relu"), "phase"),
        (lambda: m_of(per_head=1), "per_head"),
        (lambda: a_of(gates="none"), "gates"),
        (lambda: a_of(unit_vectors="yes"), "unit_vectors"),
        (lambda: ap_of(normalized="neither"), "normalized"),
        (lambda: ap_of(probe_d=3), "probe_d"),
        (lambda: reference.grape_ap(**probes(3, 4)), "with probe_d even"),
        (lambda: GRAPEA(2, 4, slopes="x", gates="key", unit_vectors=True), "slopes"),
    ],
)
def test_wrong_options_are_named(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()
