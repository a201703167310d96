"""Exercises of a chapter for its page and notebooks, made from one Python module."""

import ast
import contextlib
import inspect
import io
import sys
from itertools import groupby

from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from sphinx.util.docutils import SphinxDirective

from posedu.book import exercises
from posedu.book.exercises.checker import judge
from posedu_sphinx.exercises.head import head
from posedu_sphinx.markup import parse

CHECKED = "nbval-check-output"  # the tag of a cell whose output nbval compares

EXAMPLE = "A call and its result, to change and to run again."

FIGURE = "The chapter's figure: move its controls."

END = (
    "## How far you are\n\nThe table counts the exercises whose check was ✓ since the "
    "kernel was started.\n"
    '`progress("{chapter}").save("{chapter}.json")` writes it to a file, with your '
    "predictions and the code of your answers, to keep or to hand in."
)

LIBRARIES = {"np", "sp", "torch"}  # imported even where the solution uses fewer

KERNEL = {
    "kernelspec": {
        "display_name": "Python 3",
        "language": "python",
        "name": "python3",
    },
    "language_info": {"name": "python"},
}


class Source:
    """Source code of a chapter's exercise module, by the names that it defines.

    ``imports`` maps each imported name to the syntax tree of its import statement,
    ``parts`` the name of each function, class and constant to its syntax tree.
    ``sheet`` has the chapter's exercises.
    """

    def __init__(self, chapter):
        self.sheet = exercises.sheet(chapter)
        module = sys.modules[exercises.sheets()[chapter]]
        self.text = inspect.getsource(module)
        self.imports, self.parts = {}, {}
        for node in ast.parse(self.text).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                for alias in node.names:
                    self.imports[alias.asname or alias.name] = (node, alias)
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                self.parts[node.name] = node
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        self.parts[target.id] = node

    def needs(self, name):
        """Return the names that a function or constant of the module uses.

        They are names that the module imports or defines, in order of use. What a used
        function or constant needs itself is included.
        """
        nodes = list(ast.walk(self.parts[name]))
        own = {node.arg for node in nodes if isinstance(node, ast.arg)} | {name}
        names = [node for node in nodes if isinstance(node, ast.Name)]
        own |= {node.id for node in names if isinstance(node.ctx, ast.Store)}
        own |= {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
        found = {}
        for node in names:
            if node.id not in own:
                if node.id in self.parts:
                    found |= dict.fromkeys((*self.needs(node.id), node.id))
                elif node.id in self.imports:
                    found[node.id] = None
        return list(found)

    def code(self, name):
        """Return the source of the module's function, class or constant ``name``."""
        node = self.parts[name]
        first = min((node, *getattr(node, "decorator_list", ())), key=_line).lineno
        return "\n".join(self.text.splitlines()[first - 1 : node.end_lineno])

    def stub(self, name):
        """Return a function's signature and docstring, with a body that only raises.

        The body is ``raise NotImplementedError``, which the learner replaces. A
        function without a docstring or a body raises ValueError.
        """
        body = self.parts[name].body
        if not ast.get_docstring(self.parts[name]) or len(body) < 2:
            raise ValueError(f"{name} needs a docstring and a body")
        length = body[0].end_lineno - self.parts[name].lineno + 1
        lines = self.code(name).splitlines()[:length]
        return "\n".join([*lines, "    raise NotImplementedError"])

    def start(self, exercise):
        """Return the code from which a learner starts: a stub, or what is broken."""
        name = exercise.solution.__name__
        if exercise.repair is None:
            return self.stub(name)
        broken = exercise.repair.broken.__name__
        return self.code(broken).replace(f"def {broken}(", f"def {name}(", 1)

    def signature(self, name):
        """Return a function's name and parameters."""
        return f"{name}({ast.unparse(self.parts[name].args)})"

    def exercises(self):
        """Yield each exercise with the code that it provides and its solution's name.

        The provided code is a list of sources of helpers that the solution needs and no
        earlier exercise has provided; it may be empty.
        """
        shown = {exercise.solution.__name__ for exercise in self.sheet.exercises}
        for exercise in self.sheet.exercises:
            name = exercise.solution.__name__
            needed = self.needs(name)
            for shown_too in _shown_with(exercise):
                needed += [*self.needs(shown_too), shown_too]
            new = [n for n in needed if n in self.parts and n not in shown]
            shown |= set(new)
            yield exercise, [self.code(part) for part in new], name

    def header(self):
        """Return the imports that answers to the exercises need, in ruff's order."""
        found = self.sheet.exercises
        shown = [exercise.solution.__name__ for exercise in found]
        shown += [name for exercise in found for name in _shown_with(exercise)]
        needed = {name for function in shown for name in self.needs(function)}
        used = (needed | LIBRARIES) & self.imports.keys()
        lines = {_statement(*self.imports[name]) for name in used}
        lines |= {
            ("posedu.book.exercises", name) for name in ("check", "predict", "progress")
        }
        groups = []
        for _, group in groupby(sorted(lines, key=_section), key=_group):
            plain, whole = [], {}
            for module, names in group:
                if names.startswith("import "):
                    plain.append(names)
                else:
                    whole.setdefault(module, []).append(names)
            froms = [f"from {m} import {', '.join(n)}" for m, n in whole.items()]
            groups.append("\n".join(plain + froms))
        return "\n\n".join(groups)


def _shown_with(exercise):
    """Return the names of functions that an exercise shows beside its own."""
    if exercise.hunt is not None:
        return [exercise.hunt.wrong.__name__]
    return [] if exercise.repair is None else [exercise.repair.symptom.__name__]


def _line(node):
    return node.lineno


def _statement(node, alias):
    """Return an import as a pair: its module, and the imported name or whole statement.

    ``node`` is the import statement's syntax tree, ``alias`` one of its names. ``from a
    import b`` gives ``("a", "b")``, ``import a`` gives ``("a", "import a")``.
    """
    renamed = f" as {alias.asname}" if alias.asname else ""
    if isinstance(node, ast.Import):
        return alias.name, f"import {alias.name}{renamed}"
    return node.module, f"{alias.name}{renamed}"


def _group(line):
    top = line[0].partition(".")[0]
    return 2 if top == "posedu" else 0 if top in sys.stdlib_module_names else 1


def _section(line):
    return _group(line), line


def solved(chapter, setup):
    """Return a chapter's exercise notebook with solutions and their checks' outputs.

    A check is a cell that tests the solution above it. ``chapter`` is the last part of
    the chapter's page name, ``setup`` the notebook's cell that installs posedu.
    """
    return _notebook(chapter, setup, solutions=True)


def student(chapter, setup):
    """Return a chapter's exercise notebook for learners, with stubs to complete.

    A stub is a function without its body. ``chapter`` is the last part of the chapter's
    page name, ``setup`` the notebook's cell that installs posedu.
    """
    return _notebook(chapter, setup, solutions=False)


def _notebook(chapter, setup, solutions):
    source = Source(chapter)
    cells = [
        new_markdown_cell(head(chapter)),
        setup,
        new_code_cell(source.header()),
        *_example(source),
        *_figure(source.sheet.figure),
    ]
    for exercise, given, name in source.exercises():
        code = source.code(name) if solutions else source.start(exercise)
        cells += [
            new_markdown_cell(
                f"## {exercise.name} · {exercise.title}\n\n*{effort(exercise)}*\n\n"
                f"{exercise.statement.strip()}"
            ),
            *_prediction(exercise),
            new_markdown_cell(
                "<details><summary>Hint</summary>\n\n"
                f"{exercise.hint.strip()}\n\n</details>"
            ),
            new_code_cell("\n\n\n".join([*given, code])),
            *_symptom(exercise, name),
            _check(exercise, name, solutions),
        ]
    cells += [
        new_markdown_cell(END.format(chapter=chapter)),
        new_code_cell(f'progress("{chapter}")'),
    ]
    for number, cell in enumerate(cells):
        cell.id = f"{chapter}-{number}"
    code = [cell for cell in cells if cell.cell_type == "code"]
    for count, cell in enumerate(code, 1):
        if cell.outputs:  # nbval refuses outputs of a cell without a count
            cell.execution_count = count
    return new_notebook(cells=cells, metadata=KERNEL)


def _example(source):
    """Return the cells with a sheet's worked call and what it prints."""
    cell, printed = new_code_cell(source.sheet.example.strip()), io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(f"{source.header()}\n{cell.source}", {})
    cell.outputs = [new_output("stream", name="stdout", text=printed.getvalue())]
    cell.metadata.tags = [CHECKED]
    return [new_markdown_cell(EXAMPLE), cell]


def _figure(name):
    """Return the cells with a sheet's interactive figure; none if it has none."""
    if not name:
        return []
    code = f"from posedu.book.explorables import {name}\n\n{name}()"
    return [new_markdown_cell(FIGURE), new_code_cell(code)]


def _prediction(exercise):
    """Return the cells that ask for an exercise's prediction; none if it asks none."""
    if exercise.prediction is None:
        return []
    return [
        new_markdown_cell(f"*Predict*: {exercise.prediction.question.strip()}"),
        new_code_cell(f'predict("{exercise.name}", ...)'),
    ]


def _symptom(exercise, name):
    """Return the cell that shows a broken function's symptom; none for other kinds."""
    if exercise.repair is None:
        return []
    return [new_code_cell(f"{exercise.repair.symptom.__name__}({name})")]


def _check(exercise, name, solutions):
    cell = new_code_cell(f'check("{exercise.name}", {name})')
    if solutions:
        result = judge(exercise.name, exercise.solution)
        cell.outputs = [new_output("display_data", result.mimebundle())]
        cell.metadata.tags = [CHECKED]
    return cell


def effort(exercise):
    """Return an exercise's kind, level, minutes and lines of code as a line of text."""
    lines = "line" if exercise.lines == 1 else "lines"
    return (
        f"{exercise.kind} · {exercise.level} · {exercise.minutes} minutes · about "
        f"{exercise.lines} {lines}"
    )


class ExerciseList(SphinxDirective):
    """Directive ``{exercise-list} chapter``: statements, folded hints and solutions.

    All exercises of the chapter are listed, without solutions if the option
    ``posedu_solutions`` of ``_config.yml`` is false.
    """

    required_arguments = 1

    def run(self):
        """Return a box for each exercise and perhaps a folded box for its solution."""
        source = Source(self.arguments[0])
        self.env.note_dependency(
            sys.modules[exercises.sheets()[self.arguments[0]]].__file__
        )
        boxes = []
        for exercise, given, name in source.exercises():
            shown = []
            if exercise.hunt or exercise.repair:
                shown, given = given, []
            if exercise.repair:
                shown = [*shown, source.start(exercise)]
            code = source.signature(name), shown, given, source.code(name)
            text = markdown(exercise, *code, self.config.posedu_solutions)
            boxes += parse(self, text)
        return boxes


def markdown(exercise, signature, shown, given, solution, with_solution):
    """Return an exercise's statement and hint as MyST, then solution and explanation.

    ``signature`` is the solution's name and parameters, ``solution`` its source code;
    ``given`` has sources of the helpers that the exercise provides, ``shown`` those of
    functions that the exercise is about. Solution and explanation are left out unless
    ``with_solution``. The exercise has the same name on the page as in the notebooks.
    """
    listing = "\n".join(("", "```python", "\n\n\n".join(shown), "```", ""))
    statement = f"""
`````{{exercise}} {exercise.name} · {exercise.title}
:label: {exercise.name}
:nonumber:

*{effort(exercise)}* · `{signature}`

{exercise.statement.strip()}
{listing if shown else ""}{_asked(exercise)}
````{{dropdown}} Hint
{exercise.hint.strip()}
````
`````
"""
    if not with_solution:
        return statement
    code = "\n\n\n".join([*given, solution])
    return f"""{statement}
`````{{solution}} {exercise.name}
:class: dropdown

```python
{code}
```

{exercise.explanation.strip()}
`````
"""


def _asked(exercise):
    if exercise.prediction is None:
        return ""
    return f"\n*Predict first*: {exercise.prediction.question.strip()}\n"


def setup(app):
    """Register the ``exercise-list`` directive and its option."""
    app.add_config_value("posedu_solutions", True, "env", [bool])
    app.add_directive("exercise-list", ExerciseList)
