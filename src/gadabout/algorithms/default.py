"""The plan that starts anywhere: ascent to the typical set, a Gaussian fitted quickly, a move chosen by a pilot run."""

import warnings
from collections.abc import Callable
from typing import Literal

from gadabout.algorithms.recipe import recipe
from gadabout.algorithms.settings import probability
from gadabout.checks import check_one_of
from gadabout.ensemble.choose import Move
from gadabout.ensemble.stages import Ascend, ChooseMove, DrawChosen, Factor, LearnGaussian, LearnNuts, SearchStarts
from gadabout.schedule import Plan

NAMED = {"auto": None, "nuts": Move.NUTS, "split-hmc": Move.SPLIT_HMC, "independence": Move.INDEPENDENCE}


@recipe
def default(
    factor: Factor = "auto",
    *,
    move: Literal["auto", "nuts", "split-hmc", "independence"] = "auto",
    coordinates: Literal["auto", "affine"] = "auto",
    target_acceptance: float = 0.8,
) -> Plan:
    """Starts anywhere, learns in a few dozen iterations from all chains together, and chooses how to draw.

    It runs in NumPy on the host; the log density and its gradient, of all chains at once, are all that is compiled.
    Every chain ascends its log density to the typical set. The ends of the paths give a first Gaussian, short windows
    of split HMC better ones, until fits agree, for half of `num_warmup` iterations at the most. Where ascents end in
    modes apart, a mixture that proposes from all of them is learned in place of it (`ensemble.mixture`). A pilot run
    follows (`ensemble.pilot`); it looks for better coordinates where the Gaussian fits badly. Where it gives cause for
    doubt, NUTS whose steps are halved where they must be learns for the other half, from that Gaussian, and makes the
    draws. Else it is the move whose gradients are worth most draws: split HMC, or independence proposals with a move of
    split HMC in every 32, or, where one of them is worth little, in every 8.

    Args:
        factor: "dense" fits a covariance, "diagonal" standard deviations; "auto" the first up to 300 coordinates,
            and up to 2,000 where a gradient takes as many operations as the covariance has entries.
        move: what makes the draws, if it is not to be chosen by the pilot run.
        coordinates: "auto" unfolds what a Gaussian cannot follow, scales that depend on other coordinates as in a
            funnel (`ensemble.unfolding`), where that pays; "affine" does not.
        target_acceptance: that of a whole trajectory of split HMC, in (0, 1).

    Raises:
        ValueError: if a setting is out of range.
    """
    named = NAMED[check_one_of("move", move, tuple(NAMED))]
    goal = float(probability("target_acceptance", target_acceptance))
    check_one_of("factor", factor, ("auto", "dense", "diagonal"))
    unfold = check_one_of("coordinates", coordinates, ("auto", "affine")) == "auto"
    chosen = None if named is None else str(named)
    stages = (
        SearchStarts(),
        Ascend(factor, named is None),
        LearnGaussian(goal),
        ChooseMove(chosen, goal, unfold),
        LearnNuts(),
        DrawChosen(goal),
    )
    return Plan(stages, "default", num_chains=16)


def split_hmc(
    factor: Factor = "auto",
    *,
    target_acceptance: float = 0.8,
    step_size: float | None = None,
    max_steps: int | None = None,
) -> Plan:
    """Deprecated: `default(factor, move="split-hmc")`, which learns `step_size` and takes at most 32 steps."""
    warnings.warn(
        'split_hmc() goes in version 0.3: use default(move="split-hmc"), which takes neither step_size nor max_steps',
        DeprecationWarning,
        stacklevel=2,
    )
    return default(factor, move="split-hmc", target_acceptance=target_acceptance)


PLANS: dict[str, Callable[..., Plan]] = {"default": default}
"""The plans that choose for themselves, by the names that the command line knows them by, accepted as samplers are."""
