"""The driver: the only place where a kernel and an adaptation meet."""

from gadabout.driver.drive import History, drive
from gadabout.driver.interrupt import deferred_interrupt
from gadabout.driver.loop import POSITION, shapes, start
from gadabout.driver.progress import Progress, TextProgress
from gadabout.driver.sampler import Sampler, State
from gadabout.driver.schedule import ADAPT_FOR_EVER, STOP_AFTER_WARMUP, Stage, doubling_windows

__all__ = [
    "ADAPT_FOR_EVER",
    "POSITION",
    "STOP_AFTER_WARMUP",
    "History",
    "Progress",
    "Sampler",
    "Stage",
    "State",
    "TextProgress",
    "deferred_interrupt",
    "doubling_windows",
    "drive",
    "shapes",
    "start",
]
