"""GTA in SymPy: camera poses as positions, which transform queries, keys and values."""

from collections.abc import Sequence

import sympy as sp

from posedu._arguments import require_image_dim
from posedu.sympy._expressions import expressions
from posedu.sympy.attention import Heads, Hooks, by_token
from posedu.sympy.rotary.generators import exponential, skew
from posedu.sympy.rotary.mixed import Position
from posedu.sympy.rotary.rope import rotation


def camera_matrix(pose: Position) -> sp.Matrix:
    """The 4 × 4 camera matrix ((R, t), (0, 1)) of a pose: t, then rotation vector r.

    Equation ``def-gta-camera``.
    """
    t, (x, y, z) = pose[:3], expressions("pose", pose[3:6])
    rotation = exponential(skew([-z, y, -x]))
    return sp.Matrix.vstack(rotation.row_join(sp.Matrix(t)), sp.Matrix([[0, 0, 0, 1]]))


def inverse_camera_matrix(matrix: sp.Matrix) -> sp.Matrix:
    """The inverse ((Rᵀ, −Rᵀ t), (0, 1)) of a camera matrix ((R, t), (0, 1))."""
    back = matrix[:3, :3].T
    return sp.Matrix.vstack(
        back.row_join(-back * matrix[:3, 3]), sp.Matrix([[0, 0, 0, 1]])
    )


def pose_matrices(pose: Position, d: int, image_dim: int) -> tuple[sp.Matrix, ...]:
    """GTA's matrix D of a pose, which acts on a token's d features, and its inverse.

    D is ``[d, d]``: the camera matrix on blocks of four features, then image rotations
    on ``image_dim`` features. Equation ``def-gta-matrix``.
    """
    blocks = (d - require_image_dim(image_dim, d)) // 4
    u, v = expressions("pose", pose[6:])
    octaves = [2 * sp.pi / 2**t for t in range(image_dim // 4)]
    angles = [w * at for at in (u, v) for w in octaves]
    own = camera_matrix(pose)
    image = rotation(1, angles, layout="interleaved") if angles else sp.zeros(0, 0)
    return (
        sp.diag(*[own] * blocks, image.T),
        sp.diag(*[inverse_camera_matrix(own)] * blocks, image),
    )


def gta(*, image_dim: int) -> Hooks:
    """Return the hooks of GTA, the functions by which it acts on attention.

    GTA is geometric transform attention. With :func:`pose_matrices` D_i of a token's
    pose, queries are multiplied by D_iᵀ, keys and values by D_j⁻¹ and the output by
    D_i. ``image_dim`` features are rotated by image coordinates. Equation ``def-gta``.
    See :func:`posedu.numpy.rotary.gta`.
    """
    require_image_dim(image_dim)

    def matrices(column: sp.Matrix, pose: Position) -> tuple[sp.Matrix, ...]:
        return pose_matrices(pose, column.rows, image_dim)

    def query(column: sp.Matrix, pose: Position) -> sp.Matrix:
        return matrices(column, pose)[0].T * column

    def key(column: sp.Matrix, pose: Position) -> sp.Matrix:
        return matrices(column, pose)[1] * column

    def gathered(column: sp.Matrix, pose: Position) -> sp.Matrix:
        return matrices(column, pose)[0] * column

    def rotate(q: Heads, k: Heads, positions: Sequence[Position]) -> tuple[Heads, ...]:
        return by_token(query, q, positions), by_token(key, k, positions)

    return Hooks(
        rotate=rotate,
        values=lambda v, positions: by_token(key, v, positions),
        output=lambda out, positions: by_token(gathered, out, positions),
    )
