"""The driver: runs a plan on a model, chunk by chunk, and stores its records."""

from gadabout.driver import devices
from gadabout.driver.checkpoint import Account, Checkpoint, CheckpointError, Cursor
from gadabout.driver.chunk import Settings
from gadabout.driver.devices import CHAINS
from gadabout.driver.display import NotebookProgress, Pace, Progress, TextProgress, display
from gadabout.driver.engine import Engine
from gadabout.driver.limits import check_memory
from gadabout.driver.loop import POSITION
from gadabout.driver.records import AbstractSink, MemorySink, Records
from gadabout.driver.runner import Stream, log_densities, stream_key
from gadabout.driver.stopping import Completed, Ending, Failed, Interrupted, Satisfied, Until, deferred_interrupt

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
    "Stream",
    "TextProgress",
    "Until",
    "check_memory",
    "deferred_interrupt",
    "devices",
    "display",
    "log_densities",
    "stream_key",
]
