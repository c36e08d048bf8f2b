"""The default plan: ascent to the typical set, a quickly fitted Gaussian, and a move chosen by a pilot run."""

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
    """Starts anywhere, learns from all chains together in a few dozen iterations, and chooses the move that draws.

    It runs in NumPy on the host; only the log density and its gradient, for all chains at once, are compiled. Every
    chain ascends the log density to the typical set. The ends of the ascents give a first Gaussian. Short windows of
    split HMC improve it until fits agree, for at most half of `num_warmup` iterations. If ascents end in separated
    modes, a mixture that proposes from all of them is learned instead (`ensemble.mixture`). A pilot run follows
    (`ensemble.pilot`); where the Gaussian fits badly, it searches for better coordinates. The draws are made by the
    move whose gradients yield the most effective draws (`ensemble.choose`): split HMC; or independence proposals with
    a move of split HMC in every 32, or in every 8 where a proposal is worth little; or, tried only where there is
    doubt or the others are worth little, NUTS with steps halved where necessary, which first learns from that
    Gaussian for the other half of `num_warmup`.

    Args:
        factor: "dense" fits a covariance, "diagonal" standard deviations; "auto" is "dense" up to 300 coordinates,
            and up to 2,000 where a gradient takes as many operations as the covariance has entries.
        move: the move that makes the draws; "auto" lets the pilot run choose it.
        coordinates: "auto" unfolds scales that depend on other coordinates, as in a funnel (`ensemble.unfolding`),
            where that pays; "affine" never does.
        target_acceptance: target acceptance probability of a whole trajectory of split HMC, in (0, 1).

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
    """Deprecated: use `default(factor, move="split-hmc")`, which learns `step_size` and takes at most 32 steps."""
    warnings.warn(
        'split_hmc() goes in version 0.3: use default(move="split-hmc"), which takes neither step_size nor max_steps',
        DeprecationWarning,
        stacklevel=2,
    )
    return default(factor, move="split-hmc", target_acceptance=target_acceptance)


PLANS: dict[str, Callable[..., Plan]] = {"default": default}
"""The plans, which choose their moves themselves, by command-line name; accepted wherever samplers are."""
