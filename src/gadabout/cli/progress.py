"""The display of a run on stderr: live bars in a terminal, plain log lines elsewhere."""

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TaskID, TextColumn
from rich.progress import Progress as Bars

from gadabout.driver import Pace, Progress, TextProgress

Callback = Callable[[Progress], object]

_NAMES = {"warmup": "warm-up"}


@contextmanager
def display(enabled: bool) -> Iterator[Callback | None]:
    """Yields the callback of `gadabout.sample` that shows its progress, or None if not `enabled`."""
    console = Console(stderr=True, highlight=False)
    if not enabled:
        yield None
    elif is_live(console):
        with stage_bars(console) as bars:
            yield LiveProgress(bars)
    else:
        print("gadabout: compiling", file=sys.stderr, flush=True)
        yield TextProgress(sys.stderr)


@contextmanager
def working(what: str, enabled: bool) -> Iterator[None]:
    """Shows a spinner while the block runs, in a terminal only, and removes it at the end."""
    console = Console(stderr=True, highlight=False)
    if enabled and is_live(console):
        with console.status(what):
            yield
    else:
        yield


def is_live(console: Console) -> bool:
    """True if stderr is a terminal on which lines can be redrawn."""
    return sys.stderr.isatty() and console.is_terminal and not console.is_dumb_terminal


def stage_bars(console: Console) -> Bars:
    """Progress bars for the stages of a run, in a terminal."""
    return Bars(
        SpinnerColumn(finished_text="[green]✓[/]"),
        TextColumn("{task.description:<8}"),
        BarColumn(bar_width=min(20, max(4, console.width - 76))),
        TextColumn("{task.fields[count]}", justify="right"),
        TextColumn("[dim]{task.fields[figures]}[/]"),
        console=console,
        refresh_per_second=8,
    )


class LiveProgress:
    """A line for compilation and one for each stage: iterations, acceptance, gradients per second and time left."""

    def __init__(self, bars: Bars):
        self.bars = bars
        self.compiling: TaskID | None = bars.add_task("compile", total=None, count="", figures="")
        self.tasks: dict[str, TaskID] = {}
        self.pace = Pace()

    def __call__(self, progress: Progress) -> None:
        self.pace.update(progress)
        if progress.stage not in self.tasks:
            self._begin(progress)
        finished = progress.done >= progress.total
        time = duration(self.pace.seconds) if finished else left(self.pace)
        figures = [f"acceptance {progress.acceptance_rate:.2f}", speed(self.pace), time]
        self.bars.update(
            self.tasks[progress.stage],
            total=progress.total,
            completed=progress.done,
            count=f"{progress.done:,}/{progress.total:,}",
            figures=" · ".join(part for part in figures if part),
        )

    def _begin(self, progress: Progress) -> None:
        """Adds the line of a new stage; the first stage completes the line of compilation."""
        if self.compiling is not None:
            self.bars.update(self.compiling, total=1, completed=1, figures=duration(self.pace.began))
            self.compiling = None
        name = _NAMES.get(progress.stage, progress.stage)
        self.tasks[progress.stage] = self.bars.add_task(name, total=progress.total, count="", figures="")


def speed(pace: Pace) -> str:
    """Gradients per second over the stage, or iterations if there are no gradients; empty if not yet known."""
    if math.isnan(pace.iterations_per_second):
        return ""
    gradients = pace.gradients_per_second
    return f"{gradients:,.0f} grad/s" if gradients else f"{pace.iterations_per_second:,.0f} iterations/s"


def left(pace: Pace) -> str:
    """The time to the end of the stage; empty if not yet known."""
    return "" if math.isnan(pace.seconds_left) else f"{duration(pace.seconds_left)} left"


def duration(seconds: float) -> str:
    """Seconds in words: 0.4 s, 12 s, 3 min 5 s, 2 h 10 min."""
    if not seconds < float("inf"):
        return "?"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes == 0:
        return f"{rest} s"
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
