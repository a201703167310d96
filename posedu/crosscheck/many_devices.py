"""Every encoding with its text or its heads cut over ranks, against one device."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from posedu.catalog import CATALOG, EncodingRecord, Variant
from posedu.torch import Attention, Transformer
from posedu.torch._cut import in_force
from posedu.torch.absolute.sampled_positions import SampledPositions
from posedu.torch.parallel import (
    FORMS,
    ORDERS,
    Ranks,
    TextCut,
    sum_gradients,
    tensor_parallel,
)

D, CHUNK = 8, 4  # features of a head, tokens of a chunk
BATCH, SEED = 2, 1
_REFUSED = "form='all-gather'", "heads cannot be cut", "depend on each other"
BOUND = 1e-11
"""Thousands of roundings of float64 numbers of size one."""


@dataclass(frozen=True)
class Errors:
    """Largest errors against one device, in units of the largest number, at least 1.

    ``sent`` is the number of bytes that the rank sent.
    """

    out: float
    inputs: float
    parameters: float
    sent: int

    @property
    def largest(self) -> float:
        """The largest of the three errors."""
        return max(self.out, self.inputs, self.parameters)


class Trial:
    """A model with a configuration of an encoding, a text, and their numbers.

    The text has ``chunks`` chunks. ``hidden`` is true for a text with padding and with
    tokens of several packed texts. Models are in float64.
    """

    def __init__(
        self, entry: EncodingRecord, variant: Variant, chunks: int, *, hidden: bool
    ):
        self.model = model_of(entry, variant)
        tokens = chunks * CHUNK
        generator = torch.Generator().manual_seed(SEED)
        shape = BATCH, tokens, self.model.d_model
        self.x, self.weights = torch.randn(
            2, *shape, generator=generator, dtype=torch.float64
        )
        self.positions = positions_of(entry, tokens, generator)
        self.masks: dict[str, Tensor] = {}
        if hidden:
            padding = torch.rand(BATCH, tokens, generator=generator) < 0.2
            segments = torch.randint(3, (BATCH, tokens), generator=generator)
            self.masks = {"key_padding_mask": padding, "segments": segments}
            self.weights = self.weights.masked_fill(padding[..., None], 0.0)
        out, self.of_inputs = self._run(self.model, self.x, self.positions, self.masks)
        self.out = out
        self.gradients = [p.grad for p in self.model.parameters()]

    def on_rank(self, cut: TextCut) -> Errors:
        """Run this rank's tokens; return the errors. All ranks must call this."""
        model = copy.deepcopy(self.model)
        before = cut.ranks.sent
        with in_force(cut):
            masks = {name: cut.own(t, 1) for name, t in self.masks.items()}
            positions = None
            if self.positions is not None:
                positions = cut.own(self.positions, 0)
            weights = cut.own(self.weights, 1)
            out, of_inputs = self._run(
                model, cut.own(self.x, 1), positions, masks, weights
            )
        sent = cut.ranks.sent - before
        sum_gradients(model, cut.ranks)
        return Errors(
            _error(out, cut.own(self.out, 1)),
            _error(of_inputs, cut.own(self.of_inputs, 1)),
            self._of_parameters(model),
            sent,
        )

    def of_heads(self, ranks: Ranks) -> Errors:
        """Run this rank's heads of all layers; return the errors, as :meth:`on_rank`.

        A ``ValueError`` says which heads cannot be cut over the ranks.
        """
        model, before = copy.deepcopy(self.model), ranks.sent
        tensor_parallel(model, ranks)
        out, of_inputs = self._run(model, self.x, self.positions, self.masks)
        return Errors(
            _error(out, self.out),
            _error(of_inputs, self.of_inputs),
            self._of_parameters(model),
            ranks.sent - before,
        )

    def _of_parameters(self, model: nn.Module) -> float:
        """Return the largest error of the gradients of a model's parameters."""
        return max(
            (
                _error(p.grad, wanted)
                for p, wanted in zip(model.parameters(), self.gradients, strict=True)
                if wanted is not None
            ),
            default=0.0,
        )

    def _run(
        self,
        model: nn.Module,
        x: Tensor,
        positions: Tensor | None,
        masks: dict[str, Tensor],
        weights: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return output, 0 at padding, and the gradient of its weighted sum."""
        for module in model.modules():
            if isinstance(module, SampledPositions):
                module.generator = torch.Generator().manual_seed(SEED)
        model.zero_grad()
        x = x.clone().requires_grad_()
        out = model(x, positions, **masks)
        (out * (self.weights if weights is None else weights)).sum().backward()
        assert x.grad is not None
        padding = masks.get("key_padding_mask")
        if padding is not None:
            out = out.masked_fill(padding[..., None], 0.0)
        return out.detach(), x.grad


def model_of(entry: EncodingRecord, variant: Variant) -> Attention | Transformer:
    """Return a layer or a model in float64, with parameters away from their start."""
    unit, heads = entry.divisor(variant), variant.heads
    d = -(-D // unit) * unit
    torch.manual_seed(SEED)
    model: Attention | Transformer
    if entry.kind == "block":
        model = entry.implementation("torch")(heads * d, heads, **variant.keywords)
    else:
        encoding = entry.make(variant, d=d, heads=heads)
        if entry.of_model:
            model = Transformer(heads * d, heads, 2, encoding=encoding)
        else:
            causal = encoding.needs_causal or not hasattr(encoding, "bidirectional")
            model = Attention(heads * d, heads, encoding=encoding, causal=causal)
    with torch.no_grad():
        for p in model.parameters():
            if p.requires_grad and (p.ndim > 1 or p.unique().numel() == 1):
                p.normal_(0, 0.7 * p.shape[-1] ** -0.5)
    return model.double()


def positions_of(
    entry: EncodingRecord, tokens: int, generator: torch.Generator
) -> Tensor | None:
    """Return coordinates where the encoding has them, else ``None``."""
    if not entry.axes:
        return None
    return torch.randint(5, (tokens, entry.axes), generator=generator)


def _error(given: Tensor | None, wanted: Tensor) -> float:
    if given is None or not given.isfinite().all():
        return float("inf")
    if not wanted.numel():
        return 0.0
    return float((given - wanted).abs().max() / wanted.abs().max().clamp(min=1.0))


HEADS = "heads", "all-reduce"
"""In place of an order and a form: the heads are cut, and not the text."""


@dataclass(frozen=True)
class Row:
    """The largest errors of an encoding's configurations under one cut.

    ``order`` and ``form`` are those of a cut text, or :data:`HEADS`.
    """

    name: str
    ranks: int
    order: str
    form: str
    hidden: bool
    configurations: int
    refused: int
    out: float
    inputs: float
    parameters: float
    sent: int


def rows(ranks: Ranks, names: Iterable[str]) -> Iterator[Row]:
    """Yield the largest errors of encodings over all ranks, for every cut.

    All ranks must go through the rows. ``sent`` is the largest number of bytes that a
    rank sent for one configuration. Configurations that a ring cannot serve, or whose
    heads cannot be cut over the ranks, are refused.
    """
    for name in names:
        entry = CATALOG[name]
        for order in ORDERS:
            for hidden in (False, True):
                cuts = {form: TextCut(ranks, order=order, form=form) for form in FORMS}
                trials = _trials(entry, cuts["ring"].chunks.count, hidden)
                for form, cut in cuts.items():
                    given = ranks, (order, form), hidden, trials
                    yield _row(name, *given, lambda trial, cut=cut: trial.on_rank(cut))
        for hidden in (False, True):
            given = ranks, HEADS, hidden, _trials(entry, ranks.size, hidden)
            yield _row(name, *given, lambda trial: trial.of_heads(ranks))


def _trials(entry: EncodingRecord, chunks: int, hidden: bool) -> list[Trial]:
    return [Trial(entry, variant, chunks, hidden=hidden) for variant in entry.variants]


def _row(
    name: str,
    ranks: Ranks,
    cut: tuple[str, str],
    hidden: bool,
    trials: Sequence[Trial],
    run: Callable[[Trial], Errors],
) -> Row:
    """Return the largest errors of the trials that can run, over all ranks."""
    found = []
    for trial in trials:
        try:
            found.append(run(trial))
        except ValueError as error:
            if not any(words in str(error) for words in _REFUSED):
                raise
    refused = len(trials) - len(found)
    numbers = torch.tensor(
        [[e.out, e.inputs, e.parameters, e.sent] for e in found] or [[0.0] * 4],
        dtype=torch.float64,
    )
    of_all = torch.stack(ranks.gather(numbers.amax(0))).amax(0)
    out, inputs, parameters, sent = of_all.tolist()
    return Row(
        *(name, ranks.size, *cut, hidden),
        *(len(trials), refused),
        *(out, inputs, parameters, int(sent)),
    )
