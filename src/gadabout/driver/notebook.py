"""Progress in a notebook: a bar for each stage, which moves where it stands."""

import math
import sys
import time
from html import escape
from typing import Any

from gadabout.driver.progress import Pace, Progress, TextProgress


def display() -> "NotebookProgress | TextProgress":
    """What shows a run's progress here: bars in a notebook, else lines on stderr."""
    return NotebookProgress() if in_notebook() else TextProgress()


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook, whose pages show HTML."""
    shell = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
    return getattr(shell, "kernel", None) is not None


class NotebookProgress:
    """Bars under the cell, redrawn every `interval` seconds and at the end of each stage."""

    def __init__(self, interval: float = 0.25):
        self.interval, self.next = interval, 0.0
        self.pace = Pace()
        self.bars: dict[str, str] = {}
        self.handle: Any = None
        self._show("<div><progress></progress> compiling</div>")

    def __call__(self, progress: Progress) -> None:
        self.pace.see(progress)
        finished = progress.done >= progress.total
        if not finished and time.monotonic() < self.next:
            return
        self.next = time.monotonic() + self.interval
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
        from IPython.display import display as shown

        if self.handle is None:
            self.handle = shown(HTML(html), display_id=True)
        else:
            self.handle.update(HTML(html))
