"""Control of one number of the proposal by the acceptance rate, in one line each."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from gadabout.adaptations.base import AbstractAdaptation, setting


class AcceptanceRate(AbstractAdaptation):
    r"""$h^p \leftarrow h^p\,(1 + \rho\,(\alpha_t - \alpha_*)/\alpha_*)$, $\alpha_t \in \{0, 1\}$.

    The rule of the paper's reference implementation, with ρ = 0.01, for the leapfrog step size of HMC (p = 1), and for
    the proposal's variance δ = h² of RWM, MALA and AM (p = 2), where h is its standard deviation. Over several chains
    $\alpha_t$ is their mean. The trace is called `step_size` and shows h.

    Args:
        target_acceptance: α*, strictly between 0 and 1.
        where: the lens from the kernel to h, a positive scalar.
        rate: ρ.
        power: p.
    """

    target_acceptance: Float[Array, ""] = eqx.field(converter=setting)
    where: Callable[[Any], Any] = eqx.field(static=True)
    rate: Float[Array, ""] = eqx.field(converter=setting, default=0.01)
    power: int = eqx.field(static=True, default=1)

    def init(self, kernel, states):
        return ()

    def observe(self, memory, kernel, transition):
        return transition.info.accepted, {"step_size": self.where(kernel)}

    def update(self, memory, kernel, states, pooled):
        change = 1 + self.rate * (pooled / self.target_acceptance - 1)
        h = self.where(kernel) * (change if self.power == 1 else change ** (1 / self.power))
        return eqx.tree_at(self.where, kernel, h), memory, states

    def verdict(self, memory, kernel):
        return {"target_acceptance": self.target_acceptance}


class ProportionalControl(AbstractAdaptation):
    r"""$h^p \leftarrow h^p\,e^{v(\alpha_t - \alpha_*)}$, $\alpha_t$ the Metropolis probability, not 0 or 1.

    The lectures' rule, `step_size *= exp(adapt_speed * (accept_prob - target))`; over several chains $\alpha_t$ is
    their mean. The lectures name no speed; the default is near that of the paper's rule for HMC, 0.01/α*.
    The trace is called `step_size`.

    Args:
        target_acceptance: α*, strictly between 0 and 1.
        where: the lens from the kernel to h, a positive scalar.
        speed: v.
        power: p; 2 where the rule is to move the variance h².
    """

    target_acceptance: Float[Array, ""] = eqx.field(converter=setting)
    where: Callable[[Any], Any] = eqx.field(static=True)
    speed: Float[Array, ""] = eqx.field(converter=setting, default=0.015)
    power: int = eqx.field(static=True, default=1)

    def init(self, kernel, states):
        return ()

    def observe(self, memory, kernel, transition):
        return transition.info.acceptance_rate, {"step_size": self.where(kernel)}

    def update(self, memory, kernel, states, pooled):
        h = self.where(kernel) * jnp.exp(self.speed / self.power * (pooled - self.target_acceptance))
        return eqx.tree_at(self.where, kernel, h), memory, states

    def verdict(self, memory, kernel):
        return {"target_acceptance": self.target_acceptance}
