"""Unbiased gradients of an objective in θ, from one proposed move."""

from abc import abstractmethod
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from gadabout.adaptations.objectives import AbstractObjective
from gadabout.kernels import MetropolisInfo, Transition
from gadabout.proposals import renew_cache


class AbstractGradient(eqx.Module):
    """An estimate of the gradient of E J in θ, from one move of a `Metropolis` kernel."""

    knows_entropy: ClassVar[bool] = True
    """whether proposals compute their entropy; otherwise its gradient is estimated and included in the result"""

    @abstractmethod
    def __call__(
        self,
        objective: AbstractObjective,
        proposal: Any,
        transition: Transition,
        beta: Float[Array, ""],
        baseline: Float[Array, ""],
    ) -> tuple[PyTree, Float[Array, ""], Float[Array, ""]]:
        """The gradient, J, and the entropy of proposals from the chain's previous state.

        `baseline` is the running mean of J, plus β times the entropy if the objective has one. Raises TypeError if
        this estimator cannot learn the proposal.
        """


class Pathwise(AbstractGradient):
    """∇_θ J(log r, T_θ(x, ε) − x) of a reparametrised proposal (Titsias & Dellaportas 2019, equation 6)."""

    def __call__(self, objective, proposal, transition, beta, baseline):
        info, here = transition.info, transition.before
        if not isinstance(info, MetropolisInfo) or info.pullback is None:
            raise TypeError(
                "SpeedMeasure needs the pullback of the log-ratio: use Metropolis(proposal, learn=True) with a "
                f"proposal derived from AbstractReparametrised, got {proposal}"
            )
        value, weights = _value_and_slopes(objective, info, here)
        gradient = info.pullback(*weights) if objective.jump else info.pullback(weights[0])
        return gradient, value, proposal.entropy(here) if objective.entropy else jnp.zeros_like(value)


class ScoreFunction(AbstractGradient):
    r"""$(J - b)\,\nabla\log q_\theta(y|x) + \partial_{\log r}J\;\nabla\log\{q_\theta(x|y)/q_\theta(y|x)\}$ in θ.

    For proposals with `log_q` whose y cannot be differentiated in θ. It needs no gradient of the target, and is noisier
    than `Pathwise` where both apply. b is the running mean of J. The entropy enters through $-\log q_\theta(y|x)$ in
    the place of J (Williams 1992, "Simple statistical gradient-following algorithms").
    """

    knows_entropy: ClassVar[bool] = False

    def __call__(self, objective, proposal, transition, beta, baseline):
        info, here = transition.info, transition.before
        if not isinstance(info, MetropolisInfo):
            raise TypeError(f"ScoreFunction learns the proposal of a Metropolis kernel, got {proposal}")
        theta, rest = eqx.partition(proposal, eqx.is_inexact_array)

        def log_densities(theta):
            q = eqx.combine(theta, rest)
            x, y = renew_cache(q, here), renew_cache(q, info.proposed)
            forward = q.log_q(y, x)
            return q.log_q(x, y) - forward, forward

        (_, log_q), pull = jax.vjp(log_densities, theta)
        value, (slope, _) = _value_and_slopes(objective, info, here)
        advantage = value - baseline - (beta * log_q if objective.entropy else 0)
        return pull((slope, advantage))[0], value, -log_q


def _value_and_slopes(objective: AbstractObjective, info: MetropolisInfo, here: Any):
    """J, and its derivatives in the log-ratio and in y."""
    return jax.value_and_grad(objective, (0, 1))(info.log_ratio, info.proposed.x - here.x)
