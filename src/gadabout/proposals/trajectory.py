"""A proposal of a few leapfrog steps, whose factor Algorithm 1 learns."""

import equinox as eqx
import jax
import jax.numpy as jnp

from gadabout.checks import check_whole
from gadabout.factors import AbstractFactor
from gadabout.factors.base import check_factor
from gadabout.proposals.base import AbstractReparametrised
from gadabout.proposals.integrators import Leapfrog
from gadabout.target import Point


class Trajectory(AbstractReparametrised):
    r"""K leapfrog steps with mass matrix $(LL^\top)^{-1}$ from $p \sim N(0, I)$, of a step size near 1 in units of L.

    One step of size 1 is the `Langevin` proposal. The step size is uniform on $1 \pm j$, independent of x, so that no
    trajectory closes upon itself in every move. As in the fast gadMALA, derivatives in L treat the target's gradients
    along the trajectory as constants (`Target.at`). The entropy $\log|\partial y/\partial p|$ is approximated by
    $\log|L|$, without the effect of curvature, which Hirt, Titsias & Dellaportas (2021, "Entropy-based adaptive
    Hamiltonian Monte Carlo") estimate by series. Both affect only learning: the acceptance ratio is exact.

    Args:
        factor: L.
        num_steps: K.
        jitter: j, in [0, 1).
    """

    factor: AbstractFactor
    num_steps: int = eqx.field(static=True, default=3)
    jitter: float = eqx.field(static=True, default=0.2)

    def __check_init__(self):
        check_factor(self.factor)
        check_whole("num_steps", self.num_steps)
        if not 0 <= self.jitter < 1:
            raise ValueError(f"jitter must be in [0, 1), got {self.jitter}; 0.2 is typical")

    @property
    def order(self):
        return 1

    def noise(self, key, here):
        normal, uniform = jax.random.split(key)
        u = jax.random.uniform(uniform, dtype=here.x.dtype)
        return jax.random.normal(normal, here.x.shape, here.x.dtype), 1 + self.jitter * (2 * u - 1)

    def move(self, noise, here, target):
        momentum, h = noise

        def step(carry, _):
            there, p = carry
            return Leapfrog().step(there, p, h, self.factor, target), None

        start = Point(here.x, here.logp, here.grad), momentum
        (there, p), _ = jax.lax.scan(step, start, None, self.num_steps)  # unlike a fori_loop it can be differentiated
        return there, 0.5 * (momentum @ momentum - p @ p)

    def entropy(self, here):
        return self.factor.log_det()

    def record(self, noise, here, log_ratio):
        return {"n_steps": jnp.asarray(self.num_steps), "diverging": ~(log_ratio > -1000)}

    def gradient_evaluations(self, learning):
        return self.num_steps
