"""Reference solution of the project "extension", and answers that do not suffice."""

import numpy as np

from posedu.book.exercises.rotary.context_extension import (
    new_angles,
    yarn_frequencies,
)
from posedu.book.exercises.scaling.temperature import temperatures
from posedu.book.projects.records import Rubric

RATE = 3e-3
LENGTHS = (1024, 128, 512, 128)


def extended_frequencies(omega, trained, factor):
    """Return YaRN's frequencies, which cause no new angles."""
    d = 2 * len(omega)
    base = float(omega[1] ** (-d / 2))
    slower = yarn_frequencies(d, base, trained, factor)
    assert new_angles(omega, slower, trained, factor) == 0
    return slower


def temperature(keys, trained):
    """Return 1 for every number of keys: this model needs no temperature."""
    return temperatures(keys, "floor", 0.0, trained)


def plan(steps, trained, longest):
    """Return short and long texts in turns; the rate rises, then falls to almost 0."""
    up = np.minimum(1, np.arange(1, steps + 1) / 6)
    down = 0.5 + 0.5 * np.cos(np.pi * np.arange(steps) / steps)
    rates = (RATE * up * down).tolist()
    return [(LENGTHS[n % len(LENGTHS)], rate) for n, rate in enumerate(rates)]


def interpolated(omega, trained, factor):
    """Return the frequencies of position interpolation."""
    return omega / factor


def larger_base(omega, trained, factor):
    """Return the frequencies of NTK-aware scaling."""
    p = np.arange(len(omega))
    return omega * float(factor) ** (-p / (len(omega) - 1))


def hasty(steps, trained, longest):
    """Return texts of the new length alone, at the highest rate of training."""
    return [(longest, 0.03)] * steps


ANSWERS = (extended_frequencies, temperature, plan)

INSUFFICIENT = {
    "interpolated": (interpolated, temperature, plan),
    "hasty": (extended_frequencies, temperature, hasty),
}

RUBRIC = Rubric(
    full=r"""
The frequencies follow from an argument that is made for this model: 6 of 16 pairs complete a turn in training, so those keep their frequency wholly or in part and the other ten are divided by 8; the write-up has the number of new angles and the step of the fastest pair for each method.
The plan has long texts, since only they contain the new offsets, and a rate far below 0.03 that rises at first and falls at the end; the write-up compares it with a plan of 128 characters alone, which reaches the goals with some seeds and misses the first with others.
That no temperature is used, or which one, is decided by an experiment.
The control of question 4, sixty steps without an extension, is measured and not argued away.
""",
    partial=r"""
The frequencies are YaRN's or Llama 3's because the lab's curves say so; the table of new angles is there, but it decides nothing.
The plan is one length and one rate that were tried until the goals were reached, or one goal is missed by a few hundredths, and the write-up cannot say which of the two functions is to blame.
A temperature is used because YaRN has one, without a measurement.
The comparison with the prediction names the right order and no mechanism, or explains the failure of NTK-aware scaling by its base alone.
""",
    none=r"""
All frequencies are divided by 8, or by NTK's rule, because "no angle may be new" or because a paper ranks the methods so, and neither the number of unfinished pairs nor the step between neighbors occurs in the text.
The sixty steps are trusted to mend whatever the frequencies broke: all of them at one high rate.
The bits at 128 are taken to be safe because the model had learned them before.
The report misses both goals, and the write-up asks for more steps.
""",
)
