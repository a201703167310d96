"""The diagnosis of a cut text names the rank whose positions are wrong, and which."""

import pytest
import torch
from torch import nn

from posedu.tools.diagnose import Refused, diagnose_ranks
from posedu.torch import RoPE
from posedu.torch.bias import ALiBi
from posedu.torch.parallel import context_parallel, simulated
from posedu.torch.transformer import Transformer

TOKENS, RANKS = 32, 4
CHUNK = TOKENS // RANKS


class Model(nn.Module):
    """Two layers, with an argument for positions."""

    def __init__(self, encoding=None):
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(97, 32)
        encoding = encoding or RoPE(16, base=500.0, layout="half")
        self.layers = Transformer(32, 2, 2, encoding=encoding)

    def forward(self, input_ids, position_ids=None):
        """Return hidden states ``[rows, tokens, features]``."""
        x = self.embed(input_ids)
        return self.layers(x, position_ids)


class Unnumbered(nn.Module):
    """The same model without an argument for positions."""

    def __init__(self):
        super().__init__()
        self.inner = Model()

    def forward(self, input_ids):
        """Return hidden states of the tokens, counted from 0."""
        return self.inner(input_ids)


TEXT = torch.randint(8, 97, (2, TOKENS), generator=torch.Generator().manual_seed(1))


def cut(model, mistake=None, *, order="contiguous", form="all-gather", text=TEXT):
    """Return each rank's indices and output; positions are ``mistake(rank, indices)``.

    Without a mistake they are the indices.
    """

    def run(ranks):
        with (
            torch.no_grad(),
            context_parallel(ranks, order=order, form=form) as whole,
        ):
            own = whole.own(torch.arange(text.shape[1])[None], 1)[0]
            at = own if mistake is None else mistake(ranks.rank, own)
            tokens = whole.own(text, 1)
            return own, model(tokens, at.expand(tokens.shape))

    return simulated(RANKS, run)


@pytest.mark.parametrize("order", ["contiguous", "zigzag"])
@pytest.mark.parametrize("form", ["all-gather", "ring"])
def test_a_right_run_has_no_fault(order, form):
    model = Model().train()
    found = diagnose_ranks(model, TEXT, cut(model, order=order, form=form))
    assert found.ok and not found.faults and model.training
    assert found.caption() == "All 4 ranks have the outputs of the whole text."
    assert [*found.rows()][1][-1] == "right"


MISTAKES = {
    # The order, the positions of a rank's tokens, and what is said of ranks 1 and 3.
    "local": (
        *("contiguous", lambda rank, own: torch.arange(len(own))),
        *(["local positions (0–7)"] * 2),
    ),
    "local in each half": (
        *("zigzag", lambda rank, own: torch.arange(4).repeat(2)),
        *(["positions that begin at 0 in each half (0–3, 0–3)"] * 2),
    ),
    "contiguous for zigzag": (
        *("zigzag", lambda rank, own: rank * CHUNK + torch.arange(CHUNK)),
        *("of a contiguous cut (8–15)", "of a contiguous cut (24–31)"),
    ),
    "zigzag for contiguous": (
        "contiguous",
        lambda rank, own: torch.cat(
            [4 * rank + torch.arange(4), 28 - 4 * rank + torch.arange(4)]
        ),
        *("of a zigzag cut (4–7, 24–27)", "of a zigzag cut (12–19)"),
    ),
    "next rank's": (
        "contiguous",
        lambda rank, own: (own + CHUNK) % TOKENS,
        *(None, "positions of the next rank (0–7)"),  # All others are shifted alike.
    ),
    "one rank local": (
        *("contiguous", lambda rank, own: own - CHUNK * (rank == 1)),
        *("it has local positions (0–7)", "it sees keys of a rank"),
    ),
    "one rank late": (
        *("contiguous", lambda rank, own: own + (rank == 1)),
        *("it has positions larger by 1 (9–16)", "it sees keys of a rank"),
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_wrong_positions_of_ranks_are_named(name):
    order, mistake, *said = MISTAKES[name]
    model = Model()
    found = diagnose_ranks(model, TEXT, cut(model, mistake, order=order))
    assert not found.ok and found.caption().endswith("position in the whole text.")
    for rank, words in zip((1, 3), said, strict=True):
        assert words is None or words in found.faults[rank]


def test_indices_of_another_cut_are_named():
    """The ranks run a zigzag cut, and their indices are those of a contiguous one."""
    model = Model()
    outputs = [out for _, out in cut(model, order="zigzag")]
    indices = torch.arange(TOKENS).split(CHUNK)
    found = diagnose_ranks(model, TEXT, [*zip(indices, outputs, strict=True)])
    assert "other tokens: positions of a zigzag cut (4–7, 24–27)" in found.faults[1]
    swapped = [(own, outputs[n ^ 1]) for n, (own, _) in enumerate(cut(model))]
    assert diagnose_ranks(model, TEXT, swapped).mend == ""


@pytest.mark.parametrize(
    "spoiled",
    [
        lambda rank, out: out * (1 + 0.01 * (rank == 2)),
        lambda rank, out: -out if rank == 2 else out,
        lambda rank, out: out + torch.nan if rank == 2 else out,
    ],
)
def test_what_no_positions_explain_is_not_explained(spoiled):
    model = Model()
    shares = [(own, spoiled(n, out)) for n, (own, out) in enumerate(cut(model))]
    found = diagnose_ranks(model, TEXT, shares)
    assert found.faults == {2: "its output differs, first at token 16"}
    assert found.caption() == "1 of 4 ranks are wrong."


def test_a_near_explanation_is_none():
    """Positions off by 3 are not those that are tried: nothing is named."""
    model = Model()
    shares = cut(model, lambda rank, own: own + 3 * (rank == 1))
    found = diagnose_ranks(model, TEXT, shares)
    assert found.faults[1] == "its output differs, first at token 8"
    assert not found.mend


def test_a_model_without_positions_is_compared():
    model = Unnumbered()
    shares = [(own, model(TEXT)[:, own]) for own in torch.arange(TOKENS).split(CHUNK)]
    assert diagnose_ranks(model, TEXT, shares).ok
    own, out = shares[1]
    shares[1] = own, out + 1
    assert [*diagnose_ranks(model, TEXT, shares).faults] == [1]


def test_biases_by_distance_are_diagnosed_too():
    model = Model(ALiBi(2, slopes="authors"))
    assert diagnose_ranks(model, TEXT, cut(model)).ok
    local = cut(model, lambda rank, own: own % CHUNK)
    assert "local positions" in diagnose_ranks(model, TEXT, local).faults[1]


def test_what_cannot_be_compared_is_refused(unchecked):
    model = Model()
    shares = cut(model)
    with pytest.raises(ValueError, match="all 32 tokens, each once"):
        diagnose_ranks(model, TEXT, shares[1:])
    with pytest.raises(ValueError, match="all 32 tokens, each once"):
        diagnose_ranks(model, TEXT, [])
    own, out = shares[0]
    for wrong in (own.double(), own[None]):
        with pytest.raises(ValueError, match="indices of rank 0 must be whole num"):
            diagnose_ranks(model, TEXT, [(wrong, out), *shares[1:]])
    with pytest.raises(ValueError, match="`tokens` must have the shape"):
        diagnose_ranks(model, TEXT[0], shares)
    for wrong in (out[:, :-1], out[..., None], out.long()):
        with pytest.raises(Refused, match="the output of rank 0 must be floats"):
            diagnose_ranks(model, TEXT, [(own, wrong), *shares[1:]])
    with pytest.raises(Refused, match="16 bits are too coarse"):
        diagnose_ranks(model, TEXT, [(own, x.bfloat16()) for own, x in shares])
    with pytest.raises(Refused, match="the model does not run"):
        diagnose_ranks(model, TEXT + 1000, shares)
