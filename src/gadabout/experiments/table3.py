"""Table 3: Ripley's synthetic data (250 rows, n = 3)."""

from gadabout.experiments.session import Session
from gadabout.experiments.table import Outcome, table


def run(session: Session) -> Outcome:
    """The one panel."""
    return table(session, "table3", {"ripley": "Ripley, 250 rows, n = 3"})
