"""The paper's tables and figures: one short file each, over a shared harness."""

from importlib import import_module

import jax

from gadabout.experiments.session import Session, Unit, Watcher
from gadabout.experiments.table import Outcome

__all__ = ["EXPERIMENTS", "Outcome", "Session", "Unit", "Watcher", "run"]

EXPERIMENTS = tuple(f"table{i}" for i in range(1, 8)) + tuple(f"figure{i}" for i in range(1, 8))
"""In the order in which `all` makes them: figures draw what tables have run."""


def run(name: str, session: Session) -> Outcome:
    """Makes the experiment called `name`, one of EXPERIMENTS, and returns what came of it.

    Forgets the compiled programs of the one before: all of them together come near the number of memory mappings that
    a process may have.
    """
    jax.clear_caches()
    return import_module(f"gadabout.experiments.{name}").run(session)
