"""Reference solution of the project "copy-length", and answers that do not suffice."""

import torch

from posedu.book.exercises.absolute.randomized_positions import (
    cape_positions,
    sampled_positions,
)
from posedu.book.projects.copy_length import COPIED
from posedu.book.projects.records import Rubric

SHORTEST, LONGEST, TESTED = 0.1, 4.0, 2.0  # extents of the tokens before those that ask
FINE = 1024  # of so many places a text's tokens get a sample


def spread(rows, tokens, extents, generator):
    """Return ordered random positions from −extent to 0, [rows, tokens]."""
    noise = torch.rand(rows, FINE, generator=generator)
    places = sampled_positions(noise, tokens).double() / FINE - 1
    none = torch.zeros(rows, dtype=torch.float64)
    jitter = torch.zeros_like(places)
    return cape_positions(places, none, jitter, extents, normalize=False)


def anchored(rows, length, extents, generator):
    """Return positions with the same first one and the same ones of what asks.

    The tokens between are spread over the given extent before the tokens that ask.
    """
    first = torch.zeros(rows, 1, dtype=torch.float64)
    between = LONGEST + spread(rows, length - COPIED - 1, extents, generator)
    asking = LONGEST + 1 + torch.arange(COPIED, dtype=torch.float64)
    return torch.cat((first, between, asking.expand(rows, COPIED)), 1)


def training_positions(rows, length, generator):
    """Return anchored positions of an extent that is drawn for each text."""
    share = torch.rand(rows, generator=generator, dtype=torch.float64)
    extents = SHORTEST * (LONGEST / SHORTEST) ** share
    return anchored(rows, length, extents, generator)


def test_positions(rows, length, generator):
    """Return anchored positions of one extent, within the range of those in training.

    It is one of the larger extents, so that the tokens of a longer text are less dense.
    """
    extents = torch.full((rows,), TESTED, dtype=torch.float64)
    return anchored(rows, length, extents, generator)


def randomized(rows, length, generator):
    """Return an ordered sample of 0, …, 511, as in arXiv 2305.16843."""
    noise = torch.rand(rows, 512, generator=generator)
    return sampled_positions(noise, length).double()


def equal(rows, length, generator):
    """Return the same position for all tokens: the content and causality are left."""
    return torch.zeros(rows, length)


ANSWERS = (training_positions, test_positions)

INSUFFICIENT = {
    "randomized": (randomized, randomized),
    "equal": (equal, equal),
}

RUBRIC = Rubric(
    full=r"""
Positions do what the model needs and nothing more. The tokens that ask have the same positions in every text and at every length, so each knows which letter it asks for; one token, such as the first, is an anchor, with which a letter can compare the share of letters before it.
The many tokens between are *dense* at the test, and training has shown the model texts of every density: their extent is drawn for each text, or so small that positions between hardly matter.
The write-up says for randomized positions with $M = 512$ that 64 tokens lie 8 apart and 256 tokens 2 apart, so that the position range is trained and the density is not.
It tests its explanation, for example by moving the positions of the tokens that ask, and names the price: the length must be known before the first of them.
""",
    partial=r"""
All positions of the test occur in training, by randomized positions, a shift or an interpolation, and the accuracy at 256 is far above that of unchanged positions but below the goal; or the goal is reached by trying numbers, and the write-up cannot say why.
The write-up has the argument of the chapter, that no position may be new, and does not see that steps and densities are new, or that a token that asks has to find its own number among positions that differ between texts.
The table of step 2 is filled in, and no change of the function follows from it.
""",
    none=r"""
Positions are unchanged in training and changed at the test alone, or the reverse; or all tokens get one position, and the write-up takes the accuracy that remains for the work of an encoding and not for that of causal attention.
The function looks for a number of texts or a length in place of a principle, for example one shift that is right for 256 tokens.
The write-up says that sinusoids extrapolate since they are a function, or that the model needs longer texts in training, and compares nothing.
""",
)
