"""Matrices whose entries depend on the offset of query and key (Toeplitz matrices)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional


def toeplitz(
    row: Float[Tensor, "*heads offsets"], keys: int
) -> Float[Tensor, "*heads queries keys"]:
    """Return the queries × keys matrix that repeats one number for each offset.

    The offset is query position minus key position. ``row`` has a number for each
    offset, the largest offset first; ``keys`` is the number of keys.
    """
    if torch.compiler.is_compiling():  # A compiler would fix the size of a window.
        newest = row.shape[-1] - keys
        i = torch.arange(newest, -1, -1, device=row.device)
        return row[..., i[:, None] + torch.arange(keys, device=row.device)]
    return row.unfold(-1, keys, 1).flip(-2)


def skew(
    products: Float[Tensor, "*batch queries offsets"], keys: int
) -> Float[Tensor, "*batch queries keys"]:
    """Rearrange numbers by (query, offset) into numbers by (query, key), as a view.

    The offset is query position minus key position. Column c holds the offset keys − 1
    − c. The pair (i, j) has the offset keys − queries + i − j and is thus in column j −
    i + queries − 1. In the flat array its index grows by one for each key, and by one
    less than a row for each query (arXiv 1809.04281 §3.4.1). If the columns end at
    offset 0, the numbers above the diagonal come from the next row and must be masked.
    ``keys`` is the number of keys.
    """
    queries, offsets = products.shape[-2:]
    if queries == 1:
        return products[..., :keys]
    flat = products.flatten(-2)[..., queries - 1 :]
    if offsets > keys:  # No two rows overlap, so that the gradient needs no sum.
        return flat[..., :-1].unflatten(-1, (queries, offsets - 1))[..., :keys]
    return flat.unfold(-1, keys, max(offsets - 1, 1))[..., :queries, :]


def unskew(
    weights: Float[Tensor, "*batch queries keys"], future: int
) -> Float[Tensor, "*batch queries offsets"]:
    """Rearrange numbers by (query, key) into those by (query, offset): undo ``skew``.

    The offsets are keys − 1, …, −``future``, so ``future`` is the size of the smallest
    offset. With ``future`` 0 the numbers above the diagonal must be zeros, since they
    are put into the next row.
    """
    queries, keys = weights.shape[-2:]
    padded = functional.pad(weights, (0, future))
    flat = functional.pad(padded.flatten(-2), (queries - 1, 1))
    return flat.unflatten(-1, (queries, -1))[..., : keys + future]
