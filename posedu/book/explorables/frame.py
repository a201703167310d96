"""Frame of an explorable: HTML of picture, controls, summary and caption."""

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from posedu._argument_types import check_types

HERE = Path(__file__).parent


@check_types
@dataclass(frozen=True)
class Slider:
    """A range control of an interactive figure.

    ``shown`` is the text that shows the control's initial ``value``; the number itself
    if empty.
    """

    name: str
    label: str
    low: float
    high: float
    value: float
    step: float = 1
    shown: str = ""

    def __str__(self) -> str:
        shown = self.shown or f"{self.value:g}"
        return f"""<div class="control"><label><span>{self.label}</span>
<input type="range" name="{self.name}" min="{self.low:g}" max="{self.high:g}"
 value="{self.value:.12g}" step="{self.step:g}" aria-valuetext="{shown}"
 autocomplete="off"></label>
<output class="{self.name}" aria-live="off">{shown}</output></div>"""


@check_types
@dataclass(frozen=True)
class Choice:
    """A menu of named options; a static picture shows the first option.

    ``options`` maps the value that the script reads to the text in the menu.
    """

    name: str
    label: str
    options: Mapping[str, str]

    def __str__(self) -> str:
        options = "".join(
            f'<option value="{value}">{text}</option>'
            for value, text in self.options.items()
        )
        return f"""<div class="control"><label><span>{self.label}</span>
<select name="{self.name}" autocomplete="off">{options}</select></label></div>"""


@check_types
@dataclass(frozen=True)
class Text:
    """A text field of several lines, for text that the reader types or pastes."""

    name: str
    label: str
    value: str

    def __str__(self) -> str:
        return f"""<div class="control"><label><span>{self.label}</span>
<textarea name="{self.name}" rows="9" spellcheck="false" autocomplete="off"
 autocapitalize="off">{html.escape(self.value)}</textarea></label></div>"""


@check_types
@dataclass(frozen=True)
class Reveal:
    """A button that shows the picture's result after the reader has guessed it.

    Pressed again, it hides the result.
    """

    name: str
    label: str

    def __str__(self) -> str:
        return f"""<div class="control"><button type="button" name="{self.name}"
 aria-pressed="false">{self.label}</button></div>"""


@check_types
@dataclass(frozen=True)
class Switch:
    """A toggle button, such as one word's gate; several stand in one line."""

    name: str
    label: str
    on: bool = False

    def __str__(self) -> str:
        return f"""<div class="switch"><button type="button" name="{self.name}"
 aria-pressed="{str(self.on).lower()}">{self.label}</button></div>"""


@check_types
@dataclass(frozen=True)
class Group:
    """Controls that the script shows where one option of a menu is chosen.

    ``option`` is the value of that option.
    """

    option: str
    controls: Sequence[Slider | Choice]

    def __str__(self) -> str:
        controls = "".join(map(str, self.controls))
        return f'<div data-of="{self.option}" hidden>{controls}</div>'


@check_types
@dataclass(frozen=True)
class Explorable:
    """An interactive figure with controls, as one self-contained HTML fragment."""

    html: str = field(repr=False)

    def _repr_html_(self) -> str:
        return self.html


@check_types
def explorable(
    name: str,
    picture: str,
    controls: Sequence[Slider | Choice | Text | Reveal | Switch | Group],
    *,
    summary: str,
    caption: str,
    numbers: Any = None,
    script: str = "",
    below: str = "",
) -> Explorable:
    """Frame a picture, which the script ``name.js`` in this folder redraws.

    Parameters
    ----------
    name
        Name of the script, which calls ``posedu.live(name, start)``; see ``frame.js``.
    picture
        SVG and HTML of the static picture.
    controls
        Controls in the order in which the keyboard reaches them.
    summary
        Description of the static picture in a sentence or two; the script updates it.
    caption
        Text below the figure, which states what the figure shows.
    numbers
        Numbers of the reference implementation for the script, as JSON.
    script
        Script in place of ``name.js``.
    below
        SVG and HTML after the controls and the summary.
    """
    script = script or _read(f"{name}.js")
    try:
        given = "" if numbers is None else html.escape(json.dumps(numbers), quote=True)
    except (TypeError, ValueError) as error:
        raise TypeError(f"numbers must be JSON data: {error}") from None
    return Explorable(f"""<style>
{_read("frame.css")}</style><figure class="posedu-explorable" data-name="{name}"
 data-numbers="{given}">
{picture}
<div class="controls" hidden>
{"".join(map(str, controls))}
</div>
<p class="summary" aria-live="polite">{summary}</p>
{below}
<p class="static">This picture is static; where scripts run, it is interactive.</p>
<figcaption>{caption}</figcaption>
</figure><script>
{_read("frame.js")}{script}</script>""")


@cache
def _read(file: str) -> str:
    return (HERE / file).read_text(encoding="utf-8")
