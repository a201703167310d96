"""Automatic mutants of the exercises' solutions.

A mutant has one change in the solution's function, or in a function of its module that
it calls and that is no other exercise's solution. A "find the input" exercise has no
mutants: its answer is an input, and every other smallest input is as right.
"""

import ast
import copy
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, wraps
from types import ModuleType
from typing import Any

from posedu.book.exercises import checker
from posedu.book.exercises.records import Answer, Exercise

Key = tuple[str, str, str]  # an exercise; a line of its code as it is, and as changed

OTHER_OPERATOR = {
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult},
    **{ast.FloorDiv: ast.Div, ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult},
    **{ast.And: ast.Or, ast.Or: ast.And, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd},
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt},
    **{ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is},
}
PAIRS = (
    *(("min", "max"), ("minimum", "maximum"), ("argmin", "argmax"), ("any", "all")),
    *(("floor", "ceil"), ("sin", "cos"), ("tril", "triu"), ("float32", "float64")),
)
OTHER_NAME = dict(PAIRS) | {second: first for first, second in PAIRS}
EXACT = {"allclose": "array_equal", "isclose": "equal"}
OF_LIBRARY = re.compile(r"(np|sp|torch|math)(\.\w+)+")
SMALL = 0.01  # a smaller number is a tolerance


def passing(exercise: Exercise) -> tuple[set[Key], int]:
    """Return the mutants that the checker takes for right, and the number of all."""
    single = list(single_cases(exercise))
    made = list(mutants(exercise))
    passed = {key for key, answer in made if passes(single, answer)}
    return passed, len({key for key, _ in made})


def single_cases(exercise: Exercise) -> Iterator[Exercise]:
    """Yield the exercise with each of its cases alone, whose result is known."""
    for case in exercise.cases:
        result = exercise.solution(*copy.deepcopy(case))

        @wraps(exercise.solution)
        def known(*_, result=result):
            return result

        yield replace(exercise, cases=(case,), solution=known)


def passes(single: list[Exercise], answer: Answer) -> bool:
    return all(checker.verdict(one, answer)[0] == "correct" for one in single)


def mutants(exercise: Exercise) -> Iterator[tuple[Key, Answer]]:
    """Yield the mutants of an exercise's solution."""
    module = sys.modules[exercise.solution.__module__]
    name = exercise.solution.__name__
    called = functions(module, name)
    code = ast.Module([*called.values()], [])
    for function in called.values():
        for before, after in changes(function, function):
            scope = dict(vars(module))
            ast.fix_missing_locations(code)
            exec(compile(code, f"<mutant of {exercise.name}>", "exec"), scope)
            yield (exercise.name, before, after), scope[name]


def functions(module: ModuleType, name: str) -> dict[str, ast.FunctionDef]:
    """Return the function of a name, and those that it calls and no exercise asks for.

    All are functions of the module.
    """
    defined = copy.deepcopy(definitions(module))
    solutions = {exercise.solution.__name__ for exercise in module.SHEET.exercises}
    found, waiting = {}, [name]
    while waiting:
        one = waiting.pop()
        if one in defined and one not in found and one not in solutions - {name}:
            found[one] = defined[one]
            nodes = ast.walk(defined[one])
            waiting += [node.id for node in nodes if isinstance(node, ast.Name)]
    return found


@cache
def definitions(module: ModuleType) -> dict[str, ast.FunctionDef]:
    body = ast.parse(inspect.getsource(module)).body
    return {node.name: node for node in body if isinstance(node, ast.FunctionDef)}


def changes(node: ast.AST, line: ast.stmt) -> Iterator[tuple[str, str]]:
    """Change what is below a node, one place at a time, and undo each change.

    Yield the line of code as it was and as it is changed, while the change lasts.
    ``line`` is the statement that the node is in.
    """
    for field, value in ast.iter_fields(node):
        siblings = value if isinstance(value, list) else [value]
        for n, child in enumerate(siblings):
            if not isinstance(child, ast.AST):
                continue
            own = child if isinstance(child, ast.stmt) else line
            before = first_line(own)
            for other in alternatives(child):
                changed = [*siblings[:n], other, *siblings[n + 1 :]]
                setattr(node, field, changed if isinstance(value, list) else other)
                yield before, first_line(other if own is child else own)
            setattr(node, field, value)
            yield from changes(child, own)


def first_line(statement: ast.stmt) -> str:
    """Return the code of a statement without its body."""
    blocks = {name: [] for name in ("body", "orelse") if hasattr(statement, name)}
    return ast.unparse(with_fields(statement, **blocks))


def with_fields(node: ast.AST, **fields: Any) -> Any:
    other = copy.copy(node)
    vars(other).update(fields)
    return other


def alternatives(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what may stand in a node's place in a mutant."""
    operator = type(getattr(node, "op", None))
    if operator in OTHER_OPERATOR:
        yield with_fields(node, op=OTHER_OPERATOR[operator]())
    match node:
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() as value):
            yield from map(ast.Constant, (value + 1, value - 1))
        case ast.Constant(value=float() as value):
            factors = (100, 0.01) if 0 < value < SMALL else (1.01,)
            rounded = (float(f"{value * factor:g}") for factor in factors)
            yield from (ast.Constant(other or 1.0) for other in rounded)
        case ast.UnaryOp():
            yield node.operand
        case ast.BinOp():
            yield from (node.left, node.right)
        case ast.Compare():
            yield from of_comparison(node)
        case ast.Call():
            yield from of_call(node)
        case ast.Slice():
            ends = [end for end in ("lower", "upper", "step") if getattr(node, end)]
            yield from (with_fields(node, **{end: None}) for end in ends)
        case ast.Return(value=ast.expr()):
            raised = ast.Attribute(node.value, "double", ast.Load())
            yield with_fields(node, value=ast.Call(raised, [], []))
        case ast.AugAssign() | ast.Expr(value=ast.Call()):
            yield ast.Pass()
        case ast.If(test=ast.Name()) | ast.IfExp(test=ast.Name()):
            yield with_fields(node, test=ast.UnaryOp(ast.Not(), node.test))
        case ast.Name(id=name) if name in OTHER_NAME:
            yield with_fields(node, id=OTHER_NAME[name])
        case ast.Attribute(attr=name) if name in OTHER_NAME:
            yield with_fields(node, attr=OTHER_NAME[name])


def of_comparison(node: ast.Compare) -> Iterator[ast.AST]:
    for n, operator in enumerate(map(type, node.ops)):
        if operator in OTHER_OPERATOR:
            ops = [*node.ops[:n], OTHER_OPERATOR[operator](), *node.ops[n + 1 :]]
            yield with_fields(node, ops=ops)
    right = node.comparators[0]
    if isinstance(node.ops[0], ast.Eq) and not isinstance(right, ast.Constant):
        gap = ast.BinOp(node.left, ast.Sub(), right)
        size = ast.Call(ast.Name("abs", ast.Load()), [gap], [])
        yield ast.Compare(size, [ast.Lt()], [ast.Constant(1e-8)])


def of_call(node: ast.Call) -> Iterator[ast.AST]:
    """Yield the call without a named argument, and what it is called on or with."""
    for n in range(len(node.keywords)):
        yield with_fields(node, keywords=[*node.keywords[:n], *node.keywords[n + 1 :]])
    name = getattr(node.func, "attr", None)
    if name and not OF_LIBRARY.fullmatch(ast.unparse(node.func)):
        yield node.func.value
    plain = not any(isinstance(a, ast.Starred | ast.GeneratorExp) for a in node.args)
    if len(node.args) == 1 and plain and not node.keywords:
        yield node.args[0]
    if name in EXACT:
        func = with_fields(node.func, attr=EXACT[name])
        yield with_fields(node, func=func, args=node.args[:2], keywords=[])
