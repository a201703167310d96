"""Test of a kernel, code that computes an encoding, against the NumPy reference.

The modules have the test cases with error bounds, the known faults, and the test.
"""

from posedu.tools.kernels.check import check_kernel

__all__ = ["check_kernel"]
