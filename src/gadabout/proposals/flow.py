"""A normalising flow: a proposal distribution that can adapt to a curved target."""

import math
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from gadabout.checks import check_whole
from gadabout.factors import AbstractFactor, Diagonal
from gadabout.proposals.distributions import AbstractDistribution


class Network(eqx.Module):
    """Maps the coordinates that a coupling keeps to the log slopes, bounded by tanh, and the shifts of the others."""

    layers: tuple[eqx.nn.Linear, ...]

    def __call__(self, left: Float[Array, " left"]) -> tuple[Float[Array, " moved"], Float[Array, " moved"]]:
        *hidden, last = self.layers
        for layer in hidden:
            left = jnp.tanh(layer(left))
        slopes, shifts = jnp.split(last(left), 2)
        return jnp.tanh(slopes), shifts


class CouplingFlow(AbstractDistribution):
    r"""$x = m + L\,f(\varepsilon)$, $\varepsilon \sim N(0, I)$, f a composition of affine couplings (Dinh et al. 2017).

    Each coupling keeps half of the coordinates, a, and transforms the other half, b, by networks s and t:
    $b \leftarrow b\,e^{\tanh s(a)} + t(a)$. The halves alternate. `coupling_flow` makes a flow that starts
    as $N(m, LL^\top)$.
    """

    mean: Float[Array, " n"]
    factor: AbstractFactor
    networks: tuple["Network", ...]

    @property
    def dim(self):
        return self.mean.shape[-1]

    def noise(self, key):
        return jax.random.normal(key, self.mean.shape, self.mean.dtype)

    def draw(self, noise):
        return self.draw_with_log_density(noise)[0]

    def draw_with_log_density(self, noise):
        z, log_slope = noise, 0.0
        for i, network in enumerate(self.networks):
            a, b = self._halves(z, i)
            s, t = network(a)
            z, log_slope = self._joined(a, b * jnp.exp(s) + t, i), log_slope + jnp.sum(s)
        return self.mean + self.factor.mul(z), -0.5 * noise @ noise - log_slope - self.factor.log_det()

    def log_density(self, x):
        z, log_slope = self.factor.solve(x - self.mean), 0.0
        for i, network in reversed(list(enumerate(self.networks))):
            a, b = self._halves(z, i)
            s, t = network(a)
            z, log_slope = self._joined(a, (b - t) * jnp.exp(-s), i), log_slope + jnp.sum(s)
        return -0.5 * z @ z - log_slope - self.factor.log_det()

    def log_normaliser(self):
        return 0.5 * self.dim * math.log(2 * math.pi)

    def _halves(self, z: Array, i: int) -> tuple[Array, Array]:
        """The half of z that coupling i keeps, and the half that it transforms."""
        first, second = z[: self.dim // 2], z[self.dim // 2 :]
        return (second, first) if i % 2 else (first, second)

    def _joined(self, a: Array, b: Array, i: int) -> Array:
        return jnp.concatenate([b, a] if i % 2 else [a, b])


def coupling_flow(
    key: Key[Array, ""],
    mean: Float[Array, " n"],
    factor: AbstractFactor | None = None,
    *,
    num_couplings: int = 4,
    width: int = 32,
) -> CouplingFlow:
    """A `CouplingFlow` that starts as N(mean, L Lᵀ), L = I by default, with two hidden layers of `width` units each.

    Raises:
        ValueError: if there are fewer than two coordinates.
    """
    n = mean.shape[-1]
    if n < 2:
        raise ValueError(f"a coupling needs two coordinates, mean has {n}; use Gaussian(mean, factor)")
    keys = jax.random.split(key, check_whole("num_couplings", num_couplings))
    sizes = [(n // 2, n - n // 2), (n - n // 2, n // 2)]
    networks = (_network(keys[i], *sizes[i % 2], check_whole("width", width)) for i in range(num_couplings))
    return CouplingFlow(mean, Diagonal(jnp.ones_like(mean)) if factor is None else factor, tuple(networks))


def _network(key: Key[Array, ""], left: int, moved: int, width: int) -> Network:
    """A network whose last layer is initialised to 0."""
    sizes, keys = (left, width, width, 2 * moved), jax.random.split(key, 3)
    *hidden, last = (eqx.nn.Linear(*pair, key=k) for pair, k in zip(pairwise(sizes), keys, strict=True))
    return Network((*hidden, jax.tree.map(jnp.zeros_like, last)))
