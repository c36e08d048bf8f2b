"""Transitions leave the law of the target invariant, with θ at its start and after real warm-ups.

Chains start from exact draws and make some transitions with fixed θ. If the law is invariant, the change of each moment
along a chain has mean zero, and z = mean / (sd / √chains) is normal. The moments are those of the standardised
coordinates, of first and second order, and log π. The default's moves are tested with the θ that a warm-up learned.
"""

import warnings
from typing import Any, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from scipy.stats import norm

from gadabout.algorithms import default
from gadabout.density import density_of
from gadabout.ensemble.choose import Move
from gadabout.ensemble.handover import Handover
from gadabout.ensemble.stages import made_move
from gadabout.kernels import AbstractKernel
from gadabout.lab.verify.exact import EXACT, Exact
from gadabout.lab.verify.frame import FALSE_ALARM, Figure, Found, Item, Parts, bound
from gadabout.lab.verify.samplers import exact_samplers
from gadabout.lab.verify.sampling import sample
from gadabout.programs import forget
from gadabout.sampler import Learned, Sampler
from gadabout.schedule import Plan
from gadabout.target import Target

POWER = 0.95
"""probability of detecting the smallest detectable error"""
SEED = 20_191
TOGETHER = 500
"""chains advanced at a time: they fit into a core's cache, and few wait for the deepest tree among them"""
MOVED = 2_000
"""chains that a move of the default advances at a time: its NumPy calls take as long for few chains as for some"""
START, WARM = "at its start", "warmed up"
MOVES = {f"default, {move}": move for move in ("nuts", "split-hmc", "independence")}


class Drift(NamedTuple):
    """Drift of moments: z of each, largest standard errors of means (in sd) and of variances (relative), acceptance."""

    z: Float[np.ndarray, " moments"]
    mean_error: float
    variance_error: float
    acceptance: float

    @property
    def largest(self) -> float:
        """The largest |z|."""
        return float(np.max(np.abs(self.z)))


def drift(kernel: AbstractKernel, exact: Exact, chains: int, iterations: int, seed: int = SEED) -> Drift:
    """The drift of the moments of `chains` chains in `iterations` transitions from exact draws."""
    start_key, step_key = jax.random.split(jax.random.key(seed))
    start = exact.draws(start_key, chains)
    end, acceptance = _moved(kernel, Target(exact.log_density), start, jax.random.split(step_key, iterations))
    return _drift(exact, start, end, float(acceptance))


def drift_of_move(handover: Handover, exact: Exact, chains: int, iterations: int, seed: int = SEED) -> Drift:
    """The drift by the move of the default in `handover`, with the parameters learned there."""
    start, rng = exact.draws(jax.random.key(seed), chains), np.random.Generator(np.random.Philox(seed))
    density = density_of(Target(exact.log_density), len(exact.mean), chains=MOVED, block=31 * MOVED)
    move, ends, rates = made_move(density, handover), [], []
    for x in np.array_split(np.asarray(start), -(-chains // MOVED)):
        _, drawn = move.advance(move.init(x, rng), rng, iterations)
        ends.append(drawn["position"][iterations - 1])
        rates.append(drawn["acceptance_rate"][:iterations].mean())
    return _drift(exact, start, jnp.asarray(np.concatenate(ends)), float(np.mean(rates)))


def _drift(exact: Exact, start: Array, end: Array, acceptance: float) -> Drift:
    chains = len(start)
    change = np.asarray(_moments(exact, end) - _moments(exact, start))
    error, n = change.std(0) / np.sqrt(chains), start.shape[1]
    z = change.mean(0) / np.where(error > 0, error, 1)
    squares = n + np.flatnonzero(np.equal(*np.tril_indices(n)))
    return Drift(z, float(error[:n].max()), float(error[squares].max()), acceptance)


@eqx.filter_jit
def _moved(kernel: AbstractKernel, target: Target, start: Array, keys: Key[Array, " iterations"]):
    """Positions of chains after one transition for each key, and the mean acceptance rate."""

    def moved(x, keys):
        def step(state, key):
            state, info = kernel.step(key, state, target)
            return state, info.acceptance_rate

        state, acceptance = jax.lax.scan(step, kernel.init(x, target), keys)
        return kernel.position(state), acceptance.mean()

    each = jax.vmap(lambda key: jax.random.split(key, len(start)), out_axes=1)(keys)
    end, acceptance = jax.lax.map(lambda rows: moved(*rows), (start, each), batch_size=TOGETHER)
    return end, acceptance.mean()


def _moments(exact: Exact, x: Float[Array, "chains n"]) -> Float[Array, "chains moments"]:
    z, (i, j) = exact.standardised(x), jnp.tril_indices(x.shape[1])
    return jnp.concatenate([z, z[:, i] * z[:, j], jax.vmap(exact.log_density)(x)[:, None]], -1)


def warmed_up(sampler: Sampler, exact: Exact, num_warmup: int | None) -> AbstractKernel:
    """The kernel at the end of a real warm-up from starts around the mean."""
    tree = _after_warmup(sampler, exact, None if num_warmup is None else min(num_warmup, sampler.num_warmup))
    theta = {str(name): jnp.asarray(leaf.values) for name, leaf in tree["learned"].data_vars.items()}
    ends = jnp.asarray(tree["posterior"].to_dataset()["x"].values[:, -1])
    return sampler.settle(sampler.init(Target(exact.log_density), ends, Learned(theta=theta))).kernel


def warmed_up_move(name: str, exact: Exact, num_warmup: int | None = None) -> Handover:
    """The handover from a warm-up of the default to its draws, with the move called `name`."""
    tree = _after_warmup(default(move=cast(Any, name)), exact, num_warmup)
    chosen = list(Move).index(Move(tree.attrs["choice"]["move"]))
    theta = {str(name): np.asarray(leaf.values) for name, leaf in tree["learned"].data_vars.items()}
    return Handover(np.asarray(tree["posterior"].to_dataset()["x"].values[:, -1]), move=np.asarray(chosen), **theta)


def _after_warmup(sampler: Sampler | Plan, exact: Exact, num_warmup: int | None) -> Any:
    """The result of a run with one draw after its warm-up."""
    chains, n = 16, len(exact.mean)
    start = jnp.asarray(exact.mean + 0.5 * exact.sd * np.random.default_rng(7).standard_normal((chains, n)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return sample(
            exact.log_density, init_per_chain=start, sampler=sampler, seed=11, num_chains=chains,
            num_warmup=num_warmup, num_draws=1, progress=False,
        )  # fmt: skip


def run(full: bool, store: Parts) -> Found:
    """Every exact kernel on every target in the full version, a few on one target in the quick one."""
    chains, iterations, num_warmup = (200_000, 20, 2_000) if full else (20_000, 20, 500)
    targets = EXACT if full else EXACT[2:3]
    settings = {"chains": chains, "iterations": iterations, "num_warmup": num_warmup}
    rows = []
    for exact in targets:
        names = [
            name for name in (*exact_samplers(exact), *MOVES) if full or name in ("gad-mala", "default, split-hmc")
        ]
        for name in names:
            part = lambda name=name, exact=exact: _measured(name, exact, **settings)
            rows += store.part(f"invariance-{exact.name}-{name}", settings, part)
    return _told(rows)


def _measured(name: str, exact: Exact, chains: int, iterations: int, num_warmup: int) -> list[dict[str, Any]]:
    """The drift of one sampler's kernel on a target, with θ at its start and after a warm-up; of a move, only after."""
    drifts = {}
    if name in MOVES:
        drifts[WARM] = drift_of_move(warmed_up_move(MOVES[name], exact, num_warmup), exact, chains, iterations)
    else:
        sampler, few = exact_samplers(exact)[name], name.startswith("nuts")  # its trees are deep at the start
        start = sampler.kernel(len(exact.mean))
        drifts[START] = drift(start, exact, chains // 10 if few else chains, iterations)
        drifts[WARM] = drift(warmed_up(sampler, exact, num_warmup), exact, chains, iterations)
        forget()
    return [
        {"sampler": name, "target": exact.name, "theta": theta, "moments": len(found.z), "largest_z": found.largest}
        | found._asdict()
        | {"z": found.z.tolist()}
        for theta, found in drifts.items()
    ]


def _told(rows: list[dict[str, Any]]) -> Found:
    limit = bound(sum(row["moments"] for row in rows))
    detectable = limit + norm.ppf(POWER)
    figures, shifts = [], []
    for theta in (START, WARM):
        for name in dict.fromkeys(row["sampler"] for row in rows if row["theta"] == theta):
            mine = [row for row in rows if row["sampler"] == name and row["theta"] == theta]
            worst = max(mine, key=lambda row: row["largest_z"])
            what = f"{name}, θ {theta}: largest |z|, on {worst['target']}"
            passed = worst["largest_z"] < limit
            figures.append(Figure(what, worst["largest_z"], f"below {limit:.2f}", passed))
        mine = [row for row in rows if row["theta"] == theta]
        for what, unit in (("mean", "sd"), ("variance", "variance")):
            error = detectable * max(row[f"{what}_error"] for row in mine)
            told = f"shift of a {what}, in {unit}, that 95 of 100 runs find of any kernel, θ {theta}"
            shifts.append(Figure(told, error))
    passed, kernels = sum(figure.passed is True for figure in figures), len(figures)
    figures += [*shifts, Figure("chance of a false alarm, all together", FALSE_ALARM)]
    told = f"{passed} of {kernels} kernels leave the law of {len({row['target'] for row in rows})} targets where it is"
    mean, variance = (figure.value for figure in shifts[2:])
    return Found(figures, f"{told}; after warm-ups, {mean:.1%} of an sd and {variance:.1%} of a variance would show")


INVARIANCE = Item(
    "invariance",
    "One step leaves the target's law where it is",
    "a wrong acceptance ratio, a lost correction or Jacobian, an integrator that does not preserve volume",
    run,
)
