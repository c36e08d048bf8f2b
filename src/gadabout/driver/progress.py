"""What observers of a run are told between chunks, and the plain display that needs no terminal."""

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


class TextProgress:
    """One line rewritten in place where the stream is a terminal, else a log line every `interval` seconds."""

    def __init__(self, stream: TextIO | None = None, interval: float = 5.0):
        self.stream = sys.stderr if stream is None else stream
        self.live = self.stream.isatty()
        self.interval = 0.1 if self.live else interval
        self.next_line = 0.0

    def __call__(self, progress: Progress) -> None:
        finished = progress.done >= progress.total
        if not finished and time.monotonic() < self.next_line:
            return
        self.next_line = time.monotonic() + self.interval
        text = (
            f"gadabout {progress.stage}: {progress.done}/{progress.total} iterations, "
            f"acceptance {progress.acceptance_rate:.2f}, {progress.gradient_evaluations:,} gradients, "
            f"{progress.seconds_left:.0f} s left"
        )
        start, end = ("\r", "\n" if finished else "") if self.live else ("", "\n")
        self.stream.write(f"{start}{text:<100}{end}" if self.live else f"{text}{end}")
        self.stream.flush()
