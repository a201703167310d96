"""GTA: poses as positions, which transform queries, keys, values and output.

A pose is eight numbers: the translation t and the rotation vector r of the camera that
took the token, which map a point x of the world to R(r) x + t, and the place (u, v) of
the token in its image.
"""

import numpy as np
from jaxtyping import Float

from posedu._arguments import require_image_dim
from posedu.numpy._arrays import (
    Positions,
    align_positions,
    require_floats,
    require_positions,
)
from posedu.numpy.attention import Hooks
from posedu.numpy.rotary.generators import skew
from posedu.numpy.rotary.mixed import mixed

Array = np.ndarray
AXES = 8


def camera_matrix(poses: Positions) -> Float[Array, "*rows 4 4"]:
    """The 4 × 4 camera matrix ((R, t), (0, 1)) of each pose.

    Equation ``def-gta-camera``.

    Parameters
    ----------
    poses
        ``[..., 6]`` or more: t, then the rotation vector r, whose length is the angle
        and whose direction the axis; later numbers are ignored.

    Raises
    ------
    TypeError, ValueError
        Numbers that are not finite, or fewer than six of them.
    """
    poses = require_positions(poses, "poses")
    if poses.ndim == 0 or poses.shape[-1] < 6:
        raise ValueError(f"poses must be [..., 6], got shape {list(poses.shape)}")
    t, (x, y, z) = poses[..., :3], np.moveaxis(poses[..., 3:6], -1, 0)
    matrices = np.zeros((*t.shape[:-1], 4, 4))
    about = skew(np.stack((-z, y, -x), -1))  # the matrix of r ×
    s = np.linalg.norm(poses[..., 3:6], axis=-1)[..., None, None] / np.pi
    half = np.sinc(s / 2) ** 2 / 2  # (1 − cos |r|) / |r|²
    matrices[..., :3, :3] = np.eye(3) + np.sinc(s) * about + half * about @ about
    matrices[..., :3, 3] = t
    matrices[..., 3, 3] = 1
    return matrices


def inverse_camera_matrix(
    matrices: Float[Array, "*rows 4 4"],
) -> Float[Array, "*rows 4 4"]:
    """The inverse ((Rᵀ, −Rᵀ t), (0, 1)) of each camera matrix ((R, t), (0, 1)).

    Matrices that are no floats, or not 4 × 4, are refused.
    """
    matrices = require_floats("matrices", matrices)
    if matrices.shape[-2:] != (4, 4):
        raise ValueError(
            f"matrices must be [..., 4, 4], got shape {list(matrices.shape)}"
        )
    inverse = np.zeros_like(matrices)
    back = matrices[..., :3, :3].swapaxes(-1, -2)
    inverse[..., :3, :3] = back
    inverse[..., :3, 3:] = -back @ matrices[..., :3, 3:]
    inverse[..., 3, 3] = 1
    return inverse


def image_frequencies(image_dim: int) -> Float[Array, "pairs 2"]:
    """GTA's frequency vectors for image coordinates: 2π, π, π/2, … for u, then v.

    ``image_dim`` is the number of features that the image coordinates (u, v) transform,
    a multiple of 4; there is a vector for each pair of them.
    """
    octaves = 2 * np.pi * 2.0 ** -np.arange(require_image_dim(image_dim) // 4)
    return np.kron(np.eye(2), octaves[:, None])


def gta(*, image_dim: int) -> Hooks:
    """Return the attention hooks of geometric transform attention (arXiv 2310.10375).

    With D_i the matrix of a token's pose, q_i becomes D_iᵀ q_i, k_j and v_j become
    D_j⁻¹ k_j and D_j⁻¹ v_j, and the output is multiplied by D_i. D_i has the camera's
    4 × 4 matrix on the leading blocks of features and rotations by the place in the
    image on the rest, in the direction of RoPE.

    Parameters
    ----------
    image_dim
        Number of trailing features for (u, v), half of them for each; a multiple of 4,
        as d is. The others are for the camera.

    Returns
    -------
    Hooks (functions that attention calls) with ``rotate``, ``values`` and ``output``,
    for positions ``[tokens, 8]``: t, r, u, v. Equation ``def-gta``.

    Raises
    ------
    TypeError, ValueError
        An ``image_dim`` or a number d of features that is not a multiple of 4, an
        ``image_dim`` above d, positions that are not ``[tokens, 8]`` or not finite.
    """
    require_image_dim(image_dim)

    def act(x: Array, matrices: Array, places: Array) -> Array:
        split = x.shape[-1] - require_image_dim(image_dim, x.shape[-1])
        blocks = x[..., :split].reshape(*x.shape[:-1], split // 4, 4)
        by_camera = np.einsum("nab,hnmb->hnma", matrices, blocks)
        if not image_dim:
            return by_camera.reshape(x.shape)
        image = mixed(
            x[..., split:],
            places,
            frequencies=image_frequencies(image_dim),
            layout="interleaved",
        )
        return np.concatenate((by_camera.reshape(*x.shape[:-1], split), image), -1)

    def parts(x: Array, positions: Array) -> tuple[Array, Array]:
        at = align_positions(positions, x, AXES)
        return camera_matrix(at), at[:, 6:]

    def rotate(q: Array, k: Array, positions: Array) -> tuple[Array, Array]:
        matrices, places = parts(q, positions)
        transposed = matrices.swapaxes(-1, -2)
        return act(q, transposed, places), values(k, positions)

    def values(v: Array, positions: Array) -> Array:
        matrices, places = parts(v, positions)
        return act(v, inverse_camera_matrix(matrices), places)

    def output(out: Array, positions: Array) -> Array:
        matrices, places = parts(out, positions)
        return act(out, matrices, -places)

    return Hooks(rotate=rotate, values=values, output=output)
