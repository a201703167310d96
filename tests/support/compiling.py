"""Compilation in tests, by a backend that a variable of the environment names.

The default backend traces and differentiates, which is where posedu's code can be
wrong. ``make compiled`` names one that also writes C++, at seconds for each graph.
"""

import functools
import os

import torch

BACKEND = os.environ.get("POSEDU_COMPILER", "aot_eager")
compiled = functools.partial(torch.compile, backend=BACKEND)
