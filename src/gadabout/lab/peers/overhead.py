"""Overhead of `sample()`: time per iteration relative to a hand-written scan of the same algorithm."""

import gc
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gadabout import targets
from gadabout.algorithms import gad_mala
from gadabout.api import sample

ETA, ALPHA, RHO_BETA, FLOOR, BETA_FLOOR = 1.5e-4, 0.55, 0.02, 1e-3, 1e-4


class ByHand(NamedTuple):
    """State of fast gadMALA for one chain, written by hand for this purpose only."""

    x: Any
    logp: Any
    grad: Any
    w: Any
    L: Any
    G: Any
    beta: Any
    t: Any


def _propose(log_density: Callable, data: Any, key: Any, s: ByHand) -> tuple:
    noise_key, accept_key = jax.random.split(key)
    noise = jax.random.normal(noise_key, s.x.shape, s.x.dtype)
    y = s.x + s.L @ (0.5 * s.w + noise)
    logp, grad = jax.value_and_grad(log_density)(y, data)
    w_y = grad @ s.L
    backward = 0.5 * (s.w + w_y) + noise
    log_ratio = logp - s.logp - 0.5 * (backward @ backward - noise @ noise)
    accepted = -jax.random.exponential(accept_key) <= log_ratio
    moved = tuple(jnp.where(accepted, new, old) for new, old in zip((y, logp, grad, w_y), s[:4], strict=True))
    seen = (moved[0], moved[1], jnp.exp(jnp.minimum(0, log_ratio)), accepted, s.beta)
    return moved, seen, s.grad - grad, 0.5 * (s.w - w_y) + noise, log_ratio, accepted


def _adapting(log_density: Callable, data: Any, s: ByHand, key: Any) -> tuple[ByHand, tuple]:
    moved, seen, u, v, log_ratio, accepted = _propose(log_density, data, key, s)
    u, v = jax.lax.optimization_barrier((jnp.where(log_ratio < 0, -0.5, 0.0) * u, v))
    on_diagonal = jnp.eye(len(u), dtype=bool)
    gradient = jnp.tril(jnp.outer(u, v)) + jnp.where(on_diagonal, s.beta / s.L, 0)
    G = jnp.where(s.t == 0, gradient**2, 0.9 * s.G + 0.1 * gradient**2)
    L = s.L + ETA * gradient / (1 + jnp.sqrt(G))
    L = jnp.where(on_diagonal, jnp.maximum(L, FLOOR), L)
    beta = jnp.maximum(s.beta * (1 + RHO_BETA * (accepted - ALPHA)), BETA_FLOOR)
    x, logp, grad, _ = moved
    return ByHand(x, logp, grad, grad @ L, L, G, beta, s.t + 1), seen


def _sampling(log_density: Callable, data: Any, s: ByHand, key: Any) -> tuple[ByHand, tuple]:
    moved, seen, *_ = _propose(log_density, data, key, s)
    x, logp, grad, w = moved
    return s._replace(x=x, logp=logp, grad=grad, w=w), seen


def by_hand(problem: targets.Problem, seed: int, iterations: int) -> dict[str, float]:
    """Seconds of each phase of the hand-written scan, and of its compilation."""
    key = jax.random.key(seed)
    x, n = problem.start(key), problem.dim
    logp, grad = jax.value_and_grad(problem.log_density)(x, problem.data)
    L = jnp.eye(n) * 0.1 / n**0.5
    state = ByHand(x, logp, grad, grad @ L, L, jnp.zeros((n, n)), jnp.ones(()), jnp.zeros((), int))
    seconds = {"compile": 0.0}
    for phase, body in (("warmup", _adapting), ("sampling", _sampling)):
        keys = jax.random.split(jax.random.fold_in(key, len(seconds)), iterations)
        began = time.perf_counter()
        one = partial(body, problem.log_density, problem.data)
        compiled = jax.jit(partial(jax.lax.scan, one)).lower(state, keys).compile()
        seconds["compile"] += time.perf_counter() - began
        began = time.perf_counter()
        state, history = compiled(state, keys)
        jax.tree.map(np.asarray, history)
        seconds[phase] = time.perf_counter() - began
    return seconds


def by_house(problem: targets.Problem, seed: int, iterations: int) -> dict[str, float]:
    """Seconds of each phase of `sample()` and of its compilation: gadMALA, default records and chunks, one chain."""
    tree = sample(
        problem,
        sampler=gad_mala(learning_rate=ETA, form="paper"),
        seed=seed,
        num_chains=1,
        num_warmup=iterations,
        num_draws=iterations,
        progress=False,
    )
    return {phase: tree.attrs[f"seconds_{phase}"] for phase in ("compile", "warmup", "sampling")}


def overhead(
    names: list[str], iterations: int, repeats: int, data_home: str | Path | None = None
) -> list[dict[str, Any]]:
    """Median microseconds per iteration and ratios, for each target and phase; repeats are interleaved."""
    rows = []
    for name in names:
        problem = targets.load(name, data_home)
        compilation = {"house": by_house(problem, 0, iterations), "hand": by_hand(problem, 0, iterations)}
        house, hand = [], []
        for seed in range(1, repeats + 1):
            for runs, run in ((house, by_house), (hand, by_hand)):
                gc.collect()  # frees the memory of earlier runs
                runs.append(run(problem, seed, iterations))
        for phase in ("warmup", "sampling"):
            ours, theirs = (np.array([run[phase] for run in runs]) / iterations * 1e6 for runs in (house, hand))
            rows.append(
                {
                    "target": name,
                    "phase": phase,
                    "sample_us": float(np.median(ours)),
                    "by_hand_us": float(np.median(theirs)),
                    "ratio": float(np.median(ours / theirs)),
                    "ratio_range": [float(np.min(ours / theirs)), float(np.max(ours / theirs))],
                    "sample_compile_s": compilation["house"]["compile"],
                    "by_hand_compile_s": compilation["hand"]["compile"],
                }
            )
    return rows
