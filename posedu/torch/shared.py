"""Tables that the layers of a model share in one forward pass."""

from collections.abc import Callable, Hashable
from typing import Any

from torch.compiler import is_compiling


class Shared:
    """Tables, such as cosines of positions, made once in a forward pass for all layers.

    A model makes one such object for each forward pass and gives it to its layers. A
    layer that got one need not check its arguments again: the model has done so.
    Nothing is kept between two passes. Under a compiler nothing is kept at all, since
    the compiler merges equal computations itself.
    """

    def __init__(self) -> None:
        self._results: dict[Hashable, Any] = {}

    def once(self, make: Callable[[], Any], *key: Hashable) -> Any:
        """Return what ``make()`` returned for ``key``, called the first time only.

        ``make`` is a function without arguments that computes a table. The key must
        hold all that this table depends on. Modules and tensors in the key are compared
        by identity. Under a compiler ``make()`` is called every time.
        """
        if is_compiling():
            return make()
        if key not in self._results:
            self._results[key] = make()
        return self._results[key]
