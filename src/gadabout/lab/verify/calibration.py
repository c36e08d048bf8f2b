"""Posterior draws for data from the prior predictive distribution are calibrated.

Simulation-based calibration (Talts et al. 2018) draws θ from the prior, y from p(y | θ), and the posterior by the
default; the rank of θ among these draws is uniform. The mean and the variance of ranks are tested, for each coordinate
and for log p(y | θ). Geweke's joint test (2004) starts from exact draws of (θ, y) and alternates a transition of θ
given y with a draw of y given θ; the joint law is invariant.
"""

import math
import warnings
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key
from scipy.stats import norm

from gadabout.algorithms import default, hmc, nuts
from gadabout.density import AbstractDensity
from gadabout.ensemble.coordinates import Coordinates
from gadabout.ensemble.split_hmc import SplitHMC
from gadabout.kernels import AbstractKernel
from gadabout.lab.verify.frame import FALSE_ALARM, Figure, Found, Item, Parts, bound
from gadabout.lab.verify.models import LOGISTIC, NORMAL, SCHOOLS, Generative
from gadabout.lab.verify.sampling import sample
from gadabout.target import Target

POWER = 0.95
CHAINS, DRAWS, RANKED = 16, 250, 128
"""`CHAINS`: chains per run. `DRAWS`: draws per chain. `RANKED`: evenly spaced draws among which θ is ranked."""
AT_ONCE = 250
STEP_SIZE = 0.6
MODELS, JOINT = (NORMAL, LOGISTIC, SCHOOLS), (NORMAL, SCHOOLS)
VARIANCE, VARIANCE_OF_SQUARES = (1 - (RANKED + 1) ** -2) / 12, 1 / 180
"""variances of a uniform rank in (0, 1), and of its squared distance from the middle"""
SLOPE_OF_SHIFT, SLOPE_OF_WIDTH = 0.5 / math.sqrt(math.pi), 1 / (2 * math.pi * math.sqrt(3))
"""derivatives of the mean of a normal posterior's ranks by a shift, in sd, and of their variance by a relative width"""


def ranks(model: Generative, first: int, count: int) -> list[list[float]]:
    """Ranks in (0, 1) of the coordinates of θ and of its log likelihood, for `count` data sets from seed `first` on."""
    likelihoods = jax.jit(jax.vmap(model.log_likelihood, (0, None)))
    found = []
    for seed in range(first, first + count):
        theta_key, data_key = jax.random.split(jax.random.fold_in(jax.random.key(77), seed))
        theta = model.prior(theta_key)
        y = model.data(data_key, theta)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            tree = sample(
                model.log_density, jnp.zeros(model.n), data=y, sampler=default(), seed=seed, num_chains=CHAINS,
                num_draws=DRAWS, progress=False,
            )  # fmt: skip
        draws = tree["posterior"].to_dataset()["x"].values.reshape(-1, model.n)
        kept = jnp.asarray(draws[np.linspace(0, len(draws) - 1, RANKED).astype(int)])
        of_draws = np.column_stack([kept, likelihoods(kept, y)])
        below = np.sum(of_draws < np.append(theta, model.log_likelihood(theta, y)), 0)
        found.append(((below + 0.5) / (RANKED + 1)).tolist())
    return found


def joint_drift(move: AbstractKernel | None, model: Generative, chains: int, rounds: int) -> dict[str, Any]:
    """z of the changes of moments of (θ, y), and the acceptance rate; `move` None stands for split HMC."""
    start_key, key = jax.random.split(jax.random.key(31))
    theta_key, data_key = jax.random.split(start_key)
    theta = jax.vmap(model.prior)(jax.random.split(theta_key, chains))
    y = jax.vmap(model.data)(jax.random.split(data_key, chains), theta)
    keys = jax.random.split(key, rounds)
    if move is None:
        end, acceptance = _alternated_on_host(model, (theta, y), keys)
    else:
        end, acceptance = _alternated(move, model, Target(model.log_density, y[0]), (theta, y), keys)
    change = np.asarray(_joint_moments(model, *end) - _joint_moments(model, theta, y))
    z = change.mean(0) / (change.std(0) / math.sqrt(chains))
    return {"z": z.tolist(), "acceptance": float(acceptance)}


@eqx.filter_jit
def _alternated(kernel: AbstractKernel, model: Generative, target: Target, start: tuple, keys: Key[Array, " rounds"]):
    def one(key, theta, y):
        move_key, data_key = jax.random.split(key)
        given = target.with_data(y)
        state, info = kernel.step(move_key, kernel.init(theta, given), given)
        theta = kernel.position(state)
        return (theta, model.data(data_key, theta)), info.acceptance_rate

    def turn(state, key):
        state, rate = jax.vmap(one)(jax.random.split(key, len(start[0])), *state)
        return state, rate.mean()

    end, rates = jax.lax.scan(turn, start, keys)
    return end, rates.mean()


class _OwnData(AbstractDensity):
    """log p(θ | y) of chains with separate data, evaluated for all chains at once."""

    def __init__(self, model: Generative, y: Array):
        super().__init__(model.n)
        self.evaluate, self.y = jax.jit(jax.vmap(jax.value_and_grad(model.log_density))), y

    def _value(self, x):
        return self._value_and_grad(x)[0]

    def _value_and_grad(self, x):
        value, grad = self.evaluate(jnp.asarray(x), self.y)
        return np.array(value, float), np.array(grad, float)


def _alternated_on_host(model: Generative, start: tuple, keys: Key[Array, " rounds"]):
    (theta, y), rng, rates = start, np.random.Generator(np.random.Philox(31)), []
    renew = jax.jit(jax.vmap(model.data))
    density = _OwnData(model, y)
    move = SplitHMC(density, Coordinates(np.zeros(model.n), np.ones(model.n)), STEP_SIZE)
    for key in keys:
        state, drawn = move.advance(move.init(np.asarray(theta, float), rng), rng, 1)
        theta = jnp.asarray(move.positions(state))
        density.y = y = renew(jax.random.split(key, len(theta)), theta)
        rates.append(drawn["acceptance_rate"].mean())
    return (theta, y), float(np.mean(rates))


def _joint_moments(model: Generative, theta: Array, y: Array) -> Array:
    i, j = jnp.tril_indices(theta.shape[1])
    of_data = jnp.stack([y.mean(1), (y**2).mean(1)], -1)
    likelihood = jax.vmap(model.log_likelihood)(theta, y)[:, None]
    crossed = theta * of_data[:, :1]
    return jnp.concatenate([theta, theta[:, i] * theta[:, j], of_data, crossed, likelihood], -1)


def run(full: bool, store: Parts) -> Found:
    """Full: 1,000 data sets of three models, joint tests of two. Quick: 30 data sets and joint tests of one model."""
    models, count = (MODELS, 1_000) if full else (MODELS[:1], 30)
    u = {}
    for model in models:
        parts = []
        for first in range(0, count, AT_ONCE):
            some = {"first": first, "count": min(AT_ONCE, count - first)}
            settings = some | {"chains": CHAINS, "draws": DRAWS, "ranked": RANKED}
            parts += store.part(
                f"ranks-{model.name}-{first}", settings, lambda model=model, some=some: ranks(model, **some)
            )
        u[model.name] = np.asarray(parts)
    kernels = {"split-hmc": None, "hmc": hmc(4, step_size=STEP_SIZE), "nuts": nuts(step_size=0.5, max_depth=4)}
    joint, size = {}, {"chains": 50_000 if full else 5_000, "rounds": 20}
    for model in JOINT if full else JOINT[:1]:
        for name, sampler in kernels.items():
            part = lambda model=model, sampler=sampler: joint_drift(
                None if sampler is None else sampler.kernel(model.n), model, **size
            )
            joint[f"{model.name}, {name}"] = store.part(f"joint-{model.name}-{name}", size, part)
    return _told(u, joint)


def ranks_z(u: np.ndarray) -> np.ndarray:
    """z of the mean and of the variance of ranks `u`, shape (data sets, quantities); has shape (2, quantities)."""
    root = math.sqrt(len(u))
    mean = (u.mean(0) - 0.5) / math.sqrt(VARIANCE) * root
    return np.stack([mean, (((u - 0.5) ** 2).mean(0) - VARIANCE) / math.sqrt(VARIANCE_OF_SQUARES) * root])


def _told(u: dict[str, np.ndarray], joint: dict[str, dict[str, Any]]) -> Found:
    z = {name: ranks_z(each) for name, each in u.items()}
    tests = sum(each.size for each in z.values()) + sum(len(each["z"]) for each in joint.values())
    limit, count = bound(tests), len(next(iter(u.values())))
    figures = []
    for name, each in z.items():
        for which, values in zip(("mean", "variance"), each, strict=True):
            what = f"{name}: {which} of ranks of {len(values)} quantities, {count:,} data sets: largest |z|"
            largest = float(np.abs(values).max())
            figures.append(Figure(what, largest, f"below {limit:.2f}", largest < limit))
    for name, each in joint.items():
        largest = float(np.abs(each["z"]).max())
        what = f"{name}: joint law of θ and y: largest |z| of {len(each['z'])} moments"
        figures.append(Figure(what, largest, f"below {limit:.2f}", largest < limit))
    passed = sum(figure.passed is True for figure in figures)
    errors = (limit + norm.ppf(POWER)) / math.sqrt(count)
    shift = errors * math.sqrt(VARIANCE) / SLOPE_OF_SHIFT
    width = errors * math.sqrt(VARIANCE_OF_SQUARES) / SLOPE_OF_WIDTH
    told = f"{passed} of {len(figures)} tests hold on {len(u)} models, {count:,} data sets each"
    figures += [
        Figure("chance of a false alarm, all together", FALSE_ALARM),
        Figure("shift of a posterior, in its sd, that 95 of 100 runs find", shift),
        Figure("relative error of a posterior's width that 95 of 100 runs find", width),
    ]
    return Found(figures, told)


CALIBRATION = Item(
    "calibration",
    "Posteriors are calibrated",
    "posteriors that are shifted, too narrow or too wide; data of one run that are seen by another",
    run,
)
