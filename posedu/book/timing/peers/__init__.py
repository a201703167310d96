"""Encodings as published libraries have them, beside ours.

The libraries are imported on use, and one that is missing is reported; ``pip install
posedu[peers]`` brings them.
"""

from collections.abc import Callable
from functools import partial

from posedu.book.timing.peers.attention import MATCHES, time_attention
from posedu.book.timing.peers.rope import LIBRARIES, time_rope
from posedu.book.timing.results import Timing

__all__ = ["LIBRARIES", "PEERS", "time_attention", "time_rope"]

PEERS: dict[str, Callable[..., Timing]] = {
    "rope": time_rope,
    **{name: partial(time_attention, name) for name in MATCHES},
}
"""By a record's name, what times it beside the libraries that have it."""
