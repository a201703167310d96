"""Test cases of a kernel, with the results of a reference that has a known fault."""

from collections.abc import Callable
from copy import copy
from dataclasses import replace

import numpy as np
import torch

from posedu.catalog import CATALOG
from posedu.crosscheck import attention_hooks
from posedu.tools.kernels import distances
from posedu.tools.kernels.mutants.reference import Array, Reference, moved
from posedu.tools.kernels.oracle import Case, Solution


def changed_tokens(case: Case, change: Callable[[Reference], Reference]) -> Array:
    """Return whether a change of the reference changes the output, for each token."""
    off = np.abs(MutatedCase(case, change).output() - case.expected)
    return (off > 1e-9).any(axis=(*range(off.ndim - 2), -1))


def depends_on_positions(case: Case) -> bool:
    """Return whether the encoding of a test case depends on positions at all.

    The encodings that do not, such as FoX, depend on the order of tokens.
    """
    return bool(changed_tokens(case, moved(lambda at: np.roll(at, 1, axis=1))).any())


class MutatedCase:
    """A kernel's test case, with the results of a reference that has a known fault.

    ``change`` makes this wrong reference from the right one.
    """

    def __init__(self, case: Case, change: Callable[[Reference], Reference]):
        self.case, encoding = case, CATALOG[case.name]
        implementation = encoding.implementation("numpy")
        given = Reference(implementation, case.options, is_decoding=case.is_decoding)
        reference = change(given)
        shape = next(iter(case.inputs.values())).shape
        at = np.asarray(reference.positions(case.positions, shape))
        if isinstance(case.solution, Solution):
            self._pair = copy(case.solution.pair)
            self._pair.implementation, self._pair.options = (
                reference.implementation,
                reference.options,
            )
            self._at = at
            return
        own = dict(reference.options)
        self._changed = case.solution.with_implementation(
            reference.implementation, own, at
        )
        if case.is_decoding:
            self._changed = distances.at_last_query(self._changed)

    def output(self) -> Array:
        """Return the wrong reference's output, without computing error bounds."""
        if isinstance(self.case.solution, Solution):
            x = self.case.inputs["x"]
            lead = self._at.ndim - 1 - (self._pair.encoding.axes is not None)
            out = np.empty_like(x)
            for row in np.ndindex(self._at.shape[:lead]):
                out[row] = self._pair.forward(x[row], self._at[row])
            return out
        return self._changed.evaluate()

    def solved(
        self, dtype: torch.dtype = torch.float64
    ) -> Solution | attention_hooks.Case:
        """Return the wrong reference's results, with error bounds for ``dtype``.

        For an encoding that changes features they are a :class:`Solution`, for
        attention an ``attention_hooks.Case``, with the output and the output's error
        bounds.
        """
        if isinstance(self.case.solution, Solution):
            return Solution(self._pair, self.case.inputs["x"], self._at)
        changed = self._changed
        changed.shape = replace(changed.shape, slopes="none", dtypes=(dtype,))
        changed.measure()
        return changed
