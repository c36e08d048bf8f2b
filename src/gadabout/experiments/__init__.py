"""The paper's tables and figures: one short file each, over a shared harness."""

from importlib import import_module

from gadabout.experiments.session import Session, Unit, Watcher
from gadabout.experiments.table import Outcome

__all__ = ["EXPERIMENTS", "Outcome", "Session", "Unit", "Watcher", "run"]

EXPERIMENTS = tuple(f"table{i}" for i in range(1, 8)) + tuple(f"figure{i}" for i in range(1, 8))
"""In the order in which `all` makes them: figures draw what tables have run."""


def run(name: str, session: Session) -> Outcome:
    """Makes the experiment called `name`, one of EXPERIMENTS, and returns what came of it."""
    return import_module(f"gadabout.experiments.{name}").run(session)
