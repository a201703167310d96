"""Recording of what tensor operations cost: the largest tensor, and multiplications."""

from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry


class Recorder(TorchDispatchMode):
    """Record of the operations in its ``with`` blocks.

    ``largest`` is the size in bytes of the largest tensor that an operation returned,
    as it is in memory: an expanded tensor counts as what it is a view of.
    ``multiplications`` is the number of multiplications in matrix products.
    """

    def __init__(self) -> None:
        super().__init__()
        self.largest = 0
        self.multiplications = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Call an operation, and add its tensors and multiplications to the record."""
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        count = flop_registry.get(func._overloadpacket)
        if count is not None:
            self.multiplications += count(*args, **kwargs, out_val=out) // 2
        sizes = (
            t.untyped_storage().nbytes()
            for t in tree_leaves(out)
            if isinstance(t, Tensor)
        )
        self.largest = max(self.largest, *sizes, 0)
        return out
