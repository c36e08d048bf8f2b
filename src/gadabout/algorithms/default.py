"""The plan that starts anywhere: descend to the typical set, fit a Gaussian quickly, draw by split HMC."""

from typing import Literal

from gadabout.algorithms.split_hmc import split_hmc
from gadabout.schedule import Descend, Draw, Learn, Plan, Search


def default(factor: Literal["auto", "dense", "diagonal"] = "auto", *, target_acceptance: float = 0.8) -> Plan:
    """Starts anywhere and learns in a few dozen iterations, from all chains together; give it 16 chains or more.

    Every chain walks up its log density to the typical set; the ends of the paths give a first Gaussian, short windows
    of split HMC better ones; warm-up ends when fits agree, `num_warmup` iterations at the latest.

    Args:
        factor: "dense" fits a covariance, "diagonal" standard deviations; "auto" the first up to 300 coordinates.
        target_acceptance: that of a whole trajectory, in (0, 1).

    Raises:
        ValueError: if a setting is out of range.
    """
    sampler = split_hmc(factor, target_acceptance=target_acceptance)
    return Plan((Search(), Descend(factor), Learn(sampler), Draw(sampler)), "default")
