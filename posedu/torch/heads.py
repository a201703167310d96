"""Some of the heads of a layer: their rows of parameters, and a layer of them alone.

If ranges partition a layer's heads, the outputs of their layers add up to its output.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float, Shaped
from torch import Tensor, nn


@dataclass(frozen=True)
class HeadRange:
    """The query heads ``first`` … ``last`` − 1 of a layer's ``count``, from 0.

    Raises
    ------
    ValueError
        Heads that the layer does not have, or none.
    """

    first: int
    last: int
    count: int

    def __post_init__(self) -> None:
        if not 0 <= self.first < self.last <= self.count:
            raise ValueError(
                f"a range of {self.count} heads must have 0 ≤ first < last ≤ "
                f"{self.count}, got {self.first} and {self.last}"
            )

    def parts(self, count: int) -> slice:
        """Return which of ``count`` equal parts of the layer's heads these heads need.

        Key-value heads are such parts: each serves a group of query heads.

        Raises
        ------
        ValueError
            Parts that do not divide the heads; heads of several groups that are not
            whole groups.
        """
        if self.count % count:
            raise ValueError(f"{self.count} heads have no {count} equal parts")
        group = self.count // count
        start, stop = self.first // group, (self.last - 1) // group + 1
        if stop - start > 1 and (self.first % group or self.last % group):
            raise ValueError(
                f"query heads {self.first} … {self.last - 1} need {count} key-value "
                f"heads, of {group} query heads each, in part: cut the {self.count} "
                f"heads at multiples of {group}, or within one group"
            )
        return slice(start, stop)

    def size(self, count: int) -> int:
        """Return how many of ``count`` equal parts of the layer's heads are needed."""
        part = self.parts(count)
        return part.stop - part.start

    def rows(
        self, t: Shaped[Tensor, "..."], axis: int = 0, count: int | None = None
    ) -> Shaped[Tensor, "..."]:
        """Return these heads' entries of a tensor with an axis of heads.

        The axis has ``count`` equal parts, one after another: heads, groups of heads,
        or features of each. Default: as many as the layer has heads, or the length of
        the axis, if this is smaller.
        """
        length = t.shape[axis]
        count = min(length, self.count) if count is None else count
        if length % count:
            raise ValueError(
                f"an axis of {length} has no {count} equal parts, got shape "
                f"{list(t.shape)} and axis {axis}"
            )
        part, width = self.parts(count), length // count
        return t.narrow(axis, part.start * width, (part.stop - part.start) * width)

    def parameter(self, p: Tensor, axis: int, count: int | None) -> Tensor:
        """Return these heads' entries of a parameter, as :meth:`rows`."""
        return self.rows(p, axis, count)

    def shared(self, t: Tensor) -> Tensor:
        """Return a tensor that all heads use."""
        return t

    def mean(self, t: Tensor) -> Tensor:
        """Return the mean over all ranges that have as many heads as this one."""
        raise ValueError(
            "a norm over the features of all heads needs the other heads: cut them by "
            "posedu.torch.parallel.tensor_parallel"
        )

    def rms_normalized(
        self, x: Float[Tensor, "*rows features"], eps: float
    ) -> Float[Tensor, "*rows features"]:
        """Divide vectors, of which ``x`` has these heads' features, by their RMS."""
        return x * (self.mean(x.square().mean(-1, keepdim=True)) + eps).rsqrt()

    def copied(
        self,
        module: nn.Module,
        axes: Mapping[str, tuple[int, int | None]],
        prefix: str = "",
    ) -> Any:
        """Return a copy of a module whose tensors are those of these heads.

        ``axes`` has the axis of heads of parameters and buffers, by name, and how many
        parts it has; others are shared by all heads. The tensors of the copy are views
        of those of ``module``, through which gradients flow to it.
        """
        new = copy.copy(module)

        def own(name: str, t: Tensor | None) -> Tensor | None:
            if t is None:
                return None
            where = axes.get(prefix + name)
            return self.shared(t) if where is None else self.parameter(t, *where)

        def inner(name: str, child: Any) -> Any:
            if child is None or hasattr(child, "of_heads"):
                return child and child.of_heads(self)
            return self.copied(child, axes, f"{prefix}{name}.")

        new.__dict__.update(
            _parameters={n: own(n, p) for n, p in module._parameters.items()},
            _buffers={
                n: b if b is None or prefix + n not in axes else own(n, b)
                for n, b in module._buffers.items()
            },
            _modules={n: inner(n, child) for n, child in module._modules.items()},
        )
        return new
