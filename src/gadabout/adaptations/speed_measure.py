"""Algorithm 1: stochastic gradient ascent on the generalised speed measure."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from gadabout.adaptations.base import AbstractAdaptation, setting
from gadabout.adaptations.optimisers import Optimiser
from gadabout.factors import AbstractFactor
from gadabout.kernels import MetropolisInfo
from gadabout.target import Point


class SpeedMeasureMemory(eqx.Module):
    """β, the weight of the entropy, and the optimiser's state."""

    beta: Float[Array, ""]
    optimiser: PyTree


class LowerBoundGradient(eqx.Module):
    """One chain's part of the gradient: ∇_θ min{0, log-ratio} from where it stood, and whether it moved."""

    gradient: PyTree
    usable: Bool[Array, ""]
    accepted: Bool[Array, ""]
    here: Point


class PooledGradient(eqx.Module):
    """∇_θ F, the mean over the chains that have one; whether there is any; and the share of chains that moved."""

    gradient: PyTree
    usable: Bool[Array, ""]
    acceptance_rate: Float[Array, ""]


def the_proposal(kernel: Any) -> Any:
    """The lens of a Metropolis kernel: its proposal."""
    return kernel.proposal


class SpeedMeasure(AbstractAdaptation):
    r"""Learns any reparametrisable proposal, from accepted and rejected moves alike.

    Ascends the stochastic lower bound on the log of the generalised speed measure,
    $$\mathcal{F}_\theta(x_t, \varepsilon_t) = \min\Bigl\{0,
    \log\frac{\pi(y_t)\,q_\theta(x_t|y_t)}{\pi(x_t)\,q_\theta(y_t|x_t)}\Bigr\} + \beta\,\mathcal{H}_{q_\theta(y|x_t)},$$
    by $\theta \leftarrow \theta + \rho_t\nabla_\theta\mathcal{F}_\theta(x_t, \varepsilon_t)$, then moves
    $\beta \leftarrow \beta[1 + \rho_\beta(\alpha_t - \alpha_*)]$ with $\alpha_t \in \{0, 1\}$ (Titsias & Dellaportas
    2019, equations 4 to 6 and Algorithm 1). Over several chains the gradient and $\alpha_t$ are means.

    From the reference implementation: β and the diagonal of every factor have floors. Ours: a proposal that is not
    finite is a rejection that β sees and θ and the optimiser do not; letting the entropy act on it alone would make L
    grow for ever.

    Args:
        optimiser: `RMSprop` or any optax transformation; it is given the gradient of −F.
        target_acceptance: α*, strictly between 0 and 1.
        beta_rate: ρ_β.
        beta_floor: smallest β.
        diagonal_floor: smallest diagonal entry of any factor in the proposal, in units of x.
        where: the lens from the kernel to the proposal.
    """

    optimiser: Optimiser
    target_acceptance: Float[Array, ""] = eqx.field(converter=setting)
    beta_rate: Float[Array, ""] = eqx.field(converter=setting, default=0.02)
    beta_floor: Float[Array, ""] = eqx.field(converter=setting, default=1e-4)
    diagonal_floor: Float[Array, ""] = eqx.field(converter=setting, default=1e-3)
    where: Callable[[Any], Any] = eqx.field(static=True, default=the_proposal)

    def init(self, kernel, states):
        theta = eqx.filter(self.where(kernel), eqx.is_inexact_array)
        return SpeedMeasureMemory(jnp.ones_like(self.target_acceptance), self.optimiser.init(theta))

    def observe(self, memory, kernel, transition):
        info, here = transition.info, transition.before
        if not isinstance(info, MetropolisInfo) or info.pullback is None:
            raise TypeError(
                "SpeedMeasure needs the pullback of the log-ratio: use Metropolis(proposal, learn=True) with a "
                f"proposal derived from AbstractReparametrised, got {kernel}"
            )
        gradient = info.pullback(jnp.where(info.log_ratio < 0, 1.0, 0.0).astype(info.log_ratio.dtype))
        leaves_finite = [jnp.isfinite(g).all() for g in jax.tree.leaves(gradient)]
        usable = jnp.stack([info.finite, *leaves_finite]).all()
        gradient = jax.tree.map(lambda g: jnp.where(usable, g, 0), gradient)

        entropy = self.where(kernel).entropy(here)
        lower_bound = jnp.minimum(0, info.log_ratio) + memory.beta * entropy
        trace = {"lower_bound": lower_bound, "beta": memory.beta, "entropy": entropy}
        return LowerBoundGradient(gradient, usable, info.accepted, here), trace

    def pool(self, memory, kernel, evidence, chains):
        theta, rest = eqx.partition(self.where(kernel), eqx.is_inexact_array)
        entropy = lambda theta: jnp.sum(evidence.usable * jax.vmap(eqx.combine(theta, rest).entropy)(evidence.here))
        entropy_gradient = jax.tree.map(lambda g: g[None], jax.grad(entropy)(theta))
        counts = (evidence.usable.astype(float), evidence.accepted.astype(float))
        gradient, entropy_gradient, (usable, accepted) = chains.total((evidence.gradient, entropy_gradient, counts))
        mean = jax.tree.map(lambda g, h: (g + memory.beta * h) / jnp.maximum(usable, 1), gradient, entropy_gradient)
        return PooledGradient(mean, usable > 0, accepted / chains.size(evidence.usable))

    def update(self, memory, kernel, states, pooled):
        beta = memory.beta
        theta, rest = eqx.partition(self.where(kernel), eqx.is_inexact_array)
        descent = jax.tree.map(jnp.negative, pooled.gradient)
        updates, optimiser = self.optimiser.update(descent, memory.optimiser, theta)
        ascended = jax.tree.map(lambda value, step: value + step, theta, updates)
        new = (_floored(ascended, self.diagonal_floor), optimiser)
        theta, optimiser = jax.tree.map(lambda n, o: jnp.where(pooled.usable, n, o), new, (theta, memory.optimiser))

        change = 1 + self.beta_rate * (pooled.acceptance_rate - self.target_acceptance)
        beta = jnp.maximum(beta * change, self.beta_floor)
        kernel = eqx.tree_at(self.where, kernel, eqx.combine(theta, rest))
        return kernel, SpeedMeasureMemory(beta, optimiser), states


def _floored(proposal: PyTree, lowest: Float[Array, ""]) -> PyTree:
    is_factor = lambda node: isinstance(node, AbstractFactor)
    return jax.tree.map(lambda node: node.floor(lowest) if is_factor(node) else node, proposal, is_leaf=is_factor)
