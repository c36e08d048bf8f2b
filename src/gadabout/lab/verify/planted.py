"""Planted bugs, each with the check that must fail with it and pass without it."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple

from gadabout import algorithms
from gadabout.adaptations import AbstractAdaptation, Pool
from gadabout.diagnostics import split_ranks
from gadabout.ensemble.choose import Move
from gadabout.lab.verify.checks import (
    chains_have_noise_of_their_own,
    draws_leave_theta_alone,
    drift_is_flagged,
    move_stands_still,
    pooled_scale_reaches_its_aim,
    run_goes_on,
    running_mean_is_the_mean,
    stands_still,
    walk_reaches_its_aim,
)
from gadabout.lab.verify.exact import FUNNEL, GAUSSIAN, SKEW
from gadabout.lab.verify.frame import Figure, Found, Item, Parts
from gadabout.lab.verify.plants import (
    entropy_upside_down,
    even_weights_of_a_tree,
    generator_begun_anew,
    half_a_leapfrog,
    mixed_up_chains,
    no_correction,
    no_last_kick,
    no_odds_of_halvings,
    off_by_one,
    one_key_for_all,
    patched,
    reused_key,
    stale_block,
    stale_gradient,
    warm,
    wrong_half_turn,
)
from gadabout.lab.verify.samplers import exact_samplers
from gadabout.proposals import Hamiltonian, Independent, Langevin

LAW = "a step leaves the law where it is"


class Bug(NamedTuple):
    """A bug: the context that plants it, the check that must fail with it, and a description of the check."""

    plant: Callable[[], AbstractContextManager]
    check: Callable[[], bool]
    noticed_by: str = LAW


def _mala():
    return stands_still(algorithms.mala(step_size=1.3))


BUGS = {
    "the proposal's correction is dropped": Bug(lambda: no_correction(Langevin), _mala),
    "the kinetic energy is left out of the ratio": Bug(
        lambda: no_correction(Hamiltonian),
        lambda: stands_still(algorithms.hmc(3, step_size=0.8)),
    ),
    "a temperature of 1.02": Bug(
        warm,
        lambda: stands_still(algorithms.rwm(step_size=2.0), chains=300_000, iterations=40),
    ),
    "the gradient is stale after a rejection": Bug(stale_gradient, _mala),
    "one key for the noise and for accepting": Bug(reused_key, lambda: stands_still(algorithms.rwm(step_size=1.5))),
    "the leapfrog's last half step is forgotten": Bug(
        half_a_leapfrog, lambda: stands_still(algorithms.hmc(2, step_size=0.8))
    ),
    "importance weights are left out of the ratio": Bug(
        lambda: no_correction(Independent),
        lambda: stands_still(exact_samplers(SKEW)["independence-student"]),
    ),
    "a block sees the other coordinates where they are not": Bug(
        stale_block, lambda: stands_still(exact_samplers(GAUSSIAN)["block"], GAUSSIAN)
    ),
    "a half-turn leaves the law of proposals where it is not": Bug(
        wrong_half_turn, lambda: move_stands_still(Move.INDEPENDENCE_OFTEN, SKEW)
    ),
    "the odds of halved steps are left out": Bug(no_odds_of_halvings, lambda: move_stands_still(Move.NUTS, FUNNEL)),
    "the states of a tree have weights that are too even": Bug(
        even_weights_of_a_tree, lambda: move_stands_still(Move.NUTS, FUNNEL)
    ),
    "the last half kick of split HMC is forgotten": Bug(no_last_kick, lambda: move_stands_still(Move.SPLIT_HMC, SKEW)),
    "the entropy has the wrong sign": Bug(entropy_upside_down, walk_reaches_its_aim, "acceptance comes near its aim"),
    "gains are off by one": Bug(off_by_one, running_mean_is_the_mean, "gains of 1/k make a mean"),
    "evidence of chains is summed, not averaged": Bug(
        lambda: patched(Pool, "mean", Pool.total),
        pooled_scale_reaches_its_aim,
        "acceptance comes near its aim",
    ),
    "adaptation stays on while draws are kept": Bug(
        lambda: patched(AbstractAdaptation, "continues", True),
        draws_leave_theta_alone,
        "θ is the same before and after the draws",
    ),
    "all chains have one key": Bug(
        one_key_for_all, chains_have_noise_of_their_own, "chains from one start go different ways"
    ),
    "chains are mixed up after a run goes on": Bug(mixed_up_chains, run_goes_on, "a run goes on to the same bits"),
    "the default's generator begins anew after a run goes on": Bug(
        generator_begun_anew, lambda: run_goes_on(algorithms.default()), "a run goes on to the same bits"
    ),
    "R-hat does not split chains": Bug(
        lambda: patched(split_ranks, "split", lambda rows: rows), drift_is_flagged, "drift is flagged"
    ),
}
QUICK = (
    "the proposal's correction is dropped",
    "gains are off by one",
    "the last half kick of split HMC is forgotten",
    "R-hat does not split chains",
)


def tried(name: str) -> dict[str, bool]:
    """Whether a bug's check passes without it, and fails with it."""
    bug = BUGS[name]
    without = bug.check()
    with bug.plant():
        caught = not bug.check()
    return {"passes": bool(without), "caught": caught}


def run(full: bool, store: Parts) -> Found:
    """All bugs in the full version, a few in the quick one."""
    names = list(BUGS) if full else QUICK
    figures = []
    for name in names:
        part = "".join(c if c.isalnum() else "-" for c in name)
        found = store.part(f"planted-{part}", {}, lambda name=name: tried(name))
        value = "caught" if found["caught"] else "not caught"
        value += "" if found["passes"] else "; its check fails without it too"
        figures.append(Figure(name, value, "caught", all(found.values()), BUGS[name].noticed_by))
    caught = sum(figure.passed is True for figure in figures)
    return Found(figures, f"{caught} of {len(figures)} planted bugs caught")


PLANTED = Item(
    "planted-bugs", "Planted bugs are caught", "a check that would not notice the mistake it is there for", run
)
