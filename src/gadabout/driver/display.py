"""The display of a run: progress for callbacks between chunks, bars in a notebook, lines on stderr elsewhere."""

import math
import sys
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from html import escape
from typing import Any, TextIO


@dataclass(frozen=True)
class Progress:
    """The progress of a run: its stage, iterations done of the stage's total, and figures of the last chunk."""

    stage: str
    done: int
    total: int
    acceptance_rate: float
    gradient_evaluations: int
    """number for all chains since the run's start"""
    seconds: float
    """seconds since the run's start, compilation included"""
    iterations_per_second: float

    @property
    def seconds_left(self) -> float:
        """Estimated seconds to the end of the stage."""
        return (self.total - self.done) / self.iterations_per_second if self.iterations_per_second else math.nan


class Pace:
    """The speed of a stage: over all its chunks but the first, which may be a single iteration."""

    def __init__(self):
        self.first: Progress | None = None
        self.last: Progress | None = None
        self.began = 0.0
        """seconds from the run's start to the stage's"""

    def update(self, progress: Progress) -> None:
        """Takes the next progress; another stage starts a new measurement."""
        if self.first is None or self.first.stage != progress.stage:
            speed = progress.iterations_per_second
            self.first, self.began = progress, max(0.0, progress.seconds - (progress.done / speed if speed else 0.0))
        self.last = progress

    @property
    def seconds(self) -> float:
        """Seconds since the stage's start."""
        return 0.0 if self.last is None else self.last.seconds - self.began

    @property
    def iterations_per_second(self) -> float:
        """Iterations per second; NaN if not known yet."""
        return self._per_second("done")

    @property
    def gradients_per_second(self) -> float:
        """Gradient evaluations of all chains per second; NaN if not known yet."""
        return self._per_second("gradient_evaluations")

    @property
    def seconds_left(self) -> float:
        """Seconds to the end of the stage; NaN if not known yet."""
        speed = self.iterations_per_second
        return math.nan if self.last is None or not speed else (self.last.total - self.last.done) / speed

    def _per_second(self, name: str) -> float:
        if self.first is None or self.last is None or self.last.seconds <= self.first.seconds:
            return math.nan
        return (getattr(self.last, name) - getattr(self.first, name)) / (self.last.seconds - self.first.seconds)


def display() -> "NotebookProgress | TextProgress":
    """A display with bars in a notebook, else with lines on stderr."""
    shell = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
    return TextProgress() if getattr(shell, "kernel", None) is None else NotebookProgress()


class AbstractDisplay(ABC):
    """Shows progress every `interval` seconds, and at the end of each stage."""

    def __init__(self, interval: float):
        self.interval, self.next = interval, 0.0
        self.pace = Pace()

    def __call__(self, progress: Progress) -> None:
        self.pace.update(progress)
        finished = progress.done >= progress.total
        if finished or time.monotonic() >= self.next:
            self.next = time.monotonic() + self.interval
            self.show(progress, finished)

    @abstractmethod
    def show(self, progress: Progress, finished: bool) -> None:
        """Shows the progress; `finished` says whether the stage ends there."""


class TextProgress(AbstractDisplay):
    """One line rewritten in place where the stream is a terminal, else a log line every `interval` seconds."""

    def __init__(self, stream: TextIO | None = None, interval: float = 5.0):
        self.stream = sys.stderr if stream is None else stream
        self.live = self.stream.isatty()
        super().__init__(0.1 if self.live else interval)

    def show(self, progress, finished):
        left = self.pace.seconds_left
        text = (
            f"gadabout {progress.stage}: {progress.done}/{progress.total} iterations, "
            f"acceptance {progress.acceptance_rate:.2f}, {progress.gradient_evaluations:,} gradients"
            f"{'' if math.isnan(left) else f', {left:.0f} s left'}"
        )
        self.stream.write(f"\r{text:<100}{'\n' if finished else ''}" if self.live else f"{text}\n")
        self.stream.flush()


class NotebookProgress(AbstractDisplay):
    """Bars under the cell, one for each stage, redrawn every `interval` seconds and at the end of each stage."""

    def __init__(self, interval: float = 0.25):
        super().__init__(interval)
        self.bars: dict[str, str] = {}
        self.handle: Any = None
        self._show("<div><progress></progress> compiling</div>")

    def show(self, progress, finished):
        self.bars[progress.stage] = self._bar(progress, finished)
        self._show("".join(self.bars.values()))

    def _bar(self, progress: Progress, finished: bool) -> str:
        left = self.pace.seconds_left
        figures = [f"{progress.done:,} of {progress.total:,} iterations", f"acceptance {progress.acceptance_rate:.2f}"]
        figures += [f"{progress.gradient_evaluations:,} gradients"] if progress.gradient_evaluations else []
        figures += [f"{self.pace.seconds:.1f} s" if finished else "" if math.isnan(left) else f"{left:.0f} s left"]
        words = " · ".join(figure for figure in figures if figure)
        bar = f"<progress value='{progress.done}' max='{progress.total}'></progress>"
        return f"<div>{bar} {escape(progress.stage)}: {words}</div>"

    def _show(self, html: str) -> None:
        from IPython.display import HTML
        from IPython.display import display as show

        if self.handle is None:
            self.handle = show(HTML(html), display_id=True)
        else:
            self.handle.update(HTML(html))
