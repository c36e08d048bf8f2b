"""Cost of a gradient evaluation in a run relative to the gradient alone; cost of an iteration as a problem grows."""

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
from xarray import DataTree

from gadabout import targets
from gadabout.algorithms import default, gad, gad_mala
from gadabout.api import sample
from gadabout.factors import LowRank
from gadabout.proposals import Langevin
from gadabout.sampler import Sampler
from gadabout.schedule import Plan

RANK = 5
"""columns of the low-rank factor"""
LARGEST = {"gad-mala, dense": 1_000}
"""number of coordinates above which a sampler is left out"""
ITERATIONS = 2_000
"""iterations of warm-up, and as many of sampling, in `growth`"""
SAMPLERS: dict[str, Callable[[int], Sampler | Plan]] = {
    "gad-mala, dense": lambda n: gad_mala(factor="dense"),
    "gad-mala, diagonal": lambda n: gad_mala(factor="diagonal"),
    "gad, MALA with a low-rank factor": lambda n: gad(Langevin(_low_rank(n)), target_acceptance=0.55),
    "default, split HMC, diagonal": lambda n: default("diagonal", move="split-hmc"),
}


def costs(
    names: Sequence[str], chains: int, draws: int, repeats: int, data_home: str | Path | None = None
) -> Iterator[dict[str, Any]]:
    """Yields a row for each of the paper's targets: microseconds per chain, as medians over interleaved repeats.

    `gradient_us` is the sampling time of the default with split HMC per gradient evaluation, and `bare_us` the time of
    the log density and its gradient alone, in a loop over as many chains. `draw_us` is the time of a draw of the
    default by the `move` that it chose, `noise_us` that of n standard normals for each chain, in a loop.
    """
    for name in names:
        with targets.precision(name):
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
    each = 1e6 / draws / chains  # from seconds of a run to microseconds per draw of one chain
    asked: dict[str, Any] = {"num_chains": chains, "num_draws": draws, "seed": seed}
    local = _run(problem, sampler=default(move="split-hmc"), **asked)
    bare = each * _seconds(_moved, problem.target, positions, jnp.zeros(()), draws)
    noise = each * _seconds(_noise, key, positions.shape, draws)
    chosen = _run(problem, sampler=default(), **asked)
    gradient = each * local.attrs["seconds_sampling"] / float(local["sample_stats"].to_dataset()["n_steps"].mean())
    draw = each * chosen.attrs["seconds_sampling"]
    return {
        "gradient_us": gradient,
        "bare_us": bare,
        "gradient_ratio": gradient / bare,
        "draw_us": draw,
        "noise_us": noise,
        "noise_ratio": draw / noise,
        "move": chosen.attrs["choice"]["move"],
    }


def growth(dims: Sequence[int], chains: Sequence[int], few: int = 4) -> Iterator[dict[str, Any]]:
    """Yields a row for each sampler and size: microseconds per iteration of all chains, in warm-up and in sampling.

    The target is N(0, diag(s²)). First the number of coordinates grows, with `few` chains; then the number of chains
    grows, at the smallest dimension. Sizes beyond `LARGEST` are left out.
    """
    sizes = [(n, few) for n in dims] + [(min(dims), count) for count in chains]
    for label, made in SAMPLERS.items():
        for n, count in sizes:
            if n <= LARGEST.get(label, n):
                yield {"sampler": label, "n": n, "chains": count, **_growing(made(n), n, count)}


def _growing(sampler: Sampler | Plan, n: int, chains: int) -> dict[str, Any]:
    done: dict[str, int] = {}
    tree = _run(
        _gaussian, jnp.zeros(n), data=jnp.linspace(0.1, 1.0, n), sampler=sampler, num_chains=chains,
        num_warmup=ITERATIONS, num_draws=4, thinning=ITERATIONS // 4, record=["lp"],
        callback=lambda progress: done.update({progress.stage: progress.done}),
    )  # fmt: skip
    found = {f"{stage}_us": tree.attrs[f"seconds_{stage}"] / count * 1e6 for stage, count in done.items()}
    return found | {"warmup_iterations": done["warmup"]}


def _gaussian(x, deviations):
    return -0.5 * jnp.sum((x / deviations) ** 2)


def _low_rank(n: int) -> LowRank:
    left = 0.01 * jax.random.normal(jax.random.key(0), (n, RANK))
    return LowRank(jnp.full(n, 0.1 / n**0.5), left, jnp.zeros((n, RANK)))


def _run(*arguments: Any, **named: Any) -> DataTree:
    """The result of `sample`, without its warnings: the quality of draws does not matter here."""
    gc.collect()  # frees the memory of earlier runs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sample(*arguments, progress=False, **named)


@eqx.filter_jit
def _moved(target, positions, still, count):
    """Positions after `count` evaluations of log density and gradient; unchanged if `still` is an array of 0."""

    def evaluate(_, carry):
        x, _ = carry
        logp, grad = jax.vmap(jax.value_and_grad(target.log_density))(x)
        return x + still * grad, logp

    return jax.lax.fori_loop(0, count, evaluate, (positions, jnp.zeros(len(positions), positions.dtype)))


@eqx.filter_jit
def _noise(key, shape, count):
    """The sum of `count` arrays of standard normals, drawn with one key per chain."""

    def draw(i, total):
        keys = jax.random.split(jax.random.fold_in(key, i), shape[0])
        return total + jax.vmap(lambda key: jax.random.normal(key, shape[1:]))(keys)

    return jax.lax.fori_loop(0, count, draw, jnp.zeros(shape))


def _seconds(function: Callable, *arguments: Any) -> float:
    """Seconds of a second call, which does not compile."""
    jax.block_until_ready(function(*arguments))
    began = time.perf_counter()
    jax.block_until_ready(function(*arguments))
    return time.perf_counter() - began
