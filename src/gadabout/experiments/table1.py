"""Table 1: Neal's Gaussian (n = 100) and the Caravan data (5,822 rows, n = 86; the paper's text says 87)."""

from gadabout.experiments.session import Session
from gadabout.experiments.table import Outcome, table


def run(session: Session) -> Outcome:
    """Both panels."""
    return table(session, "table1", {"neal": "Neal's Gaussian, n = 100", "caravan": "Caravan, 5,822 rows, n = 86"})
