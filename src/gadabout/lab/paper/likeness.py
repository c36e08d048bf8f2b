"""The learned factor of a repeat, and measures of its agreement with the truth up to a common multiple."""

import numpy as np

from gadabout.lab.paper.repeats import Repeat


def factor(repeat: Repeat) -> np.ndarray:
    """The learned L of a repeat, times its global scale if any: the diagonal, or all of L if the method keeps it."""
    learned = {name.rpartition(".")[2]: value for name, value in repeat.series.items() if name.startswith("learned.")}
    base = learned["matrix"] if "matrix" in learned else learned["scale"]
    return learned.get("multiplier", 1.0) * base


def multiple(learned: np.ndarray, truth: np.ndarray) -> float:
    """The c for which c · truth is nearest to `learned` in the Frobenius norm."""
    return float(np.sum(learned * truth) / np.sum(truth * truth))


def distance(learned: np.ndarray, truth: np.ndarray) -> float:
    """Relative Frobenius distance to the nearest multiple of the truth: 0 where proportional, 1 where unrelated."""
    return float(np.linalg.norm(learned - multiple(learned, truth) * truth) / np.linalg.norm(learned))


def correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Pearson's correlation of two arrays, entry by entry."""
    return float(np.corrcoef(np.ravel(first), np.ravel(second))[0, 1])
