"""Scores as a product of transition matrices over the path from key to query."""

from collections.abc import Sequence

import sympy as sp

from posedu.sympy.attention import Heads, Tokens


def path_matrix(transitions: Sequence[sp.Matrix], i: int, j: int) -> sp.Matrix:
    """The product T_i T_(i−1) ⋯ T_(j+1) of the transitions of tokens j + 1 … i.

    It is the identity for i = j. Equation ``def-path-product``.
    """
    product = sp.eye(transitions[0].rows)
    for transition in transitions[j + 1 : i + 1]:
        product = transition * product
    return product


def path_scores(tokens: Tokens, transitions: Sequence[Sequence[sp.Matrix]]) -> Heads:
    """Scores q_i · T_i ⋯ T_(j+1) k_j of every query i and key j that it may attend to.

    ``transitions`` has a matrix for each token of each head. Equation
    ``def-path-product``.
    """
    return tokens.by_head(
        lambda h, i, j: (
            tokens.q[h][i, :] * path_matrix(transitions[h], i, j) * tokens.k[h][j, :].T
        )[0]
    )


def short_convolution(features: sp.Matrix, taps: sp.Matrix) -> sp.Matrix:
    """Causal convolution over the tokens, the rows of ``features``.

    ``taps`` has a row for each channel, the last entry of which is for the token
    itself; tokens before the first count as zeros. Equation ``def-short-convolution``.
    """
    width = taps.cols

    def entry(t: int, c: int) -> sp.Expr:
        return sp.Add(
            *(
                taps[c, s] * features[t - width + 1 + s, c]
                for s in range(width)
                if t - width + 1 + s >= 0
            )
        )

    return sp.Matrix(features.rows, features.cols, entry)
