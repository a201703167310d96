"""The cut of a text over devices that is in force, for layers to ask for.

A cut says which tokens of a text this process has, and brings those of the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

from torch import Tensor
from torch.compiler import is_compiling
from torch.types import Device

if TYPE_CHECKING:
    from posedu.torch.attention import Attention, Steps
    from posedu.torch.encoding import Encoding, Tokens
    from posedu.torch.routes import Route
    from posedu.torch.shared import Shared


class Cut(Protocol):
    """What a layer and a model ask of a cut text: see ``posedu.torch.parallel``."""

    def places(self, tokens: int, device: Device) -> Tensor:
        """Return the indices of this rank's ``tokens`` in the whole text."""

    def whole(self, t: Tensor, axis: int) -> Tensor:
        """Return the tensor of all tokens, of which ``t`` holds this rank's."""

    def own(self, t: Tensor, axis: int) -> Tensor:
        """Return this rank's tokens of the tensor ``t`` of all tokens."""

    def agreed(self, t: Tensor) -> Tensor:
        """Return the tensor ``t`` of the first rank."""

    def projected(
        self,
        layer: Attention,
        x: Tensor,
        padding: Tensor | None,
        segments: Tensor | None,
        shared: Shared,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values of a layer for this rank's tokens."""

    def attend(self, encoding: Encoding, tokens: Tokens, route: Route) -> Steps:
        """Return the output of this rank's queries over the keys of the whole text."""


_CUT: ContextVar[Cut | None] = ContextVar("cut", default=None)


def current_cut() -> Cut | None:
    """Return the cut that is in force, ``None`` for a text that is not cut.

    A compiler does not see it: see :func:`posedu.torch.parallel.context_parallel`.
    """
    return None if is_compiling() else _CUT.get()


@contextmanager
def in_force(cut: Cut) -> Iterator[None]:
    """Put a cut in force in this thread."""
    token = _CUT.set(cut)
    try:
        yield
    finally:
        _CUT.reset(token)
