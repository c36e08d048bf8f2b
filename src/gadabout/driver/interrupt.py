"""Ctrl-C between chunks: the chunk under way is finished, so that no draw is lost."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SECONDS_OF_GRACE = 1.0


@contextmanager
def deferred_interrupt() -> Iterator[Callable[[], bool]]:
    """Yields a function that tells whether Ctrl-C was pressed; pressed again a second later, it interrupts at once.

    Outside the main thread, where Python delivers no signals, it always tells False.
    """
    pressed: float | None = None
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return

    def remember(signum, frame):
        nonlocal pressed
        if pressed is not None and time.monotonic() > pressed + SECONDS_OF_GRACE:
            raise KeyboardInterrupt
        pressed = time.monotonic() if pressed is None else pressed

    previous = signal.signal(signal.SIGINT, remember)
    try:
        yield lambda: pressed is not None
    finally:
        signal.signal(signal.SIGINT, previous)
