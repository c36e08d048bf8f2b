"""The driver: carries a plan out on a model, chunk by chunk, and keeps what it records."""

from gadabout.driver import processes
from gadabout.driver.checkpoint import Account, Checkpoint, CheckpointError, Cursor
from gadabout.driver.ending import Completed, Ending, Failed, Interrupted, Satisfied
from gadabout.driver.engine import Engine, density_for
from gadabout.driver.interrupt import deferred_interrupt
from gadabout.driver.loop import CHAINS, POSITION
from gadabout.driver.memory import check_memory
from gadabout.driver.notebook import NotebookProgress, display
from gadabout.driver.pipeline import Settings
from gadabout.driver.progress import Pace, Progress, TextProgress
from gadabout.driver.records import Records
from gadabout.driver.runner import log_densities
from gadabout.driver.search import Starts, check_density
from gadabout.driver.sink import AbstractSink, MemorySink
from gadabout.driver.streams import Stream, stream_key
from gadabout.driver.until import Until

__all__ = [
    "CHAINS",
    "POSITION",
    "AbstractSink",
    "Account",
    "Checkpoint",
    "CheckpointError",
    "Completed",
    "Cursor",
    "Ending",
    "Engine",
    "Failed",
    "Interrupted",
    "MemorySink",
    "NotebookProgress",
    "Pace",
    "Progress",
    "Records",
    "Satisfied",
    "Settings",
    "Starts",
    "Stream",
    "TextProgress",
    "Until",
    "check_density",
    "check_memory",
    "deferred_interrupt",
    "density_for",
    "display",
    "log_densities",
    "processes",
    "stream_key",
]
