r"""Read a displayed equation with a table that says what its symbols mean.

``sides(r"R_i^\top R_j = R_{j-i}", {"R": rotation, "i": i, "j": j})`` evaluates both
sides, so that what a page shows is what is proved.

Keys of the table are names without backslashes and braces: ``omega``, ``hat q``,
``f_code``, ``R^axial``. Its values are SymPy expressions and matrices, numbers,
functions (``R_i`` is ``R(i)``, ``s_{ij}`` is ``s(i, j)``) and sequences. What a sum
runs over stands in its bounds, or in the table under ``"p in"``.

The grammar is the book's own and refuses what can be read in two ways:

- Letters that stand together are a product; in a subscript they are indices.
- A name before a parenthesis is a function where the table's value can be called.
- ``\cos``, ``\log`` and the like without parentheses end at a sign, a thin space or the
  next function, a sum, product, limit or integral at the next sign.
- Absolute values are between ``\lvert`` and ``\rvert``, or ``\bigl|`` and ``\bigr|``.
- An integral ends with ``\, dx``. The table has under ``"int dx"`` what is inserted at
  its ends, the derivative of which must be what is integrated.
- ``[x]_+`` is x where it is positive, else 0; behind a name there is a thin space.
- A slash divides what stands before it by one factor, after which a sign comes.
- ``e^{…}`` is the exponential function and ``\mathrm{i}`` the imaginary unit, unless
  the table has them.
"""

from posedu.book.display.formula_mutants import changes
from posedu.book.display.grammar import DisplayError, find, parse
from posedu.book.display.semantics import Table, sides

__all__ = ["DisplayError", "Table", "changes", "find", "parse", "sides"]
