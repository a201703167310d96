"""Reference solution of the project "extension", and answers that do not suffice."""

import numpy as np

from posedu.book.exercises.rotary.context_extension import (
    new_angles,
    yarn_frequencies,
)
from posedu.book.exercises.scaling.temperature import temperatures
from posedu.book.projects.records import Rubric

RATE = 3e-3


def extended_frequencies(omega, trained, factor):
    """Return YaRN's frequencies, which cause no new angles."""
    d = 2 * len(omega)
    base = float(omega[1] ** (-d / 2))
    slower = yarn_frequencies(d, base, trained, factor)
    assert new_angles(omega, slower, trained, factor) == 0
    return slower


def temperature(keys, trained):
    """Return 1 for every number of keys: these models need no temperature."""
    return temperatures(keys, "floor", 0.0, trained)


def in_turns(lengths, steps):
    """Return texts of the lengths in turns; the rate rises, then falls to almost 0."""
    up = np.minimum(1, np.arange(1, steps + 1) / 6)
    down = 0.5 + 0.5 * np.cos(np.pi * np.arange(steps) / steps)
    rates = (RATE * up * down).tolist()
    return [(lengths[n % len(lengths)], rate) for n, rate in enumerate(rates)]


def plan(steps, trained, longest):
    """Return steps with long texts and, one in three, with short ones."""
    return in_turns((longest, longest, trained), steps)


def interpolated(omega, trained, factor):
    """Return the frequencies of position interpolation."""
    return omega / factor


def near(steps, trained, longest):
    """Return texts of the training length alone."""
    return in_turns((trained,), steps)


ANSWERS = (extended_frequencies, temperature, plan)

INSUFFICIENT = {
    "interpolated": (interpolated, temperature, plan),
    "near": (extended_frequencies, temperature, near),
}

RUBRIC = Rubric(
    full=r"""
The frequencies follow from an argument that is made for these models: 6 of 16 pairs complete a turn in training, so those keep their frequency wholly or in part and the other ten are divided by 8; the write-up has the number of new angles and the step of the fastest pair for each method.
The plan has long texts, since only they contain the new offsets, and short ones, and a rate far below 0.03 that rises at first and falls at the end.
The write-up compares it with a plan of 128 tokens alone: that is enough for source with most seeds, since the last characters decide there, and makes the model of notes forget more at 1024 than no tuning does, since texts of 128 tokens reward whatever orders the notes within 128 tokens.
That no temperature is used, or which one, is decided by an experiment.
""",
    partial=r"""
The frequencies are YaRN's or Llama 3's because the lab's curves say so; the table of new angles is there, but it decides nothing.
The plan is one length and one rate that were tried until the goals were reached, or one goal is missed by a few hundredths, and the write-up cannot say which of the two functions is to blame.
A temperature is used because YaRN has one, without a measurement.
The comparison with the prediction names the right order and no mechanism, or takes the two models' different losses for chance.
""",
    none=r"""
All frequencies are divided by 8, or by NTK's rule, because "no angle may be new" or because a paper ranks the methods so, and neither the number of unfinished pairs nor the step between neighbors occurs in the text.
The 120 steps are trusted to mend whatever the frequencies broke: all of them at one high rate, or all at 128 because the bits are good there.
What the models could do at 128 is taken to be safe because they had learned it before.
The report misses goals of both models, and the write-up asks for more steps.
""",
)
