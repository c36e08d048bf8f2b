"""What a gradient costs inside a run, beside the gradient alone; and what an iteration costs as a problem grows."""

import gc
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gadabout import targets
from gadabout.algorithms import default, gad, gad_mala, split_hmc
from gadabout.api import sample
from gadabout.factors import LowRank
from gadabout.proposals import Langevin
from gadabout.sampler import Sampler
from gadabout.schedule import Plan

RANK = 5
"""columns of the low-rank factor"""
LARGEST_DENSE = 1_000
ITERATIONS = 2_000
"""of warm-up, and as many of draws, in `growth`"""
SAMPLERS: dict[str, Callable[[int], Sampler]] = {
    "gad-mala, dense": lambda n: gad_mala(factor="dense"),
    "gad-mala, diagonal": lambda n: gad_mala(factor="diagonal"),
    "gad, MALA with a low-rank factor": lambda n: gad(Langevin(_low_rank(n)), target_acceptance=0.55),
    "split-hmc, diagonal": lambda n: split_hmc("diagonal"),
}


def costs(
    names: Sequence[str], chains: int, draws: int, repeats: int, data_home: str | Path | None = None
) -> Iterator[dict[str, Any]]:
    """A row for each of the paper's targets: microseconds for each chain, medians over repeats, which are interleaved.

    `gradient_us` is all that draws by split HMC take in a run of the default, over their gradients, and `bare_us` the
    log density and its gradient of as many positions at once, in a loop of its own. `draw_us` is a draw of the default
    by the `move` that it chose, `noise_us` n standard normals for each chain, in a loop of their own.
    """
    for name in names:
        problem = targets.load(name, data_home)
        runs = [_measured(problem, chains, draws, seed) for seed in range(repeats)]
        figures = {what: np.array([run[what] for run in runs]) for what in runs[0] if what != "move"}
        row = {what: float(np.median(values)) for what, values in figures.items()}
        ratios = figures["gradient_ratio"]
        about = {"target": name, "n": problem.dim, "move": runs[-1]["move"]}
        yield {**about, **row, "ratio_range": [float(ratios.min()), float(ratios.max())]}


def _measured(problem: targets.Problem, chains: int, draws: int, seed: int) -> dict[str, Any]:
    key = jax.random.key(seed)
    positions = jax.random.normal(key, (chains, problem.dim))
    alone = 1e6 / draws / chains
    found = {
        "gradient_us": _run(problem, default(move="split-hmc"), chains, draws, seed)["gradient_us"],
        "bare_us": alone * _seconds(_moved, problem.target, positions, jnp.zeros(()), draws),
        "noise_us": alone * _seconds(_noise, key, positions.shape, draws),
    }
    drawn = _run(problem, default(), chains, draws, seed)
    found |= {"draw_us": drawn["draw_us"], "noise_ratio": drawn["draw_us"] / found["noise_us"], "move": drawn["move"]}
    return found | {"gradient_ratio": found["gradient_us"] / found["bare_us"]}


def growth(dims: Sequence[int], chains: Sequence[int], few: int = 4) -> Iterator[dict[str, Any]]:
    """A row for each sampler and size: microseconds of an iteration of all chains, in warm-up and among the draws.

    First the number of coordinates grows, of N(0, diag(s²)) with `few` chains; then the number of chains, with the
    smallest of the dimensions. A dense factor is left out above `LARGEST_DENSE`.
    """
    sizes = [(n, few) for n in dims] + [(min(dims), count) for count in chains]
    for label, made in SAMPLERS.items():
        for n, count in sizes:
            if "dense" in label and n > LARGEST_DENSE:
                continue
            yield {"sampler": label, "n": n, "chains": count, **_growing(made(n), n, count)}


def _growing(sampler: Sampler, n: int, chains: int) -> dict[str, float]:
    deviations, done = jnp.linspace(0.1, 1.0, n), {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few iterations are no fit
        tree = sample(
            _gaussian, jnp.zeros(n), sampler=sampler, data=deviations, num_chains=chains, num_warmup=ITERATIONS,
            num_draws=4, thinning=ITERATIONS // 4, record=["lp"], progress=False,
            callback=lambda progress: done.update({progress.stage: progress.done}),
        )  # fmt: skip
    found = {f"{stage}_us": tree.attrs[f"seconds_{stage}"] / count * 1e6 for stage, count in done.items()}
    return found | {"warmup_iterations": done["warmup"]}


def _gaussian(x, deviations):
    return -0.5 * jnp.sum((x / deviations) ** 2)


def _low_rank(n: int) -> LowRank:
    left = 0.01 * jax.random.normal(jax.random.key(0), (n, RANK))
    return LowRank(jnp.full(n, 0.1 / n**0.5), left, jnp.zeros((n, RANK)))


def _run(problem: targets.Problem, plan: Plan, chains: int, draws: int, seed: int) -> dict[str, Any]:
    """Microseconds of a draw and of a gradient, compilation left out, and by what move; NaN where no steps are told."""
    gc.collect()
    arguments = {"num_chains": chains, "num_draws": draws, "seed": seed, "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = sample(problem, sampler=plan, **arguments)
    draw_us = tree.attrs["seconds_sampling"] / draws / chains * 1e6
    statistics = tree["sample_stats"].to_dataset()
    steps = float(statistics["n_steps"].mean()) if "n_steps" in statistics else np.nan
    return {"draw_us": draw_us, "gradient_us": draw_us / steps, "move": tree.attrs["choice"]["move"]}


@eqx.filter_jit
def _moved(target, positions, still, count):
    """Positions after `count` evaluations of log density and gradient, where they stay if `still` is an array of 0."""

    def evaluate(_, carry):
        x, _ = carry
        logp, grad = jax.vmap(jax.value_and_grad(target.log_density))(x)
        return x + still * grad, logp

    return jax.lax.fori_loop(0, count, evaluate, (positions, jnp.zeros(len(positions), positions.dtype)))


@eqx.filter_jit
def _noise(key, shape, count):
    """The sum of `count` arrays of standard normals, a key for each chain."""

    def draw(i, total):
        keys = jax.random.split(jax.random.fold_in(key, i), shape[0])
        return total + jax.vmap(lambda key: jax.random.normal(key, shape[1:]))(keys)

    return jax.lax.fori_loop(0, count, draw, jnp.zeros(shape))


def _seconds(function: Callable, *arguments: Any) -> float:
    """What a call takes that does not compile."""
    jax.block_until_ready(function(*arguments))
    began = time.perf_counter()
    jax.block_until_ready(function(*arguments))
    return time.perf_counter() - began
