"""The paper's tables and figures: a catalogue on a shared harness, and a file for each figure with its own code."""

from gadabout.lab.paper.catalogue import EXPERIMENTS, make
from gadabout.lab.paper.session import Session, Unit, Watcher
from gadabout.lab.paper.table import Outcome
from gadabout.programs import forget

__all__ = ["EXPERIMENTS", "Outcome", "Session", "Unit", "Watcher", "run"]


def run(name: str, session: Session) -> Outcome:
    """Runs the experiment called `name`, one of EXPERIMENTS, and returns its outcome.

    Discards the compiled programs of the previous experiment: the programs of all experiments together come near the
    limit on the memory mappings of a process.
    """
    forget()
    return make(name, session)
