"""Control of one number of the proposal by the acceptance rate, in one line each."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from gadabout.adaptations.base import AbstractAdaptation, setting


class AcceptanceRate(AbstractAdaptation):
    r"""$\delta \leftarrow \delta\,(1 + \rho\,(\alpha_t - \alpha_*)/\alpha_*)$, $\alpha_t \in \{0, 1\}$.

    The rule of the paper's reference implementation for RWM, MALA, HMC and the global scale of AM, with ρ = 0.01;
    over several chains $\alpha_t$ is their mean. The trace is called `step_size`.

    Args:
        target_acceptance: α*, strictly between 0 and 1.
        where: the lens from the kernel to δ, a positive scalar.
        rate: ρ.
    """

    target_acceptance: Float[Array, ""] = eqx.field(converter=setting)
    where: Callable[[Any], Any] = eqx.field(static=True)
    rate: Float[Array, ""] = eqx.field(converter=setting, default=0.01)

    def init(self, kernel, states):
        return ()

    def observe(self, memory, kernel, transition):
        return transition.info.accepted, {"step_size": self.where(kernel)}

    def update(self, memory, kernel, states, evidence):
        delta = self.where(kernel)
        error = jnp.mean(evidence.astype(delta.dtype)) / self.target_acceptance - 1
        return eqx.tree_at(self.where, kernel, delta * (1 + self.rate * error)), memory, states


class ProportionalControl(AbstractAdaptation):
    r"""$\delta \leftarrow \delta\,e^{v(\alpha_t - \alpha_*)}$, $\alpha_t$ the Metropolis probability, not 0 or 1.

    The lectures' rule, `step_size *= exp(adapt_speed * (accept_prob - target))`; over several chains $\alpha_t$ is
    their mean. The lectures name no speed; the default is near that of the paper's rule for HMC, 0.01/α*.
    The trace is called `step_size`.

    Args:
        target_acceptance: α*, strictly between 0 and 1.
        where: the lens from the kernel to δ, a positive scalar.
        speed: v.
    """

    target_acceptance: Float[Array, ""] = eqx.field(converter=setting)
    where: Callable[[Any], Any] = eqx.field(static=True)
    speed: Float[Array, ""] = eqx.field(converter=setting, default=0.015)

    def init(self, kernel, states):
        return ()

    def observe(self, memory, kernel, transition):
        return transition.info.acceptance_rate, {"step_size": self.where(kernel)}

    def update(self, memory, kernel, states, evidence):
        delta = self.where(kernel) * jnp.exp(self.speed * (jnp.mean(evidence) - self.target_acceptance))
        return eqx.tree_at(self.where, kernel, delta), memory, states
