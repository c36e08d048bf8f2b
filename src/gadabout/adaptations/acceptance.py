"""Rules that adapt one scalar of the proposal to a target acceptance rate."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from gadabout.adaptations.base import AbstractAdaptation, setting


class AcceptanceRate(AbstractAdaptation):
    r"""Updates $h^p \leftarrow h^p\,(1 + \rho\,(\alpha_t - \alpha_*)/\alpha_*)$ with $\alpha_t \in \{0, 1\}$.

    This is the rule of the paper's reference implementation, with ρ = 0.01. It adapts the leapfrog step size of HMC
    (p = 1) and the proposal variance δ = h² of RWM, MALA and AM (p = 2), where h is the standard deviation. Over
    several chains $\alpha_t$ is the mean over chains. The trace `step_size` holds h.

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
    r"""Updates $h^p \leftarrow h^p\,e^{v(\alpha_t - \alpha_*)}$ with the acceptance probability $\alpha_t$, not 0 or 1.

    This is the rule of the lectures, `step_size *= exp(adapt_speed * (accept_prob - target))`. Over several chains
    $\alpha_t$ is the mean over chains. The lectures give no speed; the default is close to that of the paper's rule
    for HMC, 0.01/α*. The trace `step_size` holds h.

    Args:
        target_acceptance: α*, strictly between 0 and 1.
        where: the lens from the kernel to h, a positive scalar.
        speed: v.
        power: p; 2 to adapt the variance h².
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
