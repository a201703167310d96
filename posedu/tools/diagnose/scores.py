"""Measurement of attention scores: their scale, and a bias by distance.

The softmax gets logits c · (q · k) + b. In a row of tokens that differ between
sequences, the factor c is the regression of logits on products; the rest is the bias b.
It is compared with ALiBi's or T5's formula if the configuration says that the model has
one of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from posedu._argument_types import check_types
from posedu.numpy.bias.alibi import alibi_slopes
from posedu.numpy.bias.t5 import t5_buckets
from posedu.tools._foreign_code import called
from posedu.tools.configs.rotary_config import ConfigError, Reading
from posedu.tools.configs.unrotated import other_encodings
from posedu.tools.diagnose.capture import PRODUCTS, Recorder, recording
from posedu.tools.diagnose.inputs import Inputs, Refused, draw_tokens
from posedu.tools.diagnose.report import FAULT, NOTE, Finding, Layer, listed

SOFTMAX = (F.softmax, torch.softmax, Tensor.softmax)
LENGTHS = (160, 40)
"""Numbers of tokens to try; T5's last bucket begins at distance 113."""
ROWS = 4
MASKED = -5000.0
"""Logits below this are masked: some models add -10000."""
ROUGH = 1e-3
"""Relative error of a bias above float32's roundoff in sums with large logits."""
COARSE = 2.0**-7
"""Relative error of slopes that were rounded to bfloat16, as Falcon's are."""


@check_types
@dataclass(frozen=True)
class Scores:
    """Scale and bias of the logits of one call of attention.

    Parameters
    ----------
    module
        The name of the module.
    d
        Features of a query.
    scale
        Factor c of the products q · k; ``None`` if logits are no multiple of them plus
        a bias, as with a cap on logits.
    bias
        The bias for each head and each offset i − j of query and key, less the one for
        offset 0, by offset + tokens − 1; NaN for offsets whose keys are masked.
        ``None`` if ``scale`` is, or if the bias depends on more than the offset.
    """

    module: str
    d: int
    scale: float | None
    bias: Float[np.ndarray, "heads offsets"] | None

    @property
    def offsets(self) -> Float[np.ndarray, "offsets"]:
        """Offset i − j of each column of ``bias``."""
        count = 0 if self.bias is None else self.bias.shape[1]
        return np.arange(count) - (count - 1) / 2

    @property
    def sees_later_keys(self) -> bool:
        """True if some key after its query is not masked."""
        return self.bias is not None and bool(
            np.isfinite(self.bias[:, self.offsets < 0]).any()
        )

    @property
    def has_bias(self) -> bool:
        """True if a bias was measured that is not the same for all offsets."""
        return self.bias is not None and bool(np.nanmax(np.abs(self.bias)) > ROUGH)

    def slopes(self) -> Float[np.ndarray, "heads"] | None:
        """Return the slope m of each head if the bias is −m · distance, else ``None``.

        Distances are those to earlier keys.
        """
        if self.bias is None:
            return None
        kept = self.offsets > 0
        bias, distance = self.bias[:, kept], self.offsets[kept]
        seen = np.isfinite(bias)
        bias = np.where(seen, bias, 0)
        slopes = -(bias * distance).sum(1) / np.maximum((seen * distance**2).sum(1), 1)
        rest = np.abs(bias + seen * slopes[:, None] * distance).max()
        return slopes if rest <= ROUGH * np.abs(bias).max() else None


@dataclass
class _ScoreRecorder(Recorder):
    """Recorder of the logits of each call of attention, beside its queries and keys.

    ``scores`` are those measured so far. ``products`` are the last product of queries
    and keys, and the features of a query, until a softmax is taken of it.
    ``other_shape`` is the shape of the last product of queries and other than one key
    for each token; ``has_pooled_keys`` is true if a softmax was taken of one.
    """

    scores: list[Scores] = field(default_factory=list)
    products: tuple[Tensor, int] | None = None
    other_shape: tuple[int, ...] = ()
    has_pooled_keys: bool = False

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        out = super().__torch_function__(func, types, args, kwargs)
        named = kwargs or {}
        if func is F.scaled_dot_product_attention:
            names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
            self.add_fused({**dict(zip(names, args, strict=False)), **named})
        elif func in SOFTMAX:
            logits = args[0] if args else named.get("input")
            if not isinstance(logits, Tensor):
                return out
            if self.products is not None:
                self.add_logits(*self.products, logits)
            if logits.ndim == 4 and logits.shape[:3] == self.other_shape[:3]:
                # A sink has one logit more.
                more = logits.shape[3] - self.other_shape[3]
                self.has_pooled_keys |= more in (0, 1)
        elif func in PRODUCTS:
            given = [x for x in (*args, *named.values()) if isinstance(x, Tensor)]
            left, right = given[-2:]
            if self.is_scores(left, right):
                self.products = (left.double() @ right.double(), left.shape[-1])
            elif left.ndim == 4 and left.shape[2] == self.shape[1] != left.shape[3]:
                self.other_shape = tuple(out.shape)
        return out

    def add_fused(self, given: Mapping[str, Any]) -> None:
        """Measure the scores of ``scaled_dot_product_attention`` from its arguments."""
        query, key = given["query"].double(), given["key"].double()
        if query.ndim == 4 and query.shape[2] == self.shape[1] != key.shape[2]:
            self.has_pooled_keys = True
        if query.ndim != 4 or not query.shape[-2] == key.shape[-2] == self.shape[1]:
            return
        key = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
        products = query @ key.transpose(-1, -2)
        d = query.shape[-1]
        logits = products * (given.get("scale") or d**-0.5)
        mask = given.get("attn_mask")
        if mask is not None and mask.dtype == torch.bool:
            logits = logits.masked_fill(~mask, -torch.inf)
        elif mask is not None:
            logits = logits + mask
        if given.get("is_causal"):
            later = torch.ones(logits.shape[-2:], dtype=torch.bool).triu(1)
            logits = logits.masked_fill(later.to(logits.device), -torch.inf)
        self.add_logits(products, d, logits)

    def add_logits(self, products: Tensor, d: int, logits: Tensor) -> None:
        """Measure scale and bias from products of queries and keys, and their logits.

        ``d`` is the number of features of a query.
        """
        rows, tokens = self.shape
        if logits.shape[-2:] != (tokens, tokens) or products.numel() != logits.numel():
            return
        self.products = None
        x, y = (
            z.detach().double().cpu().numpy().reshape(rows, -1, tokens, tokens)
            for z in (products, logits)
        )
        name = self.modules[-1] if self.modules else ""
        self.scores.append(Scores(name, d, *_fitted(x, y)))


def _fitted(
    products: Float[np.ndarray, "rows heads tokens tokens"],
    logits: Float[np.ndarray, "rows heads tokens tokens"],
) -> tuple[float | None, Float[np.ndarray, "heads offsets"] | None]:
    """Return the scale of logits, and their bias by offset; see :class:`Scores`."""
    is_seen = (logits > MASKED).all(0)
    y = np.where(is_seen, logits, 0)
    x = np.where(is_seen, products, 0)
    dx, dy = x - x.mean(0), y - y.mean(0)
    scale = float((dx * dy).sum() / max(float((dx * dx).sum()), 1e-300))
    if np.abs(dy - scale * dx).max() > ROUGH * np.abs(dy).max():
        return None, None
    bias = np.where(is_seen, (y - scale * x).mean(0), np.nan)
    at_zero = np.diagonal(bias, axis1=1, axis2=2)
    if np.isnan(at_zero).any():  # Some tokens do not see themselves.
        return scale, None
    bias = bias - at_zero[..., None]
    tokens = bias.shape[-1]
    by_offset = np.full((len(bias), 2 * tokens - 1), np.nan)
    limit = ROUGH * max(1.0, float(np.nanmax(np.abs(bias), initial=0)))
    for offset in range(1 - tokens, tokens):
        for h, own in enumerate(np.diagonal(bias, -offset, axis1=1, axis2=2)):
            own = own[np.isfinite(own)]
            if not len(own):
                continue
            if np.ptp(own) > limit:
                return scale, None
            by_offset[h, offset + tokens - 1] = own.mean()
    return scale, by_offset


def measure_scores(model: nn.Module, inputs: Inputs) -> tuple[tuple[Scores, ...], bool]:
    """Measure the scores of a model's calls of attention on a row of different tokens.

    ``inputs`` maps tokens and positions to keywords of the model; it gets no positions.
    The flag is true if some queries see other than one key for each token, such as keys
    pooled from several tokens.

    Raises
    ------
    Refused
        The model does not run, or its logits are not seen.
    """
    reason = ""
    for length in LENGTHS:
        tokens = draw_tokens(model, ROWS, length, seed=2)
        recorder = _ScoreRecorder((ROWS, length))
        try:
            with recording(model, recorder):
                called(model, **inputs(tokens, None))
        except Exception as error:  # A model may raise anything for this length.
            reason = str(error).split("\n")[0] or type(error).__name__
            continue
        if recorder.scores or recorder.has_pooled_keys:
            return tuple(recorder.scores), recorder.has_pooled_keys
        reason = "the logits of no softmax were seen"
    raise Refused(reason)


@dataclass(frozen=True)
class ExpectedBias:
    """The bias that a configuration requires: ALiBi's, or T5's with its buckets.

    ``name`` is "ALiBi" or "T5". ``bias_max`` belongs to ALiBi, ``buckets`` and
    ``distance`` to T5.
    """

    name: str
    bias_max: float = 8.0
    buckets: int = 32
    distance: int = 128


def expected_bias(
    config: object, reading: Reading | None = None
) -> ExpectedBias | None:
    """Return the bias by distance that a configuration requires, if any is known.

    ``config`` is a mapping, or an object with ``to_dict``; of any other configuration,
    the encodings of its ``reading`` are taken.
    """
    as_mapping = getattr(config, "to_dict", None)
    given = as_mapping() if callable(as_mapping) else config
    encodings = reading.encodings if reading else ()
    if isinstance(given, Mapping):
        try:
            encodings = other_encodings(given)
        except ConfigError:
            return None
    for each in encodings:
        own = each.options
        if each.kind == "alibi":
            return ExpectedBias("ALiBi", bias_max=own["bias_max"])
        if each.kind == "t5":
            sizes = {"buckets": own["buckets"], "distance": own["distance"]}
            return ExpectedBias("T5", **sizes)
    return None


def departure(scores: Scores, expected: ExpectedBias) -> str:
    """Say how a measured bias differs from the expected one; empty if it does not.

    The bias of ``scores`` must have been measured.
    """
    if expected.name == "ALiBi":
        return _departure_from_alibi(scores, expected.bias_max)
    try:
        buckets = t5_buckets(
            scores.offsets,
            bidirectional=scores.sees_later_keys,
            buckets=expected.buckets,
            distance=expected.distance,
        )
    except ValueError as error:
        return f"the configuration's buckets are impossible: {error}"
    limit = ROUGH * float(np.nanmax(np.abs(scores.bias)))
    for bucket in np.unique(buckets):
        own = scores.bias[:, buckets == bucket]
        if not np.isfinite(own).any():
            continue
        first = np.where(np.isfinite(own), own, 0)[:, :1]
        off = np.flatnonzero((np.abs(own - first) > limit).any(0))
        if len(off):
            offset = scores.offsets[buckets == bucket]
            return (
                f"the offsets {offset[0]:.0f} and {offset[off[0]]:.0f} have different "
                f"biases, but share a bucket of the {expected.buckets} up to distance "
                f"{expected.distance}"
            )
    return ""


def _departure_from_alibi(scores: Scores, bias_max: float) -> str:
    found = scores.slopes()
    if found is None:
        return "the bias is not proportional to the distance"
    for rule in ("authors", "geometric"):
        wanted = alibi_slopes(len(found), slopes=rule, bias_max=bias_max)
        for factor in (1.0, scores.d**-0.5):
            if np.allclose(found, factor * wanted, rtol=COARSE, atol=0):
                return ""
    wanted = alibi_slopes(len(found), slopes="authors", bias_max=bias_max)
    return f"the slopes are {_short(found)}, but ALiBi's are {_short(wanted)}"


def _short(numbers: Float[np.ndarray, "n"]) -> str:
    """Return the first four numbers as text, with "…" if there are more."""
    return ", ".join([f"{x:.4g}" for x in numbers[:4]] + ["…"] * (len(numbers) > 4))


def of_scores(
    scores: Sequence[Scores], layers: Sequence[Layer], expected: ExpectedBias | None
) -> tuple[list[Finding], list[str]]:
    """Return findings on scores, and what could not be compared, with reasons.

    The scale is compared where the configuration of one of the measured ``layers`` has
    a factor of it; ``expected`` is the bias that the configuration requires, if any.
    """
    of_scale, unseen = _of_scale({each.module: each for each in scores}, layers)
    of_bias, left_out = _of_bias(scores, expected)
    return [*of_scale, *of_bias], [*unseen, *left_out]


def _of_scale(
    scores: Mapping[str, Scores], layers: Sequence[Layer]
) -> tuple[list[Finding], list[str]]:
    wrong: dict[str, list[str]] = {}
    unseen = []
    for layer in layers:
        factor, own = _wanted_scale(layer), scores.get(layer.name)
        if factor is None:
            continue
        sides = layer.query.attention_factor, layer.key.attention_factor
        is_zero = layer.query.is_zero or layer.key.is_zero
        if own is None or own.scale is None or None in sides or is_zero:
            unseen.append(layer.name)
            continue
        total = own.scale * float(np.prod(np.array(sides, float)))
        required = own.d**-0.5 * factor
        if abs(total / required - 1) > ROUGH + layer.query.eps:
            text = (
                f"products of unrotated queries and keys are multiplied by {total:.5g},"
                f" but the configuration requires {required:.5g}, which is 1/√{own.d} "
                f"times {factor:.5g}."
            )
            wrong.setdefault(text, []).append(layer.name)
    found = [
        Finding(
            FAULT,
            "softmax scale",
            f"{listed(names, len(layers))}: {text}",
            "YaRN in latent attention multiplies the scale by the square of mscale "
            "(mscale_all_dim).",
        )
        for text, names in wrong.items()
    ]
    where = listed(unseen, len(layers)) if unseen else ""
    return found, [f"scale of scores ({where}: it is not seen)"] if unseen else []


def _wanted_scale(layer: Layer) -> float | None:
    """Return the factor of 1/√d that a configuration requires of a layer's scores.

    The result is ``None`` if the configuration has no factor beyond that of the table.
    """
    factors = {
        rope.softmax * rope.attention_factor**2
        for rope in layer.expected
        if rope is not None and rope.softmax != 1
    }
    return factors.pop() if len(factors) == 1 else None


def _of_bias(
    scores: Sequence[Scores], expected: ExpectedBias | None
) -> tuple[list[Finding], list[str]]:
    biased = [each for each in scores if each.has_bias]
    if not expected:
        return ([_described(biased, len(scores))] if biased else []), []
    if not biased:
        if any(each.bias is None for each in scores):
            return [], [f"bias by distance ({expected.name}: it is not seen)"]
        text = f"the configuration requires {expected.name}'s bias by distance, but "
        text += "the scores have no bias."
        return [
            Finding(FAULT, "no bias", text, "Add it to the scores, after their scale.")
        ], []
    wrong: dict[str, list[str]] = {}
    for each in scores:
        if each.has_bias:
            text = departure(each, expected)
        elif each.bias is not None and expected.name == "ALiBi":
            text = "there is none"
        else:  # T5's attention from a decoder to an encoder has no bias.
            continue
        if text:
            wrong.setdefault(text, []).append(each.module)
    faults = [
        Finding(
            FAULT,
            "bias",
            f"{listed(names, len(scores))}: the configuration requires "
            f"{expected.name}'s bias, but {text}.",
            "Compare with posedu.numpy.bias.",
        )
        for text, names in wrong.items()
    ]
    return faults or [_described(biased, len(scores), expected.name)], []


def _described(biased: Sequence[Scores], count: int, name: str = "") -> Finding:
    """Return the note on a bias of scores, which may have the name of a formula.

    ``count`` is the number of all calls of attention.
    """
    slopes = biased[0].slopes()
    how = "depends on the offset of query and key alone"
    if slopes is not None:
        how = f"is minus a slope times the distance, with the slopes {_short(slopes)}"
    of = f", {name}'s by the configuration" if name else ""
    where = listed([each.module for each in biased], count)
    return Finding(NOTE, "bias", f"{where}: scores have a bias that {how}{of}.")
