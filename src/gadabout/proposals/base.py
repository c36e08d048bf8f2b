"""Base classes of proposals, the part of a Metropolis kernel whose parameters are learned."""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Array, Float, Key, PyTree

from gadabout.calls import check_call
from gadabout.checks import shown
from gadabout.target import Point, Target


class AbstractProposal(eqx.Module):
    """A rule that proposes a point; its parameters θ are its array leaves.

    It returns the proposed point y and the log of q(x|y) / q(y|x); acceptance and learning happen elsewhere.
    `order` is the number of derivatives of the log density that a move uses (see `Target.at`); a subclass that uses
    the gradient sets `order = 1`.
    """

    @property
    def order(self) -> int:
        """Derivatives of the log density that a move uses: 0, 1 or 2."""
        return 0

    @abstractmethod
    def noise(self, key: Key[Array, ""], here: Point) -> PyTree:
        """Draws ε ~ p(ε), all the randomness of one move from `here`; p does not depend on θ."""

    @abstractmethod
    def move(self, noise: PyTree, here: Point, target: Target) -> tuple[Point, Float[Array, ""] | float]:
        """The proposed point y = T_θ(x, ε) and log q_θ(x|y) − log q_θ(y|x)."""

    def log_q(self, there: Point, here: Point) -> Float[Array, ""]:
        """log q_θ(y|x) of any two points with their caches, up to a constant free of θ (see `ScoreFunction`)."""
        raise NotImplementedError(f"{type(self).__name__} has no log_q(there, here), the density of its proposals")

    def cache(self, here: Point) -> PyTree:
        """Quantities of a point that are reused while θ is unchanged; `arrive` stores them in the proposed point."""
        return None

    @property
    def cached_by(self) -> PyTree:
        """The part of θ on which `cache` depends."""
        return self

    def arrive(self, y: Float[Array, " n"], target: Target) -> Point:
        """The point at y, with the derivatives that a move uses and with its cache."""
        return renew_cache(self, target.at(y, self.order))

    def record(self, noise: PyTree, here: Point, log_ratio: Float[Array, ""]) -> dict[str, Array]:
        """Statistics of one move by their ArviZ schema names."""
        return {}

    def gradient_evaluations(self, learning: bool) -> int:
        """Evaluations of ∇ log π in one iteration; a Hessian-vector product counts as one."""
        return min(self.order, 1)


class AbstractReparametrised(AbstractProposal):
    """A proposal y = T_θ(x, ε), differentiable in θ and with a known entropy, as Algorithm 1 requires."""

    @abstractmethod
    def entropy(self, here: Point) -> Float[Array, ""]:
        """Entropy of q_θ(·|x) in nats, up to a constant free of θ."""

    def move_and_pullback(
        self, noise: PyTree, here: Point, target: Target
    ) -> tuple[Point, Float[Array, ""] | float, Partial]:
        """The results of `move`, and the pullback of the log acceptance ratio with respect to θ.

        The pullback maps a weight w to w · ∇_θ {log π(T_θ(x, ε)) + log q_θ(x|y) − log q_θ(y|x)}, a tree shaped as θ.
        A second argument v, of shape (n,), adds ∇_θ vᵀ T_θ(x, ε). This method uses automatic differentiation. A
        proposal with a cheaper closed form overrides it, and a test compares the two.
        """
        theta, rest = eqx.partition(self, eqx.is_inexact_array)

        def log_ratio(theta):
            proposal = eqx.combine(theta, rest)
            there, log_q = proposal.move(noise, renew_cache(proposal, here), target)
            return (there.logp + log_q, there.x), (there, log_q)

        _, pullback, (there, log_q) = jax.vjp(log_ratio, theta, has_aux=True)
        return there, log_q, Partial(_only, pullback, jnp.zeros_like(there.x))

    def gradient_evaluations(self, learning):
        return max(self.order, 1) if learning else min(self.order, 1)


def checked_move(proposal: AbstractProposal, noise: PyTree, here: Point, target: Target) -> tuple[Point, Any]:
    """The results of `move`; raises TypeError or ValueError while tracing unless they are a point and a log-ratio."""
    name = f"{type(proposal).__name__}.move"
    check_call(name, "(noise, here, target)", proposal.move, noise, here, target)
    moved = proposal.move(noise, here, target)
    what = f"{name} must return the proposed point, such as target.at(y), and the log-ratio"
    if not (isinstance(moved, tuple) and len(moved) == 2 and isinstance(moved[0], Point)):
        raise TypeError(f"{what}, got {shown(moved)}")
    shapes = jnp.shape(moved[0].x), jnp.shape(moved[1])
    if shapes != (here.x.shape, ()):
        raise ValueError(f"{what}, of shapes {here.x.shape} and (), got the shapes {shapes[0]} and {shapes[1]}")
    return moved


def renew_cache(proposal: AbstractProposal, here: Point) -> Point:
    """The point with its cache computed from the proposal's current θ."""
    return Point(here.x, here.logp, here.grad, proposal.cache(here))


def _only(pullback, zero, weight, direction=None):
    return pullback((weight, zero if direction is None else direction))[0]
