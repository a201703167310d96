"""Heads that are cut over ranks (tensor parallelism), for every layer of attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
)

from posedu.torch.attention import Attention, Steps
from posedu.torch.heads import HeadRange
from posedu.torch.parallel.gather import require_agreement
from posedu.torch.parallel.ranks import Ranks, ranks_of
from posedu.torch.transformer import Block


@dataclass(frozen=True)
class _OfRank(HeadRange):
    """The heads of a rank, which sums the gradients of what all heads use."""

    ranks: Ranks

    def parameter(self, p: Tensor, axis: int, count: int | None) -> Tensor:
        """Return this rank's part of a parameter, which may be held in parts."""
        if isinstance(p, DTensor):
            return p.to_local()
        return self.rows(self.shared(p), axis, count)

    def shared(self, t: Tensor) -> Tensor:
        """Return ``t``, whose gradient is the sum of those of all ranks."""
        return _Shared.apply(self.ranks, t)

    def mean(self, t: Tensor) -> Tensor:
        """Return the mean over all ranks."""
        return _Shared.apply(self.ranks, _Summed.apply(self.ranks, t)) / self.ranks.size


class ShardedHeads:
    """Heads of layers in equal parts, of which each rank computes one.

    Parameters
    ----------
    ranks
        The ranks that share the heads.
    """

    def __init__(self, ranks: Ranks):
        self.ranks = ranks

    def __deepcopy__(self, memo: dict[int, Any]) -> ShardedHeads:
        return self

    def part(self, layer: Attention) -> HeadRange:
        """Return this rank's heads of a layer.

        Raises
        ------
        ValueError
            Heads that do not divide into as many equal parts as there are ranks.
        """
        size, rank, heads = self.ranks.size, self.ranks.rank, layer.heads
        if heads % size:
            raise ValueError(
                f"{heads} heads cannot be cut into equal parts over {size} ranks"
            )
        each = heads // size
        return _OfRank(rank * each, (rank + 1) * each, heads, self.ranks)

    def agreed(self, t: Tensor) -> Tensor:
        """Return the tensor ``t`` of the first rank, without gradient."""
        return self.ranks.gather(t)[0]

    def steps(
        self, layer: Attention, x: Float[Tensor, "batch tokens d_model"], *given: Any
    ) -> tuple[Float[Tensor, "batch tokens d_model"], Steps]:
        """Return a layer's output, and the steps to it of this rank's heads alone.

        ``given`` are the further arguments of :meth:`Attention.checked_steps`.
        """
        return torch.compiler.disable(self._steps)(layer, x, *given)

    def _steps(self, layer: Attention, x: Tensor, *given: Any) -> tuple[Tensor, Steps]:
        part = self.part(layer)
        require_agreement(self.ranks, f"heads of {type(layer.encoding).__name__}", (x,))
        positions, consecutive, padding, segments, cache, shared = given
        if positions.requires_grad:
            positions = part.shared(positions)
        own = layer.of_heads(part)
        own.encoding = shared.once(lambda: own.encoding, "heads", layer.encoding)
        x = part.shared(x)
        out, steps = own.checked_steps(
            x, positions, consecutive, padding, segments, cache, shared
        )
        return _Summed.apply(self.ranks, out), steps


def tensor_parallel(
    model: nn.Module, group: dist.ProcessGroup | DeviceMesh | Ranks | None = None
) -> None:
    """Let each rank compute a part of the heads of all attention layers of a model.

    From now on a layer's output is the sum of those of all ranks (one all-reduce). All
    ranks must have equal parameters, and must call the model with the same input,
    forward and backward; only the shape and dtype of each layer's input are checked.
    Parameters stay whole on every rank, and each rank gets their whole gradients. A
    cache holds the keys and values of this rank's heads; MLA's holds the latent
    vectors, which all heads share. Each key-value head is on the ranks whose query
    heads it serves. Sampled positions and tokens are those of the first rank. Sums are
    in the dtype of what is summed.

    Parameters
    ----------
    model
        A model, or a layer, which is changed in place.
    group
        A process group, a device mesh of one axis, or :class:`Ranks`. Default: all
        processes.

    Raises
    ------
    RuntimeError
        No process group.
    ValueError
        A model without attention layers; heads that do not divide into equal parts;
        key-value heads that serve query heads of two ranks in part; an encoding that
        mixes heads. When the model is called: ranks whose inputs differ in shape or
        dtype; FLOATER with fewer key-value heads than heads.
    """
    layers = [module for module in model.modules() if isinstance(module, Attention)]
    if not layers:
        raise ValueError(f"{type(model).__name__} has no attention layer")
    cut = ShardedHeads(ranks_of(group))
    for layer in layers:
        layer.of_heads(cut.part(layer))
    for layer in layers:
        layer.sharded_heads = cut


class HeadParallel(ParallelStyle):  # type: ignore[misc]  # of no type to mypy
    """Heads of an attention layer over a device mesh, for ``parallelize_module``.

    Input and output are whole on every rank. Of the layer's projections each rank keeps
    the rows (of the output projection the columns) of its heads, as DTensors with the
    placement ``Shard``, unless key-value heads are fewer than ranks: then each rank
    keeps them all. All other parameters (of the encoding, of a recurrent layer's
    convolution, and those that all heads use) stay whole, and each rank gets their
    whole gradients: they must be equal on all ranks when training begins. See
    :func:`tensor_parallel`.
    """

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        if not isinstance(module, Attention):
            raise TypeError(
                f"HeadParallel is for Attention layers, got {type(module).__name__}"
            )
        ranks = ranks_of(device_mesh)
        tensor_parallel(module, ranks)
        for name, (axis, count) in module.head_axes().items():
            path, _, last = name.rpartition(".")
            holder = _module(module, path)
            p = holder._parameters.get(last)
            if p is not None and count % ranks.size == 0:
                parts = distribute_tensor(p.detach(), device_mesh, [Shard(axis)])
                holder.register_parameter(last, nn.Parameter(parts, p.requires_grad))
        return module


def tensor_parallel_plan(model: nn.Module) -> dict[str, ParallelStyle]:
    """Return the plan for ``parallelize_module`` that cuts heads and MLPs over ranks.

    Attention layers of any encoding get :class:`HeadParallel`; the two matrices of the
    MLP of each :class:`posedu.torch.transformer.Block` get ``ColwiseParallel`` and
    ``RowwiseParallel``. Embeddings, norms and the output layer stay whole. Gradients
    are then of two kinds, ``DTensor`` and plain ones, which
    ``torch.nn.utils.clip_grad_norm_`` does not take together.
    """
    plan: dict[str, ParallelStyle] = {}
    for name, module in model.named_modules():
        prefix = f"{name}." if name else ""
        if isinstance(module, Attention):
            plan[name] = HeadParallel()
        if isinstance(module, Block):
            plan[f"{prefix}MLP.1"] = ColwiseParallel()
            plan[f"{prefix}MLP.3"] = RowwiseParallel()
    return plan


def _module(root: nn.Module, path: str) -> nn.Module:
    """Return the module of this path, an empty one if there is none."""
    return dict(root.named_modules()).get(path, nn.Module())


class _Shared(torch.autograd.Function):
    """A tensor that all ranks have and use: its gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx: Any, ranks: Ranks, t: Tensor) -> Tensor:
        """Return ``t``."""
        ctx.ranks = ranks
        return t.view_as(t)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
        """Return the sum of the ranks' gradients."""
        return None, ctx.ranks.sum(gradient)


class _Summed(torch.autograd.Function):
    """The sum of the ranks' tensors, which all of them then use alike."""

    @staticmethod
    def forward(ctx: Any, ranks: Ranks, t: Tensor) -> Tensor:
        """Return the sum."""
        return ranks.sum(t)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
        """Return the gradient of the sum."""
        return None, gradient
