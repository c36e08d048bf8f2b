"""Quick checks, each of which must fail with a planted bug; some of them belong to an item."""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gadabout import algorithms
from gadabout.adaptations import PowerGain
from gadabout.ensemble.choose import Move
from gadabout.lab.verify.alarms import BAD, told
from gadabout.lab.verify.exact import SKEW, Exact
from gadabout.lab.verify.invariance import drift, drift_of_move
from gadabout.lab.verify.same_bits import goes_on
from gadabout.lab.verify.samplers import frozen
from gadabout.lab.verify.sampling import sample
from gadabout.sampler import Sampler
from gadabout.schedule import Plan
from gadabout.target import Target

THRESHOLD = 5.5
"""bound of |z|; one false alarm in 10⁶ checks of about twenty moments"""


def stands_still(sampler: Sampler, exact: Exact = SKEW, chains: int = 100_000, iterations: int = 20) -> bool:
    """Whether transitions leave the law of the target invariant, with θ at its start."""
    return drift(sampler.kernel(len(exact.mean)), exact, chains, iterations).largest < THRESHOLD


def move_stands_still(move: Move, exact: Exact, chains: int = 20_000, iterations: int = 8) -> bool:
    """Whether a move of the default leaves the law of the target invariant, with a θ that suits the target."""
    return drift_of_move(frozen(move, exact), exact, chains, iterations).largest < THRESHOLD


def walk_reaches_its_aim():
    """Whether the acceptance rate of gadRWM comes near its target."""
    sampler = algorithms.gad_rwm()
    return "acceptance" not in told(SKEW.log_density, 0, init=jnp.zeros(3), sampler=sampler, num_warmup=3_000)


def pooled_scale_reaches_its_aim():
    """Whether the acceptance rate comes near its target with a global scale that 16 chains learn together."""
    sampler = algorithms.haario_scaled()
    arguments: dict[str, Any] = {"num_warmup": 2_000, "num_chains": 16}
    return "acceptance" not in told(SKEW.log_density, 0, init=jnp.zeros(3), sampler=sampler, **arguments)


def running_mean_is_the_mean():
    """Whether, with γ_k = 1/(k + 1), Haario's μ is the mean of the start and all positions."""
    sampler = algorithms.haario(gain=PowerGain(1.0, 1.0, 1.0))
    target, start = Target(SKEW.log_density), jnp.ones((1, 3))

    @jax.jit
    def learned(keys):
        step = lambda state, key: (lambda after: (after, after.position[0]))(sampler.step(key, state, target)[0])
        return jax.lax.scan(step, sampler.init(target, start), keys)

    state, positions = learned(jax.random.split(jax.random.key(2), 200))
    return bool(jnp.allclose(state.memory.mean, jnp.concatenate([start, positions]).mean(0), rtol=1e-9))


def draws_leave_theta_alone():
    """Whether draws without a warm-up leave θ unchanged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        tree = sample(
            SKEW.log_density, jnp.zeros(3), sampler=algorithms.gad_mala(scale=0.8), num_warmup=0, num_draws=50,
            progress=False,
        )  # fmt: skip
    return np.array_equal(tree["learned"].to_dataset()["proposal.factor.matrix"].values, 0.8 * np.eye(3))


def chains_have_noise_of_their_own():
    """Whether two chains from one start differ."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        tree = sample(
            SKEW.log_density, init_per_chain=jnp.zeros((2, 3)), sampler=algorithms.rwm(step_size=1.0), num_chains=2,
            num_warmup=0, num_draws=50, progress=False,
        )  # fmt: skip
    x = tree["posterior"].to_dataset()["x"].values
    return not np.array_equal(x[0], x[1])


def run_goes_on(sampler: Sampler | Plan | None = None) -> bool:
    """Whether a run resumes from its checkpoints to the same bits; a run of gadMALA if no sampler is given."""
    return goes_on(algorithms.gad_mala() if sampler is None else sampler)


def drift_is_flagged():
    """Whether chains that all drift are flagged."""
    flagged, wanted = BAD["draws: all chains drift by two sd"]
    return bool(flagged(0) & wanted)
