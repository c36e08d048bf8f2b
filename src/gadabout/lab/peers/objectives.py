"""Algorithm 1 with other objectives, estimators, factors and proposals, with equal warm-up and number of chains."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gadabout import targets
from gadabout.adaptations import JumpDistance, LogRatio, ScoreFunction
from gadabout.algorithms import gad, gad_mala, gad_rwm
from gadabout.api import sample
from gadabout.factors import Cholesky, LowRank
from gadabout.lab.peers.samplers import quality
from gadabout.lab.rows import Rows
from gadabout.models.missing import needs
from gadabout.proposals import (
    Gaussian,
    Langevin,
    MultiscaleWalk,
    RandomWalk,
    ReparametrisedIndependent,
    Trajectory,
    coupling_flow,
)
from gadabout.sampler import Sampler
from gadabout.targets import wild

RANK, KEY = 5, 0


def _small(n: int) -> Cholesky:
    return Cholesky(0.1 / n**0.5 * jnp.eye(n))


def _low_rank(n: int) -> LowRank:
    """A small isotropic factor. U is not zero, as V would then have no gradient."""
    left = jax.random.normal(jax.random.key(KEY), (n, min(RANK, n))) / n**0.5
    return LowRank(jnp.full(n, 0.1 / n**0.5), left, jnp.zeros_like(left))


def _independent(distribution: Any) -> Sampler:
    return gad(ReparametrisedIndependent(distribution), objective=LogRatio())


def _jump(reciprocal: bool) -> Callable[[int], Sampler]:
    """Recipe with the squared jump distance and Adam: the paper's RMSprop takes small steps for small gradients."""

    def make(n: int) -> Sampler:
        import optax  # from the extra `peers`

        return gad(Langevin(_small(n)), objective=JumpDistance(reciprocal=reciprocal), optimiser=optax.adam(4e-3))

    return make


METHODS: dict[str, Callable[[int], Sampler]] = {
    "MALA": lambda n: gad_mala(),
    "MALA, rate x 4": lambda n: gad_mala(learning_rate=1.6e-2),
    "MALA, low rank": lambda n: gad(Langevin(_low_rank(n)), target_acceptance=0.55),
    "MALA, squared jump": _jump(False),
    "MALA, squared jump and reciprocal": _jump(True),
    "leapfrog, 2 steps": lambda n: gad(Trajectory(_small(n), 2), target_acceptance=0.65),
    "leapfrog, 3 steps": lambda n: gad(Trajectory(_small(n), 3), target_acceptance=0.8),
    "walk": lambda n: gad_rwm(),
    "walk, score function": lambda n: gad(RandomWalk(_small(n)), estimator=ScoreFunction()),
    "walk at 3 scales, score function": lambda n: gad(MultiscaleWalk(_small(n), jnp.zeros(3))),
    "independence, Gaussian, log-ratio": lambda n: _independent(Gaussian(jnp.zeros(n), Cholesky(jnp.eye(n)))),
    "independence, flow, log-ratio": lambda n: _independent(coupling_flow(jax.random.key(KEY), jnp.zeros(n))),
}
"""Recipes by name, for n coordinates. The first is the paper's gadMALA, with the gradients of all chains pooled."""


def objectives(
    names: Sequence[str],
    chains: int,
    warmup: int,
    draws: int,
    seeds: int,
    file: Path | None = None,
    data_home: str | Path | None = None,
) -> Iterator[dict[str, Any]]:
    """Yields a row for each target, method and seed. Rows that `file` holds are reused, and new ones are added to it.

    An evaluation is one of ∇ log π, or of log π alone for a move without gradients. Raises ValueError for an unknown
    target, and if `file` holds something else; ImportError if optax is not installed.
    """
    needs("optax", "peers", "the comparison of objectives")
    rows, plan = Rows(file), {"chains": chains, "warmup": warmup, "draws": draws}
    for name in names:
        problem = wild.load(name) if name in wild.BUILDERS else targets.load(name, data_home)
        for label, recipe in METHODS.items():
            for seed in range(seeds):
                known = {"target": name, "method": label, "seed": seed, **plan}
                yield rows.row(known, partial(_run, problem, recipe, seed, plan))


def _run(problem: Any, recipe: Callable[[int], Sampler], seed: int, plan: dict[str, int]) -> dict[str, Any]:
    """Runs one sampler and returns the figures of its row."""
    n = problem.dim if isinstance(problem, targets.Problem) else problem.layout.dim
    sampler = recipe(n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the row has the figures
        tree = sample(
            problem,
            sampler=sampler,
            num_chains=plan["chains"],
            num_warmup=plan["warmup"],
            num_draws=plan["draws"],
            seed=seed,
            record=["posterior", "acceptance_rate"],
            progress=False,
        )
    posterior = tree["posterior"].dataset
    values = [np.asarray(v.values).reshape(plan["chains"], plan["draws"], -1) for v in posterior.data_vars.values()]
    q, rhat = quality(np.concatenate(values, -1))
    each = [max(1, sampler.kernel(n).gradient_evaluations(learning)) for learning in (True, False)]
    evaluations = [plan["chains"] * plan[stage] * cost for stage, cost in zip(("warmup", "draws"), each, strict=True)]
    return {
        "q": q,
        "rhat": rhat,
        "acceptance_rate": float(np.mean(tree["sample_stats"]["acceptance_rate"].values)),  # pyright: ignore
        "q_per_1000_evaluations": 1e3 * q / evaluations[1],
        "with_warmup": 1e3 * q / sum(evaluations),
        "seconds": tree.attrs["seconds_warmup"] + tree.attrs["seconds_sampling"],
        "compile_seconds": tree.attrs["seconds_compile"],
    }


def summary(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Medians over seeds, and the largest R-hat, by target and method in the order of rows."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["target"], row["method"]), []).append(row)
    figures = ("q", "acceptance_rate", "q_per_1000_evaluations", "with_warmup", "seconds")
    return [
        {"target": target, "method": method, "rhat": max(row["rhat"] or 0.0 for row in group)}
        | {name: float(np.median([row[name] for row in group])) for name in figures}
        for (target, method), group in groups.items()
    ]
