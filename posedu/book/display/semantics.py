"""Evaluation of parsed LaTeX equations, with values for their symbols from a table."""

import functools
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from numbers import Number
from typing import Any

import numpy as np
import sympy as sp
from lark import Token, Tree

from posedu._argument_types import check_types
from posedu.book.display.grammar import DisplayError, parse

Table = Mapping[str, Any]
_MATHEMATICAL = sp.Basic | sp.MatrixBase | Number | np.bool_ | range
_SUMS = ("\\sum", "\\prod", "\\lim", "\\int")  # their argument extends up to a sign


@check_types
def sides(display: str | Tree, table: Table) -> list[tuple[str, Any, Any]]:
    """Return each relation of a displayed equation in order: sign, left and right side.

    The display ``a = b < c`` has two relations, ``a = b`` and ``b < c``. ``table`` maps
    the names of symbols to their values.

    Raises
    ------
    DisplayError
        If the display cannot be read, or the table lacks a symbol.
    """
    tree = parse(display) if isinstance(display, str) else display
    found = [one for statement in tree.children for one in relations(statement, table)]
    if len(found) < len(tree.children):
        raise DisplayError("each statement of a display needs a relation")
    return found


def relations(statement: Tree, table: Table) -> list[tuple[str, Any, Any]]:
    r"""Evaluate a statement, which is a chain of expressions with signs between them.

    ``a = b < c`` gives ``("=", a, b)`` and ``("<", b, c)``, where a, b and c are the
    values that the expressions have with the symbols' values from ``table``. A single
    expression gives an empty list. ``A \iff B`` gives one equation of two numbers: 1 if
    A holds, else 0, and the same for B.
    """
    if statement.data == "equivalence":
        both = [relations(side, table) for side in statement.children[::2]]
        if not all(both):
            raise DisplayError("each side of an equivalence needs a relation")
        truths = (all(holds(*relation) for relation in side) for side in both)
        return [("=", *map(sp.Integer, truths))]
    values = pairwise(evaluate(node, table) for node in statement.children[::2])
    signs = (str(sign) for sign in statement.children[1::2])
    return [(sign, *pair) for sign, pair in zip(signs, values, strict=True)]


def holds(sign: str, left: Any, right: Any) -> bool:
    r"""Return whether a relation of two numbers or matrices is true.

    Of matrices it must be true of all entries.

    ``sign`` is the relation in LaTeX: ``=``, ``<``, ``>``, ``\le`` or ``\ge``.
    """
    if isinstance(left, sp.MatrixBase):
        entries = zip(left, right, strict=True)
        return left.shape == right.shape and all(holds(sign, *two) for two in entries)
    compare = {"=": sp.Eq, "<": sp.Lt, ">": sp.Gt, "\\le": sp.Le, "\\ge": sp.Ge}
    return bool(compare[sign](left, right))


def evaluate(node: Tree | Token, table: Table) -> Any:
    """Return the value of a syntax-tree node; ``table`` has the values of symbols.

    The value is a number, a SymPy expression, a matrix, or a sequence or function.
    Anything else raises DisplayError: SymPy would run strings as code.
    """
    if isinstance(node, Token):
        value = _factor(Tree("factor", [node]), table)
    elif node.data in _MEANINGS:
        value = _MEANINGS[node.data](node, table)
    else:
        arguments = (evaluate(child, table) for child in node.children)
        value = _scalar(_CALLS[node.data](*arguments))
    _require_mathematical(value)
    return value


def _require_mathematical(value: Any) -> None:
    if isinstance(value, list | tuple):
        for entry in value:
            _require_mathematical(entry)
    elif not isinstance(value, _MATHEMATICAL) and not callable(value):
        raise DisplayError(
            "values in the table must be numbers, expressions, matrices, sequences or "
            f"functions, got {type(value).__name__}"
        )


def _statement(node: Tree, table: Table) -> Any:
    if len(node.children) > 1:
        raise DisplayError("a value is needed where a relation stands")
    return evaluate(node.children[0], table)


def _sum(node: Tree, table: Table) -> Any:
    terms, sign = [], "+"
    for child in node.children:
        if isinstance(child, Token):
            sign = str(child)
        elif sign == "\\pm":
            raise DisplayError("a display with ± is two statements; write two displays")
        else:
            value = evaluate(child, table)
            if sign == "\\cup":
                value = terms.pop() | value
            terms.append(-value if sign == "-" else value)
            sign = "+"
    return functools.reduce(operator.add, terms)


def _product(node: Tree, table: Table) -> Any:
    value, rest = sp.S.One, list(node.children)
    while rest:
        item = rest.pop(0)
        if isinstance(item, Token):
            if item.type == "OVER":
                value = value / _divisor(rest, table)
        elif _is_function(item.children[0]) and not _is_closed(item):
            item, rest = _opened(item, rest)
            value = _times(value, _open_function(item, rest, table))
        else:
            value = _times(value, _factor(item, table))
    return value


def _is_closed(function: Tree) -> bool:
    """Return whether a function's argument is in parentheses.

    ``function`` is the syntax-tree node of the function with all that follows its name.
    False for a sum, product, limit or integral, whose argument extends up to the next
    plus or minus sign.
    """
    head, *tails = function.children
    return str(head) not in _SUMS and any(tail.data == "arguments" for tail in tails)


def _opened(function: Tree, rest: list[Any]) -> tuple[Tree, list[Any]]:
    """Separate a sum sign from the parenthesis after it, as in Σ (a + b) c.

    The parser reads the parenthesis as the sum's whole argument, but the sum extends
    over c, too. ``rest`` are the factors after the parenthesis. Return the sign with
    its bounds, and the factors with the parenthesis in front; without a parenthesis
    both arguments are returned unchanged.
    """
    head, *tails = function.children
    at = next((n for n, tail in enumerate(tails) if tail.data == "arguments"), None)
    if at is None:
        return function, rest
    group = Tree("group", tails[at].children)
    factor = Tree("factor", [group, *tails[at + 1 :]])
    return Tree("factor", [head, *tails[:at]]), [factor, *rest]


def _divisor(rest: list[Any], table: Table) -> Any:
    """Return the value of the factor after a slash, and empty ``rest``.

    ``rest`` are the factors of the product after the slash. DisplayError is raised
    unless there is exactly one.
    """
    factors = [item for item in rest if isinstance(item, Tree)]
    if len(factors) != 1:
        raise DisplayError("a slash is followed by one factor, then by a sign")
    rest.clear()
    return evaluate(factors[0], table)


def _open_function(function: Tree, rest: list[Any], table: Table) -> Any:
    """Evaluate a function whose argument has no parentheses, as in log x.

    ``rest`` are the factors of the product after the function. The argument consists of
    all of them for a sum, product, limit or integral; for other functions it ends at a
    thin space, a slash or the next function. The argument's factors are removed from
    ``rest``. An empty argument is an error.
    """
    while rest and isinstance(rest[0], Token) and rest[0].type == "THIN":
        rest.pop(0)
    if str(function.children[0]) in _SUMS:
        argument, rest[:] = list(rest), []
    else:
        ends = (n for n, item in enumerate(rest) if _ends_argument(item))
        end = next(ends, len(rest))
        argument, rest[:] = rest[:end], rest[end:]
    if not argument:
        raise DisplayError(f"{function.children[0]} needs an argument")
    if rest and isinstance(rest[0], Token) and rest[0].type == "OVER":
        raise DisplayError("a function's argument before a slash needs parentheses")
    return _apply(function.children[0], function.children[1:], argument, table)


def _ends_argument(item: Tree | Token) -> bool:
    return isinstance(item, Token) or _is_function(item.children[0])


def _factor(node: Tree, table: Table) -> Any:
    head, *tails = node.children
    if _is_function(head):
        at = next((n for n, tail in enumerate(tails) if tail.data == "arguments"), None)
        if at is None:
            raise DisplayError(f"{head} needs an argument")
        value = _apply(head, tails[:at], tails[at].children, table)
        return _with_tails(value, tails[at + 1 :], table)
    if isinstance(head, Token) and head.type in ("NAME", "TEXT"):
        return _named(head, tails, table)
    value = _number(head) if isinstance(head, Token) else evaluate(head, table)
    return _with_tails(value, tails, table)


@functools.cache
def _number(digits: Token) -> sp.Number:
    return sp.Number(str(digits))


def _named(head: Token, tails: list[Tree], table: Table) -> Any:
    """Return the value of a name with the scripts and arguments (``tails``) after it.

    ``head`` is the name. If the symbol table has a key for the name with its prime or
    one of its sub- or superscripts, such as ``R^axial``, that key is used, else the key
    for the name alone. A name without a key is e with an exponent or a constant such as
    π; any other name raises DisplayError.
    """
    name = plain_name(head)
    for at, tail in enumerate(tails if _has_marks(name, table) else ()):
        key = name + written(tail)
        if tail.data in ("below", "above", "prime") and key in table:
            return _with_tails(table[key], tails[:at] + tails[at + 1 :], table)
    if name in table:
        return _with_tails(table[name], tails, table)
    if name == "e" and tails and tails[0].data == "above":
        return _with_tails(_exponential(_exponent(tails[0], table)), tails[1:], table)
    if name in _CONSTANTS:
        return _with_tails(_CONSTANTS[name], tails, table)
    known = ", ".join(sorted(table))
    raise DisplayError(f"the table has no value for {name}; it has {known}")


def _has_marks(name: str, table: Table) -> bool:
    """Return whether the symbol table has a key for a name with a script or a prime.

    The keys for the name ``R`` are ``R^axial``, ``R'`` and the like.
    """
    return any(key.startswith((f"{name}_", f"{name}^", f"{name}'")) for key in table)


def _with_tails(value: Any, tails: list[Tree], table: Table) -> Any:
    """Apply to a symbol's value all that follows the symbol, and return the result.

    ``tails`` are the syntax-tree nodes of indices, powers, factorials and arguments in
    parentheses, which are applied from left to right. Without any the value itself is
    returned.
    """
    while tails:
        tail, *tails = tails
        if tail.data == "above" and _is_indexed(value) and tails:
            tail, *tails = [tails[0], tail, *tails[1:]]
        if tail.data == "below":
            value = _entry(value, _indices(tail, table))
        elif tail.data == "entries":
            value = _entry(value, [evaluate(child, table) for child in tail.children])
        elif tail.data == "above" and isinstance(value, Sequence | Mapping):
            value = _entry(value, [_exponent(tail, table)])
        elif tail.data == "above":
            value = _power(_required_number(value), tail, table)
        elif tail.data == "factorial":
            value = sp.factorial(_required_number(value))
        elif tail.data == "prime":
            value = _derived(value)
        elif _is_function_value(value):
            value = _scalar(value(*(evaluate(child, table) for child in tail.children)))
        else:
            (group,) = tail.children
            return _times(value, _with_tails(evaluate(group, table), tails, table))
    return value


def _derived(function: Any) -> Callable[[Any], Any]:
    if not _is_function_value(function):
        raise DisplayError("a prime is the derivative of a function")

    def derivative(at: Any) -> Any:
        x = sp.Dummy()
        return function(x).diff(x).subs(x, at)

    return derivative


def _partial_derivative(node: Tree, table: Table) -> Any:
    value, variable = (evaluate(child, table) for child in node.children[1::2])
    if not isinstance(variable, sp.Symbol):
        raise DisplayError(f"a derivative must be by a symbol, got {variable}")
    return sp.diff(value, variable)


def _required_number(value: Any) -> Any:
    if not isinstance(value, _MATHEMATICAL):
        raise DisplayError(
            "a number, an expression or a matrix is needed before a power or a "
            f"factorial, got {type(value).__name__}"
        )
    return value


def _is_function_value(value: Any) -> bool:
    return callable(value) and not isinstance(value, sp.Basic)


def _is_indexed(value: Any) -> bool:
    """Return whether a value is a sequence or function that still lacks its index.

    False for numbers, SymPy expressions and matrices.
    """
    return not isinstance(value, sp.Basic | sp.MatrixBase | int | float | complex)


def _entry(value: Any, indices: list[Any]) -> Any:
    if _is_function_value(value):
        return _scalar(value(*indices))
    if isinstance(value, sp.Basic) and not isinstance(value, sp.MatrixBase):
        raise DisplayError(f"{value} is a scalar and cannot have the index {indices}")
    if isinstance(value, sp.MatrixBase):
        row, *columns = (int(index) for index in indices)
        return value[row, *columns] if columns else _scalar(value[row, :])
    return _scalar(functools.reduce(lambda v, n: v[int(n)], indices, value))


def _indices(tail: Tree, table: Table) -> list[Any]:
    return [evaluate(node, table) for node in index_nodes(tail.children[0])]


def index_nodes(script: Tree) -> Iterator[Tree | Token]:
    """Yield the syntax-tree nodes of a subscript's indices; ``ij`` has two.

    ``script`` is the subscript's node. Indices are separated by commas, or are letters
    that stand together; ``2i`` and ``i+1`` are one index each.
    """
    for node in script.children:
        items = [node]
        is_statement = isinstance(node, Tree) and node.data == "statement"
        if is_statement and len(node.children) == 1:
            (total,) = node.children
            if len(total.children) == 1:
                items = total.children[0].children
        factors = all(isinstance(item, Tree) for item in items)
        yield from items if factors and not _is_number(items[0]) else [node]


def _is_number(factor: Tree) -> bool:
    head = factor.children[0]
    return isinstance(head, Token) and head.type == "NUMBER"


def _power(value: Any, tail: Tree, table: Table) -> Any:
    if is_transpose(tail):
        return value.T if isinstance(value, sp.MatrixBase) else value
    return value ** _exponent(tail, table)


def is_transpose(tail: Tree) -> bool:
    """Return whether a sub- or superscript is ``⊤``, the sign of the transpose.

    ``tail`` is the script's syntax-tree node; a subscript is never the transpose.
    """
    return tail.data == "above" and written(tail) == "^top"


def _exponent(tail: Tree, table: Table) -> Any:
    script = tail.children[0]
    if len(script.children) != 1:
        raise DisplayError("an exponent must be one expression")
    return evaluate(script.children[0], table)


def _apply(head: Token, scripts: list[Tree], body: list[Any], table: Table) -> Any:
    r"""Evaluate a function such as ``\cos``, ``\max`` or ``\sum`` of its argument.

    ``head`` is the function's command. ``scripts`` are the function's sub- and
    superscripts, such as the bounds of a sum. ``body`` is the argument: factors, or the
    statements between its parentheses.
    """
    name = str(head)[1:]
    below = next((tail for tail in scripts if tail.data == "below"), None)
    above = next((tail for tail in scripts if tail.data == "above"), None)
    if name == "lim":
        return _limit(below, body, table)
    if name == "int":
        return _integral(below, above, body, table)
    if name == "sum" and above is not None and _exponent(above, table) == sp.oo:
        return _series(below, body, table)
    is_list = all(isinstance(node, Tree) and node.data == "statement" for node in body)
    nodes = body if is_list else [Tree("product", body)]
    if below is None or name == "log":
        base = _indices(below, table) if below is not None else []
        value = _scalar(_CALLS[name](*(evaluate(node, table) for node in nodes), *base))
        return value if above is None else value ** _exponent(above, table)
    (node,) = nodes
    values = [evaluate(node, scope) for scope in _scopes(below, above, table)]
    if name == "softmax":
        total = sum(_exponential(value) for value in values)
        return _exponential(evaluate(node, table)) / total
    return _GATHERED[name](values)


def _limit(below: Tree | None, body: list[Any], table: Table) -> Any:
    r"""Evaluate ``\lim_{x \to a}`` of a product.

    ``below`` is the script ``x \to a``, without which DisplayError is raised; ``body``
    are the factors of the product.
    """
    if below is None or len(below.children[0].children) != 2:
        raise DisplayError(
            "a limit needs its variable and the point that it approaches"
        )
    variable, point = (evaluate(node, table) for node in below.children[0].children)
    return sp.limit(evaluate(Tree("product", body), table), variable, point)


def _integral(
    below: Tree | None, above: Tree | None, body: list[Any], table: Table
) -> Any:
    r"""Evaluate ``\int_a^b f \, dx`` by the antiderivative in the symbol table.

    The antiderivative of f is in ``table`` under ``"int dx"``. ``below`` and ``above``
    are the scripts a and b, ``body`` is ``f \, dx``; DisplayError is raised if one of
    these is missing. If f is not the antiderivative's derivative, the value has an
    unknown term, so that no equation with the integral holds.
    """
    match body:
        case [*inside, Token(type="THIN"), Tree(children=["d"]), Tree(children=[x])]:
            key = f"int d{plain_name(x)}"
        case _:
            raise DisplayError("an integral must end with a thin space and dx")
    if below is None or above is None:
        raise DisplayError("an integral needs two bounds")
    if key not in table:
        raise DisplayError(f"the table needs an antiderivative under '{key}'")
    variable, integrand = evaluate(x, table), evaluate(Tree("product", inside), table)
    error = table[key].diff(variable) - integrand
    low, high = (_exponent(end, table) for end in (below, above))
    # The error has a symbol of its own: no equation holds unless the error is zero.
    upper = _inserted(table[key], variable, high, "-")
    return upper - _inserted(table[key], variable, low, "+") + sp.Dummy() * error


def _series(below: Tree | None, body: list[Any], table: Table) -> Any:
    r"""Evaluate ``\sum_{t=a}^\infty f`` by the antidifference in the symbol table.

    The antidifference of f is in ``table`` under ``"sum t"``: its value at t + 1 less
    its value at t must be f. If it is not, the sum has an unknown term, so that no
    equation with it holds. ``below`` is the script t = a, ``body`` is f.
    """
    parts: list[Any] = []
    if below is not None:
        parts = below.children[0].children[0].children
    if len(parts) != 3:
        raise DisplayError("an infinite sum needs its variable and its start")
    name = _variable(parts[0])
    if f"sum {name}" not in table:
        raise DisplayError(f"the table needs an antidifference under 'sum {name}'")
    variable, start = table[name], evaluate(parts[2], table)
    inside = table[f"sum {name}"]
    term = evaluate(Tree("product", body), table)
    error = inside.subs(variable, variable + 1) - inside - term
    limit = sp.limit(inside, variable, sp.oo)
    return limit - inside.subs(variable, start) + sp.Dummy() * error


@functools.cache
def _inserted(inside: sp.Expr, variable: sp.Symbol, end: sp.Expr, side: str) -> sp.Expr:
    """Return the antiderivative ``inside`` at ``end``, by a limit where it is infinite.

    ``variable`` is the variable of integration; ``side`` is the side from which the
    limit approaches ``end``: ``"+"`` from above, ``"-"`` from below.
    """
    value = inside.subs(variable, end)
    infinite = value.has(sp.oo, -sp.oo, sp.zoo, sp.nan)
    return sp.limit(inside, variable, end, side) if infinite else value


def _scopes(below: Tree, above: Tree | None, table: Table) -> Iterator[Table]:
    """Yield a copy of the symbol table for each combination of a sum's variables.

    Each copy also has values of the sum's variables. ``below`` and ``above`` are the
    scripts of the sum sign with the variables' bounds; ``above`` is None where the
    subscript has both bounds. Bounds may have the variables before them, and a relation
    of something else than a variable selects among the combinations.
    """
    scopes = [table]
    for node in below.children[0].children:
        if _is_condition(node):
            scopes = [s for s in scopes if all(holds(*r) for r in relations(node, s))]
        else:
            scopes = [
                {**scope, name: value}
                for scope in scopes
                for name, values in (_domain(node, above, scope),)
                for value in values
            ]
    yield from scopes


def _is_condition(node: Any) -> bool:
    r"""Return whether a node below a sum sign is a condition, like ``b_j < c``.

    False for a variable, with bounds or without.
    """
    if isinstance(node, Token) or len(node.children) == 1:
        return False
    return len(_words(node.children[::2][-2])) != 1


def _domain(node: Any, above: Tree | None, table: Table) -> tuple[str, Any]:
    r"""Return the name and the values of a sum's variable.

    ``node`` is the variable with its bounds, as below the sum sign: ``l=j`` (``above``
    has the upper bound), ``j \le i`` (from 0), ``0 \le p < n``, or ``p`` alone, whose
    values are in the symbol table under ``"p in"``.
    """
    if isinstance(node, Token) or len(node.children) == 1:
        name = _variable(node)
        if f"{name} in" not in table:
            raise DisplayError(
                f"the table needs the values of {name} under '{name} in'"
            )
        return name, table[f"{name} in"]
    parts, signs = node.children[::2], [str(sign) for sign in node.children[1::2]]
    if signs == ["="] and above is not None:
        low, high = evaluate(parts[1], table), _exponent(above, table) + 1
        return _variable(parts[0]), _integers(low, high)
    if set(signs) <= {"<", "\\le"} and above is None and len(parts) <= 3:
        high = evaluate(parts[-1], table) + (signs[-1] == "\\le")
        low = 0 if len(parts) == 2 else evaluate(parts[0], table) + (signs[0] == "<")
        return _variable(parts[-2]), _integers(low, high)
    raise DisplayError("bounds of a sum must be like l=j, j \\le i, 0 \\le p < n or p")


def _integers(low: Any, high: Any) -> list[sp.Integer]:
    return [sp.Integer(n) for n in range(int(low), int(high))]


def _variable(node: Tree | Token) -> str:
    tokens = _words(node)
    if len(tokens) != 1 or tokens[0].type != "NAME":
        raise DisplayError("each variable of a sum must be one name")
    return plain_name(tokens[0])


def _words(node: Tree | Token) -> list[Token]:
    """Return the tokens of a syntax-tree node without its thin spaces."""
    tokens = [node] if isinstance(node, Token) else node.scan_values(bool)
    return [token for token in tokens if token.type != "THIN"]


@functools.cache
def plain_name(token: Token) -> str:
    r"""Convert a LaTeX name to its key in the table of symbols.

    ``\omega`` becomes ``omega``, and ``\hat{q}`` becomes ``hat q``. ``\text{…}`` and
    ``\operatorname{…}`` become the words between their braces, and ``\mathrm d b``
    becomes ``d b``.
    """
    words = re.findall(r"[a-zA-Z0-9]+", str(token))
    is_differential = words[:2] == ["mathrm", "d"] and len(words) == 3
    is_bare = words[0] in ("text", "operatorname") or is_differential
    return " ".join(words[1:] if is_bare else words)


def written(tail: Tree) -> str:
    """Return a sub- or superscript in the spelling of the keys of the symbol table.

    ``tail`` is the script's syntax-tree node. Examples are ``_code`` and ``^(1)``. A
    prime is spelled ``'``.
    """
    mark = {"below": "_", "above": "^", "prime": "'"}.get(tail.data, "")
    return mark + _text(tail)


def _text(node: Tree | Token) -> str:
    if isinstance(node, Token):
        is_name = node.type in ("NAME", "TEXT")
        return plain_name(node) if is_name else str(node).strip("\\ ")
    inside = ",".join if node.data == "script" else "".join
    text = inside(_text(child) for child in node.children)
    return f"({text})" if node.data == "group" else text


def _is_function(node: Any) -> bool:
    return isinstance(node, Token) and node.type == "FUNCTION"


def _scalar(value: Any) -> Any:
    """Convert integers to SymPy's, floats to Python's, a 1 × 1 matrix to its entry.

    Any other value is returned unchanged.
    """
    if isinstance(value, sp.MatrixBase):
        return value[0, 0] if value.shape == (1, 1) else value
    if isinstance(value, float):
        return float(value)
    return sp.Integer(value) if isinstance(value, int) else value


def _times(left: Any, right: Any) -> Any:
    if _is_indexed(left) or _is_indexed(right):
        raise DisplayError("a factor is needed where a function or a sequence stands")
    return _scalar(right if left is sp.S.One else left * right)


def _is_column(*blocks: Any) -> bool:
    return len(blocks) == 1 and _block(blocks[0]).cols == 1


def _modulus(value: Any) -> Any:
    """Return the modulus; that of a complex number with floats is a float.

    SymPy would expand such a modulus, and rounding leaves it an imaginary part.
    """
    if isinstance(value, complex):
        return abs(value)
    number = sp.sympify(value)
    is_rounded = number.is_number and number.has(sp.Float)
    return sp.Abs(number.evalf() if is_rounded else number)


def _softmax(column: sp.Matrix) -> sp.Matrix:
    exponentials = column.applyfunc(sp.exp)
    return exponentials / sum(exponentials)


def _exponential(value: Any) -> Any:
    if isinstance(value, sp.MatrixBase):
        return _matrix_exponential(value.as_immutable()).as_mutable()
    return sp.exp(value)


@functools.cache
def _matrix_exponential(matrix: sp.ImmutableMatrix) -> sp.ImmutableMatrix:
    return matrix.exp()


def _matrix(node: Tree, table: Table) -> sp.Matrix:
    """Return a displayed matrix. Its cells may be blocks; a 0 beside blocks is one."""
    values = [[evaluate(cell, table) for cell in row.children] for row in node.children]
    rows = [[_block(value) for value in row] for row in values]
    widths = [max(b.cols for b in column) for column in zip(*rows, strict=True)]
    heights = [max(b.rows for b in row) for row in rows]
    for row, height in zip(rows, heights, strict=True):
        zeros = [sp.zeros(height, width) for width in widths]
        row[:] = (b if any(b) else zero for b, zero in zip(row, zeros, strict=True))
    return sp.Matrix.vstack(*(sp.Matrix.hstack(*row) for row in rows))


def _block(value: Any) -> sp.Matrix:
    return value if isinstance(value, sp.MatrixBase) else sp.Matrix([[value]])


def _cell(node: Tree, table: Table) -> Any:
    return evaluate(node.children[0], table) if node.children else sp.S.Zero


def _cases(node: Tree, table: Table) -> Any:
    for value, condition in (case.children for case in node.children):
        if all(holds(*relation) for relation in relations(condition, table)):
            return evaluate(value, table)
    raise DisplayError("no case applies")


def _add(values: list[Any]) -> Any:
    return functools.reduce(operator.add, values) if values else sp.S.Zero


_MEANINGS: dict[str, Callable[[Tree, Table], Any]] = {
    "statement": _statement,
    "sum": _sum,
    "product": _product,
    "factor": _factor,
    "matrix": _matrix,
    "derivative": _partial_derivative,
    "cell": _cell,
    "cases": _cases,
}
_CALLS: dict[str, Callable[..., Any]] = {
    "group": lambda value: value,
    "tuple": lambda *values: values,
    "modulus": _modulus,
    "norm": lambda vector: vector.norm(),
    "row_norm": lambda matrix: _block(matrix).norm(sp.oo),
    "floor": sp.floor,
    "ceiling": sp.ceiling,
    "inner": lambda left, right: left.dot(right),
    "conjugate": sp.conjugate,
    "root": sp.sqrt,
    "integers": lambda low, high: sp.FiniteSet(*_integers(low, high + 1)),
    "positive": lambda value: sp.Max(sp.factor(value), 0),
    "fraction": operator.truediv,
    "commutator": lambda left, right: left * right - right * left,
    "sin": sp.sin,
    "cos": sp.cos,
    "tan": sp.tan,
    "log": sp.log,
    "ln": sp.log,
    "exp": _exponential,
    "softmax": _softmax,
    "det": lambda matrix: matrix.det(method="laplace"),
    "diag": lambda *blocks: sp.diag(
        *(list(blocks[0]) if _is_column(*blocks) else blocks)
    ),
    "max": sp.Max,
    "min": sp.Min,
}
_GATHERED: dict[str, Callable[[list[Any]], Any]] = {
    "sum": _add,
    "prod": lambda values: functools.reduce(_times, values, sp.S.One),
    "diag": lambda blocks: sp.diag(*blocks),
    "max": lambda values: sp.Max(*values),
    "min": lambda values: sp.Min(*values),
}
_CONSTANTS: dict[str, Any] = {
    "pi": sp.pi,
    "infty": sp.oo,
    "mathrm i": sp.I,
    "Re": sp.re,
    "sigma": lambda z: 1 / (1 + sp.exp(-z)),
    "softplus": lambda z: sp.log(1 + sp.exp(z)),
}
