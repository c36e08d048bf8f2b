"""Table 7: MNIST, 5 against 6 (11,339 rows, n = 785), with the paper's labels and with the right ones."""

from gadabout.experiments.session import Session
from gadabout.experiments.table import Outcome, table


def run(session: Session) -> Outcome:
    """Both posteriors, in single precision; the published figures belong to the first."""
    titles = {
        "mnist-56-as-published": "MNIST 5 against 6 as published: 497 sixes labelled as fives",
        "mnist-56": "MNIST 5 against 6, correctly labelled",
    }
    return table(session, "table7", titles, num_repeats=5)
