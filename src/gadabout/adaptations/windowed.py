"""A factor fitted to each window of a warm-up, combined with any rule for the step size."""

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from gadabout.adaptations.base import AbstractAdaptation
from gadabout.adaptations.estimators import AbstractEstimator, Moments, RegularisedCovariance

FEWEST = 10
"""Smallest number of draws in a window, over all chains, from which a factor is fitted."""


def doubling_windows(length: int, first: int = 75, slow: int = 25, last: int = 50) -> list[int]:
    """The window lengths of Stan's warm-up: a buffer, windows that double, and a buffer; their sum is `length`.

    The last window takes the remainder if another of twice its length does not fit. A length of at most `first` +
    `slow` + `last` is divided 15 : 75 : 10, one below 20 is not divided. For 1,000: 75, 25, 50, 100, 200, 500 and 50.
    """
    if length < 20:
        return [length]
    if length <= first + slow + last:
        first, last = int(0.15 * length), int(0.1 * length)
        return [first, length - first - last, last]
    windows, left = [], length - first - last
    while left:
        window = slow * 2 ** len(windows)
        window = left if left < 3 * window else window
        windows.append(window)
        left -= window
    return [first, *windows, last]


class WindowMemory(eqx.Module):
    """The step-size rule's memory, the moments of this window, windows completed, and draws of the last one used.

    `gradients` holds the moments of the gradients if the estimator needs them, else None.
    """

    rule: PyTree
    moments: Moments
    gradients: Moments | None
    windows: Int[Array, ""]
    used: Int[Array, ""]


class WindowedFactor(AbstractAdaptation):
    """Fits a factor L to the covariance of each window's draws, combined with a rule for the step size.

    A window (see `doubling_windows` for Stan's lengths) is used if it is not the first and at least twice as long as
    the last one used, which excludes the buffers at both ends. The rule then restarts at its final step size. Every
    window, and so warm-up, ends with the step size that `finish` of the rule sets. Draws are counted over all chains of
    a pool; covariances are about their common mean.

    Deviations from Stan: the rule restarts at its final step size, without a new search, and chains share L and ε.

    Args:
        rule: any adaptation of the step size, such as `DualAveraging` with its lens.
        where: the lens from the kernel to the factor.
        estimate: the covariance from the moments of the window's draws and gradients.
        windows: the lengths of the windows of a stage.
    """

    rule: AbstractAdaptation
    where: Callable[[Any], Any] = eqx.field(static=True)
    estimate: AbstractEstimator = RegularisedCovariance()
    windows: Callable[[int], list[int]] = eqx.field(static=True, default=doubling_windows)

    def init(self, kernel, states):
        zero = jnp.asarray(0)
        x, grad = self._rows(kernel, states)
        gradients = None if grad is None else self._empty(kernel, grad)
        return WindowMemory(self.rule.init(kernel, states), self._empty(kernel, x), gradients, zero, zero)

    def observe(self, memory, kernel, transition):
        evidence, trace = self.rule.observe(memory.rule, kernel, transition)
        return (evidence, self._one(kernel, transition.after)), trace

    def pool(self, memory, kernel, evidence, chains):
        seen, (x, grad) = evidence
        both = lambda x, grad: (memory.moments.sums(x), None if grad is None else memory.gradients.sums(grad))
        return self.rule.pool(memory.rule, kernel, seen, chains), chains.summed(both, x, grad), chains.size(x)

    def update(self, memory, kernel, states, pooled):
        evidence, (x_sums, grad_sums), count = pooled
        kernel, rule, states = self.rule.update(memory.rule, kernel, states, evidence)
        gradients = None if grad_sums is None else memory.gradients.add(count, *grad_sums)
        moments = memory.moments.add(count, *x_sums)
        return kernel, WindowMemory(rule, moments, gradients, memory.windows, memory.used), states

    def verdict(self, memory, kernel):
        return self.rule.verdict(memory.rule, kernel)

    def window_ends(self, length):
        return tuple(accumulate(self.windows(length)))

    def finish(self, memory, kernel, states):
        kernel, rule, states = self.rule.end(memory.rule, kernel, states, self.rule.ending(1, 1))
        draws = memory.moments.count
        use = (memory.windows > 0) & (draws >= jnp.maximum(2 * memory.used, FEWEST))
        choose = lambda new, old: jax.tree.map(lambda a, b: jnp.where(use, a, b), new, old)
        factor = self.where(kernel)
        fitted = factor.fitted(self.estimate(memory.moments, memory.gradients))
        kernel = eqx.tree_at(self.where, kernel, choose(fitted, factor))
        rule = choose(self.rule.init(kernel, states), rule)
        used = jnp.where(use, draws, memory.used)
        moments, gradients = jax.tree.map(_emptied, (memory.moments, memory.gradients), is_leaf=_is_moments)
        return kernel, WindowMemory(rule, moments, gradients, memory.windows + 1, used), states

    def _one(self, kernel, state) -> tuple[Array, Array | None]:
        """Position and, if the estimator needs it, gradient of one chain."""
        return kernel.position(state), kernel.point(state).grad if self.estimate.gradients else None

    def _rows(self, kernel, states) -> tuple[Array, Array | None]:
        return jax.vmap(lambda state: self._one(kernel, state))(states)

    def _empty(self, kernel, rows: Array) -> Moments:
        """Moments of no draws, about the mean of the chains' rows."""
        shape = self.where(kernel).covariance_shape()
        return Moments(jnp.asarray(0), jnp.mean(rows, 0), jnp.zeros(shape, rows.dtype))


def _is_moments(node: Any) -> bool:
    return isinstance(node, Moments)


def _emptied(moments: Moments) -> Moments:
    """Moments of no draws, about the previous mean."""
    return Moments(jnp.zeros_like(moments.count), moments.mean, jnp.zeros_like(moments.squares))
