"""A Langevin proposal in coordinates whose scales and locations depend on ancestors; the dependence is learned."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gadabout.factors import AbstractFactor
from gadabout.factors.base import check_factor, check_leaf
from gadabout.proposals.base import AbstractReparametrised


class NoncentredLangevin(AbstractReparametrised):
    r"""The `Langevin` proposal for y, where $x_j = c_j + B_j a + e^{K_j a}y_j$ for children j and ancestors $a = x_A$.

    All other coordinates are unchanged, x = y: one layer of the default's learned coordinates. With
    $J(y) = |\partial x/\partial y| = e^{\sum_j K_j a}$ the move is
    $y' = y + L(\tfrac12 w(y) + \varepsilon)$, $w(y) = L^\top\nabla_y\{\log\pi(x(y)) + \log J(y)\}$, and
    $$\log q(x|x') - \log q(x'|x) = \log J(y') - \log J(y) - \tfrac12(\|\tfrac12(w(y) + w(y')) + \varepsilon\|^2
    - \|\varepsilon\|^2).$$
    Its entropy is $\log|L| + \mathrm{E}\log J(y')$, in closed form because log J is linear in a'. θ is L, K, B and c.
    Where `exact` is False, derivatives in θ treat the target's gradient at x' as a constant.

    Args:
        factor: L, of y.
        log_scales: K, of shape (q, p).
        slopes: B, of shape (q, p).
        location: c, of shape (q,).
        ancestors: p indices of x.
        children: q other indices of x.
        exact: whether derivatives include that of the target's gradient.
    """

    factor: AbstractFactor
    log_scales: Float[Array, "q p"]
    slopes: Float[Array, "q p"]
    location: Float[Array, " q"]
    ancestors: tuple[int, ...] = eqx.field(static=True)
    children: tuple[int, ...] = eqx.field(static=True)
    exact: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        check_factor(self.factor)
        if set(self.ancestors) & set(self.children) or not (self.ancestors and self.children):
            raise ValueError(f"ancestors and children must differ, got {self.ancestors} and {self.children}")
        shape = len(self.children), len(self.ancestors)
        shapes = {"log_scales": shape, "slopes": shape, "location": shape[:1]}
        for name, wanted in shapes.items():
            check_leaf(name, getattr(self, name), str(wanted), len(wanted))
            if getattr(self, name).shape != wanted:
                raise ValueError(f"{name} must have the shape {wanted}, got {getattr(self, name).shape}")

    @property
    def order(self):
        return 2 if self.exact else 1

    def noise(self, key, here):
        return jax.random.normal(key, here.x.shape, here.x.dtype)

    def cache(self, here):
        """y and w(y)."""
        a, children = here.x[np.array(self.ancestors)], np.array(self.children)
        away = here.x[children] - self.location - self.slopes @ a
        y = here.x.at[children].set(away * jnp.exp(-self.log_scales @ a))
        _, pull = jax.vjp(self._outward, y)
        return y, self.factor.tmul(pull(here.grad)[0].at[np.array(self.ancestors)].add(self._growth))

    def move(self, noise, here, target):
        y, w = here.cache
        there = self.arrive(self._outward(y + self.factor.mul(0.5 * w + noise)), target)
        backward = 0.5 * (w + there.cache[1]) + noise
        stretched = self._growth @ (there.x - here.x)[np.array(self.ancestors)]
        return there, stretched - 0.5 * (backward @ backward - noise @ noise)

    def entropy(self, here):
        y, w = self.cache(here)  # recomputed with the θ that is differentiated; the point's own cache is a constant
        mean = y + 0.5 * self.factor.mul(w)
        return self.factor.log_det() + self._growth @ mean[np.array(self.ancestors)]

    @property
    def _growth(self) -> Float[Array, " p"]:
        """The gradient of log J in a."""
        return jnp.sum(self.log_scales, 0)

    def _outward(self, y: Float[Array, " n"]) -> Float[Array, " n"]:
        """x as a function of y."""
        a, children = y[np.array(self.ancestors)], np.array(self.children)
        return y.at[children].set(self.location + self.slopes @ a + jnp.exp(self.log_scales @ a) * y[children])
