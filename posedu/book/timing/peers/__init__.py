"""Timing of published libraries' encodings and of the same encodings in posedu.

The libraries are imported on use, and a missing library is reported; ``pip install
posedu[peers]`` installs all of them.
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
"""Function that times an encoding and the libraries that have it, by name."""
