"""Page on which a reader compares any two encodings of the catalog side by side.

The page has a card for each encoding. Without scripts the cards follow one another;
with the page's script two of them are shown, whose parts form the rows of a grid.
"""

import html
import inspect
import json
import re
from itertools import groupby
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from posedu.book.display.grammar import find
from posedu.book.experiments.characters import ALL, Result, in_bits
from posedu.book.timing import Timing
from posedu.catalog import CATALOG
from posedu_sphinx.markup import asset
from posedu_sphinx.reference import attention_shares, joining_theorems
from posedu_sphinx.reference.catalog import (
    adopters_of,
    equation_address,
    page_address,
    parameter_formula,
)

FIRST = ("rope", "alibi")  # the pair that an address without a choice shows
TESTED = (64, 128, 1024)  # tokens, of which the models were trained at 64
TIMED = {"task": "forward", "dtype": "float32", "d": 64}
NOT_MEASURED = "not measured"
FAMILIES = {
    "nope": "No encoding",
    "absolute": "Absolute positions",
    "rotary": "Rotations",
    "scaling": "Temperature",
    "bias": "Biases",
    "relative": "Relative vectors",
    "stickbreaking": "Stick-breaking",
    "gated": "Gates",
    "path": "Products over the path",
    "recurrent": "Recurrences",
    "graph": "Trees and graphs",
}
CODE_OR_INDEX = re.compile(r"``(?P<code>.*?)``|\b(?P<letter>\w)_(?P<index>\w)\b")
LABELS = re.compile(r"Equations?\s+``(def-[\w-]+)``(?:\s+(and|to)\s+``(def-[\w-]+)``)?")


class compare_placeholder(nodes.General, nodes.Element):
    """Placeholder node for the cards of all encodings and the menus that choose two."""


class Compare(SphinxDirective):
    """Directive ``{compare-encodings}``: two encodings that the reader chooses.

    The page is read in every build, because it shows formulas of other pages and
    stored results.
    """

    def run(self):
        """Return a placeholder node, which :func:`fill` replaces by menus and cards."""
        self.env.note_reread()
        return [compare_placeholder()]


def fill(app, doctree, docname):
    """Replace the placeholder by the menus, the cards of all encodings and the script.

    ``docname`` is the name of the page, from which links start.
    """
    for placeholder in list(doctree.findall(compare_placeholder)):
        data = Path(app.srcdir) / "book" / "data"
        bits = Result.load(data / "characters-cpu.json")
        cards = [_card(app, docname, encoding, data, bits) for encoding in treated()]
        parts = [
            asset("reference/compare.css"),
            _form(),
            _legend(),
            f'<div class="posedu-compare">{"".join(cards)}</div>',
            f'<script type="application/json">{_joins(app, docname)}</script>',
            asset("reference/compare.js"),
        ]
        placeholder.replace_self(nodes.raw("", "".join(parts), format="html"))


def treated():
    """Return the catalog records of the encodings that the book's pages treat."""
    return [e for e in CATALOG.values() if e.chapter or e.treated]


def _joins(app, docname):
    """Return the theorems that join each pair of encodings, as JSON for the script."""
    joins = joining_theorems.joins(
        lambda name, case: joining_theorems.sentence(
            name, case, equation_address(app, docname, case.proof)
        )
    )
    text = json.dumps(joins, ensure_ascii=False, separators=(",", ":"))
    return text.replace("</", "<\\/")


def _form():
    """Return the HTML of the two menus, and of the place for the theorem.

    Both are hidden without scripts.
    """
    menus = "".join(
        f'<label>{label} <select name="{name}" data-first="{first}" '
        f'autocomplete="off">{_options()}</select></label>'
        for label, name, first in zip(
            ("First encoding", "Second encoding"), "ab", FIRST, strict=True
        )
    )
    return (
        f'<form class="posedu-choose" hidden>{menus}</form>'
        '<div class="posedu-joined" role="status" hidden></div>'
    )


def _options():
    groups = groupby(treated(), key=lambda encoding: encoding.family)
    return "".join(
        f'<optgroup label="{FAMILIES[family]}">'
        + "".join(
            f'<option value="{e.name}">{html.escape(e.title)}</option>' for e in found
        )
        + "</optgroup>"
        for family, found in groups
    )


def _legend():
    """Return the HTML that explains the colors of the maps and the lines below them."""
    colors = ", ".join(f"rgb({r} {g} {b})" for r, g, b in attention_shares.colors())
    return (
        '<p class="posedu-scale">Colors of the maps: ¼ of an even share or less '
        '<span role="img" aria-label="colors from blue over white to red" '
        f'style="background: linear-gradient(90deg, {colors})"></span> '
        "4 times an even share or more</p>"
        "<p>Curves below the maps: the mean share at each distance, solid; the same "
        "without an encoding, dashed.</p>"
    )


def _card(app, docname, encoding, data, bits):
    """Return the HTML of an encoding's card: a section whose rows are numbered.

    ``encoding`` is the catalog record, ``data`` the folder with stored timings, and
    ``bits`` is the :class:`Result` of the character experiment.
    """
    address = page_address(app, docname, encoding.name)
    title = html.escape(encoding.title)
    named = f'<p class="posedu-whose">{title}</p>'
    values = properties(encoding) | measurements(encoding, data, bits)
    terms = "".join(
        _row(number, f"<dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd>")
        for number, (name, value) in enumerate(values.items(), 5)
    )
    rows = [
        _row(1, f'<h2><a href="{address}">{title}</a></h2>'),
        _row(2, _introduction(encoding)),
        _row(3, named + _formulas(app, docname, encoding), "posedu-across"),
        _row(4, _picture(encoding)),
        f"<dl>{terms}</dl>",
        _row(5 + len(values), _source(app, encoding), "posedu-across"),
    ]
    return (
        f'<section class="posedu-card" id="compare-{encoding.name}" '
        f'data-name="{encoding.name}">{"".join(rows)}</section>'
    )


def _row(number, content, *classes):
    names = " ".join(["posedu-row", *classes])
    return f'<div class="{names}" style="--row: {number}">{content}</div>'


def _introduction(encoding):
    """Return the HTML of what an encoding does, and of the paper that published it."""
    words = CODE_OR_INDEX.sub(_typeset, html.escape(summary(encoding)))
    source = f"arXiv {encoding.arxiv}" if encoding.arxiv else "source"
    return (
        f"<p>{words}</p>"
        f'<p>{encoding.year}, <a href="{encoding.source}">{source}</a></p>'
    )


def _typeset(found):
    """Return the HTML of code, or of a letter with an index."""
    if found["code"] is not None:
        return f"<code>{found['code']}</code>"
    return f"{found['letter']}<sub>{found['index']}</sub>"


def summary(encoding):
    """Return the sentence with which an encoding's NumPy code says what it does.

    It is the first line of the function's docstring where the function does the
    encoding's work, and of the module's where it returns hooks.
    """
    function = encoding.implementation("numpy")
    is_the_work = encoding.kind in ("features", "positions")
    documented = function if is_the_work else inspect.getmodule(function)
    return inspect.getdoc(documented).partition("\n")[0]


def labels(encoding, known):
    """Return the labels of the equations that define an encoding, in the book's order.

    They are those that the docstring of the NumPy function names; "``def-a`` to
    ``def-b``" stands for all definitions in between. ``known`` maps every label of the
    book to its page and number.
    """
    docstring = inspect.getdoc(encoding.implementation("numpy"))
    if not (found := LABELS.search(docstring)):
        return []
    first, joined, last = found.groups()
    if joined != "to":
        return [label for label in (first, last) if label]
    (page, start), (_, end) = known[first], known[last]
    return [
        label
        for label, (where, number) in known.items()
        if where == page and start <= number <= end and label.startswith("def-")
    ]


def _formulas(app, docname, encoding):
    """Return the HTML of the formulas that define an encoding, each with a link.

    MathJax typesets formulas of the class ``math``, which the script gives to those of
    the cards that are shown.
    """
    known = app.env.get_domain("math").equations
    found = labels(encoding, known)
    if not found:
        return "<p>No formula of this book defines it.</p>"
    folder = Path(app.srcdir) / "book" / encoding.family
    is_math = "math " if encoding.name in FIRST else ""
    return "".join(
        f'<div class="{is_math}posedu-formula notranslate nohighlight">'
        f"\\[{_aligned(html.escape(find(label, folder)))}\\]</div>"
        f'<p class="posedu-where"><a href="{equation_address(app, docname, label)}" '
        f'aria-label="Meaning of the letters of {html.escape(encoding.title)}">'
        "Meaning of the letters</a></p>"
        for label in found
    )


def _aligned(latex):
    """Return LaTeX whose line ends are in an environment, as MathJax needs it."""
    if "\\\\" in latex and not latex.startswith("\\begin{aligned}"):
        return f"\\begin{{split}}{latex}\\end{{split}}"
    return latex


def _picture(encoding):
    """Return the HTML figure of an encoding's shares, or a sentence where none is."""
    if encoding.kind == "block":
        return (
            "<p>No picture: this encoding is a whole attention block, which makes "
            "queries and keys by projections of its own.</p>"
        )
    if not attention_shares.can_be_drawn(encoding):
        return (
            "<p>No picture: without a softmax, weights may be negative, and they are "
            "no shares.</p>"
        )
    table = attention_shares.shares(encoding.name)
    alt = html.escape(attention_shares.alternative_text(encoding.title, table))
    note = html.escape(attention_shares.note(encoding))
    picture = attention_shares.heat_map(table)
    return (
        f'<figure><img class="dark-light" src="{picture}" alt="{alt}">'
        f"{attention_shares.curve(table)}<figcaption>{note}</figcaption></figure>"
    )


def properties(encoding):
    """Return an encoding's properties in the catalog, as texts by their names.

    All encodings have the same properties in the same order.
    """
    return {
        "Configuration": configuration(encoding),
        "Hooks": ", ".join(encoding.hooks),
        "Learned": "yes" if encoding.learned else "no",
        "Trained parameters": parameter_formula(encoding),
        "Relative": encoding.relative,
        "Bounded": encoding.bounded,
        "Cost": encoding.cost,
        "Adopted by": adopters_of(encoding),
    }


def configuration(encoding):
    """Return the options of an encoding's first configuration, as text."""
    variant = encoding.variants[0]
    options = [f"{name} = {value}" for name, value in variant.keywords.items()]
    return ", ".join(options) or "no options"


def measurements(encoding, data, bits):
    """Return what was measured of an encoding, as texts by names.

    ``data`` is the folder with the stored timings, and ``bits`` the :class:`Result` of
    the character experiment. What was not measured has a text that says so.
    """
    name = "none" if encoding.name == "nope" else encoding.name
    known = name in bits.encodings()
    return {
        "Measured time": measured_time(encoding, data),
        "Model of the experiment": ALL[name].title if known else "none",
        **{
            f"Bits per character, L = {n:,}": (
                in_bits(bits.bits(name, n)) if known else NOT_MEASURED
            )
            for n in TESTED
        },
    }


def measured_time(encoding, data):
    """Return how long an encoding takes on a CPU, as a multiple of its limit's time.

    ``data`` is the folder with the stored timings. The configuration is the first of
    the catalog's record and the length the shortest.
    """
    path = data / f"timing-{encoding.name}-cpu.json"
    label = encoding.label(encoding.variants[0])
    found = Timing.load(path).select(candidate=label, **TIMED) if path.exists() else []
    if not found:
        return NOT_MEASURED
    record = min(found, key=lambda record: record.length)
    is_copy = record.limit == "copy"
    limit = "a copy of the same data" if is_copy else record.limit
    other = "attention" if is_copy else "a copy"
    return (
        f"{record.ratio.median:.2f} times {limit}, L = {record.length}; not "
        f"comparable with multiples of {other}"
    )


def _source(app, encoding):
    """Return the HTML of the NumPy function's code, highlighted and folded."""
    code = inspect.getsource(encoding.implementation("numpy"))
    highlighted = app.builder.highlighter.highlight_block(code, "python")
    return (
        '<details class="posedu-fold posedu-code"><summary>NumPy '
        f"reference of {html.escape(encoding.title)}, {code.count(chr(10))} lines"
        f'</summary><div class="highlight-python notranslate">{highlighted}</div>'
        "</details>"
    )


def setup(app):
    """Register the directive ``compare-encodings``."""
    app.add_node(compare_placeholder)
    app.add_directive("compare-encodings", Compare)
    app.connect("doctree-resolved", fill)
