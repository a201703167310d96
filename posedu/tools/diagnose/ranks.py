"""Diagnosis of a text that was cut over ranks: which rank has wrong positions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int, Shaped
from torch import Tensor, nn

from posedu._argument_types import check_types
from posedu._result_table import Table
from posedu.tools._foreign_code import called
from posedu.tools.diagnose.behavior import ROUNDOFFS
from posedu.tools.diagnose.capture import evaluating
from posedu.tools.diagnose.inputs import (
    Inputs,
    Refused,
    accepts,
    default_inputs,
    output,
)

MOST_RUNS = 4
GLOBAL = "Give every token its position in the whole text."
INDICES = "Give the indices of the tokens that the rank has."
SEES = "its positions are right; it sees keys of a rank whose positions are wrong"

Places = Int[Tensor, " own"]
Share = tuple[Places, Shaped[Tensor, "rows own *features"]]


@check_types
@dataclass(frozen=True)
class RankResult:
    """Comparison of a rank's output with that of the model on the whole text.

    Parameters
    ----------
    tokens
        The indices of the rank's tokens in the text, as text.
    differs
        The largest difference of an output, in units of the largest output.
    bound
        The largest difference that rounding explains.
    reason
        Why the output is wrong; empty if it is right.
    """

    tokens: str
    differs: float
    bound: float
    reason: str = ""

    @property
    def ok(self) -> bool:
        """True if rounding explains the difference."""
        return self.differs <= self.bound


@check_types
@dataclass(frozen=True)
class RankDiagnosis(Table):
    """Results of the ``ranks`` of a cut text, and what mends them, if it is known."""

    ranks: tuple[RankResult, ...]
    mend: str = ""

    @property
    def ok(self) -> bool:
        """True if the outputs of all ranks are right."""
        return all(rank.ok for rank in self.ranks)

    @property
    def faults(self) -> dict[int, str]:
        """Why the outputs of ranks are wrong, by rank; empty if all are right."""
        return {n: rank.reason for n, rank in enumerate(self.ranks) if not rank.ok}

    def caption(self) -> str:
        """Return a sentence: how many ranks are wrong, and what mends them."""
        wrong = len(self.faults)
        if not wrong:
            return f"All {len(self.ranks)} ranks have the outputs of the whole text."
        return f"{wrong} of {len(self.ranks)} ranks are wrong. {self.mend}".rstrip()

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the column heads, then a row for each rank."""
        yield "rank", "tokens", "differs", "at most", "result"
        for n, rank in enumerate(self.ranks):
            numbers = f"{rank.differs:.1e}", f"{rank.bound:.1e}"
            yield str(n), rank.tokens, *numbers, rank.reason or "right"


@check_types
def diagnose_ranks(
    model: nn.Module,
    tokens: Int[Tensor, "rows tokens"],
    shares: Sequence[Share],
    *,
    inputs: Inputs | None = None,
) -> RankDiagnosis:
    """Compare what the ranks of a cut text put out with the model on the whole text.

    Where ranks differ, the whole text is run again with positions that ranks are known
    to take by mistake: each rank, or one of them, counts its own tokens or those of
    each of its halves from 0, takes the positions of another cut (contiguous, zigzag)
    or of another rank, or is off by one token or by its number of tokens. Such
    positions are named only if they give the numbers of all ranks, up to rounding.

    Parameters
    ----------
    model
        The model, not cut. It is run on its own device in its own dtype, without
        gradients, and left as it was.
    tokens
        The whole text, as it was cut.
    shares
        For each rank the indices of its tokens in the text, and its output for them:
        logits or hidden states, as the model's own output is.
    inputs
        Function from ``tokens`` and ``positions`` ``[rows, tokens]`` to the keywords of
        the model's ``forward``. Default: ``input_ids`` and ``position_ids``.

    Raises
    ------
    ValueError
        ``tokens`` is no table of rows, or the indices are not those of the whole text,
        each once.
    Refused
        An output has another shape than the model's for the rank's tokens, the model
        does not run, or 16 bits are too coarse to compare outputs.
    """
    if tokens.ndim != 2:
        shape = list(tokens.shape)
        raise ValueError(f"`tokens` must have the shape [rows, tokens], got {shape}")
    for n, (own, _) in enumerate(shares):
        if own.ndim != 1 or own.is_floating_point():
            raise ValueError(
                f"the indices of rank {n} must be whole numbers of shape [tokens], got "
                f"{own.dtype} of shape {list(own.shape)}"
            )
    count = tokens.shape[1]
    places = [own.cpu().long() for own, _ in shares]
    if sorted(torch.cat(places).tolist() if places else []) != [*range(count)]:
        raise ValueError(
            f"the indices of `shares` must be those of all {count} tokens, each once"
        )
    given = inputs or default_inputs(model)
    right = _whole(model, given, tokens, torch.arange(count))
    outputs = [_comparable(n, *share, right) for n, share in enumerate(shares)]
    bound = ROUNDOFFS * max(torch.finfo(out.dtype).eps for _, out in shares)
    if bound > 1:
        raise Refused("16 bits are too coarse to compare outputs: give float32")
    size = right.abs().max().clamp(min=1e-30)

    def differences(whole: Tensor, at: Sequence[Places]) -> list[float]:
        """Return how much each rank's output differs from that of the tokens ``at``."""
        pairs = zip(outputs, at, strict=True)
        return [float((out - whole[:, own]).abs().max() / size) for out, own in pairs]

    off = differences(right, places)
    wrong = [n for n in range(len(shares)) if not off[n] <= bound]
    reasons, mend = dict.fromkeys(wrong, ""), ""
    for n in wrong:
        apart = (outputs[n] - right[:, places[n]]).abs().flatten(2).amax((0, 2)) / size
        first = places[n][~(apart <= bound)].min()
        reasons[n] = f"its output differs, first at token {first}"
    for at, names in _assignments(places) if wrong else ():
        is_cut = sorted(torch.cat(at).tolist()) == [*range(count)]
        if is_cut and all(d <= bound for d in differences(right, at)):
            reasons |= {
                n: f"its output is that of other tokens: {text}"
                for n, text in names.items()
            }
            mend = INDICES
            break
        if not accepts(model, "position_ids"):
            continue
        whole = _whole(model, given, tokens, _in_order(at, places))
        if all(d <= bound for d in differences(whole, places)):
            named = {n: f"it has {text}" for n, text in names.items()}
            reasons, mend = {n: named.get(n, SEES) for n in wrong}, GLOBAL
            break
    return RankDiagnosis(
        tuple(
            RankResult(_runs(own), difference, bound, reasons.get(n, ""))
            for n, (own, difference) in enumerate(zip(places, off, strict=True))
        ),
        mend,
    )


def _whole(model: nn.Module, inputs: Inputs, tokens: Tensor, at: Tensor) -> Tensor:
    """Return a model's output for the whole text with the positions ``at``, float64.

    A mask of all tokens is given to a model that has one, since some take positions
    that begin again for those of packed texts.
    """
    has_positions = accepts(model, "position_ids")
    positions = at.to(tokens.device).expand(tokens.shape) if has_positions else None
    keywords = dict(inputs(tokens, positions))
    if accepts(model, "attention_mask"):
        keywords.setdefault("attention_mask", torch.ones_like(tokens))
    with evaluating(model):
        try:
            return output(called(model, **keywords)).double().cpu()
        except Refused:
            raise
        except Exception as error:  # A model may raise anything for these positions.
            raise Refused(f"the model does not run: {error}") from error


def _comparable(n: int, own: Places, out: Tensor, right: Tensor) -> Tensor:
    """Return the output of rank ``n`` in float64; refuse one of another shape."""
    wanted = (right.shape[0], len(own), *right.shape[2:])
    if out.shape != wanted or not out.is_floating_point():
        raise Refused(
            f"the output of rank {n} must be floats of shape {list(wanted)}, as the "
            f"model's for its {len(own)} tokens, got {list(out.shape)} of {out.dtype}"
        )
    return out.detach().double().cpu()


def _assignments(
    places: Sequence[Places],
) -> Iterator[tuple[list[Places], dict[int, str]]]:
    """Yield positions of all ranks' tokens as they may be by mistake.

    Each comes with words for the ranks whose positions are wrong. First all ranks make
    the same mistake, then one rank alone.
    """
    mistakes = [_mistakes(n, places) for n in range(len(places))]
    labels = dict.fromkeys(label for own in mistakes for label in own)
    chosen: list[tuple[str, Sequence[int]]] = [
        *((label, range(len(places))) for label in labels),
        *((label, [n]) for label in labels for n in range(len(places))),
    ]
    tried = {_key(places)}
    for label, ranks in chosen:
        at = list(places)
        for n in ranks:
            at[n] = mistakes[n].get(label, at[n])
        if _key(at) not in tried and min(int(own.min()) for own in at) >= 0:
            tried.add(_key(at))
            pairs = enumerate(zip(at, places, strict=True))
            changed = [n for n, (own, right) in pairs if not torch.equal(own, right)]
            yield at, {n: f"{label} ({_runs(at[n])})" for n in changed}


def _mistakes(n: int, places: Sequence[Places]) -> dict[str, Places]:
    """Return positions that rank ``n`` may have by mistake, in words."""
    own, ranks = places[n], len(places)
    count = len(own)
    tokens = torch.arange(sum(map(len, places)))
    halves = tokens.tensor_split(2 * ranks)
    found = {
        "local positions": torch.arange(count),
        "positions that begin at 0 in each half": torch.cat(
            [torch.arange(len(half)) for half in own.tensor_split(2)]
        ),
        "positions of a contiguous cut": tokens.tensor_split(ranks)[n],
        "positions of a zigzag cut": torch.cat([halves[n], halves[-1 - n]]),
        "positions of the next rank": places[(n + 1) % ranks],
        "positions of the rank before": places[n - 1],
        **{f"positions of rank {m}": places[m] for m in range(ranks)},
        "positions larger by 1": own + 1,
        "positions smaller by 1": own - 1,
        f"positions larger by {count}": own + count,
        f"positions smaller by {count}": own - count,
    }
    return {label: at for label, at in found.items() if len(at) == count}


def _in_order(at: Sequence[Places], places: Sequence[Places]) -> Tensor:
    """Return the positions ``at`` of all ranks' tokens in the order of the text."""
    return torch.cat([*at])[torch.cat([*places]).argsort()]


def _key(at: Sequence[Places]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(own.tolist()) for own in at)


def _runs(numbers: Tensor) -> str:
    """Return whole numbers as text, such as "0–7, 24–31"."""
    runs: list[list[int]] = []
    for number in numbers.tolist():
        if runs and number == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number, number])
    texts = [str(a) if a == b else f"{a}–{b}" for a, b in runs]
    return ", ".join([*texts[:MOST_RUNS], *["…"] * (len(texts) > MOST_RUNS)])
