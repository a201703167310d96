"""Test of a kernel, code that computes an encoding, against the NumPy reference.

The modules have the test cases with error bounds, the known faults, and the test.
"""

from typing import Any

__all__ = ["check_kernel"]


def __getattr__(name: str) -> Any:
    # The import waits for the first use, since `python -m posedu.tools.kernels.check`
    # warns if the package has imported that module already.
    if name == "check_kernel":
        from posedu.tools.kernels.check import check_kernel

        return check_kernel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
