"""The places of a check's code at which a mutant differs.

A mutant has one number, sign, arithmetic operator or truth value changed, where the
code computes something. These stay: comparisons, ``and``, ``or`` and ``not``;
differences, which mostly compare; numbers that a comparison or a difference states;
tolerances; printed text; the mutant and the number of samples of ``prove_sampled``.
With them changed any check would fail, or the change would not concern what is checked.
"""

import ast
import builtins
from collections.abc import Container, Iterator
from typing import Any

from mutation import run
from mutation.run import Position

CLOSE = {  # functions that compare
    *("allclose", "isclose", "array_equal", "equal"),
    *("assert_allclose", "assert_close"),
}
UNCHANGED = {"atol", "rtol", "mutant", "samples"}  # arguments of these names
LIBRARIES = {*dir(builtins), "math", "np", "sp", "torch"}
CHANGES = ("Number", "ReplaceBinary", "ReplaceUnary", "ReplaceTrue", "ReplaceFalse")
SMALLEST = 0.01  # a smaller number is a tolerance


def mutants(
    file: str, source: str, seed: int, lines: Container[int] | None = None
) -> Iterator[str]:
    """Yield changed sources, one for each place of the lines, in the order drawn."""
    skipped = unchanged(run.parsed(source))
    places = {}
    for at, options in run.changeable(file, source, seed, skipped).items():
        own = [o for o in options if o[1].startswith(CHANGES) and o[1][-4:] != "_Not"]
        if own and (lines is None or at[0] in lines):
            places[at] = own
    for mutant in run.mutants(file, source, places):
        yield run.changed(source, mutant.operator, mutant.occurrence)


def called(node: ast.AST) -> str | None:
    """The name of the function or method that a node calls."""
    function = node.func if isinstance(node, ast.Call) else None
    return getattr(function, "id", getattr(function, "attr", None))


def is_tolerance(node: ast.AST) -> bool:
    """Return whether a node is a small number, or a power of negative exponent."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Pow) and isinstance(node.right, ast.UnaryOp)
    value = node.value if isinstance(node, ast.Constant) else None
    return isinstance(value, float) and 0 < value < SMALLEST


def is_stated(side: ast.AST) -> bool:
    """Return whether one side of a comparison states a number or has a tolerance."""
    nodes = list(ast.walk(side))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return names <= LIBRARIES or any(map(is_tolerance, nodes))


def unchanged(tree: ast.Module) -> Iterator[tuple[Position, Position]]:
    """Yield the extents of what stays in every mutant."""
    yield from run.unchanged(tree)
    kept: list[Any] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            kept += filter(is_stated, (node.left, *node.comparators))
        elif called(node) in CLOSE:
            kept += filter(is_stated, node.args)
        elif isinstance(node, ast.keyword):
            kept += [node] if node.arg in UNCHANGED else []
        elif called(node) == "print" or is_tolerance(node):
            kept.append(node)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
            kept += filter(is_stated, (node.left, node.right))
            for one in (node, node.left, node.right):
                if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Sub | ast.Div):
                    yield end(one.left), start(one.right)
    for node in kept:
        yield start(node), end(node)


def start(node: ast.expr) -> Position:
    return node.lineno, node.col_offset


def end(node: ast.expr) -> Position:
    return node.end_lineno, node.end_col_offset
