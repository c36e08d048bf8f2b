"""Figure 5: log-target traces on Caravan."""

from gadabout.experiments.session import Session
from gadabout.experiments.table import Outcome
from gadabout.experiments.traces import log_target_figure


def run(session: Session) -> Outcome:
    """A panel for each of the paper's eight methods."""
    return log_target_figure(session, "figure5", {"caravan": "Caravan, 5,822 rows, n = 86"})
