"""A ring of ranks that share nothing but messages: simulated, or real processes.

The program of a rank is a generator function. ``received = yield sent`` sends a tuple
of tensors to the next rank and receives that of the previous one; ``return`` gives the
rank's result. In the simulation autograd goes through the messages: in the backward
pass, the gradient of each message travels back.
"""

import multiprocessing
import threading
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import GeneratorType
from typing import Any

import torch
from torch import Tensor

from posedu._argument_types import short_repr

Message = tuple[Tensor, ...]
Program = Callable[..., Generator[Message, Message, Tensor]]
PATIENCE = 120  # seconds until processes that do not answer are ended


@dataclass(frozen=True)
class Exchanged:
    """Results of a ring, and what its ranks have sent and received.

    ``outputs`` are the results of the ranks, ``sent`` the bytes that each sent, and
    ``received`` the messages that each received.
    """

    outputs: list[Any]
    sent: list[int]
    received: list[list[Message]]


def simulate(
    program: Program,
    arguments: Sequence[tuple[Any, ...]],
    recorders: Sequence[Any] | None = None,
) -> Exchanged:
    """Run the program of all ranks in this process, step by step.

    ``arguments`` are those of each rank's program; ``recorders`` are context managers,
    one for each rank, in which its program runs.

    Raises
    ------
    TypeError
        If the program is no generator function, or a message is no tuple of tensors.
    RuntimeError
        If a rank returns while another waits for a message.
    """
    ranks = range(len(arguments))
    contexts = [nullcontext() for _ in ranks] if recorders is None else recorders
    programs = []
    for given, context in zip(arguments, contexts, strict=True):
        with context:
            programs.append(_started(program, given))
    outputs: list[Any] = [None for _ in ranks]
    sent = [0 for _ in ranks]
    received: list[list[Message]] = [[] for _ in ranks]
    inbox: list[Any] = [None for _ in ranks]
    while True:
        messages, finished = [], []
        for rank in ranks:
            try:
                with contexts[rank]:
                    message = programs[rank].send(inbox[rank])
            except StopIteration as stop:
                outputs[rank] = stop.value
                finished.append(rank)
            else:
                messages.append(_required(message, rank))
        if finished:
            break
        for rank in ranks:
            sent[rank] += sum(t.numel() * t.element_size() for t in messages[rank])
            inbox[rank] = tuple(t.clone() for t in messages[rank - 1])
            received[rank].append(inbox[rank])
    if len(finished) < len(arguments):
        waiting = [rank for rank in ranks if rank not in finished]
        raise RuntimeError(
            f"rank {finished[0]} returned after {len(received[0])} messages, while "
            f"rank {waiting[0]} sends another one: all ranks must yield equally often"
        )
    return Exchanged(outputs, sent, received)


def replay(
    program: Program, arguments: tuple[Any, ...], received: Sequence[Message]
) -> Any:
    """Run the program of one rank alone, with the messages that it had received."""
    running = _started(program, arguments)
    inbox: Any = None
    for after in (*received, None):
        try:
            running.send(inbox)
        except StopIteration as stop:
            return stop.value
        inbox = after
    raise RuntimeError("the program, run once more, sends more messages than before")


def in_processes(program: Program, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Run the program of each rank in a process of its own; return their results.

    There is no gradient. The processes are spawned, and functions of a notebook are
    sent as code, so this works in Jupyter on Linux, macOS and Windows. Each process
    computes on one thread.

    Raises
    ------
    ImportError
        If joblib is not installed, which turns functions of a notebook into code.
    RuntimeError
        If a rank fails; the message has its traceback.
    TimeoutError
        If a rank has no result after two minutes.
    """
    # Here, since joblib is needed for nothing else in a project.
    from joblib import wrap_non_picklable_objects

    context = multiprocessing.get_context("spawn")
    ranks = len(arguments)
    edges = [context.Pipe(duplex=False) for _ in range(ranks)]
    results = [context.Pipe(duplex=False) for _ in range(ranks)]
    portable = wrap_non_picklable_objects(program)
    processes = [
        context.Process(
            target=_run_rank,
            args=(
                rank,
                portable,
                _to_arrays(arguments[rank]),
                edges[rank - 1][0],
                edges[rank][1],
                results[rank][1],
            ),
            daemon=True,
        )
        for rank in range(ranks)
    ]
    try:
        for process in processes:
            process.start()
        of_processes = [end for edge in edges for end in edge]
        for end in (*of_processes, *(end for _, end in results)):
            end.close()
        answers = [_answer_of(rank, results[rank][0]) for rank in range(ranks)]
    finally:
        for process in processes:
            if process.pid is not None:
                process.terminate()
                process.join()
    errors = [
        f"rank {rank} failed:\n{value}"
        for rank, (kind, value) in enumerate(answers)
        if kind == "error"
    ]
    if errors:  # the neighbors of a rank that fails get the end of a file
        raise RuntimeError(min(errors, key=lambda error: "EOFError" in error))
    return [_to_tensors(value) for _, value in answers]


def _answer_of(rank: int, end: Connection) -> tuple[str, Any]:
    if not end.poll(PATIENCE):
        raise TimeoutError(f"rank {rank} has no result after {PATIENCE} seconds")
    try:
        return end.recv()
    except EOFError:
        return "error", "its process has ended without a result"


def _run_rank(
    rank: int,
    program: Program,
    arguments: Any,
    before: Connection,
    after: Connection,
    result: Connection,
) -> None:
    torch.set_num_threads(1)
    try:
        running = _started(program, _to_tensors(arguments))
        inbox: Any = None
        with torch.no_grad():
            while True:
                message = _required(running.send(inbox), rank)
                # A full pipe blocks its sender until the neighbor reads, and all
                # ranks send at once: so sending has a thread of its own.
                sender = threading.Thread(
                    target=after.send, args=(_to_arrays(message),)
                )
                sender.start()
                inbox = _to_tensors(before.recv())
                sender.join()
    except StopIteration as stop:
        result.send(("result", _to_arrays(stop.value)))
    except BaseException:  # all of the learner's, to be shown by the parent
        result.send(("error", traceback.format_exc()))


def _to_arrays(value: Any) -> Any:
    """Replace tensors, also in lists and tuples, by arrays, which pipes copy."""
    if isinstance(value, Tensor):
        return "tensor", value.detach().contiguous().numpy()
    if isinstance(value, list | tuple):
        return type(value).__name__, [_to_arrays(part) for part in value]
    return "other", value


def _to_tensors(stored: Any) -> Any:
    """Restore what :func:`_to_arrays` has replaced."""
    kind, value = stored
    if kind == "tensor":
        return torch.from_numpy(value)
    if kind in ("list", "tuple"):
        parts = [_to_tensors(part) for part in value]
        return parts if kind == "list" else tuple(parts)
    return value


def _started(
    program: Program, arguments: tuple[Any, ...]
) -> Generator[Message, Message, Any]:
    running = program(*arguments)
    if not isinstance(running, GeneratorType):
        raise TypeError(
            "a rank's program must be a generator function, with `received = yield "
            f"sent` in it; the program given returned {short_repr(running)}"
        )
    return running


def _required(message: object, rank: int) -> Message:
    if not isinstance(message, tuple) or not all(
        isinstance(t, Tensor) for t in message
    ):
        raise TypeError(
            f"a message must be a tuple of tensors, rank {rank} yields "
            f"{short_repr(message)}"
        )
    return message
