"""Attention over a part of the keys, and the merge of two parts."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from posedu.numpy._arrays import require_floats

Array = np.ndarray


class Part(NamedTuple):
    """Attention of some queries over a part of the keys.

    ``lse`` is the log-sum-exp of the logits. A query without a key has the output 0 and
    the log-sum-exp −∞. Equation ``def-merge-part``.
    """

    out: Float[Array, "queries d_v"]
    lse: Float[Array, "queries"]


def attend_part(
    logits: Float[Array, "queries keys"], v: Float[Array, "keys d_v"]
) -> Part:
    """Return the softmax attention over these keys. Equation ``def-merge-part``.

    A logit of −∞ hides a key from a query.
    """
    lse = np.logaddexp.reduce(require_floats("logits", logits), axis=-1)
    return Part(np.exp(logits - _finite(lse)[:, None]) @ require_floats("v", v), lse)


def merge(one: Part, other: Part) -> Part:
    """Return the attention over the keys of both parts. Equation ``eq-merge``.

    Raises
    ------
    ValueError
        Parts of different numbers of queries or features.
    """
    if one.out.shape != other.out.shape:
        shapes = f"{list(one.out.shape)} and {list(other.out.shape)}"
        raise ValueError(f"parts must have outputs of one shape, got {shapes}")
    lse = np.logaddexp(one.lse, other.lse)
    first, second = (np.exp(part.lse - _finite(lse))[:, None] for part in (one, other))
    return Part(first * one.out + second * other.out, lse)


def _finite(lse: Float[Array, "queries"]) -> Float[Array, "queries"]:
    """Return the log-sum-exp, 0 for a query without a key."""
    return np.where(lse == -np.inf, 0.0, lse)
