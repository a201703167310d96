"""Interruption of work that takes too long."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from posedu.tools._foreign_code import Interruption


class TooLongError(Interruption):
    """Raised where work is interrupted; ``except Exception`` does not catch it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TooLongError in the ``with`` block once it has run for ``seconds``.

    The block is not interrupted on Windows, which has no timer signals, nor outside the
    main thread, which alone receives them. A timer that the caller has set goes on
    after the block, and rings then if its time is over.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not (hasattr(signal, "setitimer") and in_main_thread):
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise TooLongError

    before, start = signal.signal(signal.SIGALRM, stop), time.monotonic()
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left:
            left = max(left - (time.monotonic() - start), 1e-6)
            signal.setitimer(signal.ITIMER_REAL, left, interval)
