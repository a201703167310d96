"""Types of the arguments of posedu's commands."""

import argparse
from collections.abc import Callable

from posedu._arguments import LARGEST_SIZE


def whole_number(least: int, most: int = LARGEST_SIZE) -> Callable[[str], int]:
    """Return the ``type`` of an argparse argument: an integer from ``least`` on.

    argparse ends the command with exit status 2 and a sentence for any other text, or
    for a number above ``most``.
    """

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(
                f"must be a whole number from {least} to {most}, got {text[:60]!r}"
            )
        return value

    return parse
