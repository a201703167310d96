"""TAPE: contextualized positions, which attention and MLP update in each layer."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Shaped

from posedu._arguments import (
    Layout,
    TAPEMixing,
    require_base,
    require_choice,
    require_dimension,
)
from posedu._renamed import renamed_names
from posedu.numpy._arrays import as_array, require_floats, require_positions
from posedu.numpy.attention import Hooks, Tokens
from posedu.numpy.frequencies import frequencies
from posedu.numpy.rotary.rope import pairs

Array = np.ndarray
Blocks = Float[Array, "tokens heads pairs r 2"]
"""Blocks that multiply pairs of features: r rows for each token, head and pair."""


def tape_start(
    positions: Shaped[Array, "tokens"], d: int, heads: int, *, base: float = 10000.0
) -> Float[Array, "tokens heads pairs 2 2"]:
    """TAPE's positions in the first layer: RoPE's 2 × 2 rotations, equal in all heads.

    Equation ``def-tape-start``.

    Parameters
    ----------
    positions
        Integers or finite reals, one number for each token.
    d, base
        See :func:`posedu.numpy.frequencies.frequencies`. Default 10000.
    heads
        Number of heads, each with blocks (2 × 2 matrices) of its own.

    Raises
    ------
    TypeError, ValueError
        Positions that are not one finite number each; sizes that are not positive,
        ``d`` odd, ``base`` not above 1.
    """
    positions = require_positions(positions)
    if positions.ndim != 1:
        raise ValueError(
            "positions must be one number for each token, got shape "
            f"{list(positions.shape)}"
        )
    require_dimension("heads", heads, 1)
    angle = positions[:, None] * frequencies(d, base=base)
    cos, sin = np.cos(angle), np.sin(angle)
    rows = np.stack((cos, -sin), -1), np.stack((sin, cos), -1)
    return np.repeat(np.stack(rows, -2)[:, None], heads, axis=1)


def tape_update(
    weights: Float[Array, "heads tokens tokens"],
    blocks: Blocks,
    mlp_output: Float[Array, "tokens d_model"],
    *,
    mixing: TAPEMixing,
    attended: Float[Array, "heads heads"],
    up: Float[Array, "width heads"],
    down: Float[Array, "heads width"],
    gate: Float[Array, "width d_model"],
) -> Blocks:
    """Return TAPE's positions, as blocks, for the next layer.

    A block is an r × 2 matrix for each token, head and pair of features.

    The blocks are updated by attention weights, then by the MLP output. Equations
    ``def-tape-attention`` and ``def-tape-mlp``.

    Parameters
    ----------
    weights
        Attention weights of the layer.
    blocks
        Blocks of the layer, of any number of rows r.
    mlp_output
        Output of the layer's MLP.
    mixing, attended, up, down, gate
        As :func:`tape`.

    Raises
    ------
    TypeError, ValueError
        Arrays that hold no floats or do not fit each other; unknown ``mixing``.
    """
    weights, blocks = require_floats("weights", weights), _blocks(blocks)
    tokens, heads = blocks.shape[:2]
    mlp_output = require_floats("mlp_output", mlp_output)
    attended, up, down, gate = _matrices(attended, up, down, gate)
    needed = {
        "weights": (weights, (heads, tokens, tokens)),
        "mlp_output": (mlp_output, (tokens, gate.shape[1])),
        "attended": (attended, (heads, heads)),
    }
    for name, (array, shape) in needed.items():
        if array.shape != shape:
            raise ValueError(
                f"{name} must be {list(shape)} for blocks of shape "
                f"{list(blocks.shape)}, got shape {list(array.shape)}"
            )
    averages = np.einsum("hij,jhpru->ihpru", weights, blocks)
    if require_choice("mixing", mixing, TAPEMixing) == "heads":
        updated = blocks + np.einsum("hg,igpru->ihpru", attended, averages)
    else:
        updated = blocks + np.einsum("hg,ihpru->ihpru", attended, averages)
    gates = _silu(mlp_output @ gate.T)
    mixed = np.einsum("hw,iw,wg->ihg", down, gates, up)
    return updated + np.einsum("ihg,igpru->ihpru", mixed, updated)


def rotate_by_blocks(
    x: Float[Array, "heads tokens d"], blocks: Blocks, *, layout: Layout
) -> Float[Array, "heads tokens features"]:
    """Multiply each pair of features by its r × 2 position block.

    A position block is a matrix for each token, head and pair. The pair becomes r
    features, which stand where ``layout`` has the features of a pair; see
    :func:`posedu.numpy.rotary.pairs`. Equation ``def-tape-turn``. ``blocks`` is
    ``[tokens, heads, pairs, r, 2]``.

    Raises
    ------
    TypeError, ValueError
        Arrays that hold no floats or do not fit each other; unknown ``layout``.
    """
    x, blocks = require_floats("x", x), _blocks(blocks)
    tokens, heads, n = blocks.shape[:3]
    if x.shape != (heads, tokens, 2 * n):
        raise ValueError(
            f"x must be {[heads, tokens, 2 * n]} for blocks of shape "
            f"{list(blocks.shape)}, got shape {list(x.shape)}"
        )
    a, b = pairs(x.shape[-1], layout=layout)
    given = np.stack((x[..., a], x[..., b]), -1)
    rotated = np.einsum("ihpru,hipu->hipr", blocks, given)
    if layout == "half":
        rotated = np.swapaxes(rotated, -1, -2)
    features = rotated.shape[-1] * rotated.shape[-2]
    return np.reshape(rotated, (*x.shape[:-1], features))


def tape(
    d: int,
    *,
    layout: Layout,
    mixing: TAPEMixing,
    attended: Float[Array, "heads heads"],
    up: Float[Array, "width heads"],
    down: Float[Array, "heads width"],
    gate: Float[Array, "width d_model"],
    base: float = 10000.0,
) -> Hooks:
    """Return the attention hooks of TAPE (arXiv 2501.00712), in the form of its code.

    Hooks are functions that attention or a model calls. The positions of a layer are
    blocks (an r × 2 matrix for each token, head and pair of features), which the hook
    ``locate`` makes of numbers; :func:`posedu.numpy.attention.stack` calls it.
    Equations ``def-tape-start`` to ``def-tape-mlp``.

    Parameters
    ----------
    d
        Head dimension, even.
    layout
        Which features form a pair; see :func:`posedu.numpy.rotary.pairs`.
    mixing
        How the matrix ``attended`` mixes the heads' weighted sums of blocks:
        ``"heads"``, by the matrix product that the code declares, or ``"row sums"``,
        by the computation of the code, where the sum of a row multiplies the blocks of
        its own head.
    attended
        Matrix that mixes the heads' sums, which are then added to the blocks; 0 adds
        nothing.
    up, down, gate
        ``up`` maps the heads' blocks to ``width`` channels, each channel is multiplied
        by the SiLU of a number that ``gate`` makes of the MLP's output, and ``down``
        maps the channels back to heads. In the code ``up`` starts at 0, and the width
        is four times the heads.
    base
        Base of RoPE's frequencies. Default 10000.

    Raises
    ------
    TypeError, ValueError
        Matrices that hold no finite floats or do not fit each other; unknown ``layout``
        or ``mixing``; ``d`` odd, ``base`` not above 1. From the hooks: positions that
        are no blocks, other numbers of heads, another width of the model.
    """
    require_dimension("d", d)
    pairs(d, layout=layout)
    require_choice("mixing", mixing, TAPEMixing)
    require_base(base)
    attended, up, down, gate = _matrices(attended, up, down, gate)
    heads = len(attended)

    def locate(positions: Array, x: Array) -> Array:
        return tape_start(positions, d, heads, base=base)

    def rotate(q: Array, k: Array, positions: Array) -> tuple[Array, Array]:
        given = positions.shape
        if len(given) != 5 or (*given[1:3], given[4]) != (heads, d // 2, 2):
            raise ValueError(
                f"positions must be blocks [tokens, {heads}, {d // 2}, r, 2], which "
                f"locate makes of numbers, got shape {list(given)}"
            )
        for name, x in (("q", q), ("k", k)):
            if (len(x), x.shape[-1]) != (heads, d):
                raise ValueError(
                    f"{name} must have {heads} heads of {d} features, got shape "
                    f"{list(x.shape)}"
                )
        return (
            rotate_by_blocks(q, positions, layout=layout),
            rotate_by_blocks(k, positions, layout=layout),
        )

    def update(weights: Array, tokens: Tokens, mlp_output: Array) -> Array:
        return tape_update(
            weights,
            tokens.query_positions,
            mlp_output,
            mixing=mixing,
            attended=attended,
            up=up,
            down=down,
            gate=gate,
        )

    return Hooks(locate=locate, rotate=rotate, update=update)


def _silu(z: Array) -> Array:
    """The SiLU z σ(z), where σ is the logistic function, without overflow.

    ``z`` holds floats of any shape.
    """
    small = np.exp(-np.abs(z))
    return z * np.where(z > 0, 1.0, small) / (1.0 + small)


def _matrices(*given: Array) -> tuple[Array, Array, Array, Array]:
    """Return TAPE's four matrices as float64 if they fit each other, else raise.

    They are ``attended``, ``up``, ``down`` and ``gate``, which :func:`tape` explains.
    """
    names = ("attended", "up", "down", "gate")
    attended, up, down, gate = map(_matrix, names, given)
    heads, width = len(attended), len(up)
    shapes = (heads, heads), (width, heads), (heads, width), (width, gate.shape[1])
    for name, matrix, shape in zip(
        names, (attended, up, down, gate), shapes, strict=True
    ):
        if matrix.shape != shape:
            raise ValueError(
                f"{name} must be {list(shape)} for {heads} heads and {width} "
                f"channels, got shape {list(matrix.shape)}"
            )
    return attended, up, down, gate


def _blocks(given: Blocks) -> Blocks:
    blocks = require_floats("blocks", given)
    if blocks.ndim != 5 or blocks.shape[-1] != 2 or 0 in blocks.shape[1:]:
        raise ValueError(
            "blocks must be [tokens, heads, pairs, r, 2], got shape "
            f"{list(blocks.shape)}"
        )
    return blocks


def _matrix(name: str, given: Array) -> Array:
    matrix = require_floats(name, as_array(name, given))
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(f"{name} must be a matrix, got shape {list(matrix.shape)}")
    if not np.isfinite(matrix).all():
        raise ValueError(f"{name} must be finite")
    return matrix


if not TYPE_CHECKING:  # to a type checker, the old names do not exist
    __getattr__ = renamed_names(__name__)
