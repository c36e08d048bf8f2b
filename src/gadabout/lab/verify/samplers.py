"""Every exact sampler for a target: the recipes at their defaults, and examples of those that take a user's objects."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from gadabout import algorithms
from gadabout.algorithms import RECIPES
from gadabout.ensemble.choose import Move
from gadabout.ensemble.handover import Handover
from gadabout.factors import Diagonal
from gadabout.lab.verify.exact import FUNNEL, Exact, funnel_conditional
from gadabout.proposals import AbstractReparametrised, StudentT
from gadabout.sampler import Sampler

TAILS = (0.0, 1.0, 0.05, 0.1)
"""tails of independence proposals: shift, width, left and right, the same for every coordinate"""
WEIGHTS = (0.05, 0.3, 0.3, 0.2, 0.1, 0.05)
"""weights of the scales of independence proposals"""
STEP_SIZE, OF_NUTS, ON_FUNNEL = 0.6, 0.5, 1.1
"""step sizes of split HMC in radians, of NUTS, and of NUTS on the funnel, where many strides have halved steps"""


class TailedWalk(AbstractReparametrised):
    """A user's proposal: Student-t steps, wider on the right of the origin, with one learned scale per coordinate."""

    log_scale: Array

    def noise(self, key, here):
        return jax.random.t(key, 5.0, here.x.shape)

    def move(self, noise, here, target):
        there = target.at(here.x + self._width(here.x) * jnp.exp(self.log_scale) * noise)
        back = self._width(here.x) / self._width(there.x)
        change = 3.0 * jnp.sum(jnp.log1p((back * noise) ** 2 / 5) - jnp.log1p(noise**2 / 5))
        return there, noise.size * jnp.log(back) - change

    def entropy(self, here):
        return self.log_scale.sum()

    def _width(self, x):
        return jnp.exp(0.3 * jnp.tanh(x[0] * jnp.exp(-self.log_scale[0])))


def exact_samplers(exact: Exact) -> dict[str, Sampler]:
    """The samplers by name; settings without a default suit the target's widths."""
    n, sd, mean = len(exact.mean), jnp.asarray(exact.sd), jnp.asarray(exact.mean)
    step, half = float(exact.sd.min()), n // 2
    walk, mala = algorithms.rwm(step_size=step), algorithms.mala(step_size=step)
    student = StudentT(mean, Diagonal(1.2 * sd), jnp.asarray(5.0))
    more = {
        "gad-mala-exact": algorithms.gad_mala("exact"),
        "gad-mala-diagonal": algorithms.gad_mala(factor="diagonal"),
        "gad-user": algorithms.gad(TailedWalk(jnp.log(0.5 * sd))),
        "am-as-written": algorithms.am("as-written"),
        "hmc-jittered": algorithms.hmc(4, step_size=step, step_jitter=0.3, steps_jitter=3),
        "nuts-dense": algorithms.nuts("dense"),
        "metropolis-hastings": algorithms.metropolis_hastings(TailedWalk(jnp.log(0.5 * sd))),
        "independence-student": algorithms.independence(student),
        "cycle": algorithms.cycle(algorithms.gad_rwm(), algorithms.hmc(2, step_size=step), random_order=True),
        "mix": algorithms.mix(walk, mala, weights=np.array([2.0, 1.0])),
        "block": algorithms.cycle(
            algorithms.block(walk, np.arange(half).tolist()), algorithms.block(mala, np.arange(half, n).tolist())
        ),
    }
    if exact is FUNNEL:
        more["gibbs"] = algorithms.cycle(algorithms.gibbs(funnel_conditional), walk)
    return {name: recipe() for name, recipe in RECIPES.items()} | more


def frozen(move: Move, exact: Exact) -> Handover:
    """The handover to draws by a move of the default, with a θ that suits the target: tails heavier than a normal's."""
    n, of_nuts = len(exact.mean), ON_FUNNEL if exact is FUNNEL else OF_NUTS
    return Handover(
        np.zeros((1, n)),
        exact.mean,
        exact.sd if "diagonal" in move else np.diag(exact.sd) @ (np.eye(n) + 0.2 * np.eye(n, k=-1)),
        np.asarray(of_nuts if "nuts" in move else STEP_SIZE),
        np.asarray(list(Move).index(move)),
        np.asarray(WEIGHTS),
        np.tile(TAILS, (n, 1)).T,
    )
