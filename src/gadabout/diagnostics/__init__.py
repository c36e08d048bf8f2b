"""Diagnostics of draws that established libraries lack, and one table of those that they offer."""

from gadabout.diagnostics.functions import diagnose, evaluate, positions
from gadabout.diagnostics.importance_weights import independence_efficiency, pareto_k, tail_size
from gadabout.diagnostics.initial_monotone import initial_monotone_ess
from gadabout.diagnostics.summary import ess_table, judged, mean_ess, rhat, spacing_of, spread, square_ess

__all__ = [
    "diagnose",
    "ess_table",
    "evaluate",
    "independence_efficiency",
    "initial_monotone_ess",
    "judged",
    "mean_ess",
    "pareto_k",
    "positions",
    "rhat",
    "spacing_of",
    "spread",
    "square_ess",
    "tail_size",
]
