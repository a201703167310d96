"""The class of probes, and sums over single keys, which all oracles share."""

import ast
import inspect
import io
import math
import textwrap
import tokenize
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import sympy as sp
import torch


@dataclass(frozen=True)
class Probe:
    """An encoding written out three times through the hooks, and once without them.

    ``numpy`` and ``sympy`` make hooks and ``torch`` an encoding of the same named
    parameters, which ``parameters(normal, heads, kv_heads)`` draws. ``oracle`` is given
    them after q, k and v of one sequence (as many heads each), its positions, its input
    x and its mask. ``mutant`` is a wrong implementation in PyTorch, described by its
    name.

    ``lines`` is the maximal length of an implementation, ``position`` the shape of a
    position, ``reach`` the end of valid positions. In half precision the terms of a
    logit pass ``roundings`` roundings, and ``roundings_on_the_way`` more for each token
    between key and query. A hook ``output`` multiplies errors by at most ``gain``, and
    errors of a row add up where its weights are products (``accumulates``).
    """

    numpy: Callable
    sympy: Callable
    torch: Callable
    oracle: Callable
    parameters: Callable
    mutant: Callable
    lines: int = 15
    d: int = 4
    only_causal: bool = False
    position: tuple[int, ...] = ()
    reach: float = math.inf
    roundings: int = 4
    roundings_on_the_way: int = 0
    gain: float = 1.0
    accumulates: bool = False


def softmax(logits: list[float]) -> list[float]:
    top = max(logits, default=0.0)
    exponentials = [math.exp(z - top) for z in logits]
    return [e / sum(exponentials) for e in exponentials]


def by_loops(v, mask, logit, value=None, weigh=softmax):
    """Attention by its definition, from ``logit(h, i, j)`` and ``value(h, i, j)``."""
    value = value or (lambda h, i, j: v[h, j])
    out = np.zeros(v.shape)
    for h, i in np.ndindex(v.shape[:2]):
        keys = [j for j in range(v.shape[1]) if mask[i, j]]
        weights = weigh([logit(h, i, j) for j in keys])
        for j, weight in zip(keys, weights, strict=True):
            out[h, i] += weight * value(h, i, j)
    return out


def rotated(vector, angles):
    """Rotate the pairs (i, i + half) of a vector by an angle each."""
    half = len(vector) // 2
    z = (vector[:half] + 1j * vector[half:]) * np.exp(1j * np.asarray(angles))
    return np.concatenate((z.real, z.imag))


def sigmoid(z: float) -> float:
    return 1 / (1 + math.exp(-z))


def wide(t: torch.Tensor) -> torch.Tensor:
    """Return a tensor in float32, or in float64 if it is that."""
    return t.to(torch.promote_types(t.dtype, torch.float32))


def by_query(row, each):
    """The matrix of ``row(i, each[i])``."""
    return sp.Matrix.vstack(*(row(i, own) for i, own in enumerate(each)))


def per_token(rotate):
    """SymPy's hook from ``rotate(column, position, head)``, applied to every token."""

    def hook(heads, positions):
        return tuple(
            by_query(lambda i, t, h=h, m=m: rotate(m[i, :].T, t, h).T, positions)
            for h, m in enumerate(heads)
        )

    return hook


def both(hook):
    """The hook ``rotate`` that rotates queries and keys alike."""
    return lambda q, k, positions: (hook(q, positions), hook(k, positions))


def evaluated(hooks):
    """SymPy's hooks, whose results are numbers of 20 digits."""

    def numbers(result):
        if hasattr(result, "evalf"):
            return result.evalf(20)
        return tuple(map(numbers, result))

    def of(hook):
        return lambda *given: numbers(hook(*given))

    def weigh(logits, tokens):
        return numbers(hooks.weigh(numbers(logits), tokens))

    names = ("embed", "enter", "rotate", "values", "output", "update")
    return replace(hooks, weigh=weigh, **{n: of(getattr(hooks, n)) for n in names})


def to_sympy(value):
    """Exact numbers: a list, a matrix, or a list of matrices."""
    if isinstance(value, np.ndarray) and value.ndim == 3:
        return [to_sympy(matrix) for matrix in value]
    if isinstance(value, np.ndarray):
        exact = [[sp.Rational(float(a)) for a in row] for row in np.atleast_2d(value)]
        return sp.Matrix(exact) if value.ndim == 2 else exact[0]
    return value if isinstance(value, int) else sp.Rational(value)


def to_torch(value):
    return torch.tensor(value) if isinstance(value, np.ndarray) else value


def lines_of_code(implementation) -> int:
    """Count the lines of code of a function or class, without docstrings and blanks."""
    source = textwrap.dedent(inspect.getsource(implementation))
    prose = {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for line in range(node.lineno, node.end_lineno + 1)
    }
    layout = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    layout |= {tokenize.COMMENT, tokenize.ENDMARKER}
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    code = {t.start[0] for t in tokens if t.type not in layout}
    return len(code - prose)
