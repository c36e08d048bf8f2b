"""Online EM: a Gaussian mixture that follows the chains."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from gadabout.adaptations.base import AbstractAdaptation, setting
from gadabout.adaptations.gains import Gain
from gadabout.factors import Cholesky
from gadabout.proposals import GaussianMixture


class MixtureStatistics(eqx.Module):
    """The sufficient statistics, as mass, mean and covariance of each component, and the number k of updates made."""

    masses: Float[Array, " K"]
    means: Float[Array, "K n"]
    covariances: Float[Array, "K n n"]
    count: Int[Array, ""]


class Membership(eqx.Module):
    """One chain's position, and the responsibility of each component for it."""

    x: Float[Array, " n"]
    responsibilities: Float[Array, " K"]


class OnlineEM(AbstractAdaptation):
    r"""Learns weights, means and covariances of a Gaussian mixture by stochastic approximation.

    With responsibilities $r_j = w_j N(x|\mu_j, \Sigma_j) / q(x)$ of the components at each new state, repeated ones
    included, the statistics $s_j = (r_j,\; r_j x,\; r_j xx^\top)$ are averaged as
    $S_j \leftarrow (1 - \gamma_k) S_j + \gamma_k s_j$ and
    $w_j = S^{(0)}_j$, $\mu_j = S^{(1)}_j / S^{(0)}_j$, $\Sigma_j = S^{(2)}_j / S^{(0)}_j - \mu_j\mu_j^\top$ (online EM:
    Cappé & Moulines 2009; as an adaptation: Andrieu & Moulines 2006, section 7). Over several chains $s_j$ is the mean
    of the chains' statistics. They are stored centred, as masses, means and covariances, which is equivalent but avoids
    cancellation.

    Deviations: the proposal uses $\Sigma_j + \epsilon I$, and weights raised to `lowest_weight` and normalised, so that
    no component dies for ever. Unless `start_at_chains` is False, the means start at positions of chains, each as far
    as possible from the earlier ones. If there are more components than chains, components share positions, shifted by
    a standard deviation. The first update only writes this start to the kernel. A mass never falls below the smallest
    normal number. If rounding (float32) makes a covariance indefinite, the proposal uses its diagonal until it is
    definite again.

    Args:
        where: the lens from the kernel to the `GaussianMixture`.
        gain: γ as a function of k, at most 1; see `check_gains`.
        regularisation: ε, in units of x².
        lowest_weight: smallest weight of a component in the proposal before normalisation, below 1/K.
        start_at_chains: whether the means start at the chains' positions rather than at the kernel's own.
    """

    where: Callable[[Any], Any] = eqx.field(static=True)
    gain: Gain
    regularisation: Float[Array, ""] = eqx.field(converter=setting, default=1e-6)
    lowest_weight: Float[Array, ""] = eqx.field(converter=setting, default=1e-2)
    start_at_chains: bool = eqx.field(static=True, default=True)

    @property
    def diminishing(self):
        return True

    def init(self, kernel, states):
        mixture: GaussianMixture = self.where(kernel)
        L = mixture.factors.matrix
        means = mixture.means
        if self.start_at_chains:
            means = _spread_out(jax.vmap(kernel.position)(states), L)
        return MixtureStatistics(mixture.weights, means, L @ jnp.swapaxes(L, -1, -2), jnp.asarray(0))

    def observe(self, memory, kernel, transition):
        x = kernel.position(transition.after)
        return Membership(x, jnp.exp(self.where(kernel).log_responsibilities(x))), {}

    def pool(self, memory, kernel, evidence, chains):
        return chains.gather(evidence)

    def update(self, memory, kernel, states, pooled):
        k = memory.count  # the update k = 0 only writes the start to the kernel
        gain = jnp.where(k > 0, self.gain(jnp.maximum(k, 1)), 0)
        renewed = renewed_statistics(memory, pooled, gain)
        return eqx.tree_at(self.where, kernel, self._mixture(renewed)), renewed, states

    def _mixture(self, memory: MixtureStatistics) -> GaussianMixture:
        """The proposal that follows from the statistics."""
        n = memory.means.shape[-1]
        weights = jnp.maximum(memory.masses / memory.masses.sum(), self.lowest_weight)
        covariances = memory.covariances + self.regularisation * jnp.eye(n)
        matrix = jnp.linalg.cholesky(covariances)
        definite = jnp.isfinite(matrix).all((-2, -1), keepdims=True)
        variances = jnp.maximum(jnp.diagonal(covariances, axis1=-2, axis2=-1), self.regularisation)
        diagonal = jnp.sqrt(jnp.maximum(variances, jnp.finfo(variances.dtype).tiny))[..., None] * jnp.eye(n)
        return GaussianMixture(weights / weights.sum(), memory.means, Cholesky(jnp.where(definite, matrix, diagonal)))


def renewed_statistics(memory: MixtureStatistics, evidence: Membership, gain: Float[Array, ""]) -> MixtureStatistics:
    """The statistics after one step towards the chains' mean statistics."""
    r, chains = evidence.responsibilities, evidence.x.shape[0]
    masses = (1 - gain) * memory.masses + gain * r.mean(0)
    masses = jnp.maximum(masses, jnp.finfo(masses.dtype).tiny)  # avoids 0/0: an empty component keeps its shape
    share = gain / chains * r / masses  # (chains, K)
    d = evidence.x[:, None] - memory.means
    shift = jnp.einsum("ck,cki->ki", share, d)
    kept = jnp.maximum(1 - share.sum(0), 0)[:, None, None]
    outer = jnp.einsum("ck,cki,ckj->kij", share, d, d)
    covariances = kept * memory.covariances + outer - jnp.einsum("ki,kj->kij", shift, shift)
    return MixtureStatistics(masses, memory.means + shift, covariances, memory.count + 1)


def _spread_out(positions: Float[Array, "chains n"], L: Float[Array, "K n n"]) -> Float[Array, "K n"]:
    """K means at positions of chains, each as far as possible from the earlier ones; shifted where positions repeat."""
    chains, n = positions.shape
    chosen = [positions[0]]
    distance = jnp.sum((positions - chosen[0]) ** 2, -1)
    for j in range(1, L.shape[0]):
        if j < chains:
            chosen.append(positions[jnp.argmax(distance)])
            distance = jnp.minimum(distance, jnp.sum((positions - chosen[j]) ** 2, -1))
        else:
            turn = j // chains
            sign = 1 if (turn - 1) // n % 2 == 0 else -1
            chosen.append(chosen[j % chains] + sign * L[j, :, (turn - 1) % n])
    return jnp.stack(chosen)
