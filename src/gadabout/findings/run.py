"""Findings from a run's own account: how it ended, chains that stood still, bounds that learning reached."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gadabout.driver import Completed, Ending, Failed, Interrupted, Until
from gadabout.findings.records import MOST_NAMED, Finding

LAGGING = 0.1
"""a chain is reported if its acceptance rate is below this share of the median chain's"""

FAR = 4.0
"""acceptance is reported if its odds differ from those of its target by more than this factor"""

COARSE = 0.1
"""largest spacing of log densities, in nats, at which acceptance can still be decided"""

MOST_DISCONTINUOUS = 0.01
"""largest tolerated share of trajectories in which halved steps are as wrong as whole ones; 0.002 in smooth necks"""

FEWEST_STARTS = 4
"""distinct starts that R-hat needs, or as many as there are chains"""

MOST_UNSEEN = 0.02
"""largest tolerated probability that an ascent leads to a mode that is not among those found"""

NUTS = ("nuts", "nuts-diagonal")
"""the moves of the default that are NUTS"""

COUNTED = {
    "nonfinite": "their log density or gradient was not finite and they were rejected; check the model's support, and "
    "give borders by `transforms=`",
    "diverging": "their energy grew without bound; ",
}

BOUNDS = {
    "beta_at_cap": ("β, the weight of the entropy, ended at its ceiling: proposals can still grow", "more num_warmup"),
    "beta_at_floor": ("β, the weight of the entropy, ended at its floor: too little is accepted", "more num_warmup"),
    "factor_at_floor": (
        "the learned factor ended at its floor: a direction has collapsed, or the density has a very narrow one",
        "a larger `scale` or another start, and look at the smallest ESS",
    ),
}


def found_in_run(
    ending: Ending,
    until: Until | None,
    draws: int,
    stats: Mapping[str, np.ndarray],
    learned: Mapping[str, np.ndarray],
    explained: bool = False,
    *,
    choice: Mapping[str, Any] | None = None,
    pooled: bool = True,
) -> list[Finding]:
    """The findings on a run with so many draws of each chain.

    Args:
        ending: how the run ended.
        until: the rule that ends the run, if there was one.
        draws: number of draws of each chain.
        stats: statistics of the sampling stage by name, (chain, draw) each.
        learned: the adaptation's figures at its end, by name, with an entry for each pool.
        explained: whether another finding explains proposals that are not finite.
        choice: the default's account of how its draws were made (`attrs["choice"]`), if it made them.
        pooled: whether all chains learned one θ.
    """
    found = []
    if isinstance(ending, Interrupted):
        found.append(Finding("interrupted", "the run was interrupted: it holds the draws made until then"))
    if isinstance(ending, Failed):
        found.append(Finding("failed", f"the run stopped early: {ending.reason}"))
    if draws == 0:
        found.append(Finding("no-draws", "no draws were made: there is nothing to look at"))
    if until is not None and isinstance(ending, Completed):
        problem = f"all {draws:,} draws were made and the rule of `until` is not met"
        found.append(Finding("until", problem, "use more num_draws", figure=float(draws)))
    jumps = coarse(stats) or discontinuous(stats)
    told = choice or {}
    stood = standing(stats, for_some_chains(told, pooled)) + counted(stats, explained, for_divergences(told))
    return found + stood + jumps + off_aim(stats, learned) + bounds_met(learned)


def other_move(choice: Mapping[str, Any]) -> str:
    """The remedy of another move of the default; empty if a recipe, NUTS or a mixture of modes made the draws."""
    return "" if choice.get("move") in (None, *NUTS, "mixture") else "default(move='nuts')"


def for_some_chains(choice: Mapping[str, Any], pooled: bool) -> str:
    """The remedy for chains that the learned θ does not suit."""
    own = "" if choice.get("move") or not pooled else "adapt='per-chain'"
    other = own or other_move(choice)
    return "look at their draws alone" + (f", or use {other}" if other else ", or use another start")


def for_divergences(choice: Mapping[str, Any]) -> str:
    """The remedy for trajectories whose energy grows without bound."""
    if not choice.get("move"):
        return "use a smaller step size or a higher target_acceptance"
    other = other_move(choice)
    return f"use {other}, or another parametrisation" if other else "use another parametrisation"


def standing(stats: Mapping[str, np.ndarray], remedy: str) -> list[Finding]:
    """Findings on chains that never moved, and on those that accept far less than others, with `remedy`."""
    found, rates = [], _rates(stats)
    stuck = np.flatnonzero(rates == 0)
    lagging = np.flatnonzero((rates > 0) & (rates < LAGGING * np.median(rates))) if len(rates) else stuck
    if len(lagging):
        problem = (
            f"chains {lagging.tolist()} accepted {rates[lagging].max():.1%} or less in the sampling stage, where the "
            f"median chain accepted {np.median(rates):.1%}; what was learned for the others does not suit them"
        )
        figures: dict[str, Any] = {"figure": float(rates[lagging].max()), "limit": float(LAGGING * np.median(rates))}
        found.append(Finding("lagging", problem, remedy, chains=lagging.tolist(), **figures))
    if len(stuck):
        problem = f"chains {stuck.tolist()} accepted nothing in the sampling stage; their draws are one point repeated"
        remedy = "use more num_warmup, or another start"
        found.append(Finding("frozen", problem, remedy, chains=stuck.tolist(), figure=0.0))
    return found


def all_frozen(stats: Mapping[str, np.ndarray]) -> bool:
    """Whether no chain ever moved; other findings on the draws then add nothing."""
    rates = _rates(stats)
    return len(rates) > 0 and not rates.any()


def _rates(stats: Mapping[str, np.ndarray]) -> np.ndarray:
    """The acceptance rate of each chain, 0 if it accepted nothing; empty if the rate was not recorded."""
    rates = stats.get("acceptance_rate")
    if rates is None or not rates.size:
        return np.empty(0)
    moved = stats["accepted"].any(1) if "accepted" in stats else True
    return np.where(moved, rates.mean(1), 0.0)


def counted(stats: Mapping[str, np.ndarray], explained: bool, remedy: str) -> list[Finding]:
    """Findings on proposals that were not finite or diverged; those that are not finite are omitted if `explained`.

    `remedy` is for proposals that diverged.
    """
    found = []
    for kind, said in COUNTED.items():
        events = stats.get(kind)
        if explained and events is not None and "nonfinite" in stats:
            events = events & ~stats["nonfinite"]
        if events is not None and events.any():
            count, chains = int(events.sum()), np.flatnonzero(events.any(1)).tolist()
            problem = f"{count} of {events.size} proposals in the sampling stage were {kind}"
            advice = said + remedy * (kind == "diverging")
            found.append(Finding(kind, problem, advice, chains=chains, figure=float(count)))
    return found


def coarse(stats: Mapping[str, np.ndarray]) -> list[Finding]:
    """A finding if the log density is so large that its float type does not resolve the differences for acceptance."""
    lp, rates = stats.get("lp"), _rates(stats)
    if lp is not None and len(rates):
        lp = lp[rates > 0]
    if lp is None or not lp.size or not np.issubdtype(lp.dtype, np.floating):
        return []
    typical = np.median(np.abs(lp))
    step = float(np.spacing(typical))
    if not step > COARSE:
        return []
    problem = (
        f"log densities of about {typical:.1e} are known to {step:.2g} only in {lp.dtype}: moves are judged by chance"
    )
    remedy = "use float64, jax.config.update('jax_enable_x64', True), or leave large constants out of the log density"
    return [Finding("coarse", problem, remedy, figure=step, limit=COARSE)]


def discontinuous(stats: Mapping[str, np.ndarray]) -> list[Finding]:
    """A finding on jumps of the log density, where no step is short enough (`ensemble.halving`), or on rounding."""
    events = stats.get("discontinuous")
    if events is None or not events.size or not events.mean() > MOST_DISCONTINUOUS:
        return []
    share, affected = float(events.mean()), events.any(1)
    problem = f"{share:.0%} of trajectories meet jumps of the log density, which no step is short enough for"
    remedy = "marginalise the discrete choice, smooth the step, or give the border as a constraint"
    if "lp" in stats and stats["lp"].dtype == np.float32:
        remedy += "; if there is none, float32 is too coarse for a term of it: use float64"
    chains = [] if affected.all() else np.flatnonzero(affected).tolist()
    return [Finding("discontinuous", problem, remedy, chains=chains, figure=share, limit=MOST_DISCONTINUOUS)]


def few_starts(distinct: int | None, chains: int) -> list[Finding]:
    """A finding if so many chains began where others stood that R-hat has little to compare."""
    if distinct is None or distinct >= min(chains, FEWEST_STARTS):
        return []
    problem = f"the {chains} chains began in {distinct} places only, the others where these stood: R-hat says little"
    remedy = "use other starts, with `init` or `init_per_chain`, and see whether the draws agree"
    return [Finding("starts", problem, remedy, figure=float(distinct), limit=float(min(chains, FEWEST_STARTS)))]


def unsettled(choice: Mapping[str, Any]) -> list[Finding]:
    """A finding if a fit still changed at the end of its share of warm-up, and the chosen move depends on it."""
    other = other_move(choice)
    if choice.get("settled", True) or not other:
        return []
    problem = "the Gaussian that moves are fitted to still changed when its share of warm-up was over"
    return [Finding("unsettled", problem, f"use more num_warmup, or {other}")]


def unseen_modes(choice: Mapping[str, Any], names: Sequence[str]) -> list[Finding]:
    """A finding if a search did not find every mode twice: there may be others, which R-hat does not show."""
    chance = choice.get("modes_seen_once", 0.0)
    if choice.get("move") != "mixture" or chance <= MOST_UNSEEN:
        return []
    problem = (
        f"of the ascents that led to the {len(choice['modes'])} modes, {chance:.0%} led to one that no other found: "
        "there may be modes that no chain visits"
    )
    remedy = "start where the modes are, with `init` or the model's `start`, or say what the data cannot tell apart"
    return [
        Finding("modes", problem, remedy, variables=list(names[:MOST_NAMED]), figure=float(chance), limit=MOST_UNSEEN)
    ]


def off_aim(stats: Mapping[str, np.ndarray], learned: Mapping[str, np.ndarray]) -> list[Finding]:
    """Findings on acceptance far from the target of the learned proposal; chains that stood still are omitted.

    A part of a composition is compared if its own acceptance rate is recorded.
    """
    found = []
    for name, aims in learned.items():
        part = name.removeprefix("target_acceptance")
        rates = stats.get(f"acceptance_rate{part}")
        if part == name or rates is None or not rates.size:
            continue
        rates = rates.mean(1)
        moved = np.flatnonzero(rates > 0)
        pools = [(aims[0], moved)] if len(aims) == 1 else [(aims[c], moved[moved == c]) for c in range(len(aims))]
        each = [(float(rates[chains].mean()), float(aim), chains.tolist()) for aim, chains in pools if len(chains)]
        far = [(_apart(got, aim), got, aim, chains) for got, aim, chains in each if _apart(got, aim) > FAR]
        if far:
            _, got, aim, _ = max(far)
            chains = [] if len(aims) == 1 else [c for *_, own in far for c in own]
            who = (f" of chains {chains}" if chains else "") + (f" in part {part[1:]}" if part else "")
            problem = f"acceptance{who} is {got:.2f}, far from its aim {aim:.2f}: the proposal is not learned"
            found.append(Finding("acceptance", problem, "use more num_warmup", chains=chains, figure=got, limit=aim))
    return found


def _apart(got: float, aim: float) -> float:
    """The factor by which the odds of two rates differ."""
    odds = [max(rate, 1e-12) / max(1 - rate, 1e-12) for rate in (got, aim)]
    return max(odds) / min(odds)


def bounds_met(learned: Mapping[str, np.ndarray]) -> list[Finding]:
    """Findings on bounds at which learning ended; a name in `learned` may end with the number of a part."""
    met = [name for name, value in learned.items() if np.any(value)]
    each = ((bound, said) for bound, said in BOUNDS.items() if any(name.startswith(bound) for name in met))
    return [Finding(bound.replace("_", "-"), problem, f"use {remedy}") for bound, (problem, remedy) in each]
