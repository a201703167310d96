"""Encodings of trees and graphs in SymPy, one module for each encoding."""

from posedu.sympy.graph.algebraic import algebraic, path_rotations
from posedu.sympy.graph.laplacian import (
    eigenspace_projectors,
    embed_laplacian,
    laplacian,
)
from posedu.sympy.graph.random_walk import embed_random_walk, return_probabilities

__all__ = [
    "algebraic",
    "eigenspace_projectors",
    "embed_laplacian",
    "embed_random_walk",
    "laplacian",
    "path_rotations",
    "return_probabilities",
]
