"""Interactive figure of the ids of digits: position coupling and Abacus, by the start.

The sum 17 + 385 = 402 is written as each method writes it.
"""

import numpy as np
from jaxtyping import Float, Int

from posedu.book.explorables.frame import Explorable, Slider, explorable
from posedu.book.figures import INKS
from posedu.numpy import absolute

Array = np.ndarray

COUPLED, COUNTED = "$017+385=2040$", "$710+583=2040$"
POWERS = 4
NAMES = ("units", "tens", "hundreds", "thousands")
START, POWER = 1, 0  # drawn where scripts do not run
MOST = 20  # the last start
_WIDTH = 26  # of a token


def digits_explorable() -> Explorable:
    """Draw the ids of a sum's tokens, and mark the digits of one significance.

    Sliders change the start of the ids and the significance. The ids are those of
    :func:`posedu.numpy.absolute.position_coupling` and
    :func:`posedu.numpy.absolute.abacus`.
    """
    rows = "".join(
        _row(name, text, places, 40 + 88 * n)
        for n, (name, text, places) in enumerate(
            zip(
                ("Position coupling", "Abacus"),
                (COUPLED, COUNTED),
                ids(START),
                strict=True,
            )
        )
    )
    shown = described(START, POWER)
    picture = f"""
<svg class="plot" viewBox="0 0 400 164" role="img" aria-label="Two rows of tokens of one
 sum, each token with its id below it; the digits of one significance are marked">
{rows}</svg>
<p>The marked digits have the id <output class="coupled" aria-live="off"
>{shown["coupled"]}</output> with position coupling and <output class="counted"
 aria-live="off">{shown["counted"]}</output> with Abacus; the largest ids of the text
 are <output class="largest" aria-live="off">{shown["largest"]}</output></p>"""
    return explorable(
        "digits",
        picture,
        (
            Slider("start", "s, start (k is one less)", 1, MOST, START),
            Slider("power", "significance", 0, POWERS - 1, POWER, shown=NAMES[POWER]),
        ),
        summary=summary_text(START, POWER),
        caption="17 + 385 = 402, as position coupling writes it (the sum reversed) and "
        "as Abacus does (all numbers reversed). Digits of equal significance have one "
        "id, with every start. Coupled ids fall with the significance, and operators "
        "have the largest; Abacus counts up, and gives all other tokens 0.",
    )


def _row(name: str, text: str, places: Array, top: int) -> str:
    """Return a line of tokens and their ids as SVG, ``top`` down from the upper edge.

    ``places`` are the ids of the characters of ``text``.
    """
    key = "coupling" if name != "Abacus" else "abacus"
    marks = "".join(
        f'<rect x="{19 + _WIDTH * i}" y="{top - 19}" width="24" height="46" rx="4"'
        f' fill="none" stroke="{INKS[1]}" stroke-width="2" data-power="{power}"'
        f' visibility="{"visible" if power == POWER else "hidden"}"/>'
        for i, power in enumerate(significances(text))
        if power >= 0
    )
    tokens = "".join(
        f'<text x="{31 + _WIDTH * i}" y="{top}" text-anchor="middle">{c}</text>'
        for i, c in enumerate(text)
    )
    of_tokens = "".join(
        f'<text x="{31 + _WIDTH * i}" y="{top + 20}" text-anchor="middle">'
        f"{t:.0f}</text>"
        for i, t in enumerate(places)
    )
    return (
        f'<text x="19" y="{top - 26}" style="text-anchor:start">{name}</text>'
        f'<g class="marks">{marks}</g><g>{tokens}</g>'
        f'<g class="{key}" style="font-weight:bold">{of_tokens}</g>'
    )


def significances(text: str) -> Int[Array, "tokens"]:
    """Return each digit's significance, 0 for units; −1 for other characters.

    ``text`` is a sum as one of the two methods writes it.
    """
    if text == COUNTED:
        return absolute.digit_indices(np.array([c.isdigit() for c in text])) - 1
    index = absolute.coupled_indices(_roles(text))
    summand = text.index("+") - 1
    is_digit = np.array([c.isdigit() for c in text])
    return np.where(is_digit, summand - index, -1)


def ids(start: int) -> tuple[Float[Array, "tokens"], Float[Array, "tokens"]]:
    """Return the ids of both texts' characters, with the start ``start``."""
    coupled = absolute.coupled_indices(_roles(COUPLED))
    counted = absolute.digit_indices(np.array([c.isdigit() for c in COUNTED]))
    return (
        absolute.position_coupling(coupled, start=start),
        absolute.abacus(counted, shift=start - 1),
    )


def _roles(text: str) -> Int[Array, "tokens"]:
    equals = text.index("=")
    return np.array(
        [
            1 + (i > equals) if c.isdigit() else -int(c == "$")
            for i, c in enumerate(text)
        ]
    )


def described(start: int, power: int) -> dict[str, str]:
    """Return the shown ids by name, as text."""
    coupled, counted = (
        {int(t) for t, j in zip(places, significances(text), strict=True) if j == power}
        for places, text in zip(ids(start), (COUPLED, COUNTED), strict=True)
    )
    return {
        "coupled": ", ".join(map(str, sorted(coupled))),
        "counted": ", ".join(map(str, sorted(counted))),
        "largest": " and ".join(f"{places.max():.0f}" for places in ids(start)),
    }


def summary_text(start: int, power: int) -> str:
    """Return the picture in a sentence."""
    shown = described(start, power)
    return (
        f"With the start {start} the {NAMES[power]} of all numbers have the id "
        f"{shown['coupled']} with position coupling and {shown['counted']} with Abacus."
    )
