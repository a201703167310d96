"""Attention of one query over a part of the keys, and the merge of two parts."""

from collections.abc import Sequence
from typing import NamedTuple

import sympy as sp

from posedu.sympy._expressions import expressions


class Part(NamedTuple):
    """Output and log-sum-exp of one query's logits. Equation ``def-merge-part``."""

    out: sp.Expr
    lse: sp.Expr


def attend_part(logits: Sequence[sp.Expr], v: Sequence[sp.Expr]) -> Part:
    """Return the softmax attention over these keys. Equation ``def-merge-part``.

    A key has one logit, and one feature of its value.

    Raises
    ------
    ValueError
        No key, or unequal numbers of logits and values.
    """
    logits, v = expressions("logits", logits), expressions("v", v)
    if not 0 < len(logits) == len(v):
        raise ValueError(
            "a part needs a key, and a value for each logit, got "
            f"{len(logits)} logits and {len(v)} values"
        )
    lse = sp.log(sum(sp.exp(z) for z in logits))
    return Part(sum(sp.exp(z - lse) * a for z, a in zip(logits, v, strict=True)), lse)


def merge(one: Part, other: Part) -> Part:
    """Return the attention over the keys of both parts. Equation ``eq-merge``.

    A part without keys is ``Part(0, -oo)``.
    """
    if one.lse == other.lse == -sp.oo:
        return one
    lse = sp.log(sp.exp(one.lse) + sp.exp(other.lse))
    return Part(sum(sp.exp(p.lse - lse) * p.out for p in (one, other)), lse)
