"""What observers of a run are told between chunks, and the plain display that needs no terminal."""

import math
import sys
import time
from dataclasses import dataclass
from typing import TextIO


@dataclass(frozen=True)
class Progress:
    """Where a run stands: its stage, iterations done of the stage's total, and figures of the last chunk."""

    stage: str
    done: int
    total: int
    acceptance_rate: float
    gradient_evaluations: int
    """of all chains since the run's start"""
    seconds: float
    """since the run's start, compilation included"""
    iterations_per_second: float

    @property
    def seconds_left(self) -> float:
        """Estimated time to the end of the stage."""
        return (self.total - self.done) / self.iterations_per_second if self.iterations_per_second else float("nan")


class Pace:
    """How fast a stage goes: over all its chunks but the first, which may be a single iteration and tells nothing."""

    def __init__(self):
        self.first: Progress | None = None
        self.last: Progress | None = None
        self.began = 0.0
        """seconds from the run's start to the stage's"""

    def see(self, progress: Progress) -> None:
        """Takes what an observer was told; another stage begins anew."""
        if self.first is None or self.first.stage != progress.stage:
            speed = progress.iterations_per_second
            self.first, self.began = progress, max(0.0, progress.seconds - (progress.done / speed if speed else 0.0))
        self.last = progress

    @property
    def seconds(self) -> float:
        """Since the stage's start."""
        return 0.0 if self.last is None else self.last.seconds - self.began

    @property
    def iterations_per_second(self) -> float:
        """NaN where it is not known yet."""
        return self._per_second("done")

    @property
    def gradients_per_second(self) -> float:
        """Of all chains; NaN where it is not known yet."""
        return self._per_second("gradient_evaluations")

    @property
    def seconds_left(self) -> float:
        """To the end of the stage; NaN where that is not known yet."""
        speed = self.iterations_per_second
        return math.nan if self.last is None or not speed else (self.last.total - self.last.done) / speed

    def _per_second(self, name: str) -> float:
        if self.first is None or self.last is None or self.last.seconds <= self.first.seconds:
            return math.nan
        return (getattr(self.last, name) - getattr(self.first, name)) / (self.last.seconds - self.first.seconds)


class TextProgress:
    """One line rewritten in place where the stream is a terminal, else a log line every `interval` seconds."""

    def __init__(self, stream: TextIO | None = None, interval: float = 5.0):
        self.stream = sys.stderr if stream is None else stream
        self.live = self.stream.isatty()
        self.interval = 0.1 if self.live else interval
        self.next_line = 0.0
        self.pace = Pace()

    def __call__(self, progress: Progress) -> None:
        self.pace.see(progress)
        finished = progress.done >= progress.total
        if not finished and time.monotonic() < self.next_line:
            return
        self.next_line = time.monotonic() + self.interval
        left = self.pace.seconds_left
        text = (
            f"gadabout {progress.stage}: {progress.done}/{progress.total} iterations, "
            f"acceptance {progress.acceptance_rate:.2f}, {progress.gradient_evaluations:,} gradients"
            f"{'' if math.isnan(left) else f', {left:.0f} s left'}"
        )
        start, end = ("\r", "\n" if finished else "") if self.live else ("", "\n")
        self.stream.write(f"{start}{text:<100}{end}" if self.live else f"{text}{end}")
        self.stream.flush()
