"""How transformers know order: each encoding derived, stated, run and cross-checked.

An encoding has one name and three implementations, in files named after it:
``posedu/sympy/<family>/<name>.py`` (exact), ``posedu/numpy/…`` (the float64 reference)
and ``posedu/torch/…`` (modules to train with). Importing ``posedu`` loads none of them.
"""

__version__ = "0.2.0"
