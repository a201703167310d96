"""How transformers know order: each encoding derived, stated, run and cross-checked.

One encoding family has one name and three faces: ``posedu.sympy.<family>`` (exact),
``posedu.numpy.<family>`` (the float64 reference) and ``posedu.torch.<family>`` (modules
to train with). Importing ``posedu`` itself loads none of them.
"""

__version__ = "0.1.0"
