"""The exercises on absolute encodings."""

import numpy as np

from posedu.check.core import Exercise, Misconception


def turn(pair, angle):
    """The vector turned counter-clockwise."""
    cos, sin = np.cos(angle), np.sin(angle)
    return np.array([[cos, -sin], [sin, cos]]) @ pair


EXERCISES = (
    Exercise(
        name="absolute-1",
        title="Turn one pair",
        kind="NumPy",
        minutes=5,
        lines=2,
        cases=tuple(
            (np.array(pair), angle)
            for pair in ([1.0, 0.0], [0.0, 1.0], [0.3, -2.0])
            for angle in (0.0, np.pi / 2, 0.7, -4.0)
        ),
        solution=turn,
        misconceptions=(
            Misconception(
                "This turns by −angle",
                "At a quarter turn (1, 0) must land on (0, 1), not on (0, −1).",
                lambda pair, angle: turn(pair, -angle),
            ),
        ),
    ),
)
