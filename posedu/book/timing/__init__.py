r"""Time and memory of positional encodings, relative to a physical limit.

An absolute time says little on a shared machine; a ratio to a limit that is measured in
the same run is robust. The limit of a rotation, and of an addition to the input, is a
copy of the same bytes into a reused buffer. The limit of everything inside attention is
the same attention without an encoding. Calls of the limit and of the encoding
alternate, and each timed call follows an untimed one of the same function, so that all
calls find the caches in a similar state.

``python -m posedu.book.timing rope`` times an encoding of the catalog and writes a
result file; ``--all`` times every encoding, and ``--peers`` compares encodings with the
published libraries that have them. These commands remake the book's files on one
thread::

    python -m posedu.book.timing --all --folder book/data
    python -m posedu.book.timing rope --peers --folder book/data \
        --lengths 2048 8192 --head-dims 64 128 --heads 16 --repeats 30
    for name in t5 alibi shaw inkling transformer-xl deberta; do
        python -m posedu.book.timing $name --peers --folder book/data --lengths 1024
    done

On a GPU ``python -m posedu.book.gpu`` times every encoding and library.

On a CPU the command keeps freed memory (``KEPT_MEMORY`` of
:mod:`posedu.book.provenance`). Otherwise every tensor of 32 MiB is returned to the
system and faulted in again, which costs more than most timed calls. A result records
whether memory was kept. ``--system-memory`` leaves the allocator as it is.
"""

from posedu.book.timing.clock import alternate, kept_memory, peak_memory
from posedu.book.timing.encodings import time_encoding
from posedu.book.timing.growth import Growth, time_growth
from posedu.book.timing.ratios_to_limits import ratios, time_exponent
from posedu.book.timing.results import Measurement, Spread, Timing, collect, compare
from posedu.book.timing.routes import products_of_attention, time_routes
from posedu.book.timing.timed_calls import compiled, copy_of, with_gradient

__all__ = [
    "Growth",
    "Measurement",
    "Spread",
    "Timing",
    "alternate",
    "collect",
    "compare",
    "compiled",
    "copy_of",
    "kept_memory",
    "peak_memory",
    "products_of_attention",
    "ratios",
    "time_encoding",
    "time_exponent",
    "time_growth",
    "time_routes",
    "with_gradient",
]
