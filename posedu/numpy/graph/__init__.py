"""Encodings of trees and graphs in NumPy (reference), one module for each encoding."""

from posedu.numpy.graph.adjacency import require_adjacency
from posedu.numpy.graph.algebraic import algebraic, path_rotations, tree_positions
from posedu.numpy.graph.laplacian import (
    eigenspaces,
    embed_laplacian,
    laplacian,
    laplacian_eigenvectors,
)
from posedu.numpy.graph.random_walk import embed_random_walk, return_probabilities

__all__ = [
    "algebraic",
    "eigenspaces",
    "embed_laplacian",
    "embed_random_walk",
    "laplacian",
    "laplacian_eigenvectors",
    "path_rotations",
    "require_adjacency",
    "return_probabilities",
    "tree_positions",
]
