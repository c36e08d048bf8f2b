"""The plan that starts anywhere: descend to the typical set, fit a Gaussian quickly, choose the move by evidence."""

from collections.abc import Callable
from typing import Literal

from gadabout.algorithms.local_global import local_global
from gadabout.algorithms.nuts import nuts
from gadabout.algorithms.recipe import recipe
from gadabout.algorithms.split_hmc import fitted_gaussian, split_hmc
from gadabout.checks import check_one_of
from gadabout.factors import FactorChoice
from gadabout.schedule import Chosen, Descend, Draw, Judge, Learn, Plan, Rest, Search, Sift

MOVES = {"auto": None, "nuts": "sturdy", "split-hmc": "local", "independence": "independence"}


@recipe
def default(
    factor: FactorChoice = "auto",
    *,
    move: Literal["auto", "nuts", "split-hmc", "independence"] = "auto",
    target_acceptance: float = 0.8,
) -> Plan:
    """Starts anywhere, learns in a few dozen iterations from all chains together, and chooses how to draw.

    Every chain walks up its log density to the typical set. The ends of the paths give a first Gaussian, short windows
    of split HMC better ones, until fits agree, for half of `num_warmup` iterations at the most. Then some iterations
    are looked at (see `schedule.Judge`). Where they give cause for doubt, NUTS whose steps are halved where they must
    be learns for the other half, from that Gaussian, and makes the draws. Else split HMC does, or, where the Gaussian
    fits so well that they promise more for their cost, independence proposals with a move of split HMC in
    every 32, or, where one of them tells little, in every 8.

    Args:
        factor: "dense" fits a covariance, "diagonal" standard deviations; "auto" the first up to 300 coordinates,
            and up to 2,000 where a gradient takes as many operations as the covariance has entries.
        move: what makes the draws, if it is not to be chosen by the evidence.
        target_acceptance: that of a whole trajectory of split HMC, in (0, 1).

    Raises:
        ValueError: if a setting is out of range.
    """
    named = MOVES[check_one_of("move", move, tuple(MOVES))]
    local = split_hmc(factor, target_acceptance=target_acceptance)
    sturdy, plain = nuts(factor, halvings=14), nuts("diagonal", halvings=14)
    independence, often = local_global(local), local_global(local, period=8)
    simple = local_global(split_hmc("diagonal", target_acceptance=target_acceptance), factor="diagonal")
    stages = (
        Search(),
        Descend(factor),
        Sift(local),
        Learn(local, share=0.5),
        Judge(local, fitted_gaussian, named),
        Chosen((Learn(sturdy, share=0.5), Learn(plain, share=0.5), Rest(), Rest(), Rest(), Rest())),
        Chosen((Draw(sturdy), Draw(plain), Draw(local), Draw(independence), Draw(simple), Draw(often))),
    )
    return Plan(stages, "default", num_chains=16)


PLANS: dict[str, Callable[..., Plan]] = {"default": default}
"""The plans that choose for themselves, by the names that the command line knows them by, accepted as samplers are."""
