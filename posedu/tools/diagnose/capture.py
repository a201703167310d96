"""What attention is given while a model runs: queries, keys, and what they came from.

Nothing here knows a family of models. Queries and keys are caught where PyTorch is
asked for attention, by ``scaled_dot_product_attention`` or a product of two batches of
matrices; the features that they are made of, where a linear map or a module returns.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

PRODUCTS = (
    *(torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm),
    *(torch.baddbmm, Tensor.baddbmm),  # of three tensors the last two are multiplied
)
HEADS = 2  # are looked at: the rotation of a layer is that of each of its heads


@dataclass(frozen=True)
class Side:
    """Queries, or keys, of one call of attention, float64.

    Parameters
    ----------
    features
        As attention is given them.
    sources
        What linear maps and modules returned before it, in the order of time.
    eps
        Of the dtype that they came in.
    """

    features: Float[np.ndarray, "rows tokens heads d"]
    sources: tuple[Float[np.ndarray, "rows tokens _"], ...]
    eps: float


@dataclass(frozen=True)
class Call:
    """One call of attention: in which module, and its two sides."""

    module: str
    query: Side
    key: Side


@dataclass
class _Watch(TorchFunctionMode):
    """Keeps what attention is given; ``shape`` is that of the tokens."""

    shape: tuple[int, int]
    calls: list[Call] = field(default_factory=list)
    within: list[str] = field(default_factory=list)
    returned: list[Float[np.ndarray, "rows tokens _"]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        out = func(*args, **named)
        if func is F.scaled_dot_product_attention:
            self.attended(*(*args, *map(named.get, ("query", "key")[len(args) :]))[:2])
        elif func in PRODUCTS:
            given = (*args, *named.values())
            self.multiplied(*[x for x in given if isinstance(x, Tensor)][-2:])
        elif func is F.linear:
            self.made(out)
        return out

    def entered(self, name: str) -> Callable[..., None]:
        """A hook of a module that begins."""

        def hook(*_: Any) -> None:
            self.within.append(name)

        return hook

    def left(self, module: nn.Module, given: Any, out: Any) -> None:
        """A hook of a module that returns."""
        self.within.pop()
        self.made(out)

    def multiplied(self, left: Tensor, right: Tensor) -> None:
        """Take a product for that of queries and keys if it has its shape."""
        tokens = self.shape[1]
        scores = left.ndim == right.ndim > 2 and (
            left.shape[-2] == right.shape[-1] == tokens
        )
        if scores and left.shape[-1] > 1 and left.shape[-1] != tokens:
            self.attended(left, right.transpose(-1, -2))

    def attended(self, query: Tensor, key: Tensor) -> None:
        """Keep the two sides, and forget what was returned before them."""
        sides = [self.side(x) for x in (query, key)]
        if sides[0] is not None and sides[1] is not None:
            name = self.within[-1] if self.within else ""
            self.calls.append(Call(name, *sides))
            self.returned.clear()

    def side(self, x: Tensor) -> Side | None:
        """In float64; ``None`` of what has other tokens."""
        rows, tokens = self.shape
        if x.ndim < 3 or x.shape[-2] != tokens or x[..., 0, 0].numel() % rows:
            return None
        by_row = x.detach().reshape(rows, -1, tokens, x.shape[-1])[:, :HEADS]
        features = by_row.transpose(1, 2).double().cpu().numpy()
        return Side(features, tuple(self.returned), torch.finfo(x.dtype).eps)

    def made(self, out: Any) -> None:
        """Keep what a linear map or a module returned, if it is of all tokens."""
        if not isinstance(out, Tensor) or not out.is_floating_point():
            return
        rows, tokens = self.shape
        if out.ndim < 2 or out.numel() % (rows * tokens) or out.shape[0] != rows:
            flat = out.ndim == 2 and out.shape[0] == rows * tokens
            if not flat:
                return
        elif tokens > 1 and out.shape[1] != tokens:
            if out.ndim != 4 or out.shape[2] != tokens:
                return
            out = out.transpose(1, 2)
        kept = out.detach().reshape(rows, tokens, -1).double().cpu().numpy()
        self.returned.append(kept)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode, without gradients, and afterwards as it was."""
    training = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, was in training.items():
            module.training = was


@contextmanager
def watching(model: nn.Module, shape: tuple[int, int]) -> Iterator[list[Call]]:
    """The calls of attention of a model on ``shape`` = rows and tokens, as they come.

    The model is :func:`evaluating` meanwhile.
    """
    watch = _Watch(shape)
    handles = []
    for name, module in model.named_modules():
        handles += [
            module.register_forward_pre_hook(watch.entered(name)),
            module.register_forward_hook(watch.left, always_call=True),
        ]
    try:
        with evaluating(model), watch:
            yield watch.calls
    finally:
        for handle in handles:
            handle.remove()
