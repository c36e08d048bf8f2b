"""Figure 6: log-target traces on MNIST, 5 against 6, with the paper's labels and with the right ones."""

from gadabout.experiments.published import FIGURE_6_RANGE
from gadabout.experiments.session import Session
from gadabout.experiments.table import Outcome
from gadabout.experiments.traces import log_target_figure


def run(session: Session) -> Outcome:
    """A panel for each of the paper's six methods, and those that ran on the right labels too."""
    titles = {
        "mnist-56-as-published": "MNIST 5 against 6 as published: 497 sixes labelled as fives",
        "mnist-56": "MNIST 5 against 6, correctly labelled",
    }
    low, high = FIGURE_6_RANGE
    remark = f"The published traces, of the first posterior, lie between {low:,} and {high:,}."
    return log_target_figure(session, "figure6", titles, remark, columns=6)
