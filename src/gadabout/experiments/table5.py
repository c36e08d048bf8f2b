"""Table 5: the Heart data (270 rows, n = 14)."""

from gadabout.experiments.session import Session
from gadabout.experiments.table import Outcome, table


def run(session: Session) -> Outcome:
    """The one panel."""
    return table(session, "table5", {"heart": "Heart, 270 rows, n = 14"})
