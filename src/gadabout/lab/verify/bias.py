"""Bias that adaptation causes in the law of the chain: its size, and that it vanishes where it should.

Many independent pools of chains on a Gumbel distribution start from exact draws and make T steps of adaptive
Metropolis. The mean and the variance of their positions after T steps are compared with the target's. Gains are large
enough for a detectable bias: γ_k = k^−0.6 falls, γ = ½ is constant.

Algorithm 1 (`gad_mala`) adapts for ever at a learning rate of 0.05 after a warm-up of 1,000 iterations, per chain, on
a normal law. Its gains fall as k^−0.6, or are nearly constant.
"""

import math
import warnings
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from gadabout.adaptations import PowerGain
from gadabout.algorithms import gad_mala, haario
from gadabout.lab.verify.frame import Figure, Found, Item, Parts
from gadabout.lab.verify.sampling import sample
from gadabout.sampler import Sampler
from gadabout.target import Target

TARGET = Target(lambda x: -x[0] - jnp.exp(-x[0]))
MEAN, SD = np.euler_gamma, math.pi / math.sqrt(6)
FALLING, CONSTANT = (1.0, 0.6), (0.5, 0.0)
"""coefficient and exponent of the gains"""
REGULARISATION = 0.01
EXPONENTS = {"falling": 0.6, "constant": 0.03}
"""exponents of Algorithm 1's gains"""
FAR = 30.0
"""distance of the bad start from the mean, in standard deviations"""
ERRORS = 4.0
"""standard errors within which a bias counts as zero; exceeded by chance once in 16,000 cases"""


def sampler(gain: tuple[float, float]) -> Sampler:
    """Adaptive Metropolis of Haario, Saksman and Tamminen with these gains."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # warns that constant gains do not converge
        return haario(gain=PowerGain(*gain), regularisation=REGULARISATION)


def path(
    gain: tuple[float, float], times: Sequence[int], pools: int, chains: int = 1, frozen: int = 0, far: bool = False
) -> list[dict[str, Any]]:
    """The bias of mean (in sd) and variance (relative) after numbers of adaptive steps, with standard errors.

    Args:
        gain: coefficient and exponent.
        times: numbers of steps after which the bias is measured.
        pools: number of independent pools.
        chains: chains per pool, which share θ.
        frozen: steps with fixed θ at the end, which add another entry.
        far: whether chains start at `FAR`, in place of exact draws.
    """
    adaptive, still = sampler(gain), eqx.Partial(_advance, adapt=False)
    start_key, key = jax.random.split(jax.random.key(404))
    start = jax.random.gumbel(start_key, (pools, chains, 1))
    start = jnp.full_like(start, MEAN + FAR * SD) if far else start
    state = jax.vmap(lambda x: adaptive.init(TARGET, x))(start)
    found, done = [], 0
    for T in times:
        state = _advance(adaptive, state, jax.random.fold_in(key, T), T - done)
        done = T
        found.append({"T": T, "frozen": 0, **_bias(np.asarray(jax.vmap(lambda each: each.position)(state)))})
    if frozen:
        state = still(adaptive, state, jax.random.fold_in(key, 0), frozen)
        found.append({"T": done, "frozen": frozen, **_bias(np.asarray(jax.vmap(lambda each: each.position)(state)))})
    return found


def for_ever(exponent: float, chains: int = 64, draws: int = 4_000) -> dict[str, float]:
    """The relative bias of the variance of draws of Algorithm 1 that adapts for ever, with its error between chains.

    Args:
        exponent: the gains are k^−exponent.
        chains: number of chains, each with a θ of its own.
        draws: draws per chain.
    """
    sampler = gad_mala(learning_rate=0.05, gain=PowerGain(1.0, exponent), adapt_for_ever=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # warns that gains are nearly constant, as intended
        tree = sample(
            lambda x: -0.5 * jnp.sum(x**2), jnp.zeros(2), sampler=sampler, adapt="per-chain", num_chains=chains,
            num_warmup=1_000, num_draws=draws, seed=405, progress=False,
        )  # fmt: skip
    each = np.mean(tree["posterior"]["x"].values ** 2, (1, 2)) - 1
    return {"variance": float(each.mean()), "variance_error": float(each.std() / math.sqrt(chains))}


@eqx.filter_jit
def _advance(adaptive: Sampler, state: Any, key: Key[Array, ""], steps: Array | int, adapt: bool = True) -> Any:
    pools = jax.tree.leaves(state)[0].shape[0]

    def step(i, state):
        keys = jax.random.split(jax.random.fold_in(key, i), pools)
        return jax.vmap(lambda key, state: adaptive.step(key, state, TARGET, adapt)[0])(keys, state)

    return jax.lax.fori_loop(0, steps, step, state)


def _bias(x: Float[np.ndarray, "pools chains 1"]) -> dict[str, float]:
    """Biases of mean and variance, with standard errors over independent pools."""
    z = (x[..., 0] - MEAN) / SD
    mean, square = z.mean(1), (z**2).mean(1) - 1
    error = lambda values: float(values.std() / math.sqrt(len(values)))
    return {
        "mean": float(mean.mean()), "mean_error": error(mean),
        "variance": float(square.mean()), "variance_error": error(square),
    }  # fmt: skip


def run(full: bool, store: Parts) -> Found:
    """Up to 10,000 steps with 150,000 pools in the full version, up to 100 with 50,000 in the quick one."""
    times = (10, 30, 100, 300, 1_000, 3_000, 10_000) if full else (10, 30, 100)
    pools, sizes = (150_000, (1, 4, 16, 64)) if full else (50_000, (1, 16))
    made = {
        "falling": {"gain": FALLING, "times": times, "pools": pools},
        "constant": {"gain": CONSTANT, "times": times, "pools": pools, "frozen": 200},
        "far": {"gain": FALLING, "times": times, "pools": pools // 5, "far": True},
    }
    made |= {f"pools-of-{c}": {"gain": CONSTANT, "times": (100,), "pools": pools // c, "chains": c} for c in sizes}
    paths = {name: store.part(f"bias-{name}", how, lambda how=how: path(**how)) for name, how in made.items()}
    figures = []
    for name, entries in paths.items():
        for entry in entries:
            after = f", then {entry['frozen']} with θ frozen" if entry["frozen"] else ""
            value = "; ".join(f"{entry[f]:+.4f} ± {entry[f'{f}_error']:.4f}" for f in ("mean", "variance"))
            figures.append(Figure(f"{SAID[name.split('-')[0]]}{_size(name)}, T = {entry['T']:,}{after}", value))
    figures += _judged(paths, sizes)
    figures += _of_algorithm_1(
        {
            name: store.part(f"for-ever-{name}", {"exponent": k}, lambda k=k: for_ever(k))
            for name, k in EXPONENTS.items()
        }
    )
    error = paths["falling"][-1]["mean_error"]
    figures.append(Figure("bias of a mean, in sd, that 95 of 100 runs would find", (ERRORS + 1.645) * error))
    largest, last, (constant, frozen) = _largest(paths["falling"]), paths["falling"][-1], paths["constant"][-2:]
    told = (
        f"falling gains: bias of the mean {largest['mean']:+.3f} sd at most, {last['mean']:+.3f} at T = {last['T']:,}"
    )
    return Found(figures, f"{told}; constant gains: {constant['mean']:+.3f}, {frozen['mean']:+.3f} once θ is frozen")


SAID = {
    "falling": "bias of mean (sd) and variance (relative), falling gains",
    "constant": "the same, constant gains",
    "far": "the same, falling gains, from a start 30 sd away",
    "pools": "the same, constant gains, chains that share θ:",
}


def _size(name: str) -> str:
    return f" {name.rpartition('-')[2]}" if name.startswith("pools") else ""


def _judged(paths: dict[str, list[dict[str, Any]]], sizes: Sequence[int]) -> list[Figure]:
    """Figures of the requirements on paths, each by `ERRORS` standard errors."""
    falling, constant, far = (paths[name] for name in ("falling", "constant", "far"))
    one, many = (paths[f"pools-of-{c}"][-1] for c in (sizes[0], sizes[-1]))
    none = f"within {ERRORS:.0f} standard errors of 0"
    judged = [
        ("constant gains: the bias is seen", _in_errors(constant[-2]), "more", _in_errors(constant[-2]) > ERRORS),
        ("constant gains: once θ is frozen", _in_errors(constant[-1]), none, _in_errors(constant[-1]) < ERRORS),
        ("falling gains: fallen from the maximum", *_fallen(_largest(falling), falling[-1])),
        ("more chains share θ: fallen", *_fallen(one, many)),
        ("a bad start: forgotten", _in_errors(far[-1]), none, _in_errors(far[-1]) < ERRORS),
    ]
    return [
        Figure(f"{what}, standard errors", value, f"{ERRORS:.0f} or more" if wanted == "more" else wanted, bool(passed))
        for what, value, wanted, passed in judged
    ]


def _of_algorithm_1(found: dict[str, dict[str, float]]) -> list[Figure]:
    """Figures of the requirements that constant gains bias the variance, and that falling gains do not."""
    figures = []
    for name, wanted in (("constant", "more than"), ("falling", "less than")):
        bias, error = found[name]["variance"], found[name]["variance_error"]
        passed = (abs(bias) > ERRORS * error) == (name == "constant")
        what = f"Algorithm 1 for ever, {name} gains: relative bias of the variance"
        figures.append(Figure(what, f"{bias:+.4f} ± {error:.4f}", f"{wanted} {ERRORS:.0f} standard errors", passed))
    return figures


def _largest(entries: list[dict[str, Any]]) -> dict[str, Any]:
    return max(entries, key=lambda entry: abs(entry["mean"]))


def _in_errors(entry: dict[str, Any]) -> float:
    """The larger of the biases of mean and variance, in standard errors."""
    return max(abs(entry[f]) / entry[f"{f}_error"] for f in ("mean", "variance"))


def _fallen(before: dict[str, Any], after: dict[str, Any]) -> tuple[float, str, bool]:
    """Decrease of the bias of the mean, in standard errors, the requirement, and whether it is met."""
    by = (abs(before["mean"]) - abs(after["mean"])) / math.hypot(before["mean_error"], after["mean_error"])
    return by, "more", by > ERRORS


BIAS = Item(
    "adaptation-bias",
    "Adaptation's bias falls as it should",
    "gains that do not fall, adaptation that goes on in secret, evidence that is not shared between chains",
    run,
)
