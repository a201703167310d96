"""Checks that turn arguments of the symbolic functions into SymPy expressions."""

from collections.abc import Iterable
from numbers import Number
from typing import Any

import numpy as np
import sympy as sp


def expression(name: str, value: Any) -> sp.Expr:
    """Return ``value``, a number or a SymPy object, as a SymPy expression.

    Anything else is refused: SymPy would run strings, and strings in a container, as
    code. ``name`` is the argument's name, for error messages.
    """
    if isinstance(value, np.ndarray | np.bool_) and not value.ndim:
        value = value.item()
    if not isinstance(value, sp.Basic | sp.MatrixBase | Number):
        raise TypeError(
            f"{name} must be a number or an expression, got {type(value).__name__}"
        )
    return sp.sympify(value)


def expressions(name: str, values: Any) -> Any:
    """Turn all numbers in nested sequences into SymPy expressions.

    A matrix is returned as it is. ``name`` is the argument's name, for error messages.
    """
    if isinstance(values, str) or not isinstance(values, Iterable | sp.MatrixBase):
        return expression(name, values)
    if isinstance(values, sp.Basic | sp.MatrixBase):
        return values
    return [expressions(name, value) for value in values]


def one_expression(name: str, value: Any) -> sp.Expr:
    """Return ``value``, one number or a sequence of one, as a SymPy expression.

    ``name`` is the argument's name, for error messages.
    """
    entries = list(sp.Matrix([expressions(name, value)]))
    if len(entries) != 1:
        raise ValueError(f"{name} must be one number, got {len(entries)}")
    return entries[0]


def matrix(name: str, rows: Any) -> sp.Matrix:
    """SymPy matrix made from a sequence of rows, or a column made from numbers.

    ``name`` is the argument's name, for error messages.
    """
    return sp.Matrix(expressions(name, rows))
