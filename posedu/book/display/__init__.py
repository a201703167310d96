r"""Evaluation of displayed equations, given a table of the values of their symbols.

``sides(r"R_i^\top R_j = R_{j-i}", {"R": rotation, "i": i, "j": j})`` evaluates both
sides, so that the equation on the page is the one that is proved.

Keys of the table are names without backslashes and braces: ``omega``, ``hat q``,
``f_code``, ``R^axial``. Its values are SymPy expressions and matrices, numbers,
functions (``R_i`` is ``R(i)``, ``s_{ij}`` is ``s(i, j)``) and sequences. The range of
a sum is in its bounds, or in the table under ``"p in"``.

The grammar is the book's own and refuses every ambiguous display:

- Letters that stand together are a product; in a subscript they are indices.
- A name before a parenthesis is a function where the table's value can be called.
- ``\cos``, ``\log`` and the like without parentheses end at a sign, a thin space or the
  next function, a sum, product, limit or integral at the next sign.
- Absolute values are between ``\lvert`` and ``\rvert``, or ``\bigl|`` and ``\bigr|``.
- An integral ends with ``\, dx``. The table has its antiderivative under ``"int dx"``,
  the derivative of which must be the integrand.
- For an infinite sum over t the table has an antidifference under ``"sum t"``: a
  function of t whose step from t to t + 1 must be the summand.
- ``\frac{\partial a}{\partial x}`` is a partial derivative by a symbol, ``f'(x)`` the
  derivative of a function, unless the table has the name with its prime: ``f'``.
- Below a sum sign each bound may have the variables before it, and a relation of
  something else than a variable selects terms: ``\sum_{j:\, x_j < c}``.
- A matrix may have blocks; a 0 beside blocks has their size.
- ``\lVert A \rVert_\infty`` is the largest sum of absolute values in a row of A.
- ``\{a, \dots, b\}`` is the set of the integers from a to b, ``\cup`` a union.
- ``\iff`` stands between two relations that must be true or false together.
- ``[x]_+`` is x where x is positive, else 0; after a name it needs a thin space.
- A slash divides the product before it by one factor, which a sign must follow.
- ``e^{…}`` is the exponential function and ``\mathrm{i}`` the imaginary unit, unless
  the table has them.
"""

from posedu.book.display.formula_mutants import mutants
from posedu.book.display.grammar import DisplayError, find, parse
from posedu.book.display.semantics import Table, sides

__all__ = ["DisplayError", "Table", "find", "mutants", "parse", "sides"]
