"""Objectives that Algorithm 1 maximises: the paper's bound, and alternatives from the literature."""

from abc import abstractmethod
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from gadabout.adaptations.base import setting


class AbstractObjective(eqx.Module):
    """J(log r, y − x) of one proposed move with acceptance ratio r; the mean of J is maximised."""

    entropy: ClassVar[bool] = True
    """whether β times the proposal's entropy is added to J, with β controlled by the acceptance rate"""
    jump: ClassVar[bool] = False
    """whether J depends on y − x"""

    @abstractmethod
    def __call__(self, log_ratio: Float[Array, ""], jump: Float[Array, " n"]) -> Float[Array, ""]:
        """J, differentiable in both arguments."""


class LogAcceptance(AbstractObjective):
    """min{0, log r}: the paper's bound on the logarithm of the acceptance (Titsias & Dellaportas 2019, equation 5)."""

    def __call__(self, log_ratio, jump):
        return jnp.where(log_ratio < 0, log_ratio, 0)


class LogRatio(AbstractObjective):
    r"""log r, whose mean is $-\mathrm{KL}[\pi(x)q_\theta(y|x)\,\|\,\pi(y)q_\theta(x|y)]$.

    For independence proposals the mean is $-\mathrm{KL}[q\|\pi] - \mathrm{KL}[\pi\|q]$. Other proposals collapse onto
    y = x under it (Neklyudov et al. 2018, "Metropolis-Hastings view on variational inference"; the paper's section 4).
    """

    entropy: ClassVar[bool] = False

    def __call__(self, log_ratio, jump):
        return log_ratio


class JumpDistance(AbstractObjective):
    r"""$\delta = \min\{1, r\}\,\tfrac1n\sum_i(y_i - x_i)^2/\lambda_i^2$, the expected squared jump.

    With `reciprocal` it is $\delta - 1/\delta$, which penalises moves of small δ (Pasarica & Gelman 2010; Levy,
    Hoffman & Sohl-Dickstein 2018, equations 5 and 6). The acceptance rate is not controlled.

    Args:
        scale: λ, the size of a good jump in units of x, one or n numbers; with one, large-scale coordinates dominate.
        reciprocal: whether 1/δ is subtracted.
    """

    entropy: ClassVar[bool] = False
    jump: ClassVar[bool] = True

    scale: Float[Array, " *n"] = eqx.field(converter=setting, default=1.0)
    reciprocal: bool = eqx.field(static=True, default=False)

    def __call__(self, log_ratio, jump):
        size = jnp.exp(jnp.where(log_ratio < 0, log_ratio, 0)) * jnp.mean((jump / self.scale) ** 2)
        return size - 1 / size if self.reciprocal else size
