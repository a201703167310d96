"""Displays with one sign, index or exponent changed, which a check must refuse."""

from collections.abc import Iterator
from typing import Any

from lark import Token, Tree

from posedu.book.display.grammar import parse
from posedu.book.display.semantics import index_nodes, is_transpose

_TURNED = {"+": "-", "-": "+"}


def changes(display: str | Tree) -> Iterator[Tree]:
    """Every display that differs by one sign, index or exponent.

    A sign is turned; an index, a bound of a sum and an exponent grow by one; a
    transpose is left out. Scripts that are part of a name stay as they are.
    """
    yield from _changes(parse(display) if isinstance(display, str) else display)


def _changes(node: Any) -> Iterator[Any]:
    if isinstance(node, Token):
        return
    for at, child in enumerate(node.children):
        for changed in _at(node, child):
            found = [] if changed is None else [changed]
            kept = node.children
            yield Tree(node.data, [*kept[:at], *found, *kept[at + 1 :]])


def _at(node: Tree, child: Any) -> Iterator[Any]:
    """What may stand in a child's place; nothing where it may be left out."""
    if isinstance(child, Token):
        if node.data == "sum" and child in _TURNED:
            yield child.update(value=_TURNED[child])
        return
    if node.data == "factor" and is_transpose(child):
        yield None
    elif child.data in ("below", "above"):
        yield from (Tree(child.data, [one]) for one in _scripts(node, child))
    else:
        yield from _changes(child)


def _scripts(factor: Tree, tail: Tree) -> Iterator[Tree]:
    head, (script,) = factor.children[0], tail.children
    if _is_part_of_name(script):
        return
    yield from _changes(script)
    is_function = isinstance(head, Token) and head.type == "FUNCTION"
    is_variable = is_function and head != "\\int"
    if tail.data == "below" and is_variable:
        return
    nodes = list(index_nodes(script)) if tail.data == "below" else script.children
    for at, node in enumerate(nodes):
        yield Tree("script", [*nodes[:at], _plus_one(node), *nodes[at + 1 :]])


def _is_part_of_name(script: Tree) -> bool:
    """Whether a script is a word, a sign, ∞ or, as in ``A^{(1)}``, a number's mark."""
    tokens = list(script.scan_values(bool))
    marks = all(t.type in ("TEXT", "SIGN", "TOP") or t == "\\infty" for t in tokens)
    numbered = any(script.find_data("group")) and all(
        t.type == "NUMBER" for t in tokens
    )
    return marks or numbered


def _plus_one(node: Tree | Token) -> Tree:
    if not (isinstance(node, Tree) and node.data == "factor"):
        is_statement = isinstance(node, Tree) and node.data == "statement"
        node = Tree("factor", [Tree("group", [node]) if is_statement else node])
    one = Tree("factor", [Token("NUMBER", "1")])
    terms = [Tree("product", [node]), Token("SIGN", "+"), Tree("product", [one])]
    return Tree("statement", [Tree("sum", terms)])
