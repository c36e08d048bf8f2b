"""A Gaussian fitted to each of many short windows of a warm-up, which ends when fits agree."""

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PyTree

from gadabout.adaptations.base import AbstractAdaptation
from gadabout.adaptations.estimators import AbstractEstimator, GeometricMean, Moments
from gadabout.factors import log_stretches

AGREEMENT = 0.35
"""the largest change of a direction's width, in logarithms, between fits that agree"""
FEWEST_WINDOWS = 4


def quick_windows(length: int, last: int = 50) -> list[int]:
    """Windows of 8, 8, 12, 16, 24, 32, 64, 128, … iterations, and a shorter one for the step size alone."""
    if length < 20:
        return [length]
    last = min(last, length // 5)
    windows, left = [], length - last
    for window in (8, 8, 12, 16, 24, 32):
        if left < 2 * window:
            break
        windows.append(window)
        left -= window
    while left:
        window = 2 * windows[-1]
        windows.append(left if left < 3 * window else window)
        left -= windows[-1]
    return [*windows, last]


class FittedMemory(eqx.Module):
    """The rule's memory, moments of this window's draws and gradients, windows, draws of the last fit.

    `agrees` says whether the last fit agreed with the one before, `settled` whether a window has passed since.
    """

    rule: PyTree
    moments: Moments
    gradients: Moments
    windows: Int[Array, ""]
    used: Int[Array, ""]
    agrees: Bool[Array, ""]
    settled: Bool[Array, ""]


class FittedGaussian(AbstractAdaptation):
    r"""Fits mean and factor of a proposal to the draws of each window and the gradients there, beside a step-size rule.

    The covariance is the estimator's, of the draws of all chains; the mean $\bar x + \Sigma\bar g$ takes a Newton step
    from their own. A window with fewer draws than the last one used fits nothing: it is there for the step size. Where
    no direction's width changes by more than a factor of 1.4 from one fit to the next, and draws are twice as many as
    coordinates and a hundred more, fits agree: one window more, for the step size alone, and warm-up may end.

    Args:
        rule: any adaptation of the step size, such as `DualAveraging` with its lens.
        where: the lens from the kernel to what has a `mean` and a `factor`.
        estimate: the covariance from the moments.
        windows: the lengths of the windows of a stage.
    """

    rule: AbstractAdaptation
    where: Callable[[Any], Any] = eqx.field(static=True)
    estimate: AbstractEstimator = GeometricMean(prior_draws=5.0)
    windows: Callable[[int], list[int]] = eqx.field(static=True, default=quick_windows)

    def init(self, kernel, states):
        zero, points = jnp.asarray(0), jax.vmap(kernel.point)(states)
        empty = lambda rows: self._empty(kernel, jnp.mean(rows, 0))
        rule = self.rule.init(kernel, states)
        no = jnp.asarray(False)
        return FittedMemory(rule, empty(points.x), empty(points.grad), zero, zero, no, no)

    def observe(self, memory, kernel, transition):
        evidence, trace = self.rule.observe(memory.rule, kernel, transition)
        point = kernel.point(transition.after)
        return (evidence, point.x, point.grad), trace

    def pool(self, memory, kernel, evidence, chains):
        seen, x, grad = evidence
        products = memory.moments.products(x), memory.gradients.products(grad)
        return self.rule.pool(memory.rule, kernel, seen, chains), chains.total(products), chains.size(x)

    def update(self, memory, kernel, states, pooled):
        evidence, (x_sums, grad_sums), count = pooled
        kernel, rule, states = self.rule.update(memory.rule, kernel, states, evidence)
        moments, gradients = memory.moments.add(count, *x_sums), memory.gradients.add(count, *grad_sums)
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
        here, x, grad = self.where(kernel), memory.moments, memory.gradients
        fitted = here.factor.fitted(self.estimate(x, grad))
        mean = x.mean + fitted.mul(fitted.tmul(grad.mean))
        stretch = jnp.max(jnp.abs(log_stretches(here.factor, fitted)))
        use = ~memory.agrees & (x.count >= memory.used) & jnp.isfinite(mean).all() & jnp.isfinite(stretch)
        choose = lambda new, old: jax.tree.map(lambda a, b: jnp.where(use, a, b), new, old)
        lens = lambda kernel: (self.where(kernel).mean, self.where(kernel).factor)
        kernel = eqx.tree_at(lens, kernel, choose((mean, fitted), lens(kernel)))
        rule = choose(self.rule.init(kernel, states), rule)
        many = (memory.windows >= FEWEST_WINDOWS - 1) & (x.count >= 2 * here.factor.dim + 100)
        agrees = memory.agrees | (use & many & (stretch < AGREEMENT))
        used = jnp.where(use, x.count, memory.used)
        empty = self._empty(kernel, x.mean), self._empty(kernel, grad.mean)
        return kernel, FittedMemory(rule, *empty, memory.windows + 1, used, agrees, memory.agrees), states

    def _empty(self, kernel, mean: Array) -> Moments:
        """No draws yet, about a mean."""
        shape = self.where(kernel).factor.covariance_shape()
        return Moments(jnp.asarray(0), mean, jnp.zeros(shape, mean.dtype))
