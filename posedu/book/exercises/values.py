"""What an answer may return: its form, whether two agree, how one is shown."""

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import sympy as sp
import torch
from sympy.matrices.expressions.matexpr import MatrixElement

SHOWN = 16  # entries of an array that are shown in full


def wrong_form(got: Any, want: Any) -> str:
    """What is wrong with the type, length, shape or dtype of a result, or nothing."""
    if got is None:
        return "returns nothing: is there a `return`?"
    if isinstance(want, tuple | list):
        return _wrong_sequence(got, want)
    if isinstance(want, sp.MatrixBase):
        return _wrong_matrix(got, want)
    if isinstance(want, torch.Tensor):
        return _wrong_tensor(got, want)
    if isinstance(want, np.ndarray):
        return _wrong_array(got, want)
    if isinstance(want, bool | np.bool_):
        right, wanted = isinstance(got, bool | np.bool_), "True or False"
    elif isinstance(want, str):
        right, wanted = isinstance(got, str), "a string"
    elif isinstance(want, sp.Expr):
        right, wanted = is_expression(scalar(got)), "one number or expression"
    else:
        right, wanted = is_number(scalar(got)), "one number"
    return "" if right else f"returns {article(got)}; {wanted} is wanted"


def _wrong_sequence(got: Any, want: tuple | list) -> str:
    if not isinstance(got, tuple | list):
        return f"returns {article(got)}; a tuple or list of {len(want)} is wanted"
    if len(got) != len(want):
        return f"returns {len(got)} results; {len(want)} are wanted"
    return next(filter(None, map(wrong_form, got, want)), "")


def _wrong_matrix(got: Any, want: sp.MatrixBase) -> str:
    if not isinstance(got, sp.MatrixBase):
        return f"returns {article(got)}; a SymPy matrix is wanted"
    if got.shape != want.shape:
        return f"returns shape {got.shape}; {want.shape} is wanted"
    return ""


def _wrong_tensor(got: Any, want: torch.Tensor) -> str:
    if type(got) not in (torch.Tensor, torch.nn.Parameter):
        return f"returns {article(got)}; a torch.Tensor is wanted"
    if not _is_filled(got):
        return "returns a sparse, nested or meta tensor; a plain one is wanted"
    if got.shape != want.shape:
        return f"returns shape {list(got.shape)}; {list(want.shape)} is wanted"
    same = got.dtype == want.dtype
    return "" if same else f"returns {got.dtype}; {want.dtype} is wanted"


def _wrong_array(got: Any, want: np.ndarray) -> str:
    if type(got) is not np.ndarray:
        return f"returns {article(got)}; a NumPy array is wanted"
    if got.shape != want.shape:
        return f"returns shape {list(got.shape)}; {list(want.shape)} is wanted"
    exact = want.dtype.kind in "fc"  # the size of an integer does not matter
    same = got.dtype.kind == want.dtype.kind and not (exact and got.dtype != want.dtype)
    return "" if same else f"returns dtype {got.dtype}; {want.dtype} is wanted"


def _is_filled(x: torch.Tensor) -> bool:
    return x.layout == torch.strided and not x.is_nested and x.device.type != "meta"


def scalar(value: Any) -> Any:
    """The number in an array or a tensor without axes; anything else as it is."""
    if type(value) in (torch.Tensor, torch.nn.Parameter) and _is_filled(value):
        return value.detach().item() if not value.ndim else value
    if isinstance(value, np.generic) or type(value) is np.ndarray:
        return value.item() if not value.ndim else value
    return value


def is_number(value: Any) -> bool:
    """Whether a value is a real number, which NaN and the infinities count for."""
    if isinstance(value, bool) or not isinstance(
        value, int | float | Fraction | sp.Expr
    ):
        return False
    try:
        float(value)
    except (TypeError, OverflowError):  # symbols, complex numbers, what has no float
        return False
    return True


def is_expression(value: Any) -> bool:
    """Whether a value is a number or something that SymPy reckons with like one."""
    if isinstance(value, sp.Expr):
        return not value.is_Matrix
    return isinstance(value, complex) or is_number(value)


def equal(got: Any, want: Any, tolerance: float) -> bool:
    """Whether two results of the same form agree; NaN agrees with nothing."""
    if isinstance(want, tuple | list):
        return all(equal(g, w, tolerance) for g, w in zip(got, want, strict=True))
    return agree(as_array(got), as_array(want), tolerance)


def agree(got: np.ndarray, want: np.ndarray, tolerance: float) -> bool:
    """Whether two arrays have one shape and agree everywhere."""
    return got.shape == want.shape and not differs(got, want, tolerance).any()


def differs(got: np.ndarray, want: np.ndarray, tolerance: float) -> np.ndarray:
    """Where two arrays of one shape differ."""
    if want.dtype.kind == "O":
        found = [not _same(g, w) for g, w in zip(got.flat, want.flat, strict=True)]
        return np.array(found, dtype=bool).reshape(want.shape)
    plain = numbers(got)
    if plain is None:
        return np.ones(want.shape, dtype=bool)
    if want.dtype.kind not in "fc":
        return np.asarray(plain != want)
    close = np.isclose(plain, want, rtol=0, atol=tolerance, equal_nan=True)
    return np.asarray(~close)


def _same(got: Any, want: Any) -> bool:
    """Whether two entries are equal expressions, and both exact or neither."""
    if not is_expression(scalar(got)) or not is_expression(scalar(want)):
        return False
    got, want = sp.sympify(got), sp.sympify(want)
    return got.has(sp.Float) == want.has(sp.Float) and vanishes(got - want)


def numbers(array: np.ndarray) -> np.ndarray | None:
    """An array of plain numbers, where that is what it holds."""
    if array.dtype.kind != "O":
        return array
    return array.astype(float) if all(map(is_number, array.flat)) else None


def as_array(value: Any) -> np.ndarray:
    """A number, an expression, a matrix, a tensor or a list of numbers as an array."""
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().resolve_conj().resolve_neg()
        return (value.double() if value.is_floating_point() else value).numpy()
    if isinstance(value, sp.MatrixBase):
        return np.array(value.tolist(), dtype=object).reshape(value.shape)
    if isinstance(value, sp.Expr | Fraction):
        return np.array(value, dtype=object)
    return np.asarray(value)


def vanishes(expression: sp.Expr) -> bool:
    """Whether an expression is zero, to 30 digits wherever it is evaluated.

    Its symbols get positive numbers and, unless they are positive, negative ones.
    Simplification is left with what has no value.
    """
    symbols = free_symbols([expression])
    for point in range(6) if expression != 0 else ():
        value = somewhere(expression, point, symbols)
        if value is None:
            break
        if not (abs(value.real) <= 1e-30 and abs(value.imag) <= 1e-30):  # or NaN
            return False
    else:
        return True
    attempts = (sp.expand, sp.trigsimp, sp.simplify)
    return any(attempt(expression) == 0 for attempt in attempts)


def free_symbols(expressions: Iterable[Any]) -> list[sp.Expr]:
    """What stands for a number in any of these expressions, in order."""
    found = (sp.sympify(e).atoms(sp.Symbol, MatrixElement) for e in expressions)
    return sorted(set().union(*found), key=str)


def somewhere(
    expression: sp.Expr, point: int = 0, symbols: list[sp.Expr] | None = None
) -> complex | None:
    """The value of an expression for one choice of its symbols, if it has any.

    Expressions that are to be compared are given the ``symbols`` of them all.
    """
    numbers = {}
    for n, name in enumerate(symbols or free_symbols([expression])):
        # never a whole number, where logarithms and quotients may have no value
        number = sp.Rational(20 * n + 30 * point + 21, 10 * n + 20 * point + 50)
        numbers[name] = -number if point % 2 and not name.is_positive else number
    try:
        return complex(expression.xreplace(numbers).evalf(40))
    except (TypeError, ValueError, OverflowError):
        return None


def first_wrong(got: Any, want: Any, tolerance: float) -> str:
    """Where a result of several numbers is wrong first, and what stands there."""
    if isinstance(want, tuple | list):
        for n, (g, w) in enumerate(zip(got, want, strict=True)):
            if not equal(g, w, tolerance):
                inside = first_wrong(g, w, tolerance)
                return f", wrong first in result {n}, {show(g)}{inside}"
    found, wanted = as_array(got), as_array(want)
    if not wanted.ndim:
        return ""
    index = np.argwhere(differs(found, wanted, tolerance))[0].tolist()
    return f", wrong first at index {index}, {show(found[tuple(index)])}"


def article(value: Any) -> str:
    """The type of a value in words."""
    if isinstance(value, sp.Expr) and not value.is_Matrix:
        return "a SymPy expression"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' or name == 'ndarray' else 'a'} {name}"


def show(value: Any) -> str:
    """A value in a line; of a large array its corners and its shape."""
    if isinstance(value, torch.Tensor):
        value = as_array(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, np.ndarray):
        edge = 2 if value.ndim == 1 else 1
        text = np.array2string(
            value, precision=4, separator=", ", threshold=SHOWN, edgeitems=edge
        )
        shape = f" of shape {list(value.shape)}" if value.size > SHOWN else ""
        return " ".join(text.split()) + shape
    if isinstance(value, tuple | list):
        inside = ", ".join(map(show, value))
        return f"({inside})" if isinstance(value, tuple) else f"[{inside}]"
    if isinstance(value, sp.MatrixBase):
        return str(value.tolist())
    return getattr(value, "__name__", None) or str(value)
