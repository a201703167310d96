"""CARoPE in SymPy: exact rotation matrices of a few tokens."""

import sympy as sp

from posedu._arguments import Layout, require_choice, require_index
from posedu.sympy._expressions import matrix
from posedu.sympy.attention import Heads, Hooks, Tokens
from posedu.sympy.path.product import path_scores
from posedu.sympy.rotary.rope import rotation
from posedu.sympy.stickbreaking import softplus


def carope_frequencies(x: sp.Matrix, frequency_weight: sp.Matrix) -> sp.Matrix:
    """CARoPE's frequency 1/(softplus(w · x) + 1), a row for each token.

    ``frequency_weight`` has a row for each head. Equation ``def-carope-frequency``.
    """
    return (x * frequency_weight.T).applyfunc(lambda z: 1 / (softplus(z) + 1))


def carope(
    *, layout: Layout, first_exponent: int, frequency_weight: sp.Matrix
) -> Hooks:
    """Return the hooks of CARoPE, the functions by which it acts on attention.

    The score is a product over the tokens between key and query: of rotations by minus
    their angles, since the query is rotated by the larger sum. Arguments as for
    :func:`posedu.numpy.path.carope`. Equation ``def-carope``.
    """
    require_choice("layout", layout, Layout)
    first_exponent = require_index("first_exponent", first_exponent)
    weight = matrix("frequency_weight", frequency_weight)

    def logits(tokens: Tokens) -> Heads:
        if tokens.x is None:
            raise ValueError("carope needs the layer's input: give attend x")
        f = carope_frequencies(tokens.x, weight)
        exponents = [first_exponent + p for p in range(tokens.d // 2)]
        transitions = [
            [
                rotation(-1, [f[t, h] ** e for e in exponents], layout=layout)
                for t in range(f.rows)
            ]
            for h in range(f.cols)
        ]
        scores = path_scores(tokens, transitions)
        return tuple(m / sp.sqrt(tokens.d) for m in scores)

    return Hooks(logits=logits, heads=weight.rows, needs_causal=True)
