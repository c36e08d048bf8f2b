"""Dual averaging of a step size (Hoffman & Gelman 2014, section 3.2)."""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from gadabout.adaptations.base import AbstractAdaptation, setting


class DualAveragingMemory(eqx.Module):
    r"""$\mu$, the mean error $\bar H_t$, the averaged $\log\bar\varepsilon_t$, and the number t of updates made."""

    shrinkage_point: Float[Array, ""]
    mean_error: Float[Array, ""]
    log_average: Float[Array, ""]
    count: Int[Array, ""]


class DualAveraging(AbstractAdaptation):
    r"""Adapts the step size ε to a target mean acceptance probability, and ends at an average of its iterates.

    $$\bar H_t = \Bigl(1 - \frac1{t + t_0}\Bigr)\bar H_{t-1} + \frac{\delta - \alpha_t}{t + t_0},\quad
    \log\varepsilon_t = \mu - \frac{\sqrt t}{\gamma}\bar H_t,\quad
    \log\bar\varepsilon_t = t^{-\kappa}\log\varepsilon_t + (1 - t^{-\kappa})\log\bar\varepsilon_{t-1}$$
    with $\mu = \log(10\,\varepsilon_0)$ (Hoffman & Gelman 2014, equation 6 and algorithm 5). `finish` puts the averaged
    $\bar\varepsilon_t$ into the kernel for the frozen phase. $\alpha_t$ is the acceptance probability, averaged over
    chains. The trace `step_size` holds ε. Deviation: $\varepsilon_0$ is the recipe's initial step size, not the result
    of a search.

    Args:
        target_acceptance: δ, strictly between 0 and 1.
        where: the lens from the kernel to ε, a positive scalar.
        regularisation: γ.
        offset: t₀, which stabilises the first iterations.
        decay: κ, in (½, 1].
        largest: upper bound of ε and of exp(μ), if longer steps are of no use; None for no bound.
    """

    target_acceptance: Float[Array, ""] = eqx.field(converter=setting)
    where: Callable[[Any], Any] = eqx.field(static=True)
    regularisation: Float[Array, ""] = eqx.field(converter=setting, default=0.05)
    offset: Float[Array, ""] = eqx.field(converter=setting, default=10.0)
    decay: Float[Array, ""] = eqx.field(converter=setting, default=0.75)
    largest: float | None = eqx.field(static=True, default=None)

    def init(self, kernel, states):
        log_start = jnp.log(self.where(kernel))
        shrinkage_point = self._bounded(jnp.log(10.0) + log_start)
        return DualAveragingMemory(shrinkage_point, jnp.zeros_like(log_start), log_start, jnp.asarray(0))

    def observe(self, memory, kernel, transition):
        return transition.info.acceptance_rate, {"step_size": self.where(kernel)}

    def update(self, memory, kernel, states, pooled):
        t = memory.count + 1
        share = 1 / (t + self.offset)
        mean_error = (1 - share) * memory.mean_error + share * (self.target_acceptance - pooled)
        log_step = self._bounded(memory.shrinkage_point - jnp.sqrt(t) / self.regularisation * mean_error)
        weight = t**-self.decay
        log_average = weight * log_step + (1 - weight) * memory.log_average
        memory = DualAveragingMemory(memory.shrinkage_point, mean_error, log_average, t)
        return eqx.tree_at(self.where, kernel, jnp.exp(log_step)), memory, states

    def _bounded(self, log_step):
        return log_step if self.largest is None else jnp.minimum(log_step, math.log(self.largest))

    def finish(self, memory, kernel, states):
        return eqx.tree_at(self.where, kernel, jnp.exp(memory.log_average)), memory, states

    def verdict(self, memory, kernel):
        aim = self.target_acceptance
        if self.largest is not None:  # the largest step may be accepted more often
            aim = jnp.where(self.where(kernel) >= 0.99 * self.largest, jnp.nan, aim)
        return {"target_acceptance": aim}
