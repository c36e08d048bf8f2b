"""The paper's tables and figures as data: the contents of each, in the paper's order."""

from importlib import import_module
from typing import NamedTuple

from gadabout.lab.paper.published import FIGURE_6_RANGE
from gadabout.lab.paper.session import Session
from gadabout.lab.paper.table import Outcome, table


class Table(NamedTuple):
    """A table: panel titles by target, and the number of repeats of each method."""

    titles: dict[str, str]
    num_repeats: int = 10


class Traces(NamedTuple):
    """A figure of log-target traces: block titles by target, a remark, and the number of columns."""

    titles: dict[str, str]
    remark: str = ""
    columns: int = 4


MNIST = {
    "mnist-56-as-published": "MNIST 5 against 6 as published: 497 sixes labelled as fives",
    "mnist-56": "MNIST 5 against 6, correctly labelled",
}
"""Titles of two posteriors: that of the published figures, with the paper's labels, and that with correct labels."""

TABLES = {
    "table1": Table(
        {"neal": "Neal's Gaussian, n = 100", "caravan": "Caravan, 5,822 rows, n = 86"}
    ),  # the paper's text says 87
    "table2": Table({"australian": "Australian credit, 690 rows, n = 15"}),
    "table3": Table({"ripley": "Ripley, 250 rows, n = 3"}),
    "table4": Table({"pima": "Pima, 532 rows, n = 8"}),
    "table5": Table({"heart": "Heart, 270 rows, n = 14"}),
    "table6": Table({"german": "German credit, 1,000 rows, n = 25"}),
    "table7": Table(MNIST, num_repeats=5),  # in single precision
}

FIGURES = {
    "figure1": None,
    "figure2": None,
    "figure3": Traces({"neal": "Neal's Gaussian, n = 100"}),
    "figure4": Traces({"german": "German Credit, 1,000 rows, n = 25"}),
    "figure5": Traces({"caravan": "Caravan, 5,822 rows, n = 86"}),
    "figure6": Traces(
        MNIST,
        "The published traces, of the first posterior, lie between {:,} and {:,}.".format(*FIGURE_6_RANGE),
        columns=6,
    ),
    "figure7": None,
}
"""Figures by name; None for a figure with a file of its own."""

EXPERIMENTS = (*TABLES, *FIGURES)
"""Names in the order in which `all` runs them: figures reuse the runs of tables."""


def make(name: str, session: Session) -> Outcome:
    """Runs the experiment called `name`, one of EXPERIMENTS. Figures, and with them matplotlib, are imported here."""
    if name in TABLES:
        return table(session, name, *TABLES[name])
    if (traces := FIGURES[name]) is None:
        return import_module(f"gadabout.lab.paper.{name}").run(session)
    from gadabout.lab.paper.traces import log_target_figure

    return log_target_figure(session, name, *traces)
