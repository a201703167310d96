"""Positional encodings of transformers: derived, stated, run and cross-checked.

An encoding has one name and three implementations, in files named after it:
``posedu/sympy/<family>/<name>.py`` (symbolic), ``posedu/numpy/…`` (the float64
reference) and ``posedu/torch/…`` (PyTorch modules). ``import posedu`` loads none of
them.
"""

import sys

from posedu._renamed import RenamedFinder

__version__ = "0.3.0"

sys.meta_path.append(RenamedFinder)
