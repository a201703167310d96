"""Capture of queries, keys and their sources while a model runs.

The capture works for any family of models. Queries and keys are captured where PyTorch
computes attention, by ``scaled_dot_product_attention`` or by a product of two batches
of matrices. The features from which these are made are captured where a linear map or a
module returns.
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
    torch.matmul,
    Tensor.matmul,
    Tensor.__matmul__,
    torch.bmm,
    Tensor.bmm,
    torch.baddbmm,  # It multiplies the last two of three tensors.
    Tensor.baddbmm,
)
HEADS = 2  # number of heads to capture, since all heads of a layer are rotated alike


@dataclass(frozen=True)
class Side:
    """Queries, or keys, of one call of attention, in float64.

    Parameters
    ----------
    features
        The queries or keys that attention gets.
    sources
        Results of linear maps and modules before the call, in the order of time.
    eps
        The spacing of numbers at 1 in the features' original dtype.
    """

    features: Float[np.ndarray, "rows tokens heads d"]
    sources: tuple[Float[np.ndarray, "rows tokens _"], ...]
    eps: float


@dataclass(frozen=True)
class Call:
    """One call of attention: its module, its queries and its keys."""

    module: str
    query: Side
    key: Side


@dataclass
class _Watch(TorchFunctionMode):
    """Torch mode that captures calls of attention on tokens of shape ``shape``.

    A torch mode sees each call of a PyTorch function. ``modules`` names the modules
    that are running, the innermost last; ``returned`` holds the results of linear maps
    and modules since the last call of attention.
    """

    shape: tuple[int, int]
    calls: list[Call] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)
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
            query = args[0] if args else named["query"]
            key = args[1] if len(args) > 1 else named["key"]
            self.add_attention(query, key)
        elif func in PRODUCTS:
            given = (*args, *named.values())
            left, right = [x for x in given if isinstance(x, Tensor)][-2:]
            self.add_product(left, right)
        elif func is F.linear:
            self.add_source(out)
        return out

    def enter_module(self, name: str) -> Callable[..., None]:
        """Return a function that PyTorch is to call when the module ``name`` begins.

        The function, a forward pre-hook, adds the name to ``modules``.
        """

        def hook(*_: Any) -> None:
            self.modules.append(name)

        return hook

    def leave_module(self, module: nn.Module, given: Any, out: Any) -> None:
        """Capture the output of a module.

        PyTorch calls this method, a forward hook, when the module returns.
        """
        self.modules.pop()
        self.add_source(out)

    def add_product(self, left: Tensor, right: Tensor) -> None:
        """Capture a product as a call of attention if its shape is that of scores."""
        tokens = self.shape[1]
        is_scores = left.ndim == right.ndim > 2 and (
            left.shape[-2] == right.shape[-1] == tokens
        )
        if is_scores and left.shape[-1] > 1 and left.shape[-1] != tokens:
            self.add_attention(left, right.transpose(-1, -2))

    def add_attention(self, query: Tensor, key: Tensor) -> None:
        """Capture the queries and keys of a call of attention, with their sources.

        Sources are results of linear maps and modules before the call. Their list is
        emptied for the next call.
        """
        sides = [self.side(x) for x in (query, key)]
        if sides[0] is not None and sides[1] is not None:
            name = self.modules[-1] if self.modules else ""
            self.calls.append(Call(name, *sides))
            self.returned.clear()

    def side(self, x: Tensor) -> Side | None:
        """Return queries or keys in float64, with the sources that they may come from.

        ``None`` if the tensor ``x`` has not one vector for each token. Of the heads
        only the first two are kept.
        """
        rows, tokens = self.shape
        if x.ndim < 3 or x.shape[-2] != tokens or x[..., 0, 0].numel() % rows:
            return None
        by_row = x.detach().reshape(rows, -1, tokens, x.shape[-1])[:, :HEADS]
        features = by_row.transpose(1, 2).double().cpu().numpy()
        return Side(features, tuple(self.returned), torch.finfo(x.dtype).eps)

    def add_source(self, out: Any) -> None:
        """Capture the result of a linear map or a module, if it has all tokens.

        This means that its shape has a vector for each token.
        """
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
        source = out.detach().reshape(rows, tokens, -1).double().cpu().numpy()
        self.returned.append(source)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Set the model to evaluation mode without gradients, and restore it afterwards."""
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
    """Capture a model's calls of attention, with queries and keys, while it runs.

    ``shape`` is that of the model's tokens, rows by tokens. The list of calls is filled
    while the model runs. The model is :func:`evaluating` meanwhile.
    """
    watch = _Watch(shape)
    handles = []
    for name, module in model.named_modules():
        handles += [
            module.register_forward_pre_hook(watch.enter_module(name)),
            module.register_forward_hook(watch.leave_module, always_call=True),
        ]
    try:
        with evaluating(model), watch:
            yield watch.calls
    finally:
        for handle in handles:
            handle.remove()
