"""Ctrl-C between chunks: the chunk under way is finished, so that no draw is lost."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

SECONDS_OF_GRACE = 1.0


class Interruption:
    """Whether somebody wants the run to end: asked by a call; `signum` is the signal that said so, if one did."""

    def __init__(self):
        self.signum: int | None = None
        self._pressed = 0.0

    def __call__(self) -> bool:
        return self.signum is not None

    def remember(self, signum, frame):
        """Takes a signal; a second one, a second later, interrupts at once."""
        if self.signum is not None and time.monotonic() > self._pressed + SECONDS_OF_GRACE:
            raise KeyboardInterrupt
        if self.signum is None:
            self.signum, self._pressed = signum, time.monotonic()


@contextmanager
def deferred_interrupt(*others: signal.Signals) -> Iterator[Interruption]:
    """Yields what tells whether Ctrl-C was pressed, or one of some other signals came.

    Outside the main thread, where Python delivers no signals, it always tells False.
    """
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    before = {one: signal.signal(one, interruption.remember) for one in (signal.SIGINT, *others)}
    try:
        yield interruption
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
