"""Lightning attention (MiniMax) in SymPy: exact decays of a few tokens."""

import sympy as sp

from posedu._arguments import require_count, require_dimension
from posedu.sympy.attention import Heads, Hooks, Tokens
from posedu.sympy.recurrent.state import hooks_of_weights, state_weights


def lightning_decays(heads: int, *, layer: int, layers: int) -> list[sp.Expr]:
    """The decay s_h of each head; see :func:`posedu.numpy.recurrent.lightning_decays`.

    Equation ``def-lightning``.
    """
    require_dimension("heads", heads, 1)
    if require_count("layer", layer) >= require_dimension("layers", layers, 1):
        raise ValueError(f"layer must be in 0 … layers − 1 = {layers - 1}, got {layer}")
    eps = sp.Rational(1, 10**5)
    factor = 1 - layer / (layers - 1 + eps) + eps
    return [2 ** sp.Rational(-8 * (h + 1), heads) * factor for h in range(heads)]


def lightning(*, heads: int, layer: int, layers: int) -> Hooks:
    """Return the hooks of lightning attention, by which it acts on attention.

    Arguments as for :func:`posedu.numpy.recurrent.lightning`. Equation
    ``def-lightning``.
    """
    decays = lightning_decays(heads, layer=layer, layers=layers)

    def weights(tokens: Tokens) -> Heads:
        n, d = tokens.k[0].shape
        transitions = [[sp.exp(-s) * sp.eye(d)] * n for s in decays]
        return state_weights(tokens, transitions, [[1] * n] * heads)

    return hooks_of_weights(weights, heads)
