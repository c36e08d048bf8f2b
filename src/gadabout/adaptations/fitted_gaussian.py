"""A Gaussian fitted to each of many short windows of a warm-up, which ends when fits agree."""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate, chain, count
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PyTree

from gadabout.adaptations.base import AbstractAdaptation
from gadabout.adaptations.estimators import AbstractEstimator, GeometricMean, Moments

AGREEMENT = 0.35
"""the largest change of a direction's width, in logarithms, between fits that agree"""
FEWEST_WINDOWS = 3
"""after which fits may agree"""
FEWEST_DRAWS = 20
"""more than coordinates, of fits that agreed one after the other, before warm-up may end"""
STEP_WINDOW = 12
"""iterations of a window for the step size alone"""


def quick_windows(length: int, last: int = 50) -> tuple[int, ...]:
    """Windows of 8, 8, 12, 16, 24, 32, 64, 128, … iterations, and at the end one for the step size alone.

    Windows after one of more than 12 are parted after 12 iterations, where warm-up may end (see `FittedGaussian`).
    """
    return _quick_windows(length, last)


@cache
def _quick_windows(length: int, last: int) -> tuple[int, ...]:
    if length < 20:
        return (length,)
    last = min(last, length // 5)
    windows, left, before = [], length - last, 0
    for window in chain((8, 8, 12, 16, 24, 32), (2**power for power in count(6))):
        if left < 2 * window:
            return *windows, left, last
        windows += [STEP_WINDOW, window - STEP_WINDOW] if before > STEP_WINDOW else [window]
        left, before = left - window, window
    raise AssertionError("windows grow")


class FittedMemory(eqx.Module):
    """The rule's memory, moments of this window's draws and gradients, windows, draws of the last fit.

    `agreed` counts the draws of the last fits that agreed, each with the one before. `agrees` says whether they are
    enough, `settled` whether a window has passed since.
    """

    rule: PyTree
    moments: Moments
    gradients: Moments
    windows: Int[Array, ""]
    used: Int[Array, ""]
    agreed: Int[Array, ""]
    agrees: Bool[Array, ""]
    settled: Bool[Array, ""]


class FittedGaussian(AbstractAdaptation):
    r"""Fits mean and factor of a proposal to the draws of each window and the gradients there, beside a step-size rule.

    The covariance is the estimator's, of the draws of all chains; the mean $\bar x + \Sigma\bar g$ takes a Newton step
    from their own. Both are worked out in the coordinates $z = L^{-1}(x - m)$ of the last fit, in which widths that
    differ by orders of magnitude, and correlations near 1, lose no digits. A window with fewer draws than the last one
    used is a part of the next. Where no direction's width changes by more than a factor of 1.4 from one fit to the
    next, or, as an exponent, √(n/draws) where that is more, but no more than 2, fits agree. As soon as those that agree
    one after the other have twenty more draws together than there are coordinates, so that no direction was unseen by
    all of them: one window more, for the step size alone, and warm-up may end. A fit that agrees changes the Gaussian
    by as much as its share of those draws.

    Args:
        rule: any adaptation of the step size, such as `DualAveraging` with its lens.
        where: the lens from the kernel to what has a `mean` and a `factor`, and says by `whitened(point)` what z and
            the gradient with respect to it are: its cache holds them, so that no iteration solves for them.
        estimate: the covariance from the moments.
        windows: the lengths of the windows of a stage.
    """

    rule: AbstractAdaptation
    where: Callable[[Any], Any] = eqx.field(static=True)
    estimate: AbstractEstimator = GeometricMean(prior_draws=5.0)
    windows: Callable[[int], Sequence[int]] = eqx.field(static=True, default=quick_windows)

    def init(self, kernel, states):
        zero, no, none = jnp.asarray(0), jnp.asarray(False), self._none(kernel)
        return FittedMemory(self.rule.init(kernel, states), none, none, zero, zero, zero, no, no)

    def observe(self, memory, kernel, transition):
        evidence, trace = self.rule.observe(memory.rule, kernel, transition)
        return (evidence, *self.where(kernel).whitened(kernel.point(transition.after))), trace

    def pool(self, memory, kernel, evidence, chains):
        seen, z, grad = evidence
        both = lambda z, grad: (memory.moments.sums(z), memory.gradients.sums(grad))
        return self.rule.pool(memory.rule, kernel, seen, chains), chains.summed(both, z, grad), chains.size(z)

    def update(self, memory, kernel, states, pooled):
        evidence, (z_sums, grad_sums), count = pooled
        kernel, rule, states = self.rule.update(memory.rule, kernel, states, evidence)
        moments, gradients = memory.moments.add(count, *z_sums), memory.gradients.add(count, *grad_sums)
        lens = lambda memory: (memory.rule, memory.moments, memory.gradients)
        return kernel, eqx.tree_at(lens, memory, (rule, moments, gradients)), states

    def verdict(self, memory, kernel):
        return self.rule.verdict(memory.rule, kernel)

    def window_ends(self, length):
        return tuple(accumulate(self.windows(length)))

    def settled(self, memory):
        return memory.settled

    def finish(self, memory, kernel, states):
        kernel, rule, states = self.rule.finish(memory.rule, kernel, states)
        here, z = self.where(kernel), memory.moments
        wanted = ~memory.agrees & (z.count >= memory.used)
        old = here.mean, here.factor
        new, stretch = jax.lax.cond(wanted, lambda: self._fit(kernel, memory), lambda: (old, jnp.zeros_like(old[0][0])))
        use = wanted & jnp.isfinite(new[0]).all() & jnp.isfinite(stretch)
        choose = lambda new, old: jax.tree.map(lambda a, b: jnp.where(use, a, b), new, old)
        lens = lambda kernel: (self.where(kernel).mean, self.where(kernel).factor)
        kernel = eqx.tree_at(lens, kernel, choose(new, old))
        rule = choose(self.rule.init(kernel, states), rule)
        n = here.factor.dim
        alike = use & (memory.windows > 0) & _alike(stretch, n, z.count)
        agreed = jnp.where(alike, memory.agreed + z.count, jnp.where(wanted, 0, memory.agreed))
        agrees = memory.agrees | (alike & (memory.windows >= FEWEST_WINDOWS - 1) & (agreed >= n + FEWEST_DRAWS))
        used, none = jnp.where(use, z.count, memory.used), self._none(kernel)
        few = ~memory.agrees & (z.count < memory.used)  # they are a part of the next window
        seen = memory.moments, memory.gradients
        moments, gradients = jax.tree.map(lambda new, old: jnp.where(few, old, new), (none, none), seen)
        windows = memory.windows + ~few
        return kernel, FittedMemory(rule, moments, gradients, windows, used, agreed, agrees, memory.agrees), states

    def _fit(self, kernel, memory):
        """Mean and factor of a window's draws, and the largest change of a direction's width, as a logarithm.

        Where they agree with the last ones, those change by as much as this window's share of the draws that agreed.
        """
        here, z, grad = self.where(kernel), memory.moments, memory.gradients
        covariance, shape = self.estimate(z, grad), here.factor.covariance_shape()
        unit = jnp.ones(shape, here.mean.dtype) if len(shape) == 1 else jnp.eye(*shape, dtype=here.mean.dtype)
        stretch = _stretch(covariance)
        share = jnp.where(_alike(stretch, here.factor.dim, z.count), z.count / (z.count + memory.agreed), 1)
        covariance = unit + share * (covariance - unit)
        change = here.factor.fitted(unit).fitted(covariance)  # a factor of z: here.factor times it is the new one of x
        mean = here.mean + here.factor.mul(share * (z.mean + change.mul(change.tmul(grad.mean))))
        return (mean, here.factor.times(change)), stretch

    def _none(self, kernel) -> Moments:
        """No draws yet."""
        mean = jnp.zeros_like(self.where(kernel).mean)
        return Moments(jnp.asarray(0), mean, jnp.zeros(self.where(kernel).factor.covariance_shape(), mean.dtype))


def _alike(stretch: Array, n: int, draws: Array) -> Array:
    """Whether a fit to so many draws of n coordinates agrees with the last one, from which it is that far away."""
    chance = jnp.sqrt(n / jnp.maximum(draws, 1))
    return stretch < jnp.clip(chance, AGREEMENT, 2 * AGREEMENT)


def _stretch(covariance: Array) -> Array:
    """The largest change of a direction's width by a covariance of z, as a logarithm; or a bound that agrees.

    Eigenvalues lie no further from 1 than the whole matrix does from I: where that is near enough they are not asked.
    """
    largest = lambda widths: jnp.max(jnp.abs(0.5 * jnp.log(widths)))
    if covariance.ndim == 1:
        return largest(covariance)
    away = jnp.linalg.norm(covariance - jnp.eye(len(covariance)))
    exact, bound = lambda: largest(jnp.linalg.eigvalsh(covariance)), lambda: -0.5 * jnp.log1p(-away)
    return jax.lax.cond(away < -jnp.expm1(-2 * AGREEMENT), bound, exact)
