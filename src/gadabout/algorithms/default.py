"""The plan that starts anywhere: descend to the typical set, fit a Gaussian quickly, draw by split HMC or NUTS."""

from gadabout.algorithms.nuts import nuts
from gadabout.algorithms.split_hmc import fitted_gaussian, split_hmc
from gadabout.factors import FactorChoice
from gadabout.schedule import Chosen, Descend, Draw, Learn, Plan, Rest, Search, Trust


def default(factor: FactorChoice = "auto", *, target_acceptance: float = 0.8) -> Plan:
    """Starts anywhere and learns in a few dozen iterations, from all chains together; give it 16 chains or more.

    Every chain walks up its log density to the typical set. The ends of the paths give a first Gaussian, short windows
    of split HMC better ones, until fits agree, for half of `num_warmup` iterations at the most. Then 100 iterations are
    looked at. Where they give no cause for doubt (see `schedule.Trust`), split HMC makes the draws; else NUTS with a
    target acceptance of 0.95 learns for the other half, from that Gaussian, and makes them.

    Args:
        factor: "dense" fits a covariance, "diagonal" standard deviations; "auto" the first up to 300 coordinates.
        target_acceptance: that of a whole trajectory of split HMC, in (0, 1).

    Raises:
        ValueError: if a setting is out of range.
    """
    quick = split_hmc(factor, target_acceptance=target_acceptance)
    sturdy = nuts(factor, target_acceptance=0.95)
    stages = (
        Search(),
        Descend(factor),
        Learn(quick, share=0.5),
        Trust(quick, fitted_gaussian),
        Chosen((Learn(sturdy, share=0.5), Rest())),
        Chosen((Draw(sturdy), Draw(quick))),
    )
    return Plan(stages, "default")
