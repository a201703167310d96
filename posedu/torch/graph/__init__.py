"""Encodings of trees and graphs as PyTorch modules, one file for each encoding."""

from posedu.torch.graph.algebraic import Algebraic
from posedu.torch.graph.laplacian import (
    Laplacian,
    flip_signs,
    laplacian_eigenvectors,
)
from posedu.torch.graph.random_walk import RandomWalk, return_probabilities

__all__ = [
    "Algebraic",
    "Laplacian",
    "RandomWalk",
    "flip_signs",
    "laplacian_eigenvectors",
    "return_probabilities",
]
