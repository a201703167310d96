"""Recording of the queries and keys of attention while a model runs.

The recording works for any family of models. Queries and keys are taken where PyTorch
computes attention, by ``scaled_dot_product_attention`` or by a product of two batches
of matrices. Their sources are recorded, too: the outputs of the linear maps and modules
that ran before, from which queries and keys are made.
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
        Outputs of the linear maps and modules that ran between the call of attention
        before and this one, in the order of time.
    eps
        The spacing of numbers at 1 in the features' original dtype.
    """

    features: Float[np.ndarray, "rows tokens heads d"]
    sources: tuple[Float[np.ndarray, "rows tokens _"], ...]
    eps: float


@dataclass(frozen=True)
class Call:
    """One call of attention: its module's name, its queries and its keys.

    Queries and keys are a :class:`Side` each.
    """

    module: str
    query: Side
    key: Side


@dataclass
class Recorder(TorchFunctionMode):
    """Torch mode that records queries and keys of each call of attention in ``calls``.

    A torch mode sees each call of a PyTorch function. ``shape`` is that of the model's
    tokens, rows by tokens. ``modules`` is the stack of the names of the modules that
    are running, the innermost last; ``returned`` lists the outputs of the linear maps
    and modules that ran since the last call of attention.
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
        """Return a PyTorch forward pre-hook that appends ``name`` to ``modules``.

        PyTorch calls the pre-hook when the module of that name begins. ``modules`` is
        the stack of the names of the modules that are running.
        """

        def hook(*_: Any) -> None:
            self.modules.append(name)

        return hook

    def leave_module(self, module: nn.Module, given: Any, out: Any) -> None:
        """Append a module's output to ``returned``; remove its name from ``modules``.

        PyTorch calls this method, a forward hook, when the module returns; ``given``
        are the module's inputs, ``out`` is its output. ``returned`` lists the outputs
        since the last call of attention, ``modules`` is the stack of the names of
        running modules.
        """
        self.modules.pop()
        self.add_source(out)

    def add_product(self, left: Tensor, right: Tensor) -> None:
        """Record a matrix product as a call of attention if it has the shape of scores.

        Scores are products of queries and keys: ``left`` then holds the queries,
        ``right`` the transposed keys.
        """
        if self.is_scores(left, right):
            self.add_attention(left, right.transpose(-1, -2))

    def is_scores(self, left: Tensor, right: Tensor) -> bool:
        """True if the product of two tensors has the shape of scores.

        ``left`` may then hold queries, ``right`` transposed keys.
        """
        tokens = self.shape[1]
        is_square = left.ndim == right.ndim > 2 and (
            left.shape[-2] == right.shape[-1] == tokens
        )
        return is_square and 1 < left.shape[-1] != tokens

    def add_attention(self, query: Tensor, key: Tensor) -> None:
        """Append a call of attention to ``calls``: module, queries, keys and sources.

        Sources are the outputs of linear maps and modules since the call before. Their
        list is then emptied.
        """
        sides = [self.side(x) for x in (query, key)]
        if sides[0] is not None and sides[1] is not None:
            name = self.modules[-1] if self.modules else ""
            self.calls.append(Call(name, *sides))
            self.returned.clear()

    def side(self, x: Tensor) -> Side | None:
        """Return queries or keys in float64, with the outputs they may be made from.

        ``x`` is the tensor of queries or keys; of its heads only the first two are
        kept. The outputs are those of linear maps and modules since the last call of
        attention. The result is ``None`` if ``x`` has not one vector for each token.
        """
        rows, tokens = self.shape
        if x.ndim < 3 or x.shape[-2] != tokens or x[..., 0, 0].numel() % rows:
            return None
        by_row = x.detach().reshape(rows, -1, tokens, x.shape[-1])[:, :HEADS]
        features = by_row.transpose(1, 2).double().cpu().numpy()
        return Side(features, tuple(self.returned), torch.finfo(x.dtype).eps)

    def add_source(self, out: Any) -> None:
        """Append the output of a linear map or a module to ``returned``, in float64.

        ``returned`` lists the outputs since the last call of attention. An output that
        has not a vector for each token is ignored.
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
    """Keep the model in evaluation mode, without gradients, within the ``with`` block.

    Afterwards each of its modules gets back the mode that it had before.
    """
    training = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, was in training.items():
            module.training = was


@contextmanager
def recording(model: nn.Module, recorder: Recorder) -> Iterator[None]:
    """Within the ``with`` block, let a recorder see each call of attention of a model.

    The model is in evaluation mode meanwhile.
    """
    handles = []
    for name, module in model.named_modules():
        handles += [
            module.register_forward_pre_hook(recorder.enter_module(name)),
            module.register_forward_hook(recorder.leave_module, always_call=True),
        ]
    try:
        with evaluating(model), recorder:
            yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def watching(model: nn.Module, shape: tuple[int, int]) -> Iterator[list[Call]]:
    """Within the ``with`` block, record each call of attention that the model makes.

    Yields the list of calls, which grows while the model runs, each with queries and
    keys. ``shape`` is that of the model's tokens, rows by tokens. The model is in
    evaluation mode meanwhile.
    """
    recorder = Recorder(shape)
    with recording(model, recorder):
        yield recorder.calls
