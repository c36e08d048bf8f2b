"""Figure 4: log-target traces on German Credit."""

from gadabout.experiments.session import Session
from gadabout.experiments.table import Outcome
from gadabout.experiments.traces import log_target_figure


def run(session: Session) -> Outcome:
    """A panel for each of the paper's eight methods."""
    return log_target_figure(session, "figure4", {"german": "German Credit, 1,000 rows, n = 25"})
