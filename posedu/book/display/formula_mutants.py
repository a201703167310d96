"""Mutants of displayed equations: copies with one sign, index or exponent changed."""

from collections.abc import Iterator
from itertools import chain
from typing import Any

from lark import Token, Tree

from posedu._argument_types import check_types
from posedu.book.display.grammar import parse
from posedu.book.display.semantics import index_nodes, is_transpose

_REVERSED = {"+": "-", "-": "+"}
_ONE = Tree("factor", [Token("NUMBER", "1")])


@check_types
def mutants(display: str | Tree) -> Iterator[Tree]:
    """Yield every copy of an equation with one sign, index or exponent changed.

    ``display`` is the equation as LaTeX or as a syntax tree; copies are syntax trees. A
    sign is reversed; 1 is added to an index, a bound of a sum or an exponent; a
    transpose or the prime of a derivative is removed. Scripts that are part of a name
    are not changed. In an equation that has none of these, a right side gets a minus
    sign, or 1 takes the place of 0.
    """
    tree = parse(display) if isinstance(display, str) else display
    changed = _mutants(tree)
    first = next(changed, None)
    yield from _negated(tree) if first is None else chain([first], changed)


def _negated(node: Tree) -> Iterator[Tree]:
    """Yield every copy of an equation with the last side of one statement negated.

    A 0 becomes 1; a side with several terms is left as it is.
    """
    if node.data == "statement":
        *before, last = node.children
        if len(last.children) == 1:
            yield Tree(node.data, [*before, _opposite(last)])
        return
    for at, child in enumerate(node.children):
        if isinstance(child, Tree):
            for copy in _negated(child):
                before, after = node.children[:at], node.children[at + 1 :]
                yield Tree(node.data, [*before, copy, *after])


def _opposite(side: Tree) -> Tree:
    if [str(token) for token in side.scan_values(bool)] == ["0"]:
        return Tree("sum", [Tree("product", [_ONE])])
    return Tree("sum", [Token("SIGN", "-"), *side.children])


def _mutants(node: Any) -> Iterator[Any]:
    if isinstance(node, Token):
        return
    for at, child in enumerate(node.children):
        for mutant in _child_mutants(node, child):
            replacement = [] if mutant is None else [mutant]
            before, after = node.children[:at], node.children[at + 1 :]
            yield Tree(node.data, [*before, *replacement, *after])


def _child_mutants(node: Tree, child: Any) -> Iterator[Any]:
    """Yield changed copies of a child node of a syntax tree; None means its removal.

    ``node`` is the parent of ``child``; the parent's kind decides whether the child is
    a sign, a script or a factor. A name or a number yields nothing.
    """
    if isinstance(child, Token):
        if node.data == "sum" and child in _REVERSED:
            yield child.update(value=_REVERSED[child])
        return
    if node.data == "factor" and (child.data == "prime" or is_transpose(child)):
        yield None
    elif child.data in ("below", "above"):
        yield from (Tree(child.data, [one]) for one in _script_mutants(node, child))
    else:
        yield from _mutants(child)


def _script_mutants(factor: Tree, tail: Tree) -> Iterator[Tree]:
    head, (script,) = factor.children[0], tail.children
    if _is_part_of_name(script):
        return
    yield from _mutants(script)
    is_function = isinstance(head, Token) and head.type == "FUNCTION"
    is_variable = is_function and head != "\\int"
    if tail.data == "below" and is_variable:
        return
    nodes = list(index_nodes(script)) if tail.data == "below" else script.children
    for at, node in enumerate(nodes):
        yield Tree("script", [*nodes[:at], _plus_one(node), *nodes[at + 1 :]])


def _is_part_of_name(script: Tree) -> bool:
    """Return whether a sub- or superscript (``script``) belongs to a symbol's name.

    Scripts that belong to a name are words, signs, ∞ and numbers in parentheses, as in
    ``A^{(1)}``; all others are indices or exponents.
    """
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
    terms = [Tree("product", [node]), Token("SIGN", "+"), Tree("product", [_ONE])]
    return Tree("statement", [Tree("sum", terms)])
