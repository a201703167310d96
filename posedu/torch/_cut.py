"""The cut of a text over devices that is in force, for layers to ask for.

A cut says which tokens of a text this process has, and brings those of the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from torch import Tensor
from torch.compiler import is_compiling
from torch.types import Device


class Cut(Protocol):
    """Questions of layers and models about a cut text.

    :class:`posedu.torch.parallel.TextCut` answers them. Layers, encodings and what they
    pass on are of any type here, since their modules import this one.
    """

    ranks: Any

    def places(self, tokens: int, device: Device) -> Tensor:
        """Return the indices of this rank's ``tokens`` in the whole text."""

    def whole(self, t: Tensor, axis: int) -> Tensor:
        """Return the tensor of all tokens, of which ``t`` holds this rank's."""

    def own(self, t: Tensor, axis: int) -> Tensor:
        """Return this rank's tokens of the tensor ``t`` of all tokens."""

    def agreed(self, t: Tensor) -> Tensor:
        """Return the tensor ``t`` of the rank that has the last token."""

    def cache(self, capacity: int | None) -> Any:
        """Return an empty cache for the keys of this rank."""

    def require_cache(self, cache: Any) -> None:
        """Raise unless a layer whose text is cut can use the cache."""

    def projected(
        self,
        layer: Any,
        x: Tensor,
        padding: Tensor | None,
        segments: Tensor | None,
        cache: Any,
        shared: Any,
    ) -> tuple[Tensor, Tensor, Tensor, Mapping[str, Tensor]]:
        """Return what a layer projects this rank's tokens to."""

    def attend(self, encoding: Any, tokens: Any, route: Any, cache: Any) -> Any:
        """Return the output of this rank's queries over the keys of the whole text."""


_CUT: ContextVar[Cut | None] = ContextVar("cut", default=None)
_in_all_threads: list[Cut] = []


def current_cut() -> Cut | None:
    """Return the cut that is in force, ``None`` for a text that is not cut.

    A compiler does not see it: see :func:`posedu.torch.parallel.context_parallel`.
    """
    if is_compiling():
        return None
    cut = _CUT.get()
    return _in_all_threads[-1] if cut is None and _in_all_threads else cut


@contextmanager
def in_force(cut: Cut, *, in_all_threads: bool = False) -> Iterator[None]:
    """Put a cut in force in this thread, or in all threads.

    Autograd has threads of its own, in which checkpointed layers are computed again.
    """
    token = _CUT.set(cut)
    if in_all_threads:
        _in_all_threads.append(cut)
    try:
        yield
    finally:
        _CUT.reset(token)
        if in_all_threads:
            _in_all_threads.pop()
