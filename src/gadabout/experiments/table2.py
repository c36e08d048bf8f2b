"""Table 2: the Australian credit data (690 rows, n = 15)."""

from gadabout.experiments.session import Session
from gadabout.experiments.table import Outcome, table


def run(session: Session) -> Outcome:
    """The one panel."""
    return table(session, "table2", {"australian": "Australian credit, 690 rows, n = 15"})
