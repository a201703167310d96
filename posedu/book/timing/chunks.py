"""Times of recurrences in chunks of several sizes, over a causal softmax.

``python -m posedu.book.timing.chunks`` writes ``chunks-cpu.json``.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from posedu._command_line import whole_number
from posedu.book.provenance import file_label, keep_memory
from posedu.book.timing.clock import Run
from posedu.book.timing.results import Measurement, Timing, collect, compare
from posedu.book.timing.timed_calls import with_gradient
from posedu.torch.recurrent import Writes, by_chunks

HEADS, D, LENGTH = 4, 64, 2048
CHUNKS = (4, 8, 16, 32, 64, 128, 256, 512)
SOFTMAX = "causal softmax (SDPA)"
RULES = {
    "gates of heads": (False, False),
    "gates of features": (False, True),
    "delta rule": (True, False),
    "delta rule, gates of features": (True, True),
}
"""The delta rule or not, and gates of each feature or not, by the rule's name."""


def random_writes(length: int, *, delta: bool, by_feature: bool) -> Writes:
    """Return writes of one text, with keys of length 1 and gates of about 0.95."""
    q, k, v = torch.randn(3, 1, HEADS, length, D)
    k = torch.nn.functional.normalize(k, dim=-1)
    shape = (1, HEADS, length, D) if by_feature else (1, HEADS, length)
    gates = -0.1 * torch.rand(shape)
    beta = torch.rand(1, HEADS, length)
    return Writes(q, k, v, gates, beta, torch.zeros(1, length).long(), delta)


def calls(
    writes: Writes, chunks: Sequence[int], *, backward: bool
) -> tuple[dict[str, Run], Run]:
    """Return functions that compute the outputs, by chunk size, and the softmax's.

    With ``backward`` they compute the gradients of q, k, v, gates and strengths, too.
    """
    q, k, v = writes.q, writes.k, writes.v
    inputs = [t.requires_grad_(backward) for t in (q, k, v)]
    inputs += [t.requires_grad_(backward) for t in (writes.log_decay, writes.beta)]

    def read(chunk: int) -> Sequence[Tensor]:
        return by_chunks(writes, chunk=chunk)[:1]

    def softmax() -> Sequence[Tensor]:
        return (scaled_dot_product_attention(q, k, v, is_causal=True),)

    def run_of(run: Callable[[], Sequence[Tensor]], of: Sequence[Tensor]) -> Run:
        return with_gradient(run, of) if backward else run

    runs = {f"chunks of {c}": run_of(partial(read, c), inputs) for c in chunks}
    return runs, run_of(softmax, inputs[:3])


def time_chunks(
    length: int = LENGTH,
    chunks: Sequence[int] = CHUNKS,
    *,
    repeats: int = 5,
    seed: int = 0,
    save_to: str | Path | None = None,
) -> Timing:
    """Time every rule in chunks of every size over a causal softmax, on a CPU.

    Parameters
    ----------
    length
        Tokens of the text.
    chunks
        Sizes of the chunks.
    repeats
        Timed calls of each size; each follows an untimed one.
    seed
        Seed of the inputs.
    save_to
        File that the result is saved to.
    """
    device = torch.device("cpu")
    result = Timing.begin("chunks", device, seed, repeats=repeats, heads=HEADS)

    def measure(length: int, d: int, dtype: torch.dtype) -> Iterator[Measurement]:
        for rule, (delta, by_feature) in RULES.items():
            writes = random_writes(length, delta=delta, by_feature=by_feature)
            once = sum(t.nbytes for t in (*writes[:5], writes.v))
            for direction in ("forward", "forward and backward"):
                is_backward = direction != "forward"
                runs, softmax = calls(writes, chunks, backward=is_backward)
                yield from compare(
                    runs,
                    softmax,
                    limit_name=SOFTMAX,
                    task=f"{rule}, {direction}",
                    length=length,
                    d=d,
                    dtype=dtype,
                    device=device,
                    repeats=repeats,
                    bytes_moved=(2 if is_backward else 1) * once,
                )

    cells = [(length, D, torch.float32)]
    return collect(result, measure, cells, save_to, keep=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Time chunks of several sizes; print and save the table.

    ``arguments`` are the command's arguments, by default the process's own. Return the
    exit status: 130 after an interrupt, else 0.
    """
    parser = argparse.ArgumentParser(
        prog="python -m posedu.book.timing.chunks",
        description="Time recurrences in chunks of several sizes over a softmax.",
    )
    size = whole_number(1)
    parser.add_argument("--length", type=size, default=LENGTH)
    parser.add_argument("--chunks", type=size, nargs="+", default=[*CHUNKS])
    parser.add_argument("--repeats", type=size, default=5)
    parser.add_argument("--seed", type=whole_number(0), default=0)
    parser.add_argument("--folder", default=".", help="folder of the result file")
    options = parser.parse_args(arguments)
    keep_memory()
    torch.set_num_threads(1)
    path = Path(options.folder) / f"chunks-{file_label(torch.device('cpu'))}.json"
    try:
        result = time_chunks(
            *(options.length, options.chunks),
            repeats=options.repeats,
            seed=options.seed,
            save_to=path,
        )
    except (ValueError, OSError) as error:
        parser.error(str(error))
    print(f"{result}\nin {path}")
    return 0 if result.complete else 130


if __name__ == "__main__":
    sys.exit(main())
