"""Interactive figure of a key carried along the words that follow it."""

from itertools import combinations

import numpy as np
from jaxtyping import Float

from posedu.book.explorables.frame import (
    Choice,
    Explorable,
    Slider,
    Switch,
    explorable,
)
from posedu.book.figures import INKS

Array = np.ndarray

WORDS = ["Rome", "was", "hot", ".", "Oslo", "was", "cold"]
LAST = len(WORDS) - 1
EXCHANGED = (1, 2)  # two next to each other: A B C = C B A for reflections of a plane
KEY_VECTOR = np.array([0.9, 0.3])
QUERY_VECTOR = np.array([-0.4, 0.8])
STOPS = np.array([w == "." for w in WORDS])
KEY, QUERY = 0, LAST  # drawn where scripts do not run
PROPERTIES = (
    "orthogonal",
    "has an inverse",
    "all commute",
    "reads the text",
    "relative",
)
NAMES = {
    "selective": "Selective RoPE: rotation by the word",
    "nope": "NoPE: nothing",
    "rope": "RoPE: one rotation",
    "retention": "RetNet: one rotation and decay",
    "mamba2": "Mamba-2: a gate of the word",
    "wall": "Wall, GLA: a gate for each channel",
    "mamba3": "Mamba-3: rotation and gate of the word",
    "reflections": "PaTH at β = 2: reflection by the word",
    "projections": "PaTH at β = 1: projection by the word",
}


def rotation_and_decay_explorable() -> Explorable:
    """Draw a key that the transitions of the words after it carry along in the plane.

    The reader chooses the transition, the key and the query, and exchanges two words.
    The product of the query with the carried key is the score of the pair, and a list
    shows which properties the transitions have.
    """
    transitions = _transitions()
    way = _carried(transitions["selective"], KEY, QUERY)
    holds = {name: _properties(T) for name, T in transitions.items()}
    return explorable(
        "rotation_and_decay",
        _picture(way, holds["selective"]),
        (
            Choice("transition", "transition", NAMES),
            Slider("key", "key", 0, LAST, KEY, shown=WORDS[KEY]),
            Slider("query", "query", 0, LAST, QUERY, shown=WORDS[QUERY]),
            Switch("exchange", "exchange {} and {}".format(*_exchanged_words())),
        ),
        summary=_summary(way, holds["selective"]),
        caption="The key's vector (large dot) after each word up to the query (ring), "
        "and the direction of the query (dashed). The score is their product. Filled "
        "marks: properties that the transitions of this sentence have.",
        numbers={
            "words": WORDS,
            "exchanged": EXCHANGED,
            "transitions": {
                name: np.round(T, 4).reshape(-1, 4).tolist()
                for name, T in transitions.items()
            },
            "holds": holds,
            "properties": PROPERTIES,
            "k": KEY_VECTOR.tolist(),
            "q": QUERY_VECTOR.tolist(),
        },
    )


def _exchanged_words() -> list[str]:
    return [f"“{WORDS[n]}”" for n in EXCHANGED]


def _rotation(angle: float) -> Float[Array, "2 2"]:
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def _toward(degrees: float, beta: float) -> Float[Array, "2 2"]:
    """Return I − β w wᵀ for the unit vector w at an angle."""
    w = _rotation(np.deg2rad(degrees))[:, 0]
    return np.eye(2) - beta * np.outer(w, w)


def _transitions() -> dict[str, Float[Array, "words 2 2"]]:
    """Return each encoding's transition of every word, for an example."""
    angles = np.array([0.2, 0.1, 0.35, 1.8, 0.6, 0.1, 0.5])
    gates = np.where(STOPS, 0.6, 0.94)
    of_channels = np.array(
        [
            [0.95, 0.98, 0.7, 0.9, 0.6, 0.98, 0.85],
            [0.8, 0.95, 0.97, 0.5, 0.95, 0.95, 0.7],
        ]
    )
    degrees = (90, 20, 75, 140, 35, 20, 65)
    n = len(WORDS)
    rotations = np.stack([_rotation(a) for a in angles])
    same = np.stack([_rotation(0.5)] * n)
    return {
        "selective": rotations,
        "nope": np.stack([np.eye(2)] * n),
        "rope": same,
        "retention": 0.88 * same,
        "mamba2": gates[:, None, None] * np.eye(2),
        "wall": of_channels.T[:, None] * np.eye(2),
        "mamba3": gates[:, None, None] * rotations,
        "reflections": np.stack([_toward(a, 2) for a in degrees]),
        "projections": np.stack([_toward(a, 1) for a in degrees]),
    }


def _properties(transitions: Float[Array, "words 2 2"]) -> list[bool]:
    """Return whether the transitions have each of the properties, by computation."""
    T = transitions
    is_constant = np.allclose(T, T[0])
    return [
        np.allclose(T @ T.mT, np.eye(2)),
        bool((np.abs(np.linalg.det(T)) > 1e-9).all()),
        all(np.allclose(A @ B, B @ A) for A, B in combinations(T, 2)),
        not is_constant,
        is_constant,
    ]


def _carried(
    transitions: Float[Array, "words 2 2"], key: int, query: int
) -> Float[Array, "steps 2"]:
    """Return the key's vector at its own word, and after each word up to the query."""
    way = [KEY_VECTOR]
    for T in transitions[key + 1 : query + 1]:
        way.append(np.round(T, 4) @ way[-1])
    return np.array(way)


def _summary(way: Float[Array, "steps 2"], holds: list[bool]) -> str:
    """Return the sentence that describes the static picture."""
    words = " ".join(WORDS[KEY + 1 : QUERY + 1])
    named = [name for name, it_holds in zip(PROPERTIES, holds, strict=True) if it_holds]
    return (
        f"“{WORDS[KEY]}”, carried over “{words}”, has length "
        f"{np.hypot(*way[-1]):.2f}; the score is "
        f"{QUERY_VECTOR @ way[-1]:.2f}. Properties: {', '.join(named)}.".replace(
            "-", "−"
        )
    )


def _points(way: Float[Array, "steps 2"]) -> str:
    return "M" + "L".join(f"{x:.3f},{y:.3f}" for x, y in way)


def _picture(way: Float[Array, "steps 2"], holds: list[bool]) -> str:
    words = "".join(
        f'<text class="word" x="{30 + 57 * n}" y="262">{word}</text>'
        for n, word in enumerate(WORDS)
    )
    marks = "".join(
        f'<circle class="mark" cx="232" cy="{60 + 32 * n}" r="6" stroke="{INKS[2]}"'
        f' fill="{INKS[2]}" fill-opacity="{int(it_holds)}"/>'
        f'<text style="text-anchor:start" x="246" y="{65 + 32 * n}">{name}</text>'
        for n, (name, it_holds) in enumerate(zip(PROPERTIES, holds, strict=True))
    )
    end = way[-1]
    dots = "".join(f"M{x:.3f},{y:.3f}h.001" for x, y in way)
    q = QUERY_VECTOR / np.hypot(*QUERY_VECTOR)
    return f"""
<svg class="plot" viewBox="0 0 400 285" role="img" aria-label="A circle with the
 places of the key after each word, the query's direction, a list of properties, and
 the sentence">
<g transform="translate(112,122) scale(96,-96)">
<circle r="1" stroke="currentColor" stroke-opacity="0.4"/>
<path d="M-1,0H1M0,-1V1" stroke="currentColor" stroke-opacity="0.2"/>
<path d="M0,0L{q[0]:.3f},{q[1]:.3f}" stroke="{INKS[1]}" stroke-dasharray="6 4"
 style="stroke-width:2.5"/>
<path class="way" d="{_points(way)}" stroke="{INKS[0]}" style="stroke-width:1.6"/>
<path class="dots" d="{dots}" stroke="{INKS[0]}" stroke-linecap="round"
 style="stroke-width:6"/>
<path class="start" d="M{way[0][0]:.3f},{way[0][1]:.3f}h.001" stroke="{INKS[0]}"
 stroke-linecap="round" style="stroke-width:13"/>
<circle class="end" cx="{end[0]:.3f}" cy="{end[1]:.3f}" r="0.08" stroke="{INKS[1]}"
 style="stroke-width:2.5"/>
</g>
{marks}{words}
<path class="of-key" d="M{30 + 57 * KEY},274h.001" stroke="{INKS[0]}"
 stroke-linecap="round" style="stroke-width:9"/>
<path class="between" d="M{30 + 57 * KEY},274H{30 + 57 * QUERY}" stroke="{INKS[0]}"
 style="stroke-width:1.6"/>
<circle class="of-query" cx="{30 + 57 * QUERY}" cy="274" r="6" stroke="{INKS[1]}"
 style="stroke-width:2.5"/>
</svg>"""
