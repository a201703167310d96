"""Parts of posedu for the book alone: ``pip install 'posedu[book]'``.

Exercises and their checker, explorables, figures, proofs, experiments and timings. The
library (``posedu.numpy``, ``sympy``, ``torch``, ``catalog``, ``crosscheck``, ``tools``)
never imports from here.
"""
