"""The display of an experiment's runs on stderr: live bars in a terminal, a line for each finished run elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn
from rich.progress import Progress as Bars

from gadabout.cli.progress import duration, is_live, left
from gadabout.driver import Pace, Progress
from gadabout.lab.paper import Unit, Watcher


@contextmanager
def watching(enabled: bool) -> Iterator[Watcher]:
    """Yields the watcher of a session; it prints nothing if not `enabled`."""
    console = Console(stderr=True, highlight=False)
    if not enabled:
        yield Watcher()
    elif is_live(console):
        columns = (SpinnerColumn(), BarColumn(bar_width=16), TextColumn("{task.fields[count]}"))
        with Bars(*columns, TextColumn("{task.description}"), console=console, refresh_per_second=8) as bars:
            yield LiveWatcher(bars)
    else:
        yield TextWatcher()


class LiveWatcher(Watcher):
    """A bar for the runs of the experiment, and one for the iterations of the run under way."""

    def __init__(self, bars: Bars):
        self.bars = bars
        self.runs = bars.add_task("", total=None, count="")
        self.current = bars.add_task("", total=None, count="")

    def begin(self, name, total, there):
        self.done_runs, self.total = there, total
        self.bars.update(self.runs, total=total, completed=there, count=f"{there}/{total} runs", description=name)

    def unit(self, unit):
        self.bars.reset(self.current, total=None, description=f"{unit} · compiling", count="")
        self.name, self.pace = str(unit), Pace()

    def progress(self, progress: Progress):
        self.pace.update(progress)
        parts = [self.name, progress.stage, left(self.pace)]
        self.bars.update(
            self.current,
            total=progress.total,
            completed=progress.done,
            count=f"{progress.done:,}/{progress.total:,}",
            description=" · ".join(part for part in parts if part),
        )

    def done(self, unit):
        self.done_runs += 1
        self.bars.update(self.runs, completed=self.done_runs, count=f"{self.done_runs}/{self.total} runs")


class TextWatcher(Watcher):
    """Prints a line for every finished run."""

    def begin(self, name, total, there):
        self.done_runs, self.total = there, total
        self._say(f"{name}: {total} runs, {there} of them done before")

    def unit(self, unit: Unit):
        self.began = time.monotonic()

    def done(self, unit):
        self.done_runs += 1
        self._say(f"{self.done_runs}/{self.total} {unit}: {duration(time.monotonic() - self.began)}")

    def _say(self, text: str) -> None:
        print(f"gadabout {text}", file=sys.stderr, flush=True)
