"""Interactive figure of PaTH: three words reflect, project or keep a key in a plane."""

import numpy as np
from jaxtyping import Float

from posedu.book.explorables.frame import Explorable, Slider, Switch, explorable
from posedu.book.figures import INKS

Array = np.ndarray

KEY, WORDS = "bird", ("rose", "turned", "fell")
STRENGTHS, SPREAD = (2.0, 2.0, 1.5), 40  # drawn where scripts do not run
KEY_ANGLE, FIRST_MIRROR = 75, 10  # degrees
RADIUS = 100  # of the drawn circle, for a vector of length 1
NAMES = ("first", "second", "third")


def reflections_explorable() -> Explorable:
    """Draw a key in a plane that three words reflect at their mirrors, with sliders.

    The transitions are I − β w wᵀ, with w across the word's mirror.
    """
    moved = moved_keys(STRENGTHS, SPREAD)
    lengths = np.linalg.norm(moved, axis=1)
    determinants = [
        f"{value:.2f}".replace("-", "−")
        for value in np.cumprod([1, *(1 - np.array(STRENGTHS))])
    ]
    return explorable(
        "reflections",
        _plane(moved, lengths, determinants),
        (
            *(
                Slider(name, f"β of “{word}”", 0, 2, beta, 0.05, f"{beta:.2f}")
                for name, word, beta in zip(NAMES, WORDS, STRENGTHS, strict=True)
            ),
            Slider("spread", "mirrors apart", 15, 60, SPREAD, 5, f"{SPREAD}°"),
            Switch("swap", f"“{WORDS[1]}” before “{WORDS[0]}”"),
        ),
        summary=f"After “{WORDS[2]}” the key has {100 * lengths[-1]:.0f} % of its "
        f"length, and the determinant of the product is {determinants[-1]}.",
        caption="A key (gray) and its place after each of three words, in the color of "
        "the word's mirror: each word moves it at right angles to the mirror, by β "
        "times its distance from it. The mirror of a word with β = 0 is not drawn.",
        numbers={"words": WORDS, "key": KEY_ANGLE, "mirror": FIRST_MIRROR},
    )


def moved_keys(
    strengths: tuple[float, ...], spread: float, order: tuple[int, ...] = (0, 1, 2)
) -> Float[Array, "steps 2"]:
    """Return the key before the words and after each of them, in the given order.

    ``strengths`` are the words' β; the mirrors are ``spread`` degrees apart.
    """
    moved = [_direction(KEY_ANGLE)]
    for word in order:
        w = _direction(FIRST_MIRROR + spread * word + 90)
        moved.append(moved[-1] - strengths[word] * w * (w @ moved[-1]))
    return np.array(moved)


def _direction(degrees: float) -> Float[Array, "2"]:
    angle = np.radians(degrees)
    return np.array([np.cos(angle), np.sin(angle)])


def _plane(
    moved: Float[Array, "steps 2"],
    lengths: Float[Array, "steps"],
    determinants: list[str],
) -> str:
    mirrors = names = ""
    for word, (name, beta) in enumerate(zip(WORDS, STRENGTHS, strict=True)):
        x, y = RADIUS * _direction(FIRST_MIRROR + SPREAD * word)
        mirrors += (
            f'<path class="mirror{word}" d="M{-x:.1f},{-y:.1f}L{x:.1f},{y:.1f}"'
            f' stroke="{INKS[word]}" stroke-opacity="{beta / 2:.2f}"/>'
        )
        names += (
            f'<text class="name{word}" x="{1.22 * x:.1f}" y="{4 - 1.14 * y:.1f}"'
            f">{name}</text>"
        )
    points = [",".join(f"{RADIUS * v:.1f}" for v in point) for point in moved]
    arrows = "".join(
        f'<path class="arrow{step}" d="M0,0L{point}"'
        f' stroke="{"currentColor" if step == 0 else INKS[step - 1]}"'
        f' stroke-opacity="{0.6 if step == 0 else 1}" style="stroke-width:3"/>'
        for step, point in enumerate(points)
    )
    heads = "".join(
        f'<text x="300" y="{110 + 24 * step}" style="text-anchor:end">{word}</text>'
        for step, word in enumerate((KEY, *WORDS))
    )
    cells = "".join(
        f'<text x="{x}" y="{110 + 24 * step}" style="text-anchor:end">{value}</text>'
        for step in range(4)
        for x, value in (
            (348, f"{lengths[step]:.2f}"),
            (396, determinants[step]),
        )
    )
    return f"""
<svg class="plot" viewBox="0 0 400 280" role="img" aria-label="A plane with three
 mirrors, lines through its center, and an arrow for the key before and after each word;
 beside it a table of lengths and determinants">
<g transform="translate(126,140) scale(1,-1)">
<circle r="{RADIUS}" fill="none" stroke="currentColor" stroke-opacity="0.3"/>
<g style="stroke-width:1.5">{mirrors}</g>
{arrows}
<path class="trail" d="M{"L".join(points)}" fill="none" stroke="currentColor"
 stroke-dasharray="3 3" stroke-opacity="0.8"/>
</g>
<g transform="translate(126,140)">{names}</g>
<text x="300" y="80" style="text-anchor:end">after</text>
<text x="348" y="80" style="text-anchor:end">length</text>
<text x="396" y="80" style="text-anchor:end">det</text>
<g class="order">{heads}</g><g class="cells">{cells}</g>
</svg>"""
