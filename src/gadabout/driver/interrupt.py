"""Ctrl-C between chunks: the chunk under way is finished, so that no draw is lost."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def deferred_interrupt() -> Iterator[Callable[[], bool]]:
    """Yields a function that tells whether Ctrl-C was pressed; a second Ctrl-C interrupts at once.

    Outside the main thread, where Python delivers no signals, it always tells False.
    """
    pressed = False
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return

    def remember(signum, frame):
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    previous = signal.signal(signal.SIGINT, remember)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, previous)
