"""What adapting does to the law of the chain: how large the bias is, and that it goes where it should.

Many independent pools of chains on a Gumbel distribution start from exact draws and make T steps of adaptive
Metropolis or of Algorithm 1, both of which learn for ever; the mean and the variance of their positions after T steps
are held against the target's. Gains are large enough for the bias to be seen: γ_k = k^−0.6 falls, γ = ½ stays; those of
Algorithm 1 multiply a learning rate of 0.05, and the gain that stays is 1.
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
from gadabout.sampler import Sampler
from gadabout.target import Target

TARGET = Target(lambda x: -x[0] - jnp.exp(-x[0]))
MEAN, SD = np.euler_gamma, math.pi / math.sqrt(6)
FALLING, CONSTANT = (1.0, 0.6), (0.5, 0.0)
"""coefficient and exponent of the gains"""
REGULARISATION = 0.01
GAINS = {"falling": FALLING, "constant": CONSTANT}
LEARNING_RATE = 0.05
"""of Algorithm 1"""
FAR = 30.0
"""where the bad start is, in standard deviations from the mean"""
ERRORS = 4.0
"""standard errors within which a bias counts as none: by chance beyond once in 16,000"""


def sampler(gain: tuple[float, float], algorithm: str = "haario") -> Sampler:
    """Adaptive Metropolis of Haario, Saksman and Tamminen with these gains, or "gad-mala", Algorithm 1."""
    if algorithm == "gad-mala":
        return gad_mala(learning_rate=LEARNING_RATE, gain=PowerGain(*gain) if gain[1] else None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that constant gains do not converge
        return haario(gain=PowerGain(*gain), regularisation=REGULARISATION)


def path(
    gain: tuple[float, float], times: Sequence[int], pools: int, chains: int = 1, frozen: int = 0, far: bool = False,
    algorithm: str = "haario",
) -> list[dict[str, Any]]:  # fmt: skip
    """The bias of mean (in sd) and variance (relative) after so many adaptive steps, with standard errors.

    Args:
        gain: coefficient and exponent.
        times: after how many steps.
        pools: independent pools.
        chains: chains of each pool, which share θ.
        frozen: steps with θ standing still at the end, after which there is another entry.
        far: whether chains start far away, in place of exact draws.
        algorithm: that of `sampler`.
    """
    adaptive, still = sampler(gain, algorithm), eqx.Partial(_advance, adapt=False)
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


@eqx.filter_jit
def _advance(adaptive: Sampler, state: Any, key: Key[Array, ""], steps: Array | int, adapt: bool = True) -> Any:
    pools = jax.tree.leaves(state)[0].shape[0]

    def step(i, state):
        keys = jax.random.split(jax.random.fold_in(key, i), pools)
        return jax.vmap(lambda key, state: adaptive.step(key, state, TARGET, adapt)[0])(keys, state)

    return jax.lax.fori_loop(0, steps, step, state)


def _bias(x: Float[np.ndarray, "pools chains 1"]) -> dict[str, float]:
    """Biases with the standard errors of independent pools."""
    z = (x[..., 0] - MEAN) / SD
    mean, square = z.mean(1), (z**2).mean(1) - 1
    error = lambda values: float(values.std() / math.sqrt(len(values)))
    return {
        "mean": float(mean.mean()), "mean_error": error(mean),
        "variance": float(square.mean()), "variance_error": error(square),
    }  # fmt: skip


def run(full: bool, store: Parts) -> Found:
    """Up to 10,000 steps of 150,000 pools in the full version, up to 100 of 50,000 in the quick one."""
    times = (10, 30, 100, 300, 1_000, 3_000, 10_000) if full else (10, 30, 100)
    pools, sizes = (150_000, (1, 4, 16, 64)) if full else (50_000, (1, 16))
    made = {
        "falling": {"gain": FALLING, "times": times, "pools": pools},
        "constant": {"gain": CONSTANT, "times": times, "pools": pools, "frozen": 200},
        "far": {"gain": FALLING, "times": times, "pools": pools // 5, "far": True},
    }
    made |= {f"pools-of-{c}": {"gain": CONSTANT, "times": (100,), "pools": pools // c, "chains": c} for c in sizes}
    if full:
        for_ever = {"times": (30, 300, 1_000), "pools": pools // 2, "algorithm": "gad-mala"}
        made |= {f"algorithm-1-{name}": {"gain": gain, **for_ever} for name, gain in GAINS.items()}
    paths = {name: store.part(f"bias-{name}", how, lambda how=how: path(**how)) for name, how in made.items()}
    figures = []
    for name, entries in paths.items():
        for entry in entries:
            after = f", then {entry['frozen']} with θ frozen" if entry["frozen"] else ""
            value = "; ".join(f"{entry[f]:+.4f} ± {entry[f'{f}_error']:.4f}" for f in ("mean", "variance"))
            said = SAID[name if name.startswith("algorithm") else name.split("-")[0]]
            figures.append(Figure(f"{said}{_size(name)}, T = {entry['T']:,}{after}", value))
    figures += _judged(paths, sizes)
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
    "algorithm-1-falling": "the same, Algorithm 1 for ever at a rate of 0.05, falling gains",
    "algorithm-1-constant": "the same, Algorithm 1 for ever at a rate of 0.05, constant gains",
    "pools": "the same, constant gains, chains that share θ:",
}


def _size(name: str) -> str:
    return f" {name.rpartition('-')[2]}" if name.startswith("pools") else ""


def _judged(paths: dict[str, list[dict[str, Any]]], sizes: Sequence[int]) -> list[Figure]:
    """What the paths have to show, each by `ERRORS` standard errors."""
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
    if "algorithm-1-constant" in paths:
        own, other = (paths[f"algorithm-1-{name}"][-1] for name in ("constant", "falling"))
        seen = abs(own["variance"]) / own["variance_error"]
        judged += [
            ("Algorithm 1, constant gains: the bias of the variance is seen", seen, "more", seen > ERRORS),
            ("Algorithm 1, falling gains: less than that", *_fallen(own, other, "variance")),
        ]
    return [
        Figure(f"{what}, standard errors", value, f"{ERRORS:.0f} or more" if wanted == "more" else wanted, bool(passed))
        for what, value, wanted, passed in judged
    ]


def _largest(entries: list[dict[str, Any]]) -> dict[str, Any]:
    return max(entries, key=lambda entry: abs(entry["mean"]))


def _in_errors(entry: dict[str, Any]) -> float:
    """The larger of the biases of mean and variance, in standard errors."""
    return max(abs(entry[f]) / entry[f"{f}_error"] for f in ("mean", "variance"))


def _fallen(before: dict[str, Any], after: dict[str, Any], of: str = "mean") -> tuple[float, str, bool]:
    """By how many standard errors the bias of the mean, or of the variance, became smaller."""
    by = (abs(before[of]) - abs(after[of])) / math.hypot(before[f"{of}_error"], after[f"{of}_error"])
    return by, "more", by > ERRORS


BIAS = Item(
    "adaptation-bias",
    "Adaptation's bias falls as it should",
    "gains that do not fall, adaptation that goes on in secret, evidence that is not shared between chains",
    run,
)
