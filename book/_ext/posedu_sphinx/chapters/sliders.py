"""Sliders in sentences, and numbers that depend on their values.

Example: "With {slider}`d = 64 of 32 64 128` features the longest wave is
{computed}`wavelengths(d)[-1]:,.0f` positions". The build computes the number for every
value of the slider, and a script shows the number for the chosen value. Without
scripts the sentence shows the numbers for the first value.
"""

import html
import re
from dataclasses import dataclass
from itertools import product

import numpy as np
from docutils import nodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxRole

from posedu.numpy.frequencies import wavelengths
from posedu.numpy.gated.fox import sigmoid

LOGGER = logging.getLogger(__name__)
SLIDER = re.compile(r"(\w+) = (\S+) of (.+)")


def gate(b: float) -> float:
    """Return FoX's forget gate σ(b), between 0 and 1, for a bias b and input 0."""
    return sigmoid(np.array([b], dtype=float)).item()


NAMES = {"np": np, "wavelengths": wavelengths, "gate": gate}  # in expressions


@dataclass(frozen=True)
class Slider:
    """A slider's parameter name, its values as strings, and the initial value.

    ``first`` is the initial value, which is one of ``values``.
    """

    name: str
    values: tuple[str, ...]
    first: str

    @classmethod
    def read(cls, text: str) -> "Slider":
        """Parse a slider's text such as ``d = 64 of 32 64 128``.

        Here the name is ``d``, the initial value 64, and the values are 32, 64 and 128.

        Raises
        ------
        ValueError
            If the text is not of the form ``name = first of values``, or the first
            value is not among the values.
        """
        found = SLIDER.fullmatch(text)
        if found is None:
            raise ValueError(f"a slider must be `name = first of values`, got {text!r}")
        name, first, values = found[1], found[2], tuple(found[3].split())
        if first not in values:
            raise ValueError(
                f"the first value of {name} must be one of {found[3]}, got {first}"
            )
        return cls(name, values, first)


def number(spelled: str) -> int | float:
    """Parse a number such as ``10,000`` or ``0.5``.

    A number with a decimal point gives a float, any other an integer.
    """
    plain = spelled.replace(",", "").replace("−", "-")
    return float(plain) if "." in plain else int(plain)


def table(text: str, sliders: list[Slider]) -> tuple[list[Slider], dict]:
    """Evaluate an expression for all values of the sliders that it uses.

    ``text`` is a Python expression of ``np``, ``wavelengths``, ``gate`` and the names
    of sliders, then a colon and a format. Return the used sliders and a dict. A key of
    the dict is a tuple with a value, as a string, of each used slider; its value is the
    formatted result of the expression. The last slider's value varies fastest.

    Raises
    ------
    ValueError
        If the expression depends on no slider.
    """
    code, _, spec = text.rpartition(":")
    expression = compile(code.strip(), "computed", "eval")
    used = [slider for slider in sliders if slider.name in expression.co_names]
    if not used:
        raise ValueError(f"{code!r} depends on no slider of this paragraph")
    names = [slider.name for slider in used]
    cells = product(*(slider.values for slider in used))
    return used, {
        cell: format(
            eval(expression, NAMES | dict(zip(names, map(number, cell), strict=True))),
            spec,
        )
        for cell in cells
    }


class Part(SphinxRole):
    """Sphinx role ``{slider}`` or ``{computed}`` in a sentence.

    ``{slider}`` is a control for a number, ``{computed}`` a number that depends on
    sliders. :func:`fill` writes both numbers once the whole paragraph is read.
    """

    def run(self):
        """Return a node with the role's text; :func:`fill` writes a number into it."""
        node = nodes.inline("", "", **{self.name: self.text})
        self.set_source_info(node)
        return [node], []


def fill(app, doctree):
    """Write the numbers of each paragraph's ``{slider}`` and ``{computed}`` roles.

    The number shown belongs to the sliders' first values. The HTML element also has the
    numbers for all other values, from which the page's script takes one when the reader
    moves a slider. An error in a role's text is a warning of the build.
    """
    for paragraph in doctree.findall(nodes.paragraph):
        parts = [*paragraph.findall(lambda n: isinstance(n, nodes.inline))]
        try:
            _fill(
                [part for part in parts if "slider" in part],
                [part for part in parts if "computed" in part],
            )
        except (ValueError, NameError, SyntaxError, TypeError) as error:
            LOGGER.warning(
                str(error), location=paragraph, type="posedu", subtype="slider"
            )


def _fill(slider_nodes, number_nodes):
    sliders = [Slider.read(part["slider"]) for part in slider_nodes]
    for part, slider in zip(slider_nodes, sliders, strict=True):
        _show(part, "span", slider.first, slider.values, name=slider.name)
    for part in number_nodes:
        used, values = table(part["computed"], sliders)
        first = values[tuple(slider.first for slider in used)]
        names = " ".join(slider.name for slider in used)
        _show(part, "output", first, values.values(), of=names)


def _show(part, tag, first, values, **data):
    data["values"] = "|".join(values)
    attributes = "".join(f' data-{key}="{html.escape(v)}"' for key, v in data.items())
    (kind,) = {"slider", "computed"} & part.attributes.keys()
    part += [
        nodes.raw("", f'<{tag} class="posedu-{kind}"{attributes}>', format="html"),
        nodes.Text(first),
        nodes.raw("", f"</{tag}>", format="html"),
    ]


def setup(app):
    """Register the ``slider`` and ``computed`` roles, and the event that fills them."""
    for name in ("slider", "computed"):
        app.add_role(name, Part())
    app.connect("doctree-read", fill)
