"""Algebraic positional encodings: a path is the product of its steps' rotations."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from posedu._arguments import require_count, require_dimension
from posedu.numpy._arrays import (
    Positions,
    align_positions,
    require_floats,
    require_positions,
)
from posedu.numpy.rotary.generators import (
    require_block_size,
    require_generators,
    rotate_blocks,
    rotations,
    skew,
)
from posedu.numpy.rotary.grid import for_heads_of

Array = np.ndarray


def tree_positions(
    paths: Sequence[Sequence[int]], *, branches: int, depth: int
) -> Float[Array, "nodes coordinates"]:
    """Positions of a tree's nodes, given the branches on the way from the root to each.

    Coordinate ``s · branches + n`` of a node is 1 if step s of its path takes branch n,
    else 0; so the root is all zeros. Equation ``def-trees-path``.

    Parameters
    ----------
    paths
        For each node the numbers of its branches, 0 … ``branches`` − 1, from the root
        down.
    branches
        Number of branches that a node may have.
    depth
        Number of steps of a position, at least the length of the longest path.

    Raises
    ------
    TypeError, ValueError
        Sizes that are not positive integers; a path that is longer than ``depth`` or
        takes a branch that there is not.
    """
    branches = require_dimension("branches", branches, 1)
    depth = require_dimension("depth", depth, 1)
    steps = np.zeros((len(paths), depth, branches))
    for node, path in enumerate(paths):
        if len(path) > depth:
            raise ValueError(
                f"depth must be at least {len(path)} for the path {list(path)}, got "
                f"{depth}"
            )
        for step, branch in enumerate(path):
            if require_count("a branch", branch) >= branches:
                raise ValueError(
                    f"a branch must be below branches = {branches}, got {branch} in "
                    f"the path {list(path)}"
                )
            steps[node, step, branch] = 1
    return steps.reshape(len(paths), depth * branches)


def path_rotations(
    positions: Positions, generators: Float[Array, "*heads branches blocks block block"]
) -> Float[Array, "*table tokens blocks block block"]:
    """Rotation ρ of each position: the product of exp(x A) over its coordinates x.

    Coordinates 0 … ``branches`` − 1 are the first step, the next ones the second step,
    and so on; the generator A of a coordinate is that of its branch. Equation
    ``def-trees-algebraic``.

    Raises
    ------
    TypeError, ValueError
        Positions that are not whole steps of ``branches`` coordinates; generators that
        are not skew, positions not finite, exponents whose norm is above 2²⁹.
    """
    generators = require_generators(generators)
    branches = generators.shape[-4]
    positions = require_positions(positions)
    coordinates = positions.shape[-1] if positions.ndim > 1 else 0
    if coordinates == 0 or coordinates % branches:
        raise ValueError(
            f"positions must be [..., tokens, steps · {branches}] for {branches} "
            f"branches, got shape {list(positions.shape)}"
        )
    product = np.eye(generators.shape[-1])
    for c in range(coordinates):
        branch = generators[..., [c % branches], :, :, :]
        product = product @ rotations(positions[..., [c]], branch)
    return product


def algebraic(
    x: Float[Array, "*batch tokens d"],
    positions: Positions,
    *,
    entries: Float[Array, "*heads branches blocks entries"],
    block: int,
) -> Float[Array, "*batch tokens d"]:
    """Rotate queries or keys, each by the product of the rotations along its path.

    arXiv 2312.16045 §3. For the hook ``rotate``, a function that attention calls.

    Parameters
    ----------
    x
        Queries or keys, any float dtype; computed in float64.
    positions
        ``[tokens, steps · branches]``, with or without a batch axis in front: how often
        each step takes each branch. Integers for words, any reals for their powers; see
        :func:`tree_positions`. A line has one step and one branch, a grid one step.
    entries
        The b(b − 1)/2 free numbers of each branch's skew generator; see
        :func:`posedu.numpy.rotary.skew`. They may have a first axis of heads where
        ``x`` is ``[…, heads, tokens, d]``.
    block
        Block size b; d for the paper's dense matrices.

    Returns
    -------
    float64 array of the shape of ``x``. Equation ``def-trees-algebraic``.

    Raises
    ------
    TypeError, ValueError
        As :func:`path_rotations` and :func:`posedu.numpy.rotary.skew`; blocks of
        another size than ``block``, or that do not make up the features of ``x``.
    """
    x = require_floats("x", x)
    generators = require_generators(skew(entries))
    require_block_size(block, generators)
    at = require_positions(positions)
    positions = align_positions(at, x, at.shape[-1] if at.ndim else 0)
    return rotate_blocks(x, path_rotations(positions, for_heads_of(x, generators, 4)))
