"""Table 6: the German credit data (1,000 rows, n = 25)."""

from gadabout.experiments.session import Session
from gadabout.experiments.table import Outcome, table


def run(session: Session) -> Outcome:
    """The one panel."""
    return table(session, "table6", {"german": "German credit, 1,000 rows, n = 25"})
