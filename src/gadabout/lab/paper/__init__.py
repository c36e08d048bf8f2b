"""The paper's tables and figures: a catalogue of them over a shared harness, and a file for each figure of its own."""

from gadabout.lab.paper.catalogue import EXPERIMENTS, make
from gadabout.lab.paper.session import Session, Unit, Watcher
from gadabout.lab.paper.table import Outcome
from gadabout.programs import forget

__all__ = ["EXPERIMENTS", "Outcome", "Session", "Unit", "Watcher", "run"]


def run(name: str, session: Session) -> Outcome:
    """Makes the experiment called `name`, one of EXPERIMENTS, and returns what came of it.

    Forgets the compiled programs of the one before: all of them together come near the number of memory mappings that
    a process may have.
    """
    forget()
    return make(name, session)
