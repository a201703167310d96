"""DAPE: an MLP over all heads' logits and biases corrects the logits."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from posedu._arguments import (
    LEAK,
    DAPEBias,
    DAPEEdges,
    require_bool,
    require_choice,
    require_edges,
)
from posedu.numpy._arrays import require_floats
from posedu.numpy.attention import NO_HOOKS, Hooks, Tokens, require_bias
from posedu.numpy.bias.alibi import alibi
from posedu.numpy.bias.fire import fire
from posedu.numpy.bias.t5 import t5

Array = np.ndarray
_BIASES: dict[str, Callable[..., Hooks]] = dict(alibi=alibi, t5=t5, fire=fire)


def dape(
    *,
    over: Hooks | DAPEBias | None,
    hidden_weight: Float[Array, "width channels kernel"],
    hidden_bias: Float[Array, "width"],
    out_weight: Float[Array, "heads width kernel"],
    out_bias: Float[Array, "heads"],
    residual: bool,
    edges: DAPEEdges | None = None,
    **over_options: Any,
) -> Hooks:
    """Return the attention hooks of DAPE.

    Logits are S + f(S, B), or S + B + f(S, B) (arXiv 2405.14722, 2410.04798).

    S are the scaled inner products of all heads, B the heads' biases by a second
    encoding, ``over``. The network f has one hidden layer, of leaky ReLUs (slope 0.01),
    and both of its layers read for each query as many neighboring keys as the kernel is
    wide: one in the first version, three in the second. Neighbors are counted among the
    keys that the query may attend to.

    Parameters
    ----------
    over
        The encoding that gives B: hooks of which only ``bias`` and ``scale`` are set,
        such as those of :func:`posedu.numpy.bias.kerple_log` and
        :func:`posedu.numpy.bias.sandwich`; or the encoding's name, ``"alibi"``,
        ``"t5"`` or ``"fire"``, with its keywords given as ``over_…``. ``None``: no
        bias, so that f reads S alone.
    hidden_weight, hidden_bias, out_weight, out_bias
        Parameters of f; its input channels are the heads of S, then the heads of B.
    residual
        Whether B is added, too: true in the authors' code, false in the first
        formula of 2405.14722.
    edges
        Input of the second layer at keys that the mask hides, for a kernel wider than
        1; the first layer reads 0 at these keys. ``"masked"``: 0. ``"published"``: at
        later keys the output of the first layer, and past the last key 0, as in the
        authors' code for causal attention. ``"code"``: the same, but past the last key
        as if the sequence went on, so that outputs do not depend on what follows.

    Returns
    -------
    Hooks (functions that attention calls) with ``logits``. Equation ``def-dape``.

    Raises
    ------
    TypeError, ValueError
        A hook of ``over`` other than ``bias`` and ``scale``, parameters that hold no
        floats or do not fit, ``edges`` missing or not wanted.
    """
    w_1, w_2 = (
        require_floats(name, w)
        for name, w in (("hidden_weight", hidden_weight), ("out_weight", out_weight))
    )
    b_1, b_2 = require_floats("hidden_bias", hidden_bias), out_bias
    b_2 = require_floats("out_bias", b_2)
    heads, width = b_2.size, b_1.size
    channels = heads if over is None else 2 * heads
    kernel = w_1.shape[-1] if w_1.ndim else 0
    shapes = (width, channels, kernel), (heads, width, kernel)
    if (w_1.shape, w_2.shape) != shapes or b_1.ndim != 1 or b_2.ndim != 1:
        raise ValueError(
            "hidden_weight, hidden_bias, out_weight and out_bias must be [width, "
            f"channels, kernel], [width], [heads, width, kernel] and [heads], with "
            f"{channels} channels for {heads} heads, got shapes "
            f"{[list(t.shape) for t in (w_1, b_1, w_2, b_2)]}"
        )
    below = _below(over, heads, over_options)
    require_bool("residual", residual)
    require_edges(edges, kernel)

    def logits(tokens: Tokens) -> Float[Array, "heads queries keys"]:
        s = tokens.q @ tokens.k.swapaxes(-1, -2) * below.scale(tokens.d)
        b = np.broadcast_to(require_bias(below.bias(tokens), s), s.shape)
        read = s if over is None else np.concatenate((s, b))
        read = np.where(tokens.mask & (read > -np.inf), read, 0.0)
        rows = np.arange(len(tokens.mask))[:, None]
        order = _visible_together(tokens.mask)
        counted = _counted(tokens.mask[rows, order], edges, kernel)
        read = read[:, rows, order]
        z = _convolve(_widened(read, kernel - 1), w_1) + b_1[:, None, None]
        hidden = np.where(counted, np.maximum(z, LEAK * z), 0.0)
        f = _convolve(hidden, w_2) + b_2[:, None, None]
        refined = s + f[:, rows, order.argsort(axis=-1)]
        return np.where(b > -np.inf, refined + b if residual else refined, -np.inf)

    reads_later = edges in ("code", "published")
    return Hooks(logits=logits, needs_causal=below.needs_causal or reads_later)


def _below(over: Hooks | DAPEBias | None, heads: int, options: dict[str, Any]) -> Hooks:
    """Return the hooks (an encoding's functions) that give the bias B of :func:`dape`.

    They are ``over`` itself, or the hooks of the encoding that ``over`` names; if
    ``over`` is ``None``, hooks without a bias. ``heads`` is the number of query heads;
    ``options`` are the keywords ``over_…`` of a named encoding. Hooks that do more than
    a bias and a scale are refused.
    """
    if isinstance(over, str):
        given = {name.removeprefix("over_"): v for name, v in options.items()}
        if require_choice("over", over, DAPEBias) == "alibi":
            given["heads"] = heads
        return _BIASES[over](**given)
    if options:
        raise TypeError(f"{', '.join(options)}: over must be a name, got {over!r}")
    below = NO_HOOKS if over is None else over
    for hook in vars(NO_HOOKS).keys() - {"bias", "scale", "needs_causal"}:
        if getattr(below, hook) is not getattr(NO_HOOKS, hook):
            raise ValueError(f"over must be a bias, got hooks that use {hook!r}")
    return below


def _visible_together(mask: Bool[Array, "queries keys"]) -> Int[Array, "queries keys"]:
    """Order the keys of each query so that those which ``mask`` allows are neighbors.

    Before them come the hidden keys up to the query's own, after them the hidden keys
    that are later. The order is that of the sequence if no hidden key is between two
    others.
    """
    is_later = np.arange(mask.shape[1]) > np.arange(len(mask))[:, None]
    return np.where(mask, 1, 2 * is_later).argsort(axis=-1, kind="stable")


def _counted(
    mask: Bool[Array, "queries keys"], edges: DAPEEdges | None, kernel: int
) -> Bool[Array, "queries wider"]:
    """Mask of the (query, key) pairs at which f's hidden units are not set to 0.

    f is DAPE's network. The mask is true at the pairs that the attention mask ``mask``
    allows and, with ``edges="code"`` or ``"published"``, at all later keys, too. It has
    kernel // 2 keys more on both sides, where ``kernel`` is the width of f in keys.
    With ``"published"`` f's units are set to 0 there.
    """
    counted = _widened(mask, kernel // 2)
    key = np.arange(counted.shape[1]) - kernel // 2
    later = key > np.arange(len(mask))[:, None]
    if edges == "code":
        return counted | later
    if edges == "published":
        return counted | (later & (key < mask.shape[1]))
    return counted


def _widened(x: Array, by: int) -> Array:
    """Pad the key axis of ``x`` with ``by`` zeros before its start and at its end."""
    zeros = np.zeros((*x.shape[:-1], by), dtype=x.dtype)
    return np.concatenate((zeros, x, zeros), axis=-1)


def _convolve(
    x: Float[Array, "channels queries wider"],
    weight: Float[Array, "features channels kernel"],
) -> Float[Array, "features queries keys"]:
    """Convolve ``x`` with ``weight`` along the keys; kernel − 1 keys are lost.

    The kernel is the width of ``weight`` in keys; nothing is padded.
    """
    kernel = weight.shape[-1]
    keys = x.shape[-1] - kernel + 1
    return sum(
        np.einsum("fc,cqk->fqk", weight[..., t], x[..., t : t + keys])
        for t in range(kernel)
    )
