"""GRAPE in SymPy: exact rotations and unipotent matrices of a few tokens."""

from collections.abc import Sequence

import sympy as sp

from posedu._arguments import (
    ALiBiSlopes,
    GRAPEGates,
    GRAPENorms,
    GRAPEPhase,
    Layout,
    require_bool,
    require_choice,
)
from posedu.sympy._expressions import expression, expressions, matrix
from posedu.sympy.attention import Heads, Hooks, Tokens
from posedu.sympy.bias.alibi import alibi_slopes
from posedu.sympy.path.product import path_scores
from posedu.sympy.rotary.rope import rotation
from posedu.sympy.stickbreaking import sigmoid, softplus


def grape_phases(
    x: sp.Matrix,
    phase_weight: sp.Matrix,
    phase_bias: Sequence[sp.Expr],
    *,
    phase: GRAPEPhase,
) -> sp.Matrix:
    """GRAPE-M's phases of each token, a row: σ(z/16) or softplus(z), z = w · x + b.

    Equation ``def-grape-phase``.
    """
    x, weight = matrix("x", x), matrix("phase_weight", phase_weight)
    bias = sp.Matrix([list(expressions("phase_bias", phase_bias))])
    z = x * weight.T + sp.ones(x.rows, 1) * bias
    return z.applyfunc(softplus if phase == "softplus" else lambda e: sigmoid(e / 16))


def grape_m(
    *,
    layout: Layout,
    phase: GRAPEPhase,
    phase_weight: sp.Matrix,
    phase_bias: Sequence[sp.Expr],
    log_frequencies: Sequence[sp.Expr],
) -> Hooks:
    """Return the hooks of GRAPE-M, the functions by which it acts on attention.

    The score is a product of counter-clockwise rotations by the phases of tokens j …
    i − 1, since the query is rotated clockwise by the larger sum and the sums leave out
    a token's own phase. Arguments as for :func:`posedu.numpy.path.grape_m`. Equation
    ``def-grape-m``.
    """
    require_choice("layout", layout, Layout)
    require_choice("phase", phase, GRAPEPhase)
    weight = matrix("phase_weight", phase_weight)
    bias = expressions("phase_bias", phase_bias)
    theta = [sp.exp(e) for e in expressions("log_frequencies", log_frequencies)]

    def logits(tokens: Tokens) -> Heads:
        if tokens.x is None:
            raise ValueError("grape_m needs the layer's input: give attend x")
        omega = grape_phases(tokens.x, weight, bias, phase=phase)
        heads, transitions = len(tokens.q), []
        for h in range(omega.cols):
            of_tokens = [rotation(w, theta, layout=layout) for w in omega[:, h]]
            transitions.append([sp.eye(tokens.d), *of_tokens[:-1]])
        transitions *= heads // len(transitions)
        scores = path_scores(tokens, transitions)
        return tuple(m / sp.sqrt(tokens.d) for m in scores)

    return Hooks(logits=logits, needs_causal=True)


def unipotent(d: int, bias: sp.Expr) -> sp.Matrix:
    """The matrix I + bias · E of d + 2 features, with one entry E beside the diagonal.

    Products of such matrices add up their biases. A query with the features 1 and 0
    appended and a key with 0 and 1 have the product q · (I + bias · E) k = q · k + bias
    (arXiv 2512.07805 §4). Equation ``def-unipotent``.
    """
    lifted = sp.eye(d + 2)
    lifted[d, d + 1] = expression("bias", bias)
    return lifted


def lifted_score(q: sp.Matrix, k: sp.Matrix, product: sp.Matrix) -> sp.Expr:
    """Score of rows q and k with two features more, by a matrix of d + 2 features.

    Appended are 1 and 0 to the query divided by √d, 0 and 1 to the key. Equation
    ``def-unipotent``.
    """
    q, k = matrix("q", q), matrix("k", k)
    left = sp.Matrix([[*(q / sp.sqrt(q.cols)), 1, 0]])
    right = sp.Matrix([*k, 0, 1])
    return (left * matrix("product", product) * right)[0]


def grape_a(
    *,
    slopes: ALiBiSlopes,
    gates: GRAPEGates,
    unit_vectors: bool,
    omega: Sequence[sp.Expr],
    query_weight: sp.Matrix | None = None,
    key_weight: sp.Matrix | None = None,
) -> Hooks:
    """Return the hooks of GRAPE-A, the functions by which it acts on attention.

    The score is that of a unipotent matrix, see :func:`unipotent`. Arguments as for
    :func:`posedu.numpy.path.grape_a`. Equation ``def-grape-a``.
    """
    require_choice("gates", gates, GRAPEGates)
    require_bool("unit_vectors", unit_vectors)
    omega = expressions("omega", omega)
    m = alibi_slopes(len(omega), slopes=slopes)
    if (query_weight is None) != (gates == "key") or (key_weight is None) != (
        gates == "query"
    ):
        raise ValueError(f"query_weight and key_weight must be those of gates={gates}")

    def gate(weight: sp.Matrix | None, h: int, row: sp.Matrix) -> sp.Expr:
        if weight is None:
            return sp.Integer(0)
        own = matrix("weight", weight)[h, :]
        if unit_vectors:
            own = own / sp.Max(sp.sqrt(own.dot(own)), sp.Rational(1, 10**6))
        return softplus(own.dot(row) / sp.sqrt(row.cols))

    def logits(tokens: Tokens) -> Heads:
        at = tokens.positions

        def entry(h: int, i: int, j: int) -> sp.Expr:
            q, k = tokens.q[h][i, :], tokens.k[h][j, :]
            rate = gate(query_weight, h, q) + gate(key_weight, h, k)
            bias = (at[j] - at[i]) * m[h] * softplus(omega[h]) * rate
            return lifted_score(q, k, unipotent(tokens.d, bias))

        return tokens.by_head(entry)

    return Hooks(logits=logits, heads=len(omega), needs_causal=True)


def grape_ap(
    *,
    slopes: ALiBiSlopes,
    layout: Layout,
    normalized: GRAPENorms,
    probe_weight: Sequence[sp.Matrix],
) -> Hooks:
    """Return the hooks of GRAPE-AP, the functions by which it acts on attention.

    The score is that of a product of unipotent matrices, one for each token between
    key and query, which depend on the query too, see :func:`unipotent`. Arguments as
    for :func:`posedu.numpy.path.grape_ap`. Equation ``def-grape-ap``.
    """
    require_choice("layout", layout, Layout)
    require_choice("normalized", normalized, GRAPENorms)
    weights = [matrix("probe_weight", own) for own in probe_weight]
    m = alibi_slopes(len(weights), slopes=slopes)

    def scaled(probe: sp.Matrix) -> sp.Matrix:
        mean = probe.dot(probe) / probe.cols
        return probe / sp.sqrt(mean + sp.Rational(1, 2**23))

    def logits(tokens: Tokens) -> Heads:
        if tokens.x is None:
            raise ValueError("grape_ap needs the layer's input: give attend x")
        at = tokens.positions
        probes = [tokens.x * own.T for own in weights]

        def edge(h: int, i: int, t: int) -> sp.Matrix:
            p, other = probes[h][i, :], scaled(probes[h][t, :])
            p = scaled(p) if normalized == "both" else p
            turned = rotation(-at[t], [1] * (p.cols // 2), layout=layout) * other.T
            psi = m[h] * sp.log(sigmoid(p.dot(turned) / p.cols))
            return unipotent(tokens.d, psi)

        def entry(h: int, i: int, j: int) -> sp.Expr:
            product = sp.eye(tokens.d + 2)
            for t in range(j + 1, i + 1):
                product = edge(h, i, t) * product
            return lifted_score(tokens.q[h][i, :], tokens.k[h][j, :], product)

        return tokens.by_head(entry)

    return Hooks(logits=logits, heads=len(weights), needs_causal=True)
