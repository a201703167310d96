"""Ranks, the processes that share a text, and what they exchange."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from queue import Empty, Queue
from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Shaped
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from posedu._arguments import require_dimension


class Ranks(ABC):
    """The ranks that share a text; ``rank`` is this one's number, of ``size``.

    ``sent`` counts the bytes that this rank has sent to others.
    """

    rank: int
    size: int

    def __init__(self) -> None:
        self.sent = 0

    def uncompiled(self) -> AbstractContextManager[Any]:
        """Return a context in which compiled functions run uncompiled."""
        return torch.compiler.set_stance("force_eager")

    def gather(self, t: Shaped[Tensor, "*shape"]) -> list[Shaped[Tensor, "*shape"]]:
        """Return the tensors ``t`` of all ranks, which are of one shape and dtype."""
        self.sent += (self.size - 1) * t.numel() * t.element_size()
        return self._gather(t.detach().contiguous())

    def reduce(
        self, parts: Sequence[Shaped[Tensor, "*shape"]]
    ) -> Shaped[Tensor, "*shape"]:
        """Return the sum over all ranks of their tensors for this rank.

        ``parts`` has a tensor for each rank; all are of one shape and dtype.
        """
        own = parts[self.rank]
        self.sent += (self.size - 1) * own.numel() * own.element_size()
        return self._reduce([part.contiguous() for part in parts])

    def sum(self, t: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "*shape"]:
        """Return the sum of the tensors ``t`` of all ranks, on all of them.

        They are of one shape and dtype. The bytes are those of an all-reduce in a ring.
        """
        self.sent += 2 * (self.size - 1) * t.numel() * t.element_size() // self.size
        return self._sum(t.detach().contiguous())

    def shift(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Send tensors to the next rank; return those that the rank before has sent.

        The last rank sends to the first. All ranks send equal shapes and dtypes. What
        was sent must not be changed any more.
        """
        if self.size == 1:
            return tuple(tensors)
        self.sent += sum(t.numel() * t.element_size() for t in tensors)
        return self._shift([t.detach().contiguous() for t in tensors])

    def send(self, tensors: Mapping[str, Tensor], target: int) -> None:
        """Send tensors by name, of any shapes and dtypes, to the rank ``target``."""
        self.sent += sum(t.numel() * t.element_size() for t in tensors.values())
        self._send({n: t.detach().contiguous() for n, t in tensors.items()}, target)

    @abstractmethod
    def receive(self, source: int, device: torch.device) -> dict[str, Tensor]:
        """Return the tensors that the rank ``source`` sends, on a device."""

    @abstractmethod
    def _send(self, tensors: dict[str, Tensor], target: int) -> None: ...

    @abstractmethod
    def _gather(self, t: Tensor) -> list[Tensor]: ...

    @abstractmethod
    def _reduce(self, parts: list[Tensor]) -> Tensor: ...

    @abstractmethod
    def _sum(self, t: Tensor) -> Tensor: ...

    @abstractmethod
    def _shift(self, tensors: list[Tensor]) -> tuple[Tensor, ...]: ...


class Processes(Ranks):
    """The ranks of a process group of ``torch.distributed``: one process each.

    ``group`` is the group; default all processes.

    Raises
    ------
    RuntimeError
        ``torch.distributed`` is not initialized.
    """

    def __init__(self, group: dist.ProcessGroup | None = None):
        super().__init__()
        if not (dist.is_available() and dist.is_initialized()):
            raise RuntimeError(
                "torch.distributed is not initialized: call "
                "torch.distributed.init_process_group first, or start with torchrun"
            )
        self.group = group
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)

    def _gather(self, t: Tensor) -> list[Tensor]:
        parts = [torch.empty_like(t) for _ in range(self.size)]
        with self._peers():
            dist.all_gather(parts, t, group=self.group)
        return parts

    def _reduce(self, parts: list[Tensor]) -> Tensor:
        out = torch.empty_like(parts[self.rank])
        with self._peers():
            dist.reduce_scatter(out, parts, group=self.group)
        return out

    def _sum(self, t: Tensor) -> Tensor:
        out = t.clone()
        with self._peers():
            dist.all_reduce(out, group=self.group)
        return out

    def _shift(self, tensors: list[Tensor]) -> tuple[Tensor, ...]:
        received = tuple(torch.empty_like(t) for t in tensors)
        after, before = ((self.rank + by) % self.size for by in (1, -1))
        operations = [
            dist.P2POp(to, t, group=self.group, group_peer=peer)
            for to, peer, own in (
                (dist.isend, after, tensors),
                (dist.irecv, before, received),
            )
            for t in own
        ]
        with self._peers():
            for request in dist.batch_isend_irecv(operations):
                request.wait()
        return received

    def _send(self, tensors: dict[str, Tensor], target: int) -> None:
        kinds = {name: (tuple(t.shape), t.dtype) for name, t in tensors.items()}
        with self._peers():
            dist.send_object_list([kinds], group=self.group, group_dst=target)
            for t in tensors.values():
                dist.send(t, group=self.group, group_dst=target)

    def receive(self, source: int, device: torch.device) -> dict[str, Tensor]:
        """Return the tensors that the rank ``source`` sends, on a device."""
        said: list[Any] = [None]
        with self._peers():
            dist.recv_object_list(said, group=self.group, group_src=source)
            received = {
                name: torch.empty(shape, dtype=dtype, device=device)
                for name, (shape, dtype) in said[0].items()
            }
            for t in received.values():
                dist.recv(t, group=self.group, group_src=source)
        return received

    @contextmanager
    def _peers(self) -> Iterator[None]:
        """Say in an error which rank could not reach the others."""
        try:
            yield
        except RuntimeError as error:
            raise RuntimeError(
                f"rank {self.rank} of {self.size} could not exchange with the others: "
                "one of them has ended, is late, or exchanges something else "
                f"({error})"
            ) from error


def ranks_of(group: dist.ProcessGroup | DeviceMesh | Ranks | None) -> Ranks:
    """Return the ranks of a process group, of a device mesh of one axis, or themselves.

    ``None`` stands for all processes.
    """
    if isinstance(group, DeviceMesh):
        group = group.get_group()
    return group if isinstance(group, Ranks) else Processes(group)


_ENDED = object()  # given by a rank that has ended


def _late(rank: int, other: int) -> str:
    return (
        f"rank {rank} waits for rank {other}, which has ended: all ranks must exchange "
        "the same, forward and backward"
    )


class _Board:
    """A place where threads of simulated ranks lay what others are to read."""

    def __init__(self, size: int):
        self.places: list[Any] = [None] * size
        self.barrier = threading.Barrier(size)
        self.mail: dict[tuple[int, int], Queue[Any]] = {
            (a, b): Queue() for a in range(size) for b in range(size)
        }
        self.ended: set[int] = set()

    def exchanged(self, rank: int, given: Any) -> list[Any]:
        """Return what all ranks gave; wait until all have given and have read."""
        self.places[rank] = given
        self.barrier.wait()
        taken = list(self.places)
        self.barrier.wait()
        if given is not _ENDED and any(t is _ENDED for t in taken):
            raise RuntimeError(_late(rank, next(iter(self.ended))))
        return taken


class Threads(Ranks):
    """Simulated ranks: a thread each, in one process. See :func:`simulated`."""

    def __init__(self, rank: int, board: _Board):
        super().__init__()
        self.rank, self.size, self._board = rank, len(board.places), board

    def uncompiled(self) -> AbstractContextManager[Any]:
        """Return a context without effect: :func:`simulated` has one for all ranks."""
        return nullcontext()

    def _gather(self, t: Tensor) -> list[Tensor]:
        return self._board.exchanged(self.rank, t.clone())

    def _reduce(self, parts: list[Tensor]) -> Tensor:
        return sum(
            given[self.rank] for given in self._board.exchanged(self.rank, parts)
        )

    def _sum(self, t: Tensor) -> Tensor:
        return sum(self._board.exchanged(self.rank, t.clone()))

    def _shift(self, tensors: list[Tensor]) -> tuple[Tensor, ...]:
        return tuple(self._board.exchanged(self.rank, tensors)[self.rank - 1])

    def _send(self, tensors: dict[str, Tensor], target: int) -> None:
        sent = {name: t.clone() for name, t in tensors.items()}
        self._board.mail[self.rank, target].put(sent)

    def receive(self, source: int, device: torch.device) -> dict[str, Tensor]:
        """Return the tensors that the rank ``source`` sends."""
        while not self._board.barrier.broken:
            has_ended = source in self._board.ended
            with suppress(Empty):
                return self._board.mail[source, self.rank].get(timeout=0.1)
            if has_ended:
                raise RuntimeError(_late(self.rank, source))
        raise threading.BrokenBarrierError


def simulated(size: int, run: Callable[[Ranks], Any]) -> list[Any]:
    """Return the results of ``run`` on ``size`` ranks that are threads of this process.

    ``run`` is called once for each rank, with its :class:`Ranks`. It computes what
    processes would, in no less time than one: it shows values, and counts bytes. Each
    rank needs its own copy of a model whose parameters get gradients. Contexts such as
    ``torch.no_grad`` hold in ``run`` only if they are entered there, and all ranks
    share one random generator.

    Raises
    ------
    TypeError, ValueError
        ``size`` is no positive integer.
    RuntimeError
        A rank that ends while others exchange.
    BaseException
        What ``run`` raises on a rank; the other ranks end with it.
    """
    board = _Board(require_dimension("size", size, 1))

    def of_rank(rank: int) -> Any:
        try:
            result = run(Threads(rank, board))
            board.ended.add(rank)
            board.exchanged(rank, _ENDED)
            return result
        except BaseException:
            board.barrier.abort()
            raise

    uncompiled = torch.compiler.set_stance("force_eager")
    with uncompiled, ThreadPoolExecutor(size) as pool:
        futures = [pool.submit(of_rank, rank) for rank in range(size)]
    errors = [error for f in futures if (error := f.exception()) is not None]
    for error in errors:
        if not isinstance(error, threading.BrokenBarrierError):
            raise error
    return [f.result() for f in futures]
