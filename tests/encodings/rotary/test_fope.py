"""FoPE: on tokens as in its code, on offsets as in its paper."""

import math
from functools import partial

import numpy as np
import pytest
import sympy as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mutants import published_encodings as mutants
from posedu.numpy import rotary as reference
from posedu.numpy.attention import attend as attend_reference
from posedu.numpy.frequencies import frequencies
from posedu.sympy import rotary as symbolic
from posedu.sympy.attention import attend as attend_exactly
from posedu.torch import Attention, FoPE, KVCache, RoPE, attend
from posedu.torch.rotary import kept_frequencies

DOUBLE = torch.float64
LAYOUTS, PADDINGS = ("interleaved", "half"), ("identity", "ones")
seeds = st.integers(0, 2**31)


def draw(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def fope(d=64, **options):
    torch.manual_seed(0)
    wanted = {
        "layout": "half",
        "length": 512,
        "padding": "identity",
        "coefficients": "code",
    }
    return FoPE(d, **wanted | options)


def of(module):
    """The options of the other implementations that describe a module."""
    names = ("layout", "length", "padding", "base", "fourier_dim", "normalize")
    coefficients = ("cos_coefficients", "sin_coefficients")
    return {name: getattr(module, name) for name in names} | {
        name: getattr(module, name).detach().numpy() for name in coefficients
    }


# Published numbers


@pytest.mark.parametrize(
    ("d", "length", "kept", "series", "own"),
    [(64, 512, 16, 16, 16), (64, 8192, 25, 16, 13), (128, 1024, 36, 32, 18)],
)
def test_it_keeps_as_many_frequencies_as_published(d, length, kept, series, own):
    c = fope(d, length=length, padding="ones", sigma=0.0).cos_coefficients
    assert c.shape == (kept, series)
    assert int((c == 1).any(0).sum()) == own


def test_the_code_s_deviation_is_xavier_s():
    c = fope(heads=8).cos_coefficients - torch.eye(16)
    assert c.std().item() == pytest.approx(0.0217, rel=0.05)
    paper = fope(heads=8, coefficients="paper").cos_coefficients - torch.eye(16)
    assert paper.std().item() == pytest.approx(0.3, rel=0.05)


def scores(module, tokens=20):
    x = torch.ones(tokens, 64, dtype=DOUBLE)
    turned = module.double()(x, torch.arange(tokens))
    return (turned @ turned.mT).numpy()


def spread(matrix):
    return max(np.ptp(np.diag(matrix, -r)) for r in range(len(matrix)))


def test_it_is_relative_exactly_where_each_pair_is_one_wave():
    own = np.eye(16)
    other, noise = 0.7 * own[::-1], 0.1 * draw(0, 2, 16, 16)
    refuted = []
    for c, s in (
        (own, own),
        (own, -own),  # each pair rotates backwards
        (other, other),  # each pair has the wave of another
        (1.2 * own, 0.8 * own),  # nothing is mixed, but c ≠ s: two waves
        (own, 0 * own),
        (own + noise[0], own + noise[0]),
        (own + noise[0], own + noise[1]),
    ):
        coefficients = {"cos_coefficients": c, "sin_coefficients": s}
        module = fope(
            coefficients=None, **{n: torch.tensor(t) for n, t in coefficients.items()}
        )
        waves = (c + s != 0).sum(0) + (c - s != 0).sum(0)
        is_relative = spread(scores(module)) < 1e-11
        assert is_relative == (waves <= 1).all()
        refuted.append(mutants.relative_where_nothing_is_mixed(c, s) != is_relative)
    assert sum(refuted) == 3


def test_ones_double_what_they_pad():
    module = fope(padding="ones", sigma=0.0).double()
    x = torch.zeros(1, 64, dtype=DOUBLE)
    x[0, 31] = 1.0
    for at in (0, 7, 300):
        turned = module(x, torch.tensor([at]))
        assert (turned @ turned.mT).item() == pytest.approx(2)


# The frequencies


@pytest.mark.parametrize("d", [2, 8, 64])
@pytest.mark.parametrize("length", [7, 64, 4096])
def test_the_three_implementations_keep_the_same_frequencies(d, length):
    kept = reference.kept_frequencies(d, length=length)
    exact = [float(w) for w in symbolic.kept_frequencies(d, length=length)]
    for implementation in (kept, kept_frequencies(d, length=length).numpy()):
        # A power is good to a unit in the last place, its exponent to u, times ln ω.
        np.testing.assert_allclose(
            implementation, exact, rtol=(2 + np.log(10000)) * 2**-53
        )
    assert (kept * length >= 2 * np.pi).all() and len(kept) >= 1
    dropped = mutants.frequencies_up_to_the_floor(d, length)
    assert len(kept) + len(dropped) == d // 2
    assert not set(kept) & set(dropped)


def test_more_frequencies_are_closer_and_a_pair_s_own_is_among_them():
    module = fope(8, length=64, coefficients="paper", sigma=0.0, fourier_dim=16)
    kept = reference.kept_frequencies(16, length=64)
    assert module.cos_coefficients.shape == (3, 2)
    own = frequencies(8)[:2]
    assert np.array_equal(kept @ module.cos_coefficients.double().numpy(), own)
    # Without mixing it is then what it is without the other frequencies.
    x = torch.tensor(draw(0, 5, 8))
    alone = fope(8, length=64, coefficients="paper", sigma=0.0)
    torch.testing.assert_close(module(x, range(5)), alone(x, range(5)))
    # The code's: a series for at most d/4 pairs, steps between their own frequencies.
    c = fope(8, length=64, sigma=0.0, fourier_dim=16).cos_coefficients
    assert c.tolist() == [[1, 0], [0, 0], [0, 1]]


def test_normalized_series_are_1_and_0_at_the_origin():
    module = fope(coefficients="paper", padding="identity", normalize=True).double()
    cos, sin = module.table(torch.zeros(1), dtype=DOUBLE)
    torch.testing.assert_close(cos, torch.ones_like(cos))
    assert not sin.any()
    x = torch.tensor(draw(0, 1, 64))
    torch.testing.assert_close(module(x, range(1)), x)
    with_sums = fope(coefficients="paper", padding="identity").double()
    assert (with_sums(x, range(1)) - x).abs().max() > 0.1


# The implementations


def as_released(x, positions, cos_coef, sin_coef, *, dim, length, norm):
    """The authors' FourierEmbedding, line by line, for [heads, tokens, d]."""
    inv_freq = 1.0 / 10000 ** (torch.arange(0, dim, 2, dtype=DOUBLE) / dim)
    inv_freq = inv_freq[inv_freq >= 2 * torch.pi / length]
    freqs = torch.einsum("t,d->td", positions.double(), inv_freq)
    tables = []
    for pos, coef in ((freqs.cos(), cos_coef), (freqs.sin(), sin_coef)):
        if norm:
            coef = coef / coef.sum(dim=-2, keepdim=True)
        series = torch.einsum("tD,hDd->htd", pos, coef)
        missing = x.shape[-1] // 2 - series.shape[-1]
        series = torch.nn.functional.pad(series, (0, missing), value=1)
        tables.append(torch.cat((series, series), -1))
    x1, x2 = x.chunk(2, -1)
    return x * tables[0] + torch.cat((-x2, x1), -1) * tables[1]


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("dim", [16, 32, 64])
def test_it_is_the_released_code(dim, norm):
    module = fope(
        16, padding="ones", heads=2, length=64, fourier_dim=dim, normalize=norm
    ).double()
    x, positions = torch.tensor(draw(0, 2, 9, 16)), torch.arange(9) * 7
    c, s = module.cos_coefficients, module.sin_coefficients
    released = as_released(x, positions, c, s, dim=dim, length=64, norm=norm)
    size = released.abs().max().item()
    torch.testing.assert_close(
        module(x, positions), released, rtol=0, atol=1e-13 * size
    )


@settings(max_examples=40)
@given(
    seed=seeds,
    layout=st.sampled_from(LAYOUTS),
    padding=st.sampled_from(PADDINGS),
    rule=st.sampled_from(("paper", "code")),
    heads=st.sampled_from((None, 1, 2)),
    fourier_dim=st.sampled_from((None, 16, 24)),
    normalize=st.booleans(),
)
def test_tokens_are_the_reference_s(
    seed, layout, padding, rule, heads, fourier_dim, normalize
):
    module = fope(
        8, layout=layout, padding=padding, coefficients=rule, heads=heads, length=64,
        fourier_dim=fourier_dim, normalize=normalize,
    ).double()  # fmt: skip
    x, at = draw(seed, 3, 4, 5, 8), 30 * draw(seed + 1, 3, 5)
    ours = module(torch.tensor(x), torch.tensor(at)).numpy()
    expected = reference.fope(x, at, **of(module))
    table = module.table(torch.tensor(at)[:, None], dtype=DOUBLE)
    scale = sum(series.abs().max().item() for series in table)
    atol = 1e-13 * scale * max(1.0, np.abs(x).max())
    np.testing.assert_allclose(ours, expected, rtol=0, atol=atol)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("fourier_dim", [None, 8])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("padding", PADDINGS)
def test_tokens_are_the_exact_implementation_s(layout, padding, fourier_dim, normalize):
    module = fope(
        4, layout=layout, padding=padding, coefficients="paper", length=64,
        fourier_dim=fourier_dim, normalize=normalize,
    ).double()  # fmt: skip
    options, x = of(module), draw(0, 1, 4)
    numbers = {
        n: sp.Matrix(v) if isinstance(v, np.ndarray) else v for n, v in options.items()
    }
    for at in (0, 1, -7, 2.5):
        exact = symbolic.fope(sp.Matrix(x[0]), sp.Rational(at), **numbers).evalf(20)
        ours = reference.fope(x, [at], **options)[0]
        np.testing.assert_allclose(ours, np.array(exact, float).ravel(), atol=1e-13)


@pytest.mark.parametrize("own", [None, 1, 2])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_offsets_are_the_same_in_all_implementations_with_grouped_queries(layout, own):
    module = fope(
        4, layout=layout, coefficients="paper", length=64, series="offset", heads=own,
        padding="ones", normalize=True,
    ).double()  # fmt: skip
    q, k, v = draw(0, 4, 3, 4), draw(1, 2, 3, 4), draw(2, 2, 3, 4)
    at = [2.5, -1.0, 7.0]
    hooks = reference.fope_offset(**of(module))
    expected = attend_reference(q, k, v, hooks, positions=at)
    ours = attend(*(torch.tensor(t)[None] for t in (q, k, v)), module, positions=at)
    np.testing.assert_allclose(ours[0].numpy(), expected, rtol=0, atol=1e-13)
    exactly = {
        n: [sp.Matrix(m) for m in t] if own else sp.Matrix(t)
        for n, t in of(module).items()
        if n.endswith("coefficients")
    }
    exact = attend_exactly(
        *([sp.Matrix(m) for m in t] for t in (q, k, v)),
        symbolic.fope_offset(**of(module) | exactly),
        positions=[sp.Rational(p) for p in at],
    )
    for head, wanted in zip(expected, exact, strict=True):
        number = np.array(wanted.evalf(20), float)
        np.testing.assert_allclose(head, number, rtol=0, atol=1e-13)


def test_the_base_is_the_paper_s_unless_given():
    x, at = draw(0, 1, 3, 8), 50 * np.arange(3.0)
    series = dict(cos_coefficients=ONE, sin_coefficients=ONE, length=64, padding="ones")
    pairs = series | {"layout": "half"}

    def in_attention(**base):
        hooks = reference.fope_offset(**pairs, **base)
        return attend_reference(x, x, x, hooks, positions=at)

    for implementation in (
        partial(reference.fope_table, at, 8, **series),
        partial(reference.fope, x, at, **pairs),
        partial(reference.fope_scores, x, x, at, at, **pairs),
        in_attention,
    ):
        assert np.array_equal(implementation(), implementation(base=10000))
        assert not np.array_equal(implementation(), implementation(base=9000))


def test_scores_of_grouped_queries_are_those_of_repeated_keys():
    q, k, at = draw(0, 3, 4, 5, 8), draw(1, 3, 2, 5, 8), 9 * draw(2, 3, 5)
    options = of(fope(8, length=64, heads=2, coefficients="paper"))
    grouped = reference.fope_scores(q, k, at, at, **options)
    repeated = reference.fope_scores(q, k.repeat(2, 1), at, at, **options)
    assert np.array_equal(grouped, repeated)
    for row in range(3):
        alone = reference.fope_scores(q[row], k[row], at[row], at[row], **options)
        np.testing.assert_allclose(grouped[row], alone, rtol=0, atol=1e-13)


def test_it_is_rope_where_every_pair_keeps_its_own_wave():
    """FoPE zeroes none of 8 features' frequencies for 8192 tokens, and two for 64."""
    x, at = torch.tensor(draw(0, 9, 8)), torch.arange(9) * 5
    turned = RoPE(8, layout="half")(x, at)

    def apart(length, c, s):
        series = {"cos_coefficients": c, "sin_coefficients": s}
        given = {name: torch.tensor(t) for name, t in series.items()}
        module = fope(8, length=length, coefficients=None, **given)
        return (module(x, at) - turned).abs().max()

    own, two = np.eye(4), np.eye(2)
    assert apart(8192, own, own) < 1e-14
    assert min(apart(8192, 1.2 * own, 0.8 * own), apart(64, two, two)) > 0.01


def test_the_paper_s_scores_are_relative_and_the_code_s_are_not():
    q, k = np.tile(draw(0, 1, 8), (6, 1)), np.tile(draw(1, 1, 8), (6, 1))
    options = of(fope(8, length=64, coefficients="paper"))
    at = np.arange(6)
    assert spread(reference.fope_scores(q, k, at, at, **options)) < 1e-13
    assert spread(mutants.toeplitz_by_the_paper(q, k, at, **options)) > 0.01


def test_on_offsets_it_is_relative_in_a_layer_and_decodes_token_by_token():
    encoding = fope(
        8, layout="interleaved", length=64, padding="ones", coefficients="paper",
        series="offset", heads=2,
    )  # fmt: skip
    layer = Attention(32, 4, kv_heads=2, encoding=encoding).double()
    x = torch.tensor(draw(1, 2, 7, 32))
    here, there = layer(x), layer(x, torch.arange(7) + 1000)
    torch.testing.assert_close(here, there, rtol=0, atol=1e-11)
    cache = KVCache()
    steps = [layer(x[:, i : i + 1], cache=cache) for i in range(7)]
    torch.testing.assert_close(torch.cat(steps, 1), here, rtol=0, atol=1e-12)


def test_rows_of_a_batch_may_have_positions_of_their_own():
    for series in ("tokens", "offset"):
        module = fope(8, length=64, heads=2, series=series).double()
        q, k, v = (torch.tensor(draw(s, 3, 2, 4, 8)) for s in range(3))
        at = torch.tensor(9 * draw(3, 3, 4))
        out = attend(q, k, v, module, positions=at)
        for row in range(3):
            here = slice(row, row + 1)
            alone = attend(q[here], k[here], v[here], module, positions=at[row])
            torch.testing.assert_close(out[here], alone, rtol=0, atol=1e-13)


# Coefficients


def test_given_coefficients_are_copied_and_fixed_until_asked():
    c, s = torch.tensor(draw(0, 2, 2, 3)), torch.tensor(draw(1, 2, 2, 3))
    options = {"heads": 2, "length": 64, "coefficients": None}
    module = fope(8, **options, cos_coefficients=c, sin_coefficients=s)
    assert torch.equal(module.cos_coefficients, c)
    assert torch.equal(module.sin_coefficients, s)
    assert not any(p.requires_grad for p in module.parameters())
    c.zero_()
    assert module.cos_coefficients.any()


@pytest.mark.parametrize("series", ["tokens", "offset"])
@pytest.mark.parametrize("trained", [("cos",), ("sin",), ("cos", "sin")], ids="-".join)
def test_each_that_is_trained_has_its_gradient(series, trained):
    """Trained series have gradients, also if only the sines are trained."""
    module = fope(8, length=64, coefficients="paper", series=series).double()
    q, k, v = (torch.tensor(draw(s, 1, 2, 4, 8)) for s in range(3))

    def out():
        return attend(q, k, v, module).square().sum()

    for name in ("cos", "sin"):
        parameter = getattr(module, f"{name}_coefficients")
        parameter.requires_grad_(name in trained)
    out().backward()
    for name in ("cos", "sin"):
        parameter = getattr(module, f"{name}_coefficients")
        if name not in trained:
            assert parameter.grad is None
            continue
        step = 2.0**-17
        with torch.no_grad():
            parameter[0, 1] += step
            above = out()
            parameter[0, 1] -= 2 * step
            slope = (above - out()) / (2 * step)
            parameter[0, 1] += step
        torch.testing.assert_close(parameter.grad[0, 1], slope, rtol=1e-6, atol=1e-8)


# Bad input


def table(**replaced):
    options = {
        "cos_coefficients": np.ones((2, 2)),
        "sin_coefficients": np.ones((2, 2)),
        "length": 64,
        "padding": "ones",
    }
    return reference.fope_table(range(5), 8, **options | replaced)


def test_a_table_takes_positions_of_every_kind():
    for p in (range(5), [0, 1, 2, 3, 4], np.arange(5), np.arange(5.0)):
        options = {"length": 64, "padding": "ones"}
        ones = {f"{n}_coefficients": np.ones((2, 2)) for n in ("cos", "sin")}
        assert np.array_equal(
            reference.fope_table(p, 8, **options, **ones), np.stack(table())
        )


def of_shape(*shape, **options):
    given = {f"{name}_coefficients": torch.ones(shape) for name in ("cos", "sin")}
    return fope(8, length=64, coefficients=None, **given | options)


ONE, TWO = np.ones((2, 2)), torch.ones(2, 2)

BAD = [
    (lambda: fope(length=6), ValueError, "length must be at least 7"),
    (lambda: symbolic.kept_frequencies(8, length=6), ValueError, "at least 7"),
    (lambda: reference.kept_frequencies(8, length=6), ValueError, "at least 7"),
    (lambda: fope(8, coefficients="xavier"), ValueError, "must be 'paper' or 'code'"),
    (lambda: fope(8, sigma=-1.0), ValueError, "sigma must be finite and not negative"),
    (lambda: fope(8, coefficients=None), ValueError, "coefficients=None and 0 of the"),
    (lambda: fope(8, cos_coefficients=TWO, sin_coefficients=TWO),
     ValueError, "coefficients='code' and 2 of the two"),
    (lambda: fope(8, coefficients=None, cos_coefficients=TWO),
     ValueError, "coefficients=None and 1 of the two"),
    (lambda: of_shape(3, 2),
     ValueError, r"cos_coefficients must be \[2, series\], got shape \[3, 2\]"),
    (lambda: of_shape(2, 2, heads=3),
     ValueError, r"cos_coefficients must be \[3, 2, series\], got shape \[2, 2\]"),
    (lambda: of_shape(2, 2, sin_coefficients=torch.ones(2, 1)),
     ValueError, r"sin_coefficients must be \[2, 2\], got shape \[2, 1\]"),
    (lambda: of_shape(2, 5), ValueError, "at most 4 series for d = 8, got 5"),
    (lambda: of_shape(2, 2, cos_coefficients=TWO * math.nan),
     ValueError, "cos_coefficients must be finite"),
    (lambda: of_shape(2, 2, cos_coefficients=TWO.long()),
     TypeError, "cos_coefficients must hold floats, got torch.int64"),
    (lambda: fope(8, fourier_dim=4), ValueError, "at least d = 8, got 4"),
    (lambda: fope(8, fourier_dim=12, coefficients="paper"),
     ValueError, "fourier_dim must be a positive multiple of 8, got 12"),
    (lambda: table(fourier_dim=4), ValueError, "at least d = 8, got 4"),
    (lambda: table(cos_coefficients=np.ones((3, 2))),
     ValueError, r"must be \[2, series\].*got shapes \[3, 2\] and \[2, 2\]"),
    (lambda: table(cos_coefficients=np.ones((2, 5)), sin_coefficients=np.ones((2, 5))),
     ValueError, "with at most 4 series"),
    (lambda: table(cos_coefficients=np.array([[1.0, 1], [-1, 1]]), normalize=True),
     ValueError, "whose sum is 0"),
    (lambda: table(padding="zeros"), ValueError, "padding must be"),
    (lambda: reference.fope_table(["a"], 8, length=64, padding="ones",
     cos_coefficients=ONE, sin_coefficients=ONE),
     TypeError, "positions must be real numbers"),
    (lambda: symbolic.fope(
        sp.zeros(8, 1), 0, cos_coefficients=[[1, 1]], sin_coefficients=sp.ones(2, 2),
        length=64, layout="half", padding="ones"),
     ValueError, r"must be \[2, series\] with at most 4 series, got shape \[1, 2\]"),
    (lambda: symbolic.fope(
        sp.zeros(8, 1), 0, cos_coefficients=sp.ones(2, 2), length=64, layout="half",
        sin_coefficients=sp.ones(2, 2), padding="ones", fourier_dim=6),
     ValueError, "at least d = 8, got 6"),
    (lambda: reference.fope(
        np.zeros((3, 4)), [0, 1, 2], cos_coefficients=np.zeros((3, 2)),
        sin_coefficients=np.zeros((3, 2)), length=64, layout="half", padding="ones"),
     ValueError, r"must be \[1, series\]"),
    (lambda: reference.fope(
        np.zeros((3, 3, 4)), [0, 1, 2], cos_coefficients=np.zeros((2, 1, 2)),
        sin_coefficients=np.zeros((2, 1, 2)), length=64, layout="half",
        padding="ones"),
     ValueError, r"a multiple of 2 heads for parameters of 2 heads, got shape \[3, 3"),
    (lambda: reference.fope_scores(
        np.zeros((3, 5, 8)), np.zeros((2, 5, 8)), range(5), range(5), length=64,
        layout="half", padding="ones", cos_coefficients=ONE, sin_coefficients=ONE),
     ValueError, "multiple of kv_heads, got 3 and 2"),
    (lambda: reference.fope_scores(
        np.zeros((5, 8)), np.zeros((5, 6)), range(5), range(5), length=64,
        layout="half", padding="ones", cos_coefficients=ONE, sin_coefficients=ONE),
     ValueError, r"agree in batch and d, got shapes \[5, 8\] and \[5, 6\]"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "words"), BAD)
def test_bad_input_is_refused(call, error, words, unchecked):
    with pytest.raises(error, match=words):
        call()


def test_repr_says_the_conventions():
    text = repr(fope(8, length=64, heads=2, normalize=True))
    assert text == (
        "FoPE(8, layout='half', length=64, padding='identity', series='tokens', "
        "heads=2, fourier_dim=8, normalize=True)"
    )


def test_series_of_heads_may_be_of_more_frequencies_than_there_are_pairs(unchecked):
    options = dict(length=10**9, padding="ones", fourier_dim=16)

    def table(series):
        c = np.ones((2, 8, series))
        both = dict(cos_coefficients=c, sin_coefficients=c)
        return reference.fope_table(np.zeros(3), 4, **both, **options)

    assert table(2)[0].shape == (2, 3, 2)
    with pytest.raises(ValueError, match="with at most 2 series"):
        table(3)
