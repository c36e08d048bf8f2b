"""The Hamiltonian proposal: a trajectory of fixed or random length and step size."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from gadabout.checks import check_whole
from gadabout.factors import AbstractFactor
from gadabout.factors.base import check_factor, check_leaf
from gadabout.proposals.base import AbstractProposal
from gadabout.proposals.integrators import AbstractReversibleIntegrator, Leapfrog


class Hamiltonian(AbstractProposal):
    r"""A trajectory of `num_steps` steps of size h in coordinates whitened by L, with mass matrix $(LL^\top)^{-1}$.

    The momentum is $p \sim N(0, I)$, and each step is a `Leapfrog` by default. The map preserves volume and is
    its own inverse once the momentum is flipped, hence the log-ratio $\tfrac12\|p_0\|^2 - \tfrac12\|p\|^2$. With one
    leapfrog step this is MALA, the Langevin proposal with the factor hL. A trajectory whose energy grows by more than
    1000 is marked as diverging.
    """

    factor: AbstractFactor
    step_size: Float[Array, ""]
    num_steps: int = eqx.field(static=True, default=10)
    integrator: AbstractReversibleIntegrator = eqx.field(default_factory=Leapfrog)

    def __check_init__(self):
        check_factor(self.factor)
        if not isinstance(self.step_size, float | int):
            check_leaf("step_size", self.step_size, "()", 0)
        check_whole("num_steps", self.num_steps)
        if not isinstance(self.integrator, AbstractReversibleIntegrator):
            raise TypeError(
                f"integrator must be reversible and preserve volume, got {self.integrator}: the acceptance ratio would "
                "be wrong; use Leapfrog(), or derive yours from AbstractReversibleIntegrator if it is both"
            )

    @property
    def order(self):
        return 1

    def noise(self, key, here):
        return jax.random.normal(key, here.x.shape, here.x.dtype)

    def move(self, noise, here, target):
        return self.trajectory(noise, self.step_size, self.num_steps, here, target)

    def trajectory(self, momentum, step_size, num_steps, here, target):
        """The end of `num_steps` steps of size `step_size`, both of which may be traced, and the log-ratio."""

        def step(_, state):
            there, p = state
            return self.integrator.step(there, p, step_size, self.factor, target)

        there, p = jax.lax.fori_loop(0, num_steps, step, (here, momentum))
        return there, 0.5 * (momentum @ momentum - p @ p)

    def record(self, noise, here, log_ratio):
        return {
            "diverging": ~(log_ratio > -1000),
            "energy": 0.5 * noise @ noise - here.logp,
            "n_steps": jnp.asarray(self.num_steps),
            "step_size": self.step_size,
        }

    def gradient_evaluations(self, learning):
        return self.num_steps


class JitteredNoise(NamedTuple):
    """The momentum, and two uniforms on [0, 1): one for the step size, one for the number of steps."""

    momentum: Float[Array, " n"]
    for_size: Float[Array, ""]
    for_steps: Float[Array, ""]


class JitteredHamiltonian(AbstractProposal):
    r"""A Hamiltonian proposal whose step size and number of steps are drawn anew for every move.

    The size is uniform on $h(1 \pm j)$ and the number uniform on the whole numbers of $N \pm J$. Both are independent
    of the state, so that each choice leaves the target invariant, and so does their mixture. The jitter removes the
    resonance of trajectories that close upon themselves (Neal 2011, section 3.2).

    Where J > 0 the number of steps is known at run time only. Chains advance together: the processor makes as many
    steps as the longest trajectory of an iteration, at most N + J, and chains with shorter trajectories wait.
    `n_steps` and `gradient_evaluations` count each chain's own steps. With J = 0 the number is static.

    Args:
        base: the proposal with h and N.
        step_jitter: j, in [0, 1).
        steps_jitter: J, from 0 to N − 1.
    """

    base: Hamiltonian
    step_jitter: Float[Array, ""]
    steps_jitter: int = eqx.field(static=True, default=0)

    def __check_init__(self):
        if not 0 <= self.steps_jitter < self.base.num_steps:
            raise ValueError(
                f"steps_jitter must be from 0 to num_steps - 1 = {self.base.num_steps - 1}, got {self.steps_jitter}"
            )

    @property
    def order(self):
        return self.base.order

    def noise(self, key, here):
        momentum_key, size_key, steps_key = jax.random.split(key, 3)
        uniform = lambda key: jax.random.uniform(key, dtype=here.x.dtype)
        return JitteredNoise(self.base.noise(momentum_key, here), uniform(size_key), uniform(steps_key))

    def move(self, noise, here, target):
        return self.base.trajectory(noise.momentum, self._size(noise), self._steps(noise), here, target)

    def record(self, noise, here, log_ratio):
        steps = jnp.asarray(self._steps(noise))
        return {
            **self.base.record(noise.momentum, here, log_ratio),
            "n_steps": steps,
            "gradient_evaluations": steps,
            "trajectory_length": steps * self._size(noise),
        }

    def gradient_evaluations(self, learning):
        return self.base.gradient_evaluations(learning)

    def _size(self, noise: Any) -> Float[Array, ""]:
        return self.base.step_size * (1 + self.step_jitter * (2 * noise.for_size - 1))

    def _steps(self, noise: Any) -> Int[Array, ""] | int:
        N, J = self.base.num_steps, self.steps_jitter
        return N - J + jnp.floor((2 * J + 1) * noise.for_steps).astype(int) if J else N
