"""Check, compare and format the values that learners' answers return."""

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import sympy as sp
import torch
from sympy.matrices.expressions.matexpr import MatrixElement

SHOWN = 16  # entries of an array that are shown in full


def wrong_form(got: Any, want: Any) -> str:
    """Return a complaint on the type, length, shape or dtype of a value, or ''.

    ``got`` is what the learner's answer returned, ``want`` what the solution returned.
    """
    if got is None:
        return "Your answer returns None: is a `return` missing?"
    try:
        undone = _undone(got) - _undone(want)
    except RecursionError:
        return "Your answer returns a list or tuple that is nested without an end."
    if undone:
        return (
            f"Your answer holds {' and '.join(sorted(undone))} that SymPy has not "
            "computed; call `.doit()`, or give the closed form."
        )
    if isinstance(want, tuple | list):
        return _wrong_sequence(got, want)
    if isinstance(want, sp.MatrixBase):
        return _wrong_matrix(got, want)
    if isinstance(want, torch.Tensor):
        return _wrong_tensor(got, want)
    if isinstance(want, np.ndarray):
        return _wrong_array(got, want)
    if isinstance(want, bool | np.bool_):
        right, needed = isinstance(got, bool | np.bool_), "True or False"
    elif isinstance(want, str):
        right, needed = isinstance(got, str), "a string"
    elif isinstance(want, sp.Expr):
        right, needed = is_expression(scalar(got)), "one number or expression"
    else:
        right, needed = is_number(scalar(got)), "one number"
    return "" if right else _returns(type_in_words(got), needed)


def float_for_int(got: Any, want: Any) -> str:
    """Return a complaint on a float where an int is right, or ''.

    The values are equal: ``got`` is what the learner's answer returned, ``want`` what
    the solution returned.
    """
    if isinstance(want, tuple | list):
        return next(filter(None, map(float_for_int, got, want)), "")
    number = scalar(got)
    if type(want) is not int or not isinstance(number, float | sp.Float):
        return ""
    return (
        "The value is right, but it should be an int, got the "
        f"{type(number).__name__} {number}."
    )


_UNDONE = {
    sp.Sum: "a sum",
    sp.Product: "a product",
    sp.Integral: "an integral",
    sp.Derivative: "a derivative",
    sp.Limit: "a limit",
}


def _undone(value: Any) -> set[str]:
    """Return in words which unevaluated operations a value's expressions hold."""
    if isinstance(value, tuple | list):
        return set().union(*map(_undone, value))
    if not isinstance(value, sp.Basic | sp.MatrixBase):
        return set()
    return {words for kind, words in _UNDONE.items() if value.has(kind)}


def _returns(given: str, needed: str) -> str:
    return f"Your answer returns {given}; it must return {needed}."


def _wrong_sequence(got: Any, want: tuple | list) -> str:
    if not isinstance(got, tuple | list):
        return _returns(type_in_words(got), f"a tuple or list of {len(want)}")
    if len(got) != len(want):
        return _returns(f"{len(got)} results", f"{len(want)}")
    return next(filter(None, map(wrong_form, got, want)), "")


def _wrong_matrix(got: Any, want: sp.MatrixBase) -> str:
    if not isinstance(got, sp.MatrixBase):
        return _returns(type_in_words(got), "a SymPy matrix")
    if got.shape != want.shape:
        return _returns(f"shape {got.shape}", f"shape {want.shape}")
    return ""


def _wrong_tensor(got: Any, want: torch.Tensor) -> str:
    if type(got) not in (torch.Tensor, torch.nn.Parameter):
        return _returns(type_in_words(got), "a torch.Tensor")
    if not _is_filled(got):
        return _returns("a sparse, nested or meta tensor", "a dense one")
    if got.shape != want.shape:
        return _returns(f"shape {list(got.shape)}", f"shape {list(want.shape)}")
    same = got.dtype == want.dtype
    return "" if same else _returns(f"{got.dtype}", f"{want.dtype}")


def _wrong_array(got: Any, want: np.ndarray) -> str:
    if type(got) is not np.ndarray:
        return _returns(type_in_words(got), "a NumPy array")
    if got.shape != want.shape:
        return _returns(f"shape {list(got.shape)}", f"shape {list(want.shape)}")
    exact = want.dtype.kind in "fc"  # the size of an integer does not matter
    same = got.dtype.kind == want.dtype.kind and not (exact and got.dtype != want.dtype)
    return "" if same else _returns(f"dtype {got.dtype}", f"dtype {want.dtype}")


def _is_filled(x: torch.Tensor) -> bool:
    return x.layout == torch.strided and not x.is_nested and x.device.type != "meta"


def scalar(value: Any) -> Any:
    """Return the number in a 0-dimensional array or tensor.

    Any other value is returned unchanged.
    """
    if type(value) in (torch.Tensor, torch.nn.Parameter) and _is_filled(value):
        return value.detach().item() if not value.ndim else value
    if isinstance(value, np.generic) or type(value) is np.ndarray:
        return value.item() if not value.ndim else value
    return value


def is_number(value: Any) -> bool:
    """Return whether a value is a real number: int, float, Fraction or SymPy number.

    NaN and the infinities count as real numbers, booleans do not.
    """
    if isinstance(value, bool) or not isinstance(
        value, int | float | Fraction | sp.Expr
    ):
        return False
    try:
        float(value)
    except (TypeError, OverflowError):  # symbols, complex numbers, too large integers
        return False
    return True


def is_expression(value: Any) -> bool:
    """Return whether a value is a number or a scalar SymPy expression.

    Complex numbers count as numbers, booleans do not.
    """
    if isinstance(value, sp.Expr):
        return not value.is_Matrix
    return isinstance(value, complex) or is_number(value)


def equal(got: Any, want: Any, tolerance: float) -> bool:
    """Return whether two results of equal type and shape agree; NaN equals only NaN.

    ``got`` is the learner's result, ``want`` the solution's; ``tolerance`` is the
    largest absolute difference accepted between floats.
    """
    if isinstance(want, tuple | list):
        return all(equal(g, w, tolerance) for g, w in zip(got, want, strict=True))
    return agree(as_array(got), as_array(want), tolerance)


def agree(got: np.ndarray, want: np.ndarray, tolerance: float) -> bool:
    """Return whether two arrays have the same shape and agree in all entries.

    ``got`` is the learner's array, ``want`` the right one. Floats may differ by
    ``tolerance``.
    """
    return got.shape == want.shape and not differs(got, want, tolerance).any()


def differs(got: np.ndarray, want: np.ndarray, tolerance: float) -> np.ndarray:
    """Return a mask of the entries in which two arrays of the same shape differ.

    Floats may differ by ``tolerance``. All entries count as different if one entry of
    ``got`` is no number, unless ``want`` has SymPy expressions.
    """
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
    """Return whether two SymPy expressions are equal; a decimal equals no exact number.

    ``got`` is the learner's value, ``want`` the right one. If one of the two is no
    expression, false.
    """
    if not is_expression(scalar(got)) or not is_expression(scalar(want)):
        return False
    got, want = sp.sympify(got), sp.sympify(want)
    if got.has(sp.Float) != want.has(sp.Float):
        return False
    return got == want or vanishes(got - want)  # infinities have no difference


def numbers(array: np.ndarray) -> np.ndarray | None:
    """Convert an array of Python or SymPy numbers to floats; None if one is no number.

    An array of any dtype but object is returned as it is.
    """
    if array.dtype.kind != "O":
        return array
    return array.astype(float) if all(map(is_number, array.flat)) else None


def as_array(value: Any) -> np.ndarray:
    """Convert a number, expression, matrix, tensor or list of numbers to NumPy.

    An array with SymPy expressions has dtype object; floating tensors become float64.
    """
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().resolve_conj().resolve_neg()
        return (value.double() if value.is_floating_point() else value).numpy()
    if isinstance(value, sp.MatrixBase):
        return np.array(value.tolist(), dtype=object).reshape(value.shape)
    if isinstance(value, sp.Expr | Fraction):
        return np.array(value, dtype=object)
    return np.asarray(value)


def vanishes(expression: sp.Expr) -> bool:
    """Return whether an expression is zero, up to 1e-30 wherever it is evaluated.

    The expression's symbols get positive numbers and, unless they are declared
    positive, negative ones. An expression that cannot be evaluated is simplified
    instead.
    """
    symbols = free_symbols([expression])
    for point in range(6) if expression != 0 else ():
        value = value_at(expression, point, symbols)
        if value is None:
            break
        if not (abs(value.real) <= 1e-30 and abs(value.imag) <= 1e-30):  # or NaN
            return False
    else:
        return True
    attempts = (sp.expand, sp.trigsimp, sp.simplify)
    return any(attempt(expression) == 0 for attempt in attempts)


def free_symbols(expressions: Iterable[Any]) -> list[sp.Expr]:
    """Return the SymPy symbols and matrix entries in ``expressions``, sorted by name.

    Matrix entries are those of SymPy matrix symbols.
    """
    found = (sp.sympify(e).atoms(sp.Symbol, MatrixElement) for e in expressions)
    return sorted(set().union(*found), key=str)


def value_at(
    expression: sp.Expr, point: int = 0, symbols: list[sp.Expr] | None = None
) -> complex | None:
    """Return the value of an expression for one choice of numbers for its symbols.

    None if the expression cannot be evaluated. ``point`` selects the choice. To compare
    several expressions, give each the ``symbols`` of them all.
    """
    numbers = {}
    for n, name in enumerate(symbols or free_symbols([expression])):
        # Never an integer, at which logarithms and quotients may have no value.
        number = sp.Rational(20 * n + 30 * point + 21, 10 * n + 20 * point + 50)
        numbers[name] = -number if point % 2 and not name.is_positive else number
    try:
        return complex(expression.xreplace(numbers).evalf(40))
    except (TypeError, ValueError, OverflowError):
        return None


def has_symbols(value: Any) -> bool:
    """Return whether a value contains SymPy symbols.

    Tuples and lists are searched, too; false for values that are not SymPy's.
    """
    if isinstance(value, tuple | list):
        return any(map(has_symbols, value))
    return isinstance(value, sp.Basic | sp.MatrixBase) and bool(value.free_symbols)


def first_wrong(got: Any, want: Any, tolerance: float) -> tuple[str, Any, Any]:
    """Return the first wrong number of a result: its place, its value, the right value.

    ``got`` is the learner's result, ``want`` the right one; floats may differ by
    ``tolerance``. The place is in words, such as " at index [0, 2]", or '' if the
    result is a number.
    """
    if isinstance(want, tuple | list):
        for n, (g, w) in enumerate(zip(got, want, strict=True)):
            if not equal(g, w, tolerance):
                place, g, w = first_wrong(g, w, tolerance)
                return f" in result {n}{place.replace(' in result', ', entry')}", g, w
    found, right = as_array(got), as_array(want)
    if not right.ndim:
        return "", got, want
    index = np.argwhere(differs(found, right, tolerance))[0].tolist()
    return f" at index {index}", found[tuple(index)], right[tuple(index)]


def type_in_words(value: Any) -> str:
    """Return the type of a value with its article: "a list", "an ndarray"."""
    if isinstance(value, sp.Expr) and not value.is_Matrix:
        return "a SymPy expression"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' or name == 'ndarray' else 'a'} {name}"


def show_briefly(value: Any, longest: int = 120) -> str:
    """Return an exercise's argument or result as at most ``longest`` characters.

    A longer array or matrix is described by its shape, other text is cut off.
    """
    text = show(value)
    if len(text) <= longest:
        return text
    if isinstance(value, np.ndarray | torch.Tensor):
        corners = show(value, shown=1)
        kind = f"{type_in_words(value)} of shape {list(value.shape)}"
        return corners if len(corners) <= longest else kind
    if isinstance(value, sp.MatrixBase):
        return f"a matrix of shape {value.shape}"
    return f"{text[: longest - 1]}…"


def show(value: Any, shown: int = SHOWN) -> str:
    """Return a value, such as an exercise's argument or result, as one line of text.

    An array of more than ``shown`` entries is shown by its first and last entries and
    its shape. A value that cannot be shown is described by its type.
    """
    try:
        return _shown(value, shown)
    except Exception:  # of an object of the learner's
        return type_in_words(value)


def _digits(array: np.ndarray) -> int:
    """Return how many decimals of an array are shown: 4, or more if 4 would mislead.

    More are shown if a number differs from a whole number other than 0 by less than 4
    decimals show, such as 1.000001.
    """
    if array.dtype.kind != "f":
        return 4
    finite = array[np.isfinite(array)].astype(float)
    gaps = abs(finite - finite.round())[finite.round() != 0]
    small = gaps[(gaps > 1e-12) & (gaps < 5e-5)]
    return int(np.ceil(-np.log10(small.min()))) if small.size else 4


def _shown(value: Any, shown: int) -> str:
    if isinstance(value, torch.Tensor):
        if not _is_filled(value):
            return "a sparse, nested or meta tensor"
        value = as_array(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        text = f"{value:.6g}"
        return f"{text}.0" if text.lstrip("-").isdigit() else text
    if isinstance(value, str):
        return repr(value)
    if isinstance(value, np.ndarray):
        edge = 2 if value.ndim == 1 else 1
        text = np.array2string(
            value,
            precision=_digits(value),
            separator=", ",
            threshold=shown,
            edgeitems=edge,
        )
        shape = f" of shape {list(value.shape)}" if value.size > shown else ""
        return " ".join(text.split()) + shape
    if isinstance(value, tuple | list):
        inside = ", ".join(show(entry, shown) for entry in value)
        return f"({inside})" if isinstance(value, tuple) else f"[{inside}]"
    if isinstance(value, sp.MatrixBase):
        return str(value.tolist())
    return getattr(value, "__name__", None) or str(value)
