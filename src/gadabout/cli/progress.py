"""The display of a run on stderr: live bars in a terminal, plain log lines elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TaskID, TextColumn
from rich.progress import Progress as Bars

from gadabout.driver import Progress, TextProgress

Callback = Callable[[Progress], object]

_NAMES = {"warmup": "warm-up"}


@contextmanager
def display(enabled: bool) -> Iterator[Callback | None]:
    """Yields the callback of `gadabout.sample` that shows its progress, or None where none is wanted."""
    console = Console(stderr=True, highlight=False)
    if not enabled:
        yield None
    elif is_live(console):
        with _bars(console) as bars:
            yield LiveProgress(bars)
    else:
        print("gadabout: compiling", file=sys.stderr, flush=True)
        yield TextProgress(sys.stderr)


@contextmanager
def working(what: str, enabled: bool) -> Iterator[None]:
    """A spinner, in a terminal only, while something takes its time; nothing of it stays."""
    console = Console(stderr=True, highlight=False)
    if enabled and is_live(console):
        with console.status(what):
            yield
    else:
        yield


def is_live(console: Console) -> bool:
    """Whether stderr is a terminal on which lines can be redrawn."""
    return sys.stderr.isatty() and console.is_terminal and not console.is_dumb_terminal


def _bars(console: Console) -> Bars:
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
        self.gradients = 0
        self.done = 0
        self.rate = 0.0
        self.stage_began = 0.0

    def __call__(self, progress: Progress) -> None:
        if progress.stage not in self.tasks:
            self._begin(progress)
        iterations, gradients = progress.done - self.done, progress.gradient_evaluations - self.gradients
        self.done, self.gradients = progress.done, progress.gradient_evaluations
        rate = progress.iterations_per_second * gradients / max(iterations, 1)
        self.rate = rate if self.rate == 0 else 0.7 * self.rate + 0.3 * rate
        speed = f"{self.rate:,.0f} grad/s" if self.rate else f"{progress.iterations_per_second:,.0f} iterations/s"
        finished = progress.done >= progress.total
        seconds = progress.seconds - self.stage_began
        time = duration(seconds) if finished else f"{duration(progress.seconds_left)} left"
        self.bars.update(
            self.tasks[progress.stage],
            total=progress.total,
            completed=progress.done,
            count=f"{progress.done:,}/{progress.total:,}",
            figures=f"acceptance {progress.acceptance_rate:.2f} · {speed} · {time}",
        )

    def _begin(self, progress: Progress) -> None:
        """A new stage: what went before is finished, and rates start anew."""
        first_chunk = progress.done / progress.iterations_per_second if progress.iterations_per_second else 0.0
        self.stage_began = progress.seconds - first_chunk
        self.done, self.rate = 0, 0.0
        if self.compiling is not None:
            self.bars.update(self.compiling, total=1, completed=1, figures=duration(self.stage_began))
            self.compiling = None
        name = _NAMES.get(progress.stage, progress.stage)
        self.tasks[progress.stage] = self.bars.add_task(name, total=progress.total, count="", figures="")


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
