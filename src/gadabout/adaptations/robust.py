"""Robust adaptive Metropolis: the factor's shape and scale from the acceptance probability alone."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gadabout.adaptations.base import AbstractAdaptation, setting
from gadabout.adaptations.gains import Gain
from gadabout.adaptations.haario import GainIndex
from gadabout.factors import Cholesky


class NoiseAndRate(NamedTuple):
    """One chain's noise u and its acceptance probability α."""

    noise: Float[Array, "*chains n"]
    acceptance_rate: Float[Array, "*chains"]


class Robust(AbstractAdaptation):
    r"""$S S^\top \leftarrow S\,\bigl(I + \eta_k(\alpha_k - \alpha_*)\,uu^\top/\|u\|^2\bigr)\,S^\top$.

    Here $y = x + Su$ and $\eta_k = \min(\tfrac12, n\gamma_k)$ (Vihola 2012, equation 1; the bound ½ in place of his 1
    keeps the matrix in brackets far from singular). The factor is updated in closed form, O(n²): see `rank_one`. The
    method needs no moment of the target, so heavy tails do no harm. A proposal that is not finite has α = 0.

    The updates of C chains are applied one after another, each with η/C; to first order in η this is their mean.

    Args:
        gain: γ as a function of k.
        target_acceptance: α*, strictly between 0 and 1.
        where: the lens from the kernel to the factor S, a `Cholesky`.
    """

    gain: Gain
    target_acceptance: Float[Array, ""] = eqx.field(converter=setting)
    where: Callable[[Any], Any] = eqx.field(static=True)

    @property
    def diminishing(self):
        return True

    def init(self, kernel, states):
        return GainIndex(jnp.asarray(0))

    def observe(self, memory, kernel, transition):
        return NoiseAndRate(transition.info.noise, transition.info.acceptance_rate), {}

    def pool(self, memory, kernel, evidence, chains):
        return chains.gather(evidence)

    def update(self, memory, kernel, states, pooled):
        chains, n = pooled.noise.shape
        eta = jnp.minimum(0.5, n * self.gain(memory.count + 1))

        def fold(S, seen):
            w = seen.noise / jnp.linalg.norm(seen.noise)
            step = eta / chains * (seen.acceptance_rate - self.target_acceptance)
            return rank_one(S, w, step.astype(S.dtype)), None

        S, _ = jax.lax.scan(fold, self.where(kernel).matrix, pooled)
        return eqx.tree_at(self.where, kernel, Cholesky(S)), GainIndex(memory.count + 1), states

    def verdict(self, memory, kernel):
        return {"target_acceptance": self.target_acceptance}


def rank_one(S: Float[Array, "n n"], w: Float[Array, " n"], step: Float[Array, ""]) -> Float[Array, "n n"]:
    r"""The Cholesky factor of $S(I + a\,ww^\top)S^\top$ with a = `step` > −1, for a unit vector w.

    With $t_j = 1 + a\sum_{i \le j} w_i^2$, the factor R of $I + a\,ww^\top$ has $R_{jj} = \sqrt{t_j/t_{j-1}}$ and
    $R_{ij} = a\,w_i w_j/\sqrt{t_j t_{j-1}}$ below, so that column j of S R is
    $R_{jj} S_{\cdot j} + a\,w_j/\sqrt{t_j t_{j-1}} \sum_{i > j} w_i S_{\cdot i}$: a cumulative sum from the right.
    """
    t = 1 + step * jnp.cumsum(w**2)
    before = jnp.concatenate([jnp.ones_like(t[:1]), t[:-1]])
    weighted = S * w
    right = jax.lax.cumsum(weighted, axis=1, reverse=True) - weighted
    return jnp.tril(S * jnp.sqrt(t / before) + right * (step * w / jnp.sqrt(t * before)))
