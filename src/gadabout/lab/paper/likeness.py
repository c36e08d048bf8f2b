"""How like the truth is what a repeat learned: its factor, and measures that do not see a common multiple."""

import numpy as np

from gadabout.lab.paper.repeats import Repeat


def factor(repeat: Repeat) -> np.ndarray:
    """L as a repeat keeps it: its diagonal, or the whole where the method keeps that, with any global scale in it."""
    learned = {name.rpartition(".")[2]: value for name, value in repeat.series.items() if name.startswith("learned.")}
    base = learned["matrix"] if "matrix" in learned else learned["scale"]
    return learned.get("multiplier", 1.0) * base


def multiple(learned: np.ndarray, truth: np.ndarray) -> float:
    """The c for which c · truth is nearest to what was learned, in the Frobenius norm."""
    return float(np.sum(learned * truth) / np.sum(truth * truth))


def distance(learned: np.ndarray, truth: np.ndarray) -> float:
    """Relative Frobenius distance to the nearest multiple of the truth: 0 where proportional, 1 where unrelated."""
    return float(np.linalg.norm(learned - multiple(learned, truth) * truth) / np.linalg.norm(learned))


def correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Pearson's correlation of two arrays, entry by entry."""
    return float(np.corrcoef(np.ravel(first), np.ravel(second))[0, 1])
