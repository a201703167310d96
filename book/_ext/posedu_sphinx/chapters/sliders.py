"""Numbers in the prose that depend on a parameter, and a slider for it.

"With {slider}`d = 64 of 32 64 128` features the longest wave is
{computed}`wavelengths(d)[-1]:,.0f` positions": the build computes the number for every
value, and a script puts the one that is chosen in its place. Without scripts the
sentence has its first numbers and reads as any other.
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
    """FoX's gate for a bias b and no input."""
    return sigmoid(np.array([b], dtype=float)).item()


NAMES = {"np": np, "wavelengths": wavelengths, "gate": gate}  # in expressions


@dataclass(frozen=True)
class Slider:
    """A parameter's name, its values as they are spelled, and the one shown first."""

    name: str
    values: tuple[str, ...]
    first: str

    @classmethod
    def read(cls, text: str) -> "Slider":
        """Of ``d = 64 of 32 64 128``.

        Raises
        ------
        ValueError
            Another form, or a first value that is none of the values.
        """
        found = SLIDER.fullmatch(text)
        if found is None:
            raise ValueError(f"a slider is `name = first of values`, got {text!r}")
        name, first, values = found[1], found[2], tuple(found[3].split())
        if first not in values:
            raise ValueError(f"{first} is not among the values of {name}: {found[3]}")
        return cls(name, values, first)


def number(spelled: str) -> int | float:
    """What ``10,000`` or ``0.5`` says."""
    plain = spelled.replace(",", "").replace("−", "-")
    return float(plain) if "." in plain else int(plain)


def table(text: str, sliders: list[Slider]) -> tuple[list[Slider], dict]:
    """The sliders that a number depends on, and it for each of their values.

    ``text`` is an expression in posedu's functions and the names of the sliders, a
    colon and a format. Keys are spelled values; those of the last slider change first.

    Raises
    ------
    ValueError
        An expression that depends on no slider.
    """
    code, _, spec = text.rpartition(":")
    expression = compile(code.strip(), "computed", "eval")
    of = [slider for slider in sliders if slider.name in expression.co_names]
    if not of:
        raise ValueError(f"no slider of this paragraph changes {code!r}")
    names = [slider.name for slider in of]
    cells = product(*(slider.values for slider in of))
    return of, {
        cell: format(
            eval(expression, NAMES | dict(zip(names, map(number, cell), strict=True))),
            spec,
        )
        for cell in cells
    }


class Part(SphinxRole):
    """``{slider}`` or ``{computed}``, kept until its paragraph is complete."""

    def run(self):
        """Note the text under the role's name."""
        node = nodes.inline("", "", **{self.name: self.text})
        self.set_source_info(node)
        return [node], []


def fill(app, doctree):
    """Put numbers and their tables where the roles were."""
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


def _fill(given, asked):
    sliders = [Slider.read(part["slider"]) for part in given]
    for part, slider in zip(given, sliders, strict=True):
        _show(part, "span", slider.first, slider.values, name=slider.name)
    for part in asked:
        of, values = table(part["computed"], sliders)
        first = values[tuple(slider.first for slider in of)]
        names = " ".join(slider.name for slider in of)
        _show(part, "output", first, values.values(), of=names)


def _show(part, tag, first, values, **data):
    data["values"] = "|".join(values)
    told = "".join(f' data-{name}="{html.escape(v)}"' for name, v in data.items())
    (kind,) = {"slider", "computed"} & part.attributes.keys()
    part += [
        nodes.raw("", f'<{tag} class="posedu-{kind}"{told}>', format="html"),
        nodes.Text(first),
        nodes.raw("", f"</{tag}>", format="html"),
    ]


def setup(app):
    """Register the roles and the event."""
    for name in ("slider", "computed"):
        app.add_role(name, Part())
    app.connect("doctree-read", fill)
