"""Parts of the book beyond the library: ``pip install 'posedu[book]'``.

Exercises and their checker, explorables, figures, proofs, experiments and timings. The
library (``posedu.numpy``, ``sympy``, ``torch``, ``catalog``, ``crosscheck``, ``tools``)
never imports from here.
"""
