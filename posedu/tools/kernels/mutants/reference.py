"""The NumPy reference that mutants change, and the mutants' type."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from posedu._argument_types import check_types
from posedu.numpy.attention import Hooks

Array = np.ndarray


Change = Callable[..., Any]


REFUSED = (TypeError, ValueError, IndexError)  # errors of references for wrong options


@dataclass(frozen=True)
class Reference:
    """A NumPy implementation that mutants (known faults) change, with its arguments.

    ``implementation`` is the function, ``options`` are its keywords. ``positions`` maps
    the given positions and the shape of the features to the positions that are used; by
    default they are used as given. ``is_decoding`` says that the last token alone is a
    query.
    """

    implementation: Change
    options: Mapping[str, Any]
    positions: Callable[[Array, tuple[int, ...]], Array] = lambda at, shape: at
    is_decoding: bool = False

    def with_options(self, **options: Any) -> "Reference":
        """Return a copy of the reference with the given options (keywords) replaced."""
        return replace(self, options={**self.options, **options})

    def with_positions(self, change: Callable[[Array], Array]) -> "Reference":
        """Return a copy of the reference with positions changed by ``change``."""
        positions = self.positions
        return replace(self, positions=lambda at, shape: change(positions(at, shape)))

    def with_implementation(self, change: Callable[[Change], Change]) -> "Reference":
        """Return a copy of the reference with its function changed by ``change``."""
        return replace(self, implementation=change(self.implementation))

    def with_output(self, change: Callable[[Array, Array], Array]) -> "Reference":
        """Return a copy of the reference whose output is ``change(output, features)``.

        ``output`` is the unchanged reference's output, ``features`` its input.
        """
        implementation = self.implementation
        return replace(
            self,
            implementation=lambda x, at, **own: change(implementation(x, at, **own), x),
        )

    def with_hooks(self, change: Callable[[Hooks], Hooks]) -> "Reference":
        """Return a copy of the reference with its hooks changed by ``change``.

        Hooks are the functions by which an encoding acts on attention.
        """
        implementation = self.implementation
        return replace(self, implementation=lambda **own: change(implementation(**own)))


@check_types
@dataclass(frozen=True)
class Mutant:
    """A known fault of kernels: name, description, and the change of the reference.

    ``change`` makes the wrong reference from the right one. If ``start`` is not empty,
    ``change`` takes a number as well, which is fitted to a kernel's outputs, beginning
    at the values of ``start``. A mutant that shows in few test cases is ``alone``: it
    is tried together with a wrong option, not with other mutants.
    """

    name: str
    description: str
    change: Callable[..., Reference]
    start: tuple[float, ...] = ()
    alone: bool = False


def moved(change: Callable[[Array], Array]) -> Callable[[Reference], Reference]:
    """Return the change of a reference that applies ``change`` to the used positions.

    The reference is the NumPy implementation.
    """
    return lambda reference: reference.with_positions(change)
