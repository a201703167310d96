"""Layers and models under a cut: what is exchanged and refused, how models train."""

import copy
import re
import threading

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from posedu.torch import Attention, LanguageModel, RoPE, Transformer
from posedu.torch._cut import current_cut, in_force
from posedu.torch.bias import T5, ALiBi
from posedu.torch.parallel import (
    FORMS,
    ORDERS,
    Chunks,
    Processes,
    TextCut,
    context_parallel,
    simulated,
    sum_gradients,
)
from posedu.torch.recurrent import GLA, RecurrentLayer
from posedu.torch.rotary import MLA

CUTS = [(order, form) for order in ORDERS for form in FORMS]
each_cut = pytest.mark.parametrize("order, form", CUTS)
HANDSHAKE = 256  # bytes


def layer(encoding=None, **options):
    torch.manual_seed(0)
    return Attention(16, 2, encoding=encoding, **options).double()


def on_ranks(run, ranks=2, **options):
    def of_rank(own):
        with context_parallel(own, **options) as cut:
            return run(cut)

    return simulated(ranks, of_rank)


def test_chunks_by_hand():
    assert [Chunks("contiguous", 3, r).held for r in range(3)] == [(0,), (1,), (2,)]
    assert [Chunks("zigzag", 3, r).held for r in range(3)] == [(0, 5), (1, 4), (2, 3)]
    places = on_ranks(lambda cut: cut.places(4).tolist(), 3)
    assert places == [[0, 1, 10, 11], [2, 3, 8, 9], [4, 5, 6, 7]]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("ranks", range(1, 6))
@pytest.mark.parametrize("axis", (0, 1))
def test_what_is_cut_is_joined_again(order, ranks, axis):
    count = Chunks(order, ranks, 0).count
    t = torch.arange(6 * count * 2).reshape(-1, 2)
    t = t if axis == 0 else t.mT
    parts = on_ranks(lambda cut: cut.own(t, axis), ranks, order=order)
    assert torch.equal(Chunks(order, ranks, 0).joined(parts, axis), t)
    whole = on_ranks(lambda cut: cut.whole(cut.own(t, axis), axis), ranks, order=order)
    assert all(torch.equal(each, t) for each in whole)
    owners = [Chunks(order, ranks, 0).owner(number) for number in range(-1, count + 1)]
    assert owners[0] is owners[-1] is None and {*owners[1:-1]} == {*range(ranks)}


def test_a_rank_s_load_under_causal_attention():
    """Pairs of a rank: contiguous ranks have unequal loads, zigzag ranks equal ones."""
    tokens, ranks = 24, 4
    loads = {}
    for order in ORDERS:
        cut = [Chunks(order, ranks, r) for r in range(ranks)]
        index = torch.arange(tokens)
        loads[order] = [int((c.separated(index, 0)[c.rank] + 1).sum()) for c in cut]
    assert len({*loads["zigzag"]}) == 1
    chunk, mean = tokens // ranks, tokens * (tokens + 1) / 2 / ranks
    ratio = max(loads["contiguous"]) / mean
    assert ratio == pytest.approx((2 * tokens - chunk + 1) / (tokens + 1))


@each_cut
def test_bytes_sent_are_the_formula_s(order, form):
    """Forward: (n − 1)·2·c·g·d·b a rank, whichever way; a bias sends positions too."""
    ranks, own, g, d, size = 4, 4, 1, 8, 8
    model = layer(RoPE(d, layout="half"), kv_heads=g)
    x = torch.randn(1, ranks * own, 16, dtype=torch.float64)

    def sent(cut, model=model):
        with torch.no_grad():
            model(cut.own(x, 1))
        return cut.ranks.sent

    expected = (ranks - 1) * 2 * own * g * d * size
    positions = (ranks - 1) * (own * 8 + HANDSHAKE)
    handshake = (ranks - 1) * HANDSHAKE
    assert {*on_ranks(sent, ranks, order=order, form=form)} == {
        expected + handshake + positions
    }


@each_cut
def test_positions_masks_and_segments_are_gathered_once_for_all_layers(order, form):
    def sent(layers):
        model = Transformer(16, 2, layers, encoding=ALiBi(2, slopes="authors")).double()
        x = torch.randn(1, 8, 16, dtype=torch.float64)
        masks = {
            "key_padding_mask": torch.zeros(1, 8, dtype=torch.bool),
            "segments": torch.zeros(1, 8, dtype=torch.int64),
        }

        def run(cut):
            with torch.no_grad():
                model(cut.own(x, 1), **{n: cut.own(t, 1) for n, t in masks.items()})
            return cut.ranks.sent

        return on_ranks(run, 2, order=order, form=form)[0]

    one, two, three = map(sent, (1, 2, 3))
    once = 2 * one - two  # positions, padding and segments
    assert three - two == two - one
    assert once == 4 * (8 + 1 + 8) + 3 * HANDSHAKE


@each_cut
def test_a_language_model_trains_as_on_one_device(order, form):
    """Losses of eight steps, in float64: equal to rounding."""
    text = torch.randint(11, (2, 17), generator=torch.Generator().manual_seed(3))
    ids, targets = text[:, :-1], text[:, 1:]

    def model():
        torch.manual_seed(0)
        encodings = [RoPE(8, layout="half"), ALiBi(2, slopes="authors")]
        return LanguageModel(11, 16, 2, 2, encoding=encodings).double()

    def losses(model, cut=None):
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        found = []
        for _ in range(8):
            own = (ids, targets)
            if cut is not None:
                own = [cut.own(t, 1) for t in own]
            logits = model(own[0])
            loss = torch.nn.functional.cross_entropy(
                logits.flatten(0, 1), own[1].flatten(), reduction="sum"
            )
            optimizer.zero_grad()
            loss.backward()
            if cut is not None:
                sum_gradients(model, cut.ranks)
                loss = torch.stack(cut.ranks.gather(loss.detach())).sum()
            optimizer.step()
            found.append(float(loss.detach()) / targets.numel())
        return found

    expected = losses(model())
    models = [model() for _ in range(2)]
    found = on_ranks(
        lambda cut: losses(models[cut.ranks.rank], cut), 2, order=order, form=form
    )
    assert found[0] == found[1] == pytest.approx(expected, rel=1e-10)
    assert expected[-1] < expected[0] - 0.1


@each_cut
def test_mixtures_of_layers(order, form):
    torch.manual_seed(0)
    mixers = [
        RecurrentLayer(16, 2, encoding=GLA(16, 2, 8), convolution=3),
        MLA(16, 2, latent=4, rotary=4, layout="half"),
        None,
    ]
    model = Transformer(16, 2, 3, mixers=mixers, window=[None, None, 5]).double()
    x = torch.randn(1, 16, 16, dtype=torch.float64)
    expected = model(x)
    models = [copy.deepcopy(model) for _ in range(2)]
    found = on_ranks(
        lambda cut: cut.whole(models[cut.ranks.rank](cut.own(x, 1)), 1),
        *(2,),
        order=order,
        form=form,
    )
    for whole in found:
        torch.testing.assert_close(whole, expected, rtol=0, atol=1e-12)


def test_a_chunk_may_be_shorter_than_a_convolution():
    """Each of four ranks has two tokens, which four taps read with two before."""
    torch.manual_seed(0)
    model = RecurrentLayer(16, 2, encoding=GLA(16, 2, 8), convolution=4).double()
    x = torch.randn(1, 8, 16, dtype=torch.float64)
    for whole in on_ranks(lambda cut: cut.whole(model(cut.own(x, 1)), 1), 4):
        torch.testing.assert_close(whole, model(x), rtol=0, atol=1e-12)


def test_bytes_of_a_sum_for_one_rank_and_of_a_message():
    def run(ranks):
        ranks.reduce([torch.ones(5, 3) for _ in range(3)])
        of_reduce = ranks.sent
        ranks.send({"a": torch.ones(5), "b": torch.ones(2).half()}, 0)
        if ranks.rank == 0:
            [ranks.receive(rank, torch.device("cpu")) for rank in range(3)]
        return of_reduce, ranks.sent - of_reduce

    assert simulated(3, run) == 3 * [(2 * 15 * 4, 5 * 4 + 2 * 2)]


@each_cut
def test_grouped_queries(order, form):
    model = layer(ALiBi(2, slopes="authors"), kv_heads=1)
    x = torch.randn(1, 8, 16, dtype=torch.float64)
    found = on_ranks(
        lambda cut: cut.whole(model(cut.own(x, 1)), 1), 2, order=order, form=form
    )
    torch.testing.assert_close(found[1], model(x), rtol=0, atol=1e-12)


@each_cut
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_other_dtypes(order, form, dtype):
    model = layer(RoPE(8, layout="half"))
    x = torch.randn(1, 32, 16, dtype=torch.float64)
    expected = model(x)
    model = model.to(dtype)
    found = on_ranks(
        lambda cut: cut.whole(model(cut.own(x, 1).to(dtype)), 1),
        *(4,),
        order=order,
        form=form,
    )[0]
    alone = (model(x.to(dtype)).double() - expected).abs().max()
    assert found.dtype == dtype
    assert (found.double() - expected).abs().max() <= 2 * alone


@pytest.mark.usefixtures("unchecked")
@each_cut
def test_compiled_layers_and_autocast(order, form):
    model = layer(ALiBi(2, slopes="authors"))
    x = torch.randn(1, 16, 16, dtype=torch.float64)
    expected = model(x)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), expected)

    def run(cut, model=compiled):
        return cut.whole(model(cut.own(x, 1)), 1)

    for out in on_ranks(run, 2, order=order, form=form):
        torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)
    x = x.float()
    models = [layer(ALiBi(2, slopes="authors")).float() for _ in range(2)]

    def gradient(cut):
        own = models[cut.ranks.rank]
        with torch.autocast("cpu"):
            own(cut.own(x, 1)).sum().backward()
        sum_gradients(own, cut.ranks)
        return own.q.weight.grad

    alone = layer(ALiBi(2, slopes="authors")).float()
    with torch.autocast("cpu"):
        alone(x).sum().backward()
    for found in on_ranks(gradient, 2, order=order, form=form):
        wanted = alone.q.weight.grad
        assert (found - wanted).norm() <= 0.02 * wanted.norm()


@each_cut
def test_an_empty_text(order, form):
    model = layer(RoPE(8, layout="half"))
    x = torch.randn(1, 0, 16, dtype=torch.float64)
    shapes = on_ranks(lambda cut: model(cut.own(x, 1)).shape, 2, order=order, form=form)
    assert shapes == [(1, 0, 16)] * 2


def refused(match, run, error=ValueError, ranks=2, **options):
    with pytest.raises(error, match=match):
        on_ranks(run, ranks, **options)


def test_ranks_that_exchange_different_things_are_named():
    model = layer(RoPE(8, layout="half"))

    def shorter(cut):
        tokens = 4 - 2 * cut.ranks.rank
        return model(torch.randn(1, tokens, 16, dtype=torch.float64))

    refused(r"rank 0: .*\[1, 2, 4, 8\].*rank 1: .*\[1, 2, 2, 8\]", shorter)

    def lower(cut):
        dtype = (torch.float64, torch.float32)[cut.ranks.rank]
        return cut.whole(torch.ones(1, 4, dtype=dtype), 1)

    refused("rank 0: .*float64; rank 1: .*float32", lower)

    def run(ranks):
        with context_parallel(ranks, order=ORDERS[ranks.rank]) as cut:
            cut.whole(torch.ones(1, 4), 1)

    with pytest.raises(ValueError, match=r"rank 0: contiguous.*rank 1: zigzag"):
        simulated(2, run)


def test_what_cannot_be_cut_is_refused():
    model = layer(RoPE(8, layout="half"))
    x = torch.randn(1, 6, 16, dtype=torch.float64)
    refused("multiple of 4 tokens, got 6: pad it", lambda cut: cut.own(x, 1))
    refused("2 equal chunks, got 3 tokens", lambda cut: model(x[:, :3]))
    with pytest.raises((TypeError, ValueError), match="order"):
        on_ranks(lambda cut: None, order="striped")
    with pytest.raises((TypeError, ValueError), match="form"):
        on_ranks(lambda cut: None, form="ulysses")
    recurrent = RecurrentLayer(16, 2, encoding=GLA(16, 2, 8)).double()
    segments = torch.zeros(1, 6, dtype=torch.int64)
    refused(
        "GLA cannot be passed on under segments: give form='all-gather'",
        lambda cut: recurrent(x, segments=segments),
        form="ring",
    )


def test_an_error_on_one_rank_ends_all():
    def run(cut):
        if cut.ranks.rank == 1:
            raise ZeroDivisionError("on rank 1")
        return cut.whole(torch.ones(1, 4), 1)

    refused("on rank 1", run, ZeroDivisionError)


@pytest.mark.parametrize("form", FORMS)
def test_a_ring_compares_keys_and_forms_before_it_exchanges(form):
    x = torch.randn(1, 4, 16, dtype=torch.float64)
    gla = RecurrentLayer(16, 2, encoding=GLA(16, 2, 8), convolution=None).double()
    rope = [layer(RoPE(8, layout="half"), kv_heads=g) for g in (2, 1)]

    def run(ranks):
        other = "zigzag" if ranks.rank else "contiguous"
        with context_parallel(ranks, order=other, form=form):
            gla(x)

    with pytest.raises(ValueError, match=r"rank 0: .*GLA.*rank 1: .*GLA"):
        simulated(2, run)
    refused(
        r"rank 0: .*\[1, 2, 4, 8\].*rank 1: .*\[1, 1, 4, 8\]",
        lambda cut: rope[cut.ranks.rank](x),
        form=form,
    )

    def mixed(ranks):
        with context_parallel(ranks, form=FORMS[ranks.rank]):
            gla(x)

    with pytest.raises(ValueError, match=r"rank 1: ring"):
        simulated(2, mixed)


@each_cut
def test_a_gradient_of_keys_alone_flows_through_the_states(order, form):
    torch.manual_seed(0)
    model = RecurrentLayer(16, 2, encoding=GLA(16, 2, 8)).double()
    x = torch.randn(1, 8, 16, dtype=torch.float64)
    weights = torch.randn(1, 8, 16, dtype=torch.float64)
    for name in ("k.weight", "v.weight", "encoding.gate_bias"):
        wanted = torch.autograd.grad(
            (model(x) * weights).sum(), model.get_parameter(name)
        )[0]

        def run(cut, name=name):
            out = (model(cut.own(x, 1)) * cut.own(weights, 1)).sum()
            return torch.autograd.grad(out, model.get_parameter(name))[0]

        found = sum(on_ranks(run, 2, order=order, form=form))
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


def test_a_ring_refuses_other_parameters_than_the_encoding_s():
    models = [layer(T5(2, bidirectional=False)) for _ in range(2)]
    given = {n: p.detach().clone() for n, p in models[0].named_parameters()}
    given["encoding.table"].requires_grad_()
    x = torch.randn(1, 8, 16, dtype=torch.float64)

    def run(cut):
        model = models[cut.ranks.rank]
        out = torch.func.functional_call(model, given, (cut.own(x, 1),))
        out.sum().backward()

    refused("functional_call", run, RuntimeError, form="ring")


@pytest.mark.parametrize("late", ("forward", "backward"))
@each_cut
def test_a_rank_that_ends_early_ends_all(order, form, late):
    model = layer(RoPE(8, layout="half"))
    x = torch.randn(1, 8, 16, dtype=torch.float64)

    def run(cut):
        if late == "forward" and cut.ranks.rank == 1:
            return
        out = model(cut.own(x, 1))
        if cut.ranks.rank == 0:
            out.sum().backward()

    refused("rank 0 waits for rank 1", run, RuntimeError, order=order, form=form)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("reentrant", (False, True))
@each_cut
def test_checkpointed_layers(order, form, reentrant):
    models = [layer(T5(2, bidirectional=False)) for _ in range(3)]
    x = torch.randn(1, 8, 16, dtype=torch.float64)
    wanted = x.clone().requires_grad_()
    checkpoint(models[2], wanted, use_reentrant=reentrant).sum().backward()

    def run(cut):
        own = cut.own(x, 1).clone().requires_grad_()
        model = models[cut.ranks.rank]
        checkpoint(model, own, use_reentrant=reentrant).sum().backward()
        return own.grad, cut.own(wanted.grad, 1)

    for found, expected in on_ranks(run, 2, order=order, form=form):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_gradients_in_bfloat16_are_summed_in_float32():
    """Thirty-two terms: a sum in bfloat16 would lose two of eight bits."""
    terms = torch.randn(
        32, 1, 32, generator=torch.Generator().manual_seed(0)
    ).bfloat16()

    def run(cut):
        t = torch.zeros(1, 1).bfloat16().requires_grad_()
        (cut.whole(t, 1) * terms[cut.ranks.rank]).sum().backward()
        return t.grad

    found = torch.cat(on_ranks(run, 32, order="contiguous"), 1)
    assert torch.equal(found, terms.float().sum(0).bfloat16())


def test_equal_chunks_alone_are_joined():
    refused("2 equal chunks, got 3 tokens", lambda cut: cut.whole(torch.ones(1, 3), 1))


def test_processes_cut_texts_in_all_their_threads():
    """Autograd has threads of its own, which do not inherit context variables."""
    (cut,) = simulated(1, lambda r: TextCut(r, order="contiguous", form="ring"))
    found = []
    with in_force(cut, in_all_threads=True):
        thread = threading.Thread(target=lambda: found.append(current_cut()))
        thread.start()
        thread.join()
    assert found == [cut] and current_cut() is None


def test_the_cut_ends_with_the_context():
    model = layer(RoPE(8, layout="half"))
    x = torch.randn(1, 4, 16, dtype=torch.float64)
    expected = model(x)

    def run(ranks):
        with context_parallel(ranks) as cut:
            cut.whole(x, 1)
        return model(x)

    for out in simulated(2, run):
        assert torch.equal(out, expected)


def test_processes_need_torch_distributed():
    with pytest.raises(RuntimeError, match=re.escape("init_process_group")):
        Processes()


def test_a_cut_is_a_cut_of_ranks():
    (cut,) = simulated(1, lambda r: TextCut(r, order="contiguous", form="ring"))
    assert torch.equal(cut.own(torch.arange(4), 0), torch.arange(4))
