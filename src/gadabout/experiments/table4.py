"""Table 4: the Pima Indian diabetes data (532 rows, n = 8)."""

from gadabout.experiments.session import Session
from gadabout.experiments.table import Outcome, table


def run(session: Session) -> Outcome:
    """The one panel."""
    return table(session, "table4", {"pima": "Pima, 532 rows, n = 8"})
