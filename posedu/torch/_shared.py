"""Results that the layers of a model share in one forward pass."""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from torch.compiler import is_compiling

Result = TypeVar("Result")


class Shared:
    """Tables that a forward pass makes once, for all layers of one encoding.

    A model makes one object for each forward pass and gives it to its layers. A layer
    that got one need not check its arguments again: the model has done so. Nothing is
    kept between two passes. A compiler merges equal computations itself.
    """

    def __init__(self) -> None:
        self._results: dict[Hashable, Any] = {}

    def once(self, make: Callable[[], Result], *key: Hashable) -> Result:
        """Return the result of ``make`` for this key; call it the first time only.

        The key must hold all that the result depends on. Modules and tensors in it are
        compared by identity.
        """
        if is_compiling():
            return make()
        if key not in self._results:
            self._results[key] = make()
        return self._results[key]
