"""Algorithm 1: stochastic gradient ascent on the generalised speed measure."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from gadabout.adaptations.base import AbstractAdaptation, setting
from gadabout.adaptations.coordinates import clipped, floored, growth, in_units, units
from gadabout.adaptations.gains import TOLERANCE, Gain, tail
from gadabout.adaptations.gradients import AbstractGradient, Pathwise
from gadabout.adaptations.objectives import AbstractObjective, LogAcceptance
from gadabout.adaptations.optimisers import Optimiser, step_where
from gadabout.adaptations.pool import PerChain
from gadabout.factors import pooled_sum
from gadabout.target import Point

BASELINE_RATE = 0.05
"""smallest rate of the running mean of the objective; iteration k has the rate 1/k as long as that is larger"""

HOPELESS = -1_000.0
"""log acceptance ratio, in nats, at or below which a proposal has no chance of acceptance"""

LARGEST_STEP = 0.5
"""largest step of one iteration, in units of each parameter"""


class SpeedMeasureMemory(eqx.Module):
    """β, the optimiser's state, the number of successive hopeless log-ratios of each chain, and counts."""

    beta: Float[Array, ""]
    baseline: Float[Array, ""]
    """the running mean of F over about the last twenty iterations"""
    optimiser: PyTree
    stalled: PerChain
    shrinks: Int[Array, ""]
    """number of times that θ was shrunk because a chain stalled"""
    count: Int[Array, ""]
    """iterations so far: the index of the gain sequence"""


class ChainGradient(eqx.Module):
    """One chain's contribution: ∇_θ J and F at its previous state `here`, and whether it moved."""

    gradient: PyTree
    value: Float[Array, ""]
    usable: Bool[Array, ""]
    hopeless: Bool[Array, ""]
    accepted: Bool[Array, ""]
    here: Point


class PooledGradient(eqx.Module):
    """∇_θ J and ∇_θ entropy, as means over the chains with a usable gradient, and summaries of all chains."""

    objective: PyTree
    entropy: PyTree
    value: Float[Array, ""]
    growing: PyTree
    """the gradient of the entropy, summed over all chains"""
    usable: Bool[Array, ""]
    """whether any chain has a usable gradient"""
    acceptance_rate: Float[Array, ""]
    stalled: Int[Array, " chains"]
    """number of successive hopeless log-ratios of each chain of this device"""
    stall: Bool[Array, ""]
    """whether any chain has stalled"""


def the_proposal(kernel: Any) -> Any:
    """The proposal of a Metropolis kernel; this is the default lens."""
    return kernel.proposal


def optional_setting(value: Any) -> Any:
    """A number as an array leaf; None stays None."""
    return None if value is None else setting(value)


class SpeedMeasure(AbstractAdaptation):
    r"""Learns any reparametrisable proposal, from accepted and rejected moves alike.

    Ascends the stochastic lower bound on the log of the generalised speed measure,
    $$\mathcal{F}_\theta(x_t, \varepsilon_t) = \min\Bigl\{0,
    \log\frac{\pi(y_t)\,q_\theta(x_t|y_t)}{\pi(x_t)\,q_\theta(y_t|x_t)}\Bigr\} + \beta\,\mathcal{H}_{q_\theta(y|x_t)},$$
    by $\theta \leftarrow \theta + \rho_t\nabla_\theta\mathcal{F}_\theta(x_t, \varepsilon_t)$, then moves
    $\beta \leftarrow \beta[1 + \rho_\beta(\alpha_t - \alpha_*)]$ with $\alpha_t \in \{0, 1\}$ (Titsias & Dellaportas
    2019, equations 4 to 6 and Algorithm 1). Over several chains the gradient and $\alpha_t$ are means.

    $\min\{0, \cdot\}$ is the paper's `objective` $J$. The paper's `estimator` takes the gradient along the path $y =
    T_\theta(x, \varepsilon)$. Both can be replaced. An objective without entropy is maximised alone, and β is constant.

    As in the reference implementation, β and the diagonal of every factor have floors. Additions to the paper, each of
    which can be turned off:

    - `relative`: the step is $\theta \leftarrow \theta + s\,(\rho_t\,s\,\nabla_\theta\mathcal{F} + \rho'_t\,d\,
      \langle s\,d, \nabla_\theta\mathcal{F}\rangle)$ with a unit s for each parameter (`AbstractFactor.units`; 1
      outside factors) and the direction d in which proposals grow as a whole. With the norms of L's rows as units the
      first term is the paper's step with every coordinate measured in the proposal's own standard deviations, so that
      units of x make no difference. The second term learns the common scale c of c L as a separate parameter. Its
      gradient is a sum over coordinates, and exceeds the noise when those of single entries, at n = 100, do not.
      Neither term moves a parameter by more than half a unit, and the floor is in these units.
    - `beta_cap`: an upper bound of β. While all proposals are accepted, L grows at the learning rate and β faster.
    - `gradient_clip`: the gradient of one chain is scaled down to this norm, in those units. It cannot overflow.
    - `patience`: a chain with no log-ratio above −1000 for that many iterations has stalled. Then θ is moved half a
      unit against d, which halves factors, and the optimiser restarts.
    - `gain` multiplies the steps of θ and ρ_β.

    A proposal that is not finite counts as a rejection for β, and is ignored by θ and the optimiser: if only the
    entropy acted on it, L would grow for ever.

    Args:
        optimiser: `RMSprop` or any optax transformation; its input is the gradient of −F, in units if `relative`.
        target_acceptance: α*, strictly between 0 and 1.
        beta_rate: ρ_β.
        beta_floor: smallest β.
        diagonal_floor: smallest diagonal entry of any factor in the proposal, in units of its row's norm if
            `relative`, else in units of x.
        where: the lens from the kernel to the proposal.
        beta_cap: largest β; None for none, as in the paper.
        relative: whether each parameter is learned in its own unit; False as in the paper.
        gradient_clip: largest norm of one chain's gradient; None for none, as in the paper.
        patience: iterations after which a chain has stalled; None for never, as in the paper.
        gain: γ_k for k = 1, 2, …; None for 1, as in the paper.
        objective: J, `LogAcceptance` as in the paper, `LogRatio` or `JumpDistance`.
        estimator: of the gradient of J, `Pathwise` as in the paper, or `ScoreFunction`.
    """

    optimiser: Optimiser
    target_acceptance: Float[Array, ""] = eqx.field(converter=setting)
    beta_rate: Float[Array, ""] = eqx.field(converter=setting, default=0.02)
    beta_floor: Float[Array, ""] = eqx.field(converter=setting, default=1e-4)
    diagonal_floor: Float[Array, ""] = eqx.field(converter=setting, default=1e-3)
    where: Callable[[Any], Any] = eqx.field(static=True, default=the_proposal)
    beta_cap: Float[Array, ""] | None = eqx.field(converter=optional_setting, default=100.0)
    relative: bool = eqx.field(static=True, default=True)
    gradient_clip: Float[Array, ""] | None = eqx.field(converter=optional_setting, default=100.0)
    patience: Float[Array, ""] | None = eqx.field(converter=optional_setting, default=100)
    gain: Gain | None = None
    objective: AbstractObjective = eqx.field(default_factory=LogAcceptance)
    estimator: AbstractGradient = eqx.field(default_factory=Pathwise)

    @property
    def diminishing(self):
        """Whether there is a gain sequence that falls like a power of k; shrinking after a stall is ignored."""
        return self.gain is not None and tail(self.gain)[0] > TOLERANCE

    def init(self, kernel, states):
        theta = eqx.filter(self.where(kernel), eqx.is_inexact_array)
        stalled = PerChain(jnp.zeros(jax.tree.leaves(states)[0].shape[:1], int))
        beta, zero = jnp.ones_like(self.target_acceptance), jnp.asarray(0)
        optimiser = self.optimiser.init(self._learned(theta))
        return SpeedMeasureMemory(beta, jnp.zeros_like(beta), optimiser, stalled, zero, zero)

    def observe(self, memory, kernel, transition):
        info, proposal = transition.info, self.where(kernel)
        estimate = self.estimator(self.objective, proposal, transition, memory.beta, memory.baseline)
        gradient, value, entropy = estimate
        if self.relative:
            gradient = in_units(gradient, units(proposal))
        leaves_finite = [jnp.isfinite(g).all() for g in jax.tree.leaves(gradient)]
        usable = jnp.stack([info.finite, *leaves_finite]).all()
        gradient = jax.tree.map(lambda g: jnp.where(usable, g, 0), gradient)
        if self.gradient_clip is not None:
            gradient = clipped(gradient, self.gradient_clip)

        if self.objective.entropy:
            value = value + memory.beta * entropy
            trace = {"lower_bound": value, "beta": memory.beta, "entropy": entropy}
        else:
            trace = {"objective": value}
        gradient, trace = jax.lax.optimization_barrier((gradient, trace))  # reads θ before its update, to avoid a copy
        hopeless, value = ~(info.log_ratio > HOPELESS), jnp.where(usable, value, 0)
        return ChainGradient(gradient, value, usable, hopeless, info.accepted, transition.before), trace

    def pool(self, memory, kernel, evidence, chains):
        theta, rest = eqx.partition(self.where(kernel), eqx.is_inexact_array)
        stalled = jnp.where(evidence.hopeless, memory.stalled.tree + 1, 0)
        over = jnp.zeros(stalled.shape) if self.patience is None else (stalled >= self.patience).astype(float)
        counted = evidence.usable.astype(float), evidence.accepted.astype(float), over, evidence.value

        def entropies(theta, weights, here):
            return jnp.sum(weights * jax.vmap(eqx.combine(theta, rest).entropy)(here))

        def of_chains(gradient, counted, here):
            if not self._adds_entropy:
                nothing = jax.tree.map(jnp.zeros_like, theta)
                return pooled_sum((gradient, *counted)), (nothing, nothing)
            grown = (jax.grad(entropies)(theta, weights, here) for weights in (counted[0], jnp.ones_like(counted[0])))
            return pooled_sum((gradient, *counted)), tuple(grown)

        sums = chains.summed(of_chains, evidence.gradient, counted, evidence.here)
        (gradient, usable, accepted, over, value), (entropy, growing) = sums
        share = 1 / jnp.maximum(usable, 1)  # n² products cost less than as many divisions
        mean = lambda tree: jax.tree.map(lambda leaf: share * leaf, tree)
        rate = accepted / chains.size(evidence.usable)
        means = mean(gradient), mean(entropy), mean(value)
        return PooledGradient(*means, growing, usable > 0, rate, stalled, over > 0)

    def update(self, memory, kernel, states, pooled):
        theta, rest = eqx.partition(self.where(kernel), eqx.is_inexact_array)
        k, larger, entropy = memory.count + 1, growth(theta, pooled.growing), pooled.entropy
        gain = 1.0 if self.gain is None else self.gain(k)
        if self.relative:
            entropy = jax.tree.map(jnp.multiply, entropy, units(theta))
        descent = jax.tree.map(lambda g, h: -(g + memory.beta * h), pooled.objective, entropy)
        step, optimiser = self._step(pooled.usable, descent, memory.optimiser, theta, larger, gain)
        new = (floored(jax.tree.map(jnp.add, theta, step), self.diagonal_floor, self.relative), optimiser)
        theta, optimiser, stalled, shrinks = self._rescued(memory, theta, larger, new, pooled)
        kernel = eqx.tree_at(self.where, kernel, eqx.combine(theta, rest))
        beta = self._beta(memory.beta, pooled.acceptance_rate, gain) if self.objective.entropy else memory.beta
        rate = jnp.where(pooled.usable, jnp.maximum(BASELINE_RATE, 1 / k), 0)
        baseline = memory.baseline + rate * (pooled.value - memory.baseline)
        return kernel, SpeedMeasureMemory(beta, baseline, optimiser, PerChain(stalled), shrinks, k), states

    @property
    def _adds_entropy(self) -> bool:
        """Whether the gradient of the entropy, computed by the proposals, is added to that of the objective."""
        return self.objective.entropy and self.estimator.knows_entropy

    def _learned(self, theta: PyTree) -> PyTree:
        """The parameters of the optimiser: θ, and the logarithm of its common scale if `relative`."""
        return (theta, jnp.zeros_like(self.target_acceptance)) if self.relative else theta

    def _step(
        self, usable: Array, descent: PyTree, memory: PyTree, theta: PyTree, larger: PyTree, gain: Any
    ) -> tuple[PyTree, PyTree]:
        """The step of θ and the optimiser's memory, from the gradient of −F in the learned coordinates."""
        if self.relative:
            along = sum(jnp.sum(g * d) for g, d in zip(*map(jax.tree.leaves, (descent, larger)), strict=True))
            descent = (descent, along if self.gradient_clip is None else clipped(along, self.gradient_clip))
        if self.gradient_clip is not None:
            usable &= jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(descent)]).all()
        step, memory = step_where(usable, self.optimiser, descent, memory, self._learned(theta))
        if self.gain is not None:
            step = jax.tree.map(lambda leaf: gain * leaf, step)
        if self.relative:
            each, common = jax.tree.map(lambda leaf: jnp.clip(leaf, -LARGEST_STEP, LARGEST_STEP), step)
            step = jax.tree.map(lambda leaf, d, s: s * (leaf + common * d), each, larger, units(theta))
        return step, memory

    def _rescued(self, memory, theta: PyTree, larger: PyTree, new: tuple, pooled: PooledGradient) -> tuple:
        """θ (shrunk if a chain stalled), the optimiser's memory, stalled iterations per chain, and shrink count."""
        if self.patience is None:
            return (*new, memory.stalled.tree, memory.shrinks)
        kept = (*new, pooled.stalled, memory.shrinks)
        smaller = jax.tree.map(lambda value, d, s: value - 0.5 * s * d, theta, larger, units(theta))
        afresh = (smaller, self.optimiser.init(self._learned(theta)), 0 * pooled.stalled, memory.shrinks + 1)
        return jax.tree.map(lambda n, o: jnp.where(pooled.stall, n, o), afresh, kept)

    def _beta(self, beta: Array, acceptance: Array, gain: Any) -> Array:
        beta = jnp.maximum(beta * (1 + gain * self.beta_rate * (acceptance - self.target_acceptance)), self.beta_floor)
        return beta if self.beta_cap is None else jnp.minimum(beta, self.beta_cap)

    def verdict(self, memory: SpeedMeasureMemory, kernel: Any) -> dict[str, Array]:
        """Diagnostics for the end of a warm-up: whether bounds were reached, how often θ was shrunk, and α*."""
        theta = eqx.filter(self.where(kernel), eqx.is_inexact_array)
        raised = floored(theta, 2 * self.diagonal_floor, self.relative)  # within a factor of two
        met = [jnp.any(a != b) for a, b in zip(*map(jax.tree.leaves, (theta, raised)), strict=True)]
        of_theta = {"factor_at_floor": jnp.stack(met).any(), "shrinks": memory.shrinks}
        if not self.objective.entropy:
            return of_theta
        cap = jnp.inf if self.beta_cap is None else self.beta_cap
        return {
            "beta": memory.beta,
            "beta_at_cap": memory.beta >= cap,
            "beta_at_floor": memory.beta <= self.beta_floor,
            **of_theta,
            "target_acceptance": self.target_acceptance,
        }
