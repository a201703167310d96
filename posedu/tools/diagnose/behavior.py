"""Trials of a model with shifted, padded, cached, packed and longer texts."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from posedu._argument_types import check_types
from posedu.tools._foreign_code import called
from posedu.tools.diagnose.capture import evaluating
from posedu.tools.diagnose.inputs import (
    Inputs,
    Refused,
    accepts,
    draw_tokens,
    output,
    takes,
    vocabulary,
)
from posedu.tools.positions import packed_positions, padded_positions

LENGTH, SPLIT, ROWS, PADDING = 12, 7, 4, 3
CACHES = ("past_key_values", "cache")
"""Names of the cache, as an argument and in the result."""
DECODER = "decoder_"
"""First part of the names of a decoder's arguments, if there is an encoder, too."""
ROUNDOFFS = 4096
"""Bound on the change of an output by rounding, in units of eps and of its size.

At position p an angle is rounded by p times eps, so the bound for shifted texts grows.
"""


@check_types
@dataclass(frozen=True)
class Trial:
    """Comparison of two outputs of a model that should be equal.

    ``name`` says what the trial does to a text, such as "cached". ``differs`` is the
    relative difference of the outputs, or ``None`` if the trial could not be run; then
    ``why`` is the reason. ``bound`` is the largest difference of outputs that agree.
    """

    name: str
    differs: float | None
    bound: float
    why: str = ""

    @property
    def ok(self) -> bool | None:
        """True if the two outputs agree, false if they differ.

        ``None`` if they could not be compared.
        """
        return None if self.differs is None else self.differs <= self.bound


def trials(
    model: nn.Module,
    inputs: Inputs,
    far: int,
    eps: float,
    *,
    trained: int | None = None,
) -> Iterator[Trial]:
    """Yield comparisons of outputs for shifted, padded, cached, packed, longer texts.

    ``inputs`` maps tokens and positions to keywords of the model's ``forward``. The
    positions of the shifted text begin at ``far``. ``eps`` is the spacing of numbers at
    1 in the dtype of queries and keys. ``trained`` is the training length if
    frequencies depend on the length of the text.
    """
    with evaluating(model):
        yield from _trials(model, inputs, far, eps, trained)


def _trials(
    model: nn.Module, inputs: Inputs, far: int, eps: float, trained: int | None
) -> Iterator[Trial]:
    tokens = draw_tokens(model, ROWS, LENGTH, seed=1)
    tried: dict[str, Callable[[], tuple[Tensor, Tensor]]] = {
        "own positions": lambda: _own_positions(model, inputs, tokens),
        "elsewhere": lambda: _shifted(model, inputs, tokens, far),
        "padded": lambda: _padded(model, inputs, tokens, counted=False),
        "padded and counted": lambda: _padded(model, inputs, tokens, counted=True),
        "cached": lambda: _cached(model, inputs, tokens),
        "padded and cached": lambda: _padded_and_cached(model, inputs, tokens),
        "packed": lambda: _packed(model, inputs, tokens),
        "after a longer text": lambda: _repeated(model, inputs, tokens, far, trained),
    }
    for name, trial in tried.items():
        try:
            here, there = trial()
            if here.shape != there.shape:
                shapes = [list(x.shape) for x in (here, there)]
                raise Refused(f"outputs of shapes {shapes} cannot be compared")
            roundoffs = ROUNDOFFS + (8 * far if name == "elsewhere" else 0)
            bound = roundoffs * max(eps, torch.finfo(here.dtype).eps)
            if bound > 1:
                raise Refused(
                    "16 bits are too coarse to compare outputs: give the model in "
                    "float32, as model.float()"
                )
        except Exception as error:  # A model may raise anything for these inputs.
            lines = str(error).strip().splitlines() or [type(error).__name__]
            yield Trial(name, None, 0.0, lines[0])
            continue
        difference = (here.double() - there.double()).abs().max()
        size = here.double().abs().max()
        yield Trial(name, float(difference / size.clamp(min=1e-30)), bound)


def _positions(tokens: Tensor, start: int = 0) -> Tensor:
    rows, length = tokens.shape
    return (start + torch.arange(length, device=tokens.device)).expand(rows, length)


def _given(
    model: nn.Module,
    inputs: Inputs,
    tokens: Tensor,
    positions: Tensor | None,
    decoder: Tensor | None = None,
) -> dict[str, Any]:
    """Return keywords for ``tokens``, and for the tokens ``decoder`` of a decoder.

    ``decoder`` is used if the model has arguments for an encoder and for a decoder.
    ``inputs`` maps tokens and positions to the keywords of the model's ``forward``.
    """
    if positions is not None and not accepts(model, "position_ids"):
        positions = None
    given = dict(inputs(tokens, positions))
    if decoder is not None:
        given |= _of_decoder(inputs(decoder, None))
    return given


def _of_decoder(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name.startswith(DECODER)}


def _run(
    model: nn.Module,
    inputs: Inputs,
    tokens: Tensor,
    positions: Tensor | None,
    decoder: Tensor | None = None,
    **more: Any,
) -> Tensor:
    given = _given(model, inputs, tokens, positions, decoder)
    return output(called(model, **given, **more))


def _needs(model: nn.Module, *names: str) -> None:
    for name in names:
        if not accepts(model, name):
            raise Refused(f"its forward has no {name}")


def _own_positions(
    model: nn.Module, inputs: Inputs, tokens: Tensor
) -> tuple[Tensor, Tensor]:
    """Return outputs without positions, and with positions from 0 on.

    ``inputs`` maps tokens and positions to the keywords of the model's ``forward``;
    ``tokens`` are ``[rows, tokens]``.
    """
    _needs(model, "position_ids")
    return (
        _run(model, inputs, tokens, None),
        _run(model, inputs, tokens, _positions(tokens)),
    )


def _shifted(
    model: nn.Module, inputs: Inputs, tokens: Tensor, far: int
) -> tuple[Tensor, Tensor]:
    """Return outputs for equal tokens, at positions from 0 on and from ``far`` on.

    ``inputs`` maps tokens and positions to the keywords of the model's ``forward``;
    ``tokens`` are ``[rows, tokens]``.
    """
    _needs(model, "position_ids")
    return (
        _run(model, inputs, tokens, _positions(tokens)),
        _run(model, inputs, tokens, _positions(tokens, far)),
    )


def _with_padding(model: nn.Module, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return tokens with padding on the left, their mask, and positions that count.

    The padding is the token that the model's configuration names, if any. The positions
    begin after the padding; the mask is 0 on padding and 1 elsewhere.
    """
    padding = tokens[:, :PADDING]
    token = getattr(getattr(model, "config", None), "pad_token_id", None)
    if isinstance(token, int) and 0 <= token < (vocabulary(model) or 0):
        padding = torch.full_like(padding, token)
    together = torch.cat([padding, tokens], 1)
    mask = torch.ones_like(together)
    mask[:, :PADDING] = 0
    counts = torch.as_tensor(padded_positions(mask.bool().cpu().numpy()))
    return together, mask, counts.to(tokens.device)


def _padded(
    model: nn.Module, inputs: Inputs, tokens: Tensor, *, counted: bool
) -> tuple[Tensor, Tensor]:
    """Return outputs without padding, and with masked padding on the left.

    ``inputs`` maps tokens and positions to the keywords of the model's ``forward``. If
    ``counted``, both texts are given positions, which begin after the padding;
    otherwise the model gets no positions. With an encoder and a decoder, only the
    encoder's text is padded.
    """
    _needs(model, "attention_mask", *(["position_ids"] if counted else []))
    together, mask, counts = _with_padding(model, tokens)
    whole = torch.ones_like(tokens)
    at = (_positions(tokens), counts) if counted else (None, None)
    here = _run(model, inputs, tokens, at[0], attention_mask=whole)
    there = _run(model, inputs, together, at[1], tokens, attention_mask=mask)
    return here, there[:, -LENGTH:]


def _cached(model: nn.Module, inputs: Inputs, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Return outputs for a whole text, and for the text read in steps with a cache.

    ``inputs`` maps tokens and positions to the keywords of the model's ``forward``.
    """
    whole = _run(model, inputs, tokens, None, **_with_cache(model, used=False))
    return whole, _in_steps(model, inputs, tokens, SPLIT)


def _padded_and_cached(
    model: nn.Module, inputs: Inputs, tokens: Tensor
) -> tuple[Tensor, Tensor]:
    """Return outputs for a padded text, and for the text read in steps with a cache.

    The padding is on the left and masked, and positions begin after it if the model has
    an argument for them. ``inputs`` maps tokens and positions to the keywords of the
    model's ``forward``. With an encoder and a decoder, only the encoder's text is
    padded.
    """
    _needs(model, "attention_mask")
    together, mask, counts = _with_padding(model, tokens)
    is_pair = bool(_of_decoder(inputs(tokens, None)))
    off = _with_cache(model, used=False)
    whole = _run(model, inputs, together, counts, tokens, attention_mask=mask, **off)
    if is_pair:
        return whole, _in_steps(
            model, inputs, tokens, SPLIT, encoder=together, mask=mask
        )
    steps = _in_steps(
        model, inputs, together, SPLIT + PADDING, positions=counts, mask=mask
    )
    return whole[:, -LENGTH:], steps[:, -LENGTH:]


def _in_steps(
    model: nn.Module,
    inputs: Inputs,
    tokens: Tensor,
    split: int,
    *,
    encoder: Tensor | None = None,
    positions: Tensor | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return outputs for a text read with a cache: a first piece, then token by token.

    The first piece has ``split`` tokens. With an encoder and a decoder, the decoder
    reads ``tokens`` in steps, and the encoder reads its whole text ``encoder`` each
    time, by default the same tokens. ``inputs`` maps tokens and positions to the
    keywords of the model's ``forward``; ``positions`` and ``mask`` belong to the whole
    text.
    """
    given_names = [name for name in CACHES if accepts(model, name)]
    name = (given_names or [n for n in CACHES if takes(model, n)] or [""])[0]
    if not name:
        raise Refused("its forward has no argument for a cache")
    encoder = tokens if encoder is None else encoder
    is_pair = bool(_of_decoder(inputs(tokens, None)))
    length = tokens.shape[1]
    cache, outs = None, []
    for a, b in [(0, split), *((i, i + 1) for i in range(split, length))]:
        piece = tokens[:, a:b]
        if is_pair:
            given = _given(model, inputs, encoder, None, piece)
        else:
            at = None if positions is None else positions[:, a:b]
            given = _given(model, inputs, piece, at)
        if mask is not None:
            given["attention_mask"] = mask if is_pair else mask[:, :b]
        more = {name: cache, **_with_cache(model, used=True)}
        result = called(model, **given, **more)
        cache = _cache_of(result)
        outs.append(output(result))
    return torch.cat(outs, 1)


def _cache_of(result: Any) -> Any:
    """Return the cache in a model's result. Raises Refused if there is none."""
    for name in CACHES:
        is_mapping = isinstance(result, Mapping)
        found = result.get(name) if is_mapping else getattr(result, name, None)
        if found is not None:
            return found
    raise Refused("it returns no cache")


def _packed(model: nn.Module, inputs: Inputs, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Return outputs for two texts run alone, and for both texts in one row.

    In the row, positions begin again at 0 where the second text begins. ``inputs`` maps
    tokens and positions to the keywords of the model's ``forward``.
    """
    _needs(model, "position_ids")
    row = tokens[:1]
    counts, _ = packed_positions([0, SPLIT, LENGTH])
    positions = torch.as_tensor(counts, device=tokens.device)[None]
    off = _with_cache(model, used=False)
    together = _run(model, inputs, row, positions, **off)
    alone = [
        _run(model, inputs, part, _positions(part), **off)
        for part in (row[:, :SPLIT], row[:, SPLIT:])
    ]
    return torch.cat(alone, 1), together


def _repeated(
    model: nn.Module,
    inputs: Inputs,
    tokens: Tensor,
    far: int,
    trained: int | None,
) -> tuple[Tensor, Tensor]:
    """Return outputs for the same texts before and after a longer one.

    The texts are longer than ``trained`` if it is given, and end near ``far`` at most
    otherwise. ``inputs`` maps tokens and positions to the keywords of the model's
    ``forward``.
    """
    if accepts(model, "position_ids"):
        middle, longest = (trained, 4 * trained) if trained else (far // 2, far)
        # A text within the training length may reset what a longer one has left.
        starts: list[int | None] = [middle, 0]
    elif trained:
        raise Refused(f"its forward has no position_ids to reach position {trained}")
    else:
        starts, longest = [None], 0

    def outputs() -> Tensor:
        short = tokens[:, :SPLIT]
        return torch.cat(
            [
                _run(model, inputs, short, None if s is None else _positions(short, s))
                for s in starts
            ],
            1,
        )

    before = outputs()
    _run(model, inputs, tokens, _positions(tokens, longest))
    return before, outputs()


def _with_cache(model: nn.Module, *, used: bool) -> dict[str, bool]:
    return {"use_cache": used} if takes(model, "use_cache") else {}
