"""Mutants: known faults of kernels, each made as a change of the NumPy reference.

A :class:`~posedu.tools.kernels.mutants.reference.Mutant` makes a wrong reference from
the right one. :func:`mutants` lists the mutants of an encoding. Coarse precision is a
mutant as well, and rounds what the kernel rounds.
"""

from inspect import signature

from posedu._argument_types import check_types
from posedu.catalog import CATALOG
from posedu.tools.kernels.mutants.heads import of_heads
from posedu.tools.kernels.mutants.hooks import of_hooks
from posedu.tools.kernels.mutants.mutated_case import MutatedCase, depends_on_positions
from posedu.tools.kernels.mutants.options import of_numbers, of_options
from posedu.tools.kernels.mutants.positions import of_positions, of_units
from posedu.tools.kernels.mutants.reference import Mutant, Reference, moved
from posedu.tools.kernels.mutants.rotations import of_frequencies, of_rotations
from posedu.tools.kernels.mutants.sums import of_sums
from posedu.tools.kernels.oracle import Case

__all__ = ["Mutant", "MutatedCase", "Reference", "mutants"]


@check_types
def mutants(case: Case) -> list[Mutant]:
    """Return the mutants (known faults) of the encoding that a test case is for."""
    encoding, options = CATALOG[case.name], case.options
    axes = None if encoding.axes is None else case.positions.shape[-1]
    has_rows = "tokens" in encoding.sizes
    uses_positions = depends_on_positions(case)
    found = [*of_options(encoding, options)]
    if uses_positions:
        found += of_positions(axes, has_rows)
    if encoding.kind != "block":
        found += of_heads(case)
    if encoding.kind == "features":
        d = case.inputs["x"].shape[-1]
        if encoding.hooks == ("rotate",):
            found += of_rotations(options)
            if "rotary_dim" in signature(encoding.implementation("numpy")).parameters:
                found += of_frequencies(d, options)
        else:
            found += of_sums(d, options)
        found += of_numbers(encoding, options)
        if not has_rows:
            found += of_units()
        one = moved(lambda at: at if at.shape[1] > 1 else 0 * at)
        text = "a row of one token is taken to be at position 0"
        found.append(Mutant("decoding", text, one, alone=True))
    elif encoding.kind == "hooks":
        found += of_hooks(case, axes, uses_positions)
    return found
