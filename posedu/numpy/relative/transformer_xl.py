"""Transformer-XL: logits of four terms, of content and position of query and key."""

import numpy as np
from jaxtyping import Float

from posedu._arguments import Layout, require_choice, require_not_negative
from posedu.numpy._arrays import require_floats
from posedu.numpy.absolute.sinusoidal import sinusoidal
from posedu.numpy.attention import Hooks, Tokens

Array = np.ndarray


def transformer_xl(
    *,
    global_content: Float[Array, "heads d"],
    global_position: Float[Array, "heads d"],
    position_weight: Float[Array, "features d_model"],
    layout: Layout,
    clamp: float | None = None,
) -> Hooks:
    """Return the attention hooks of Transformer-XL's attention (arXiv 1901.02860 §3.3).

    The logits are (q_i + u) · k_j + (q_i + v) · W_R r_{i−j}, all over √d, where r is
    the sinusoidal encoding of the offset.

    Parameters
    ----------
    global_content, global_position
        u and v, added to every query in its product with contents and with distances.
    position_weight
        W_R of all heads, one below the other: ``[heads · d, d_model]``.
    layout
        Layout of the sinusoids r: ``"interleaved"`` (arXiv 1706.03762, to which the
        paper refers) or ``"half"`` (the authors' code, XLNet).
    clamp
        Largest distance; larger offsets are clipped to it (``clamp_len`` of the
        authors' code). Default ``None``: no offset is clipped.

    Returns
    -------
    Hooks (functions that attention calls) with ``bias``. Equation ``def-xl``.

    Raises
    ------
    TypeError, ValueError
        Arrays that hold no floats, shapes that do not match, an odd d_model, unknown
        ``layout``, a negative ``clamp``.
    """
    u = require_floats("global_content", global_content)
    v = require_floats("global_position", global_position)
    w_r = require_floats("position_weight", position_weight)
    if u.ndim != 2 or v.shape != u.shape or w_r.shape[:-1] != (u.size,):
        raise ValueError(
            "global_content and global_position must be [heads, d] and position_weight "
            f"[heads · d, d_model], got shapes {list(u.shape)}, {list(v.shape)} and "
            f"{list(w_r.shape)}"
        )
    w_r = w_r.reshape(*u.shape, -1)
    require_choice("layout", layout, Layout)
    farthest = np.inf if clamp is None else require_not_negative("clamp", clamp)

    def bias(tokens: Tokens) -> Float[Array, "heads queries keys"]:
        _require_queries(tokens, u)
        offsets = np.clip(tokens.distances, -farthest, farthest)
        r = sinusoidal(offsets, w_r.shape[-1], layout=layout)
        distances = np.einsum("hdm,ijm->hijd", w_r, r)
        of_content = np.einsum("hd,hjd->hj", u, tokens.k)[:, None, :]
        of_distance = np.einsum("hid,hijd->hij", tokens.q + v[:, None], distances)
        return (of_content + of_distance) / np.sqrt(tokens.d)

    return Hooks(bias=bias)


def _require_queries(tokens: Tokens, u: Array) -> None:
    heads, _, d = tokens.q.shape
    if u.shape != (heads, d):
        raise ValueError(
            f"global_content and global_position must be [{heads}, {d}] for {heads} "
            f"heads of {d} features, got shape {list(u.shape)}"
        )
