"""Endings of a run: by a rule that its draws meet, by a signal between two chunks, by an error."""

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from gadabout.checks import check_positive, check_whole
from gadabout.diagnostics import ess_table, rhat

SECONDS_OF_GRACE = 1.0
"""seconds after a signal, from which on a second one interrupts at once"""


@dataclass(frozen=True)
class Completed:
    """All draws were made."""


@dataclass(frozen=True)
class Interrupted:
    """A signal ended the run; it can continue from its checkpoint."""


@dataclass(frozen=True)
class Satisfied:
    """The rule given by `until` is met."""

    reason: str


@dataclass(frozen=True)
class Failed:
    """The run could not continue: for example, a position is not finite, or there are no more batches."""

    reason: str


Ending = Completed | Interrupted | Satisfied | Failed


@dataclass(frozen=True)
class Until:
    """Ends a run once its draws meet both `ess` and `rhat`, if given, or once `seconds` of sampling are over.

    It is evaluated at fixed numbers of draws, multiples of `every`, so that a run's end is a function of its draws.
    Only `seconds` is an exception; even then the draws are the first ones of the longer run. Like all diagnostics it is
    computed from at most 100,000 evenly spaced draws of each chain.

    Args:
        ess: the smallest over coordinates of bulk ESS and of the ESS of (x − mean)², over all chains.
        rhat: the largest R-hat over coordinates; needs at least two chains.
        seconds: seconds of sampling, without warm-up and compilation.
        every: draws of each chain between two evaluations; the first is the earliest end of a run.
    """

    ess: float | None = None
    rhat: float | None = None
    seconds: float | None = None
    every: int = 500

    def __post_init__(self):
        if self.ess is None and self.rhat is None and self.seconds is None:
            raise ValueError("until: give at least one of ess, rhat and seconds")
        for name in ("ess", "rhat", "seconds"):
            if getattr(self, name) is not None:
                check_positive(f"until: {name}", getattr(self, name))
        if self.rhat is not None and self.rhat <= 1:
            raise ValueError(f"until: rhat must be above 1, or no run ends, got {self.rhat}; 1.01 is usual")
        check_whole("until: every", self.every, 4)

    def met(self, draws: np.ndarray, seconds: float) -> str | None:
        """Why the draws, of shape (num_chains, draws, n), suffice, in words; None if they do not."""
        if self.seconds is not None and seconds >= self.seconds:
            return f"{self.seconds:g} seconds of sampling are over"
        if self.ess is None and self.rhat is None:
            return None
        found = []
        if self.ess is not None:
            table = ess_table(draws)
            smallest = float(np.min(np.minimum(table["bulk"], table["square"])))
            if not smallest >= self.ess:
                return None
            found.append(f"the smallest ESS is {smallest:,.0f}")
        if self.rhat is not None:
            largest = float(np.max(rhat(draws))) if len(draws) > 1 else math.nan
            if not largest <= self.rhat:
                return None
            found.append(f"the largest R-hat is {largest:.4f}")
        return " and ".join(found)


class Interruption:
    """A callable that returns whether a signal came; `signum` is that signal. The current chunk is finished first."""

    def __init__(self):
        self.signum: int | None = None
        self._came = 0.0

    def __call__(self) -> bool:
        return self.signum is not None

    def handle(self, signum, frame):
        """Notes a signal; a second one after `SECONDS_OF_GRACE` raises KeyboardInterrupt at once."""
        if self.signum is not None and time.monotonic() > self._came + SECONDS_OF_GRACE:
            raise KeyboardInterrupt
        if self.signum is None:
            self.signum, self._came = signum, time.monotonic()


@contextmanager
def deferred_interrupt(*others: signal.Signals) -> Iterator[Interruption]:
    """Handles Ctrl-C, and some other signals, by an `Interruption`.

    Outside the main thread, where Python delivers no signals, the interruption always returns False.
    """
    interruption, here = Interruption(), threading.current_thread() is threading.main_thread()
    before = {one: signal.signal(one, interruption.handle) for one in (signal.SIGINT, *others)} if here else {}
    try:
        yield interruption
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
