"""What Algorithm 1 ascends: the paper's bound, and what others have put in its place."""

from abc import abstractmethod
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from gadabout.adaptations.base import setting


class AbstractObjective(eqx.Module):
    """J(log r, y − x) of one proposed move, r its acceptance ratio: what is to be large in the mean."""

    entropy: ClassVar[bool] = True
    """whether β times the entropy of proposals is ascended beside it, with β steered by the acceptance rate"""
    jump: ClassVar[bool] = False
    """whether it looks at y − x"""

    @abstractmethod
    def __call__(self, log_ratio: Float[Array, ""], jump: Float[Array, " n"]) -> Float[Array, ""]:
        """J, differentiable in both."""


class LogAcceptance(AbstractObjective):
    """min{0, log r}: the paper's bound on the logarithm of the acceptance (Titsias & Dellaportas 2019, equation 5)."""

    def __call__(self, log_ratio, jump):
        return jnp.where(log_ratio < 0, log_ratio, 0)


class LogRatio(AbstractObjective):
    r"""log r, whose mean is $-\mathrm{KL}[\pi(x)q_\theta(y|x)\,\|\,\pi(y)q_\theta(x|y)]$.

    For independence proposals $-\mathrm{KL}[q\|\pi] - \mathrm{KL}[\pi\|q]$. Other proposals collapse under it, onto
    y = x (Neklyudov et al. 2018, "Metropolis-Hastings view on variational inference"; the paper's section 4).
    """

    entropy: ClassVar[bool] = False

    def __call__(self, log_ratio, jump):
        return log_ratio


class JumpDistance(AbstractObjective):
    r"""$\delta = \min\{1, r\}\,\tfrac1n\sum_i(y_i - x_i)^2/\lambda_i^2$, the expected squared jump.

    With `reciprocal` $\delta - 1/\delta$, which punishes moves that hardly happen (Pasarica & Gelman 2010; Levy,
    Hoffman & Sohl-Dickstein 2018, equations 5 and 6). Nothing steers the acceptance rate.

    Args:
        scale: λ, the size of a good jump in units of x, one or n numbers; those of large scale count most otherwise.
        reciprocal: whether 1/δ is subtracted.
    """

    entropy: ClassVar[bool] = False
    jump: ClassVar[bool] = True

    scale: Float[Array, " *n"] = eqx.field(converter=setting, default=1.0)
    reciprocal: bool = eqx.field(static=True, default=False)

    def __call__(self, log_ratio, jump):
        size = jnp.exp(jnp.where(log_ratio < 0, log_ratio, 0)) * jnp.mean((jump / self.scale) ** 2)
        return size - 1 / size if self.reciprocal else size
