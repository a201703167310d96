"""Every encoding on a text that is cut over ranks equals the text on one device."""

from dataclasses import replace

import pytest
import torch

from posedu.catalog import CATALOG
from posedu.crosscheck.many_devices import BOUND, Trial
from posedu.torch import attend
from posedu.torch.parallel import FORMS, ORDERS, TextCut, simulated
from posedu.torch.parallel.ranks import Threads

pytestmark = pytest.mark.usefixtures("unchecked")

# Their logits are more than a product and a bias of the pair, and they have no state.
GATHERED_ONLY = {
    *("fope-offset", "self-extend", "tape", "kerple-power", "dape", "shaw"),
    *("music-transformer", "stickbreaking", "geometric", "cope"),
    *("selective-attention", "log-linear", "selective-rope", "path", "path-fox"),
    *("wall", "retention", "carope", "grape-m", "grape-ap"),
}
VARIANTS = [
    pytest.param(entry, variant, id=entry.label(variant))
    for entry in CATALOG.values()
    for variant in entry.variants
]
CUTS = [(order, form) for order in ORDERS for form in FORMS]
each_cut = pytest.mark.parametrize("order, form", CUTS)
each_encoding = pytest.mark.parametrize("entry", CATALOG.values(), ids=lambda e: e.name)


def trial_of(entry, order, ranks, variant=None, hidden=False):
    chunks = ranks if order == "contiguous" else 2 * ranks
    return Trial(entry, variant or entry.variants[0], chunks, hidden=hidden)


def largest_error(trial, ranks, order, form, cut=TextCut):
    found = simulated(ranks, lambda r: trial.on_rank(cut(r, order=order, form=form)))
    return max(errors.largest for errors in found)


@pytest.mark.parametrize("hidden", (False, True), ids=("all", "hidden"))
@each_cut
@pytest.mark.parametrize("entry, variant", VARIANTS)
def test_a_cut_text_is_the_whole_text(entry, variant, order, form, hidden):
    ranks = 3 if order == "contiguous" else 2
    trial = trial_of(entry, order, ranks, variant, hidden)
    try:
        error = largest_error(trial, ranks, order, form)
    except ValueError as refused:
        assert "form='all-gather'" in str(refused) and form == "ring"
        carries = entry.family == "recurrent" or entry.name == "retention"
        assert entry.name in GATHERED_ONLY or (hidden and carries)
    else:
        assert error <= BOUND


@pytest.mark.parametrize("name", ("rope", "t5", "fox", "kda"))
@pytest.mark.parametrize("ranks", (1, 5))
@each_cut
def test_any_number_of_ranks(name, ranks, order, form):
    trial = trial_of(CATALOG[name], order, ranks)
    assert largest_error(trial, ranks, order, form) <= BOUND


def changed(**methods):
    """Ranks that exchange something else than they should."""
    return type("Changed", (Threads,), methods)


MUTANTS = {
    "twice": {"_reduce": lambda self, parts: 2 * Threads._reduce(self, parts)},
    "sign": {"_reduce": lambda self, parts: -Threads._reduce(self, parts)},
    "own": {"_reduce": lambda self, parts: parts[self.rank]},
    "a tenth on one rank": {
        "_reduce": lambda self, parts: (
            (1.1 if self.rank == 0 else 1.0) * Threads._reduce(self, parts)
        )
    },
    "another order": {"_gather": lambda self, t: Threads._gather(self, t)[::-1]},
}


@pytest.mark.parametrize("mutant", MUTANTS)
@pytest.mark.parametrize("name", ("rope", "fox", "path", "gla"))
def test_wrong_exchanges_are_refused(name, mutant):
    trial, kind = trial_of(CATALOG[name], "contiguous", 2), changed(**MUTANTS[mutant])

    def run(ranks):
        own = kind(ranks.rank, ranks._board)
        return trial.on_rank(TextCut(own, order="contiguous", form="all-gather"))

    assert max(errors.largest for errors in simulated(2, run)) > 1e6 * BOUND


RING_MUTANTS = {
    "keys' gradients stay": lambda self, given: (
        (*Threads._shift(self, given[:2]), *given[2:])
    ),
    "values do not travel": lambda self, given: (
        (Threads._shift(self, given)[0], *given[1:])
    ),
}


@pytest.mark.parametrize("mutant", RING_MUTANTS)
def test_wrong_rings_are_refused(mutant):
    trial = trial_of(CATALOG["alibi"], "zigzag", 2)
    kind = changed(_shift=RING_MUTANTS[mutant])

    def run(ranks):
        own = kind(ranks.rank, ranks._board)
        return trial.on_rank(TextCut(own, order="zigzag", form="ring"))

    assert max(errors.largest for errors in simulated(2, run)) > 1e6 * BOUND


class LocalPlaces(TextCut):
    """Every rank counts its own tokens from 0."""

    def places(self, tokens, device=None):
        return torch.arange(tokens, device=device)


@pytest.mark.parametrize("name", ("rope", "alibi", "t5", "fire", "sinusoidal", "xpos"))
@each_cut
def test_local_positions_are_refused(name, order, form):
    trial = trial_of(CATALOG[name], order, 2)
    assert largest_error(trial, 2, order, form, LocalPlaces) > 1e6 * BOUND


class OwnKeyPositions(TextCut):
    """A rank takes its own positions for those of all other ranks' keys."""

    def attend(self, encoding, tokens, route, cache=None):
        tokens = replace(tokens, consecutive=False)
        return super().attend(encoding, tokens, route, cache)

    def _whole_once(self, t, shared):
        whole = super()._whole_once(t, shared)
        return (
            None
            if t is None
            else torch.cat([t] * self.ranks.size, 1)[:, : len(whole[0])]
        )


@pytest.mark.parametrize(
    "entry",
    [entry for entry in CATALOG.values() if "state" not in entry.crosses],
    ids=lambda entry: entry.name,
)
def test_positions_of_keys_cross_where_the_record_says_so(entry):
    wrong = max(
        largest_error(
            trial_of(entry, "contiguous", 2, variant),
            *(2, "contiguous", "all-gather", OwnKeyPositions),
        )
        for variant in entry.variants
    )
    assert (wrong > BOUND) == ("positions" in entry.crosses)


@each_encoding
def test_draws_cross_where_the_record_says_so(entry):
    model = trial_of(entry, "contiguous", 2).model
    draws = getattr(getattr(model, "input", None), "needs_whole_sequence", False)
    assert draws == ("draw" in entry.crosses)


@each_encoding
def test_what_a_token_remembers_crosses_as_a_sum_an_order_or_a_state(entry):
    model = trial_of(entry, "contiguous", 2).model
    encoding = model.blocks[0].encoding if entry.of_model else model.encoding
    hooks = ("remember", "accumulate", "carry")
    crosses = {"prefix", "ordered", "state"} & {*entry.crosses}
    if entry.name in ("dape", "retention"):  # values; a state in one form alone
        assert not crosses
    elif any(map(encoding.uses, hooks)):
        assert crosses
    elif crosses:
        assert crosses == {"ordered"} and encoding.uses("weigh")


@each_encoding
def test_heads_cross_where_the_record_says_so(entry):
    if entry.kind == "block" or entry.of_model:
        pytest.skip("not called as a function of queries and keys")
    mixes = False
    for variant in entry.variants:
        model = trial_of(entry, "contiguous", 2, variant).model
        if model.heads < 2 or model.heads != model.kv_heads:
            continue
        x = torch.randn(1, 5, model.d_model, dtype=torch.float64)
        q, k, v, _ = model.project(x, None, None, None)
        positions = torch.zeros(5, entry.axes) if entry.axes else None
        given = {"positions": positions, "causal": model.causal, "x": x}
        out = attend(q, k, v, model.encoding, route=model.route, **given)
        for head in range(1, model.heads):
            other = q.clone()
            other[:, head] += 1.0
            changed = attend(other, k, v, model.encoding, route=model.route, **given)
            mixes |= not torch.equal(changed[:, 0], out[:, 0])
            other = q.clone()
            other[:, 0] += 1.0
            changed = attend(other, k, v, model.encoding, route=model.route, **given)
            mixes |= not torch.equal(changed[:, head], out[:, head])
    assert mixes == ("heads" in entry.crosses)
