"""Stan's warm-up: dual averaging throughout, and a metric learned in windows that double."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from gadabout.adaptations.base import AbstractAdaptation
from gadabout.adaptations.dual_averaging import DualAveraging
from gadabout.factors import Cholesky, Diagonal

FEWEST = 10
"""Draws, over all chains, below which a window learns no metric."""


class Memory(eqx.Module):
    """Of the present window: mean, sum of squares about it (or its matrix), draws; and of the last that was used."""

    step: Any
    mean: Float[Array, " n"]
    squares: Float[Array, "..."]
    draws: Int[Array, ""]
    windows: Int[Array, ""]
    used: Int[Array, ""]


class WindowedMetric(AbstractAdaptation):
    r"""Learns a factor L, $LL^\top$ the covariance of a window's draws, beside dual averaging of the step size.

    The driver ends a window by `finish` (see `doubling_windows` for Stan's lengths). A window of N draws with
    covariance S is used if it is not the first and at least twice as long as the last one used, which leaves out the
    buffers before and after them; then $LL^\top = \frac{N}{N+5}S + 10^{-3}\frac{5}{N+5}I$ (Stan's regularisation), and
    dual averaging begins anew at $\mu = \log(10\,\bar\varepsilon)$. Every window ends on its averaged step size
    $\bar\varepsilon$, and so does warm-up. N counts the draws of all chains of a pool; S is about their common mean.

    Deviations from Stan: $\bar\varepsilon$ stands where Stan searches a step size anew, and chains share L and ε.

    Args:
        step_size: dual averaging with its lens.
        where: the lens from the kernel to the factor, a `Diagonal` or a `Cholesky`.
    """

    step_size: DualAveraging
    where: Callable[[Any], Any] = eqx.field(static=True)

    def init(self, kernel, states):
        leaf = jax.tree.leaves(self.where(kernel))[0]
        zero = jnp.asarray(0)
        return Memory(
            self.step_size.init(kernel, states), jnp.zeros(leaf.shape[-1]), jnp.zeros(leaf.shape), *[zero] * 3
        )

    def observe(self, memory, kernel, transition):
        seen, trace = self.step_size.observe(memory.step, kernel, transition)
        return (seen, kernel.position(transition.after)), trace

    def update(self, memory, kernel, states, evidence):
        seen, x = evidence
        kernel, step, states = self.step_size.update(memory.step, kernel, states, seen)
        draws = memory.draws + len(x)
        before = x - memory.mean
        mean = memory.mean + jnp.sum(before, 0) / draws
        dense = isinstance(self.where(kernel), Cholesky)
        product = (lambda a, b: a.T @ b) if dense else (lambda a, b: jnp.sum(a * b, 0))
        squares = memory.squares + product(before, x - mean)
        return kernel, Memory(step, mean, squares, draws, memory.windows, memory.used), states

    def finish(self, memory, kernel, states):
        kernel, step, states = self.step_size.finish(memory.step, kernel, states)
        use = (memory.windows > 0) & (memory.draws >= jnp.maximum(2 * memory.used, FEWEST))
        factor = self._factor(memory, self.where(kernel))
        choose = lambda new, old: jax.tree.map(lambda a, b: jnp.where(use, a, b), new, old)
        kernel = eqx.tree_at(self.where, kernel, choose(factor, self.where(kernel)))
        anew = self.init(kernel, states)
        used = jnp.where(use, memory.draws, memory.used)
        memory = Memory(choose(anew.step, step), anew.mean, anew.squares, anew.draws, memory.windows + 1, used)
        return kernel, memory, states

    def _factor(self, memory: Memory, old: Diagonal | Cholesky) -> Diagonal | Cholesky:
        """The regularised root of a window's covariance; the old factor where rounding leaves none."""
        N = memory.draws
        weight = N / (N + 5)
        covariance = weight * memory.squares / jnp.maximum(N - 1, 1)
        ridge = 1e-3 * (1 - weight)
        if isinstance(old, Diagonal):
            return Diagonal(jnp.sqrt(covariance + ridge))
        L = jnp.linalg.cholesky(covariance + ridge * jnp.eye(old.dim))
        return Cholesky(jnp.where(jnp.isfinite(L).all(), L, old.matrix))


class DepthLimit(AbstractAdaptation):
    """Lets trajectories grow to another depth while θ is learned than afterwards; it learns nothing.

    Args:
        warmup: the largest number of doublings while adapting.
        after: the largest number from the end of a window on, until adaptation goes on.
        where: the lens from the kernel to its limit.
    """

    warmup: Int[Array, ""]
    after: Int[Array, ""]
    where: Callable[[Any], Any] = eqx.field(static=True)

    def init(self, kernel, states):
        return None

    def observe(self, memory, kernel, transition):
        return None, {}

    def update(self, memory, kernel, states, evidence):
        return eqx.tree_at(self.where, kernel, self.warmup), memory, states

    def finish(self, memory, kernel, states):
        return eqx.tree_at(self.where, kernel, self.after), memory, states
