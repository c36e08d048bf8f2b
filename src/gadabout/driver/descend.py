"""The way from anywhere to the typical set: each chain walks up its own log density until it is there."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from gadabout.adaptations.estimators import GeometricMean, Moments
from gadabout.driver.programs import program
from gadabout.factors import AbstractFactor, FactorKind, isotropic
from gadabout.sampler import Learned
from gadabout.target import Point, Target

MEMORY = 8
"""pairs of L-BFGS, and points of a path that the first factor is fitted to"""
MOST_TURNS = 400
SHRINK, SMALLEST = 0.3, 1e-12
"""of a step that did not climb, and the step at which its direction is given up"""
GIVE_UP = 4
"""directions that a chain gives up before it stays where it is"""
CURVATURE = 1_600
"""gradients that curvature is measured with at most, unless one point's directions need more"""
MANY_DIRECTIONS = 64
"""from which on it is worth a branch of the program to see first whether all directions are curved downwards"""
TOGETHER = 16
"""points and directions that are gone through at once, where points are fewer"""


class Descent(eqx.Module):
    """A chain on its way: where it stands, the pairs of L-BFGS, the last points of its path, the step it will try."""

    here: Point
    pairs: Float[Array, "pairs 2 n"]
    """steps, and by how much the gradient fell along each"""
    curved: Bool[Array, " pairs"]
    """which pairs there are"""
    path: Float[Array, "points 2 n"]
    """the last points and their gradients"""
    direction: Float[Array, " n"]
    size: Float[Array, ""]
    turns: Int[Array, ""]
    given_up: Int[Array, ""]
    arrived: Bool[Array, ""]


class Landing(NamedTuple):
    """Where chains stand after the descent, what they know of the target, and what it took."""

    positions: Float[Array, "chains n"]
    learned: Learned
    evaluations: Int[Array, ""]
    """of the gradient, over all chains"""
    distinct: Int[Array, ""]
    """chains that stand where their own way led"""
    apart: Bool[Array, ""]
    """whether one of them lies lower than others by more than draws of one mode do, and log π is not concave"""
    outside: Bool[Array, " chains"]
    """which stand outside of the typical set by the Gaussian's word, where log π is concave (see `land`)"""
    form: Float[Array, " chains"]
    """∇ᵀ H ∇ by that word"""


class Whitened(eqx.Module):
    """A target in the coordinates z of x = m + L z, as `descend` asks for it."""

    target: Target
    mean: Float[Array, " n"]
    factor: AbstractFactor

    def x(self, z: Float[Array, " n"]) -> Float[Array, " n"]:
        """The position that z stands for."""
        return self.mean + self.factor.mul(z)

    def at(self, z: Float[Array, " n"], order: int) -> Point:
        """The point at z."""
        there = self.target.at(self.x(z), order)
        return Point(z, there.logp, self.factor.tmul(there.grad))


def descend(
    target: Target | Whitened,
    positions: Float[Array, "chains n"],
    most_turns: Any = MOST_TURNS,
    behind: int = 0,
    known: Any = False,
) -> Descent:
    r"""The ways of chains from positions: L-BFGS with Armijo's rule, until $\nabla^\top H\nabla \le n$.

    H is the inverse Hessian of −log π as the last steps show it. In the typical set of a Gaussian the form is n on
    average, so that the descent ends there: not in a mode, nor in the neck of a funnel. Where widths differ by orders
    of magnitude, eight steps show too little of them, and it ends some way outside. A step along which the density is
    convex teaches no curvature, and the next one is twice as long. Fewer than three steps say too little of H, unless
    the chain stands in the mode itself, where a first Newton step on a round density leads, or where it began there.
    Chains take their turns together; when no more than so many are `behind`, these stay where they are. Where H is
    `known` to be near the identity, steps and the gradient tell only how it differs.
    """
    n = positions.shape[1]

    def turn(way: Descent) -> Descent:
        here, there = way.here, target.at(way.here.x + way.size * way.direction, 1)
        rise = way.size * (here.grad @ way.direction)
        climbed = there.finite & (there.logp >= here.logp + 1e-4 * rise)
        step, fall = there.x - here.x, here.grad - there.grad
        curved = climbed & (step @ fall > 1e-10 * jnp.linalg.norm(step) * jnp.linalg.norm(fall))
        pairs = _pushed(way.pairs, jnp.stack([step, fall]), curved)
        known_pairs = _pushed(way.curved, jnp.asarray(True), curved)
        here = jax.tree.map(lambda new, old: jnp.where(climbed, new, old), there, here)
        path = _pushed(way.path, jnp.stack([there.x, there.grad]), climbed)
        newton = _newton(here.grad, pairs, known_pairs, known)
        failed = ~climbed & (way.size < SMALLEST)
        direction = jnp.where(curved, newton, way.direction)
        direction = jnp.where(failed | ~(direction @ here.grad > 0), _unit(here.grad), direction)
        size = jnp.where(climbed, 2.0, SHRINK) * way.size
        size = jnp.where(curved | failed, 1.0, size)
        seen = known_pairs.sum() >= min(3, n)
        given_up = way.given_up + failed
        form = here.grad @ newton
        arrived = curved & ((seen & (form <= n)) | (form <= 1e-3 * n))
        turns, arrived = way.turns + 1, way.arrived | arrived
        return Descent(here, pairs, known_pairs, path, direction, size, turns, given_up, arrived)

    def underway(way: Descent) -> Array:
        return ~way.arrived & (way.given_up < GIVE_UP) & (way.turns < most_turns)

    def begin(x: Array) -> Descent:
        here, none = target.at(x, 1), jnp.zeros((MEMORY, 2, n), x.dtype)
        path = jnp.broadcast_to(jnp.stack([here.x, here.grad]), none.shape)
        zero, one = jnp.asarray(0), jnp.ones((), x.dtype)
        there = here.finite & (here.grad == 0).all()
        return Descent(here, none, jnp.zeros(MEMORY, bool), path, _unit(here.grad), one, zero, zero, there)

    def turn_where_underway(way: Descent) -> Descent:
        return jax.tree.map(lambda new, old: jnp.where(underway(way), new, old), turn(way), way)

    several = lambda ways: jnp.sum(jax.vmap(underway)(ways)) > behind
    return jax.lax.while_loop(several, jax.vmap(turn_where_underway), jax.vmap(begin)(positions))


@program
def land(
    target: Target,
    positions: Float[Array, "chains n"],
    kind: FactorKind,
    most_turns: Any = MOST_TURNS,
    before: Landing | None = None,
) -> Landing:
    """All chains' descents, a first Gaussian from their paths, and those that got lost put where others stand.

    A chain is lost that did not arrive and lies lower than the upper half of the others by more than 15 + 6 √(n/2), six
    standard deviations of log π in the typical set of a Gaussian and some more. One that arrived stays where it is: it
    may have found a mode of its own. No other number of turns compiles anything anew, and none is made where it is 0.

    Eight steps of hundreds show little of H: with 785 coefficients of a regression a descent ends after six turns, a
    thousand nats below the typical set. The Gaussian, which gradients along every axis were paid for, knows better.
    So chains outside of the typical set go on from where the landing `before` left them, in coordinates whitened by
    its Gaussian; measured anew where chains arrive, it is worth no more (twelve seeds on `caravan`, three on
    `mnist-56`). A chain that it says is further outside in the end, as in the neck of a funnel, stays where it was.
    The same program does both: a landing of `nobody` is none.
    """
    if kind == "diagonal":  # what knows nothing of H along most directions
        return _landed(target, descend(target, positions, most_turns), kind)
    unknown = nobody(positions, kind)
    before = unknown if before is None else before
    first = before.distinct == 0
    learned = jax.tree.map(lambda at_first, known: jnp.where(first, at_first, known), unknown.learned, before.learned)
    seen = Whitened(target, learned.mean, learned.factor)
    ways = descend(seen, jax.vmap(learned.factor.solve)(positions - learned.mean), most_turns, known=~first)
    landed = lambda: _landed(target, ways, kind)
    return jax.lax.cond(first, landed, lambda: _gone_on(before, seen, ways))


def nobody(positions: Float[Array, "chains n"], kind: FactorKind) -> Landing:
    """The landing of no chain, of which `land` asks nothing but the shapes of its arrays, and that none is distinct."""
    chains, n = positions.shape
    learned = Learned(jnp.zeros(n, positions.dtype), isotropic(n, jnp.ones((), positions.dtype), kind))
    zero, none, form = jnp.zeros((), int), jnp.zeros(chains, bool), jnp.zeros(chains, positions.dtype)
    return Landing(positions, learned, zero, zero, jnp.zeros((), bool), none, form)


def _landed(target: Target, ways: Descent, kind: FactorKind) -> Landing:
    """A first landing, in which chains that are lost are put where one after the other of the rest stands.

    Where log π is concave there is one typical set, and a chain that is low stands outside of it. So does one that the
    Gaussian says is as far below: ∇ᵀ H ∇ is twice what log π lies below its height there.
    """
    logp, low = low_ones(ways.here)
    chains, n = ways.here.x.shape
    lost = ~ways.arrived & low
    rest = jnp.argsort(lost, stable=True)[(jnp.cumsum(lost) - 1) % jnp.sum(~lost)]
    here, low_here = jax.tree.map(lambda leaf: leaf[jnp.where(lost, rest, jnp.arange(chains))], (ways.here, low))
    near = logp > jnp.max(logp) - (30 + 10 * jnp.sqrt(n / 2))
    apart = jnp.any(low & ways.arrived) & convex(ways.here)
    factor, evaluations = _fitted(ways.path, near, kind), jnp.sum(ways.turns + 1)
    outside, form = jnp.zeros(chains, bool), jnp.zeros(chains, here.x.dtype)
    if kind == "dense":
        factor, form, more = _curved(target, here, low_here, factor)
        outside, evaluations = (low_here | (form > n + 2 * room_below(n))) & concave(here), evaluations + more
    return Landing(here.x, Learned(jnp.mean(here.x, 0), factor), evaluations, jnp.sum(~lost), apart, outside, form)


def _gone_on(before: Landing, seen: Whitened, ways: Descent) -> Landing:
    """The landing before, those chains nearer that were outside."""
    form = jnp.sum(ways.here.grad**2, -1)
    nearer = before.outside & (form < before.form)
    x = jnp.where(nearer[:, None], jax.vmap(seen.x)(ways.here.x), before.positions)
    learned = Learned(jnp.mean(x, 0), seen.factor)
    evaluations = before.evaluations + jnp.sum(ways.turns + 1)
    return before._replace(
        positions=x,
        learned=learned,
        evaluations=evaluations,
        outside=before.outside & ~nearer,
        form=jnp.where(nearer, form, before.form),
    )


def _curved(target: Target, here: Point, low: Bool[Array, " chains"], factor: Any) -> tuple[Any, Array, int]:
    """The factor that is as curved as log π where the first chains stand that are not low, and ∇ᵀ H ∇ of all by it.

    And the gradients that it took.
    """
    chains, n = here.x.shape
    order = jnp.argsort(low, stable=True)[: max(1, min(chains, CURVATURE // (2 * n)))]
    factor = curved(curvature(target, here.x[order], factor), factor)
    form = jnp.sum(jax.vmap(factor.tmul)(here.grad) ** 2, -1)
    return factor, form, 2 * n * len(order)


def low_ones(here: Point) -> tuple[Float[Array, " chains"], Bool[Array, " chains"]]:
    """log π where chains stand, −∞ for NaN, and where it is lower than the upper half's by more than there is room."""
    logp, chains = jnp.where(jnp.isnan(here.logp), -jnp.inf, here.logp), len(here.logp)
    usual = jnp.sort(logp)[chains - (chains + 3) // 4]
    return logp, ~(logp >= usual - room_below(here.x.shape[1]))


def convex(points: Point) -> Bool[Array, ""]:
    """Whether log π fails to be concave between any two of some points.

    A concave log density has one mode, and its gradient falls along the way from any point to any other.
    """
    good, x, grad = _about_their_mean(points)
    size = jnp.linalg.norm(x, axis=-1), jnp.linalg.norm(grad, axis=-1)
    own, products = jnp.sum(x * grad, -1), grad @ x.T
    rise = own[:, None] + own - products - products.T
    rounding = jnp.finfo(x.dtype).eps ** 0.5 * (size[0][:, None] + size[0]) * (size[1][:, None] + size[1])
    return jnp.any((rise > rounding) & good[:, None] & good)


def concave(points: Point) -> Bool[Array, ""]:
    """Whether log π lies beneath its tangent at each of some points at all others; points that are not finite aside.

    It says more than `convex`, which sees gradients alone: those of two modes are zero.
    """
    good, x, grad = _about_their_mean(points)
    logp = jnp.where(good, points.logp, 0)
    size = jnp.linalg.norm(grad, axis=-1)[:, None] * jnp.linalg.norm(x, axis=-1) + jnp.abs(logp)
    above = logp - logp[:, None] - grad @ x.T + jnp.sum(grad * x, -1)[:, None]
    rounding = jnp.finfo(x.dtype).eps ** 0.5 * (size + jnp.diagonal(size)[:, None])
    return jnp.all((above <= rounding) | ~good[:, None] | ~good)


def _about_their_mean(points: Point) -> tuple[Bool[Array, " points"], Array, Array]:
    """Which of some points are finite, each by itself; their x, less the mean of those, and gradients; 0 for others."""
    good = jax.vmap(lambda point: point.finite)(points)
    mean = jnp.sum(jnp.where(good[:, None], points.x, 0), 0) / jnp.maximum(good.sum(), 1)
    x, grad = (jnp.where(good[:, None], rows, 0) for rows in (points.x - mean, points.grad))
    return good, x, grad


def room_below(n: int) -> Array:
    """By how much log π may lie below the others' of a chain that is not lost (see `land`)."""
    return 15 + 6 * jnp.sqrt(n / 2)


def _fitted(path: Float[Array, "chains points 2 n"], near: Bool[Array, " chains"], kind: FactorKind):
    """The Gaussian's factor from the paths of those chains that are `near` the best.

    On the way from afar variances of x and of the gradient are larger than on a Gaussian, where that of one is the
    inverse of the other's. What the estimator knows before it has seen a draw is of that size, so both are divided by
    how much larger they are: else directions in which paths differ little beside those would come out as narrow.
    """
    count, n = jnp.maximum(near.sum() * MEMORY, 2), path.shape[-1]

    def moments(rows):
        mean = jnp.sum(jnp.where(near[:, None, None], rows, 0), (0, 1)) / count
        d = jnp.where(near[:, None, None], rows - mean, 0).reshape(-1, n)
        squares = jnp.sum(d**2, 0) if kind == "diagonal" else d.T @ d
        tiny = jnp.finfo(d.dtype).tiny ** 0.5
        return Moments(count, mean, squares + (tiny if kind == "diagonal" else tiny * jnp.eye(n)))

    x, grad = moments(path[:, :, 0]), moments(path[:, :, 1])
    if kind == "dense":
        sd_x, sd_grad = (jnp.sqrt(jnp.diagonal(each.covariance)) for each in (x, grad))
        larger = jnp.mean(sd_x * sd_grad)
        x, grad = (Moments(each.count, each.mean, each.squares / larger) for each in (x, grad))
    estimate = GeometricMean(prior_draws=5.0)(x, grad)
    return isotropic(n, jnp.ones((), estimate.dtype), kind).fitted(estimate)


def curvature(target: Target, x: Float[Array, "points n"], factor: AbstractFactor) -> Float[Array, "points n n"]:
    r"""−∇² log π at some points, in coordinates whitened by a factor, at the scale that matters.

    Differences of gradients a unit step to either side along each axis in turn are its columns, two gradients each; NaN
    where a step leads to where log π is not finite.
    """

    def gradient(x):
        there = target.at(x, 1)
        return jnp.where(there.finite, there.grad, jnp.nan)

    def column(axis):
        step = factor.mul(axis)
        fall = jax.vmap(lambda x: gradient(x - step) - gradient(x + step))(x)
        return 0.5 * jax.vmap(factor.tmul)(fall)

    at_once = max(1, TOGETHER // len(x))
    columns = jnp.moveaxis(jax.lax.map(column, jnp.eye(factor.dim, dtype=x.dtype), batch_size=at_once), 0, 2)
    return 0.5 * (columns + jnp.swapaxes(columns, 1, 2))


def curved(H: Float[Array, "points n n"], factor: Any) -> Any:
    r"""The factor of the Gaussian that is as curved as log π is on average over points; H as `curvature` has it.

    The covariance of the whitened z is $|H|^{-1}$, H the mean over points: what `GeometricMean` makes of steps and of
    differences of gradients, as if they were draws and gradients. Where log π is convex on average no direction becomes
    wider than it was, and one in which H is so small that rounding may have made it stays as wide. Points where H is
    not finite are left out; where there is no other, the factor stays as it is.
    """
    good = jnp.isfinite(H).all((1, 2))
    mean = jnp.sum(jnp.where(good[:, None, None], H, 0), 0) / jnp.maximum(good.sum(), 1)
    rounding = factor.dim * jnp.finfo(mean.dtype).eps

    def by_direction():
        values, vectors = jnp.linalg.eigh(mean)
        told = jnp.abs(values) > rounding * jnp.max(jnp.abs(values))
        sizes = jnp.where(told & (values > 0), values, jnp.where(told, jnp.maximum(1.0, -values), 1.0))
        return (vectors / sizes) @ vectors.T

    if factor.dim < MANY_DIRECTIONS:
        covariance = by_direction()
    else:  # eigenvectors take ten times as long as all that is needed where log π is concave in all directions
        identity = jnp.eye(factor.dim, dtype=mean.dtype)
        surely = jnp.isfinite(jnp.linalg.cholesky(mean - rounding * jnp.trace(mean) * identity)).all()
        inverse = lambda: jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(mean), True), identity)
        covariance = jax.lax.cond(surely, inverse, by_direction)
    change = isotropic(factor.dim, jnp.ones((), mean.dtype), "dense").fitted(covariance)
    new = factor.times(change)
    sound = good.any() & jnp.isfinite(new.log_det())
    return jax.tree.map(lambda new, old: jnp.where(sound, new, old), new, factor)


def _newton(grad: Array, pairs: Array, curved: Array, known: Any) -> Array:
    """H ∇ by the two loops of L-BFGS; along the gradient, at length 1, where there is no pair (Nocedal 1980).

    Between them stands a multiple of the identity, which the last pair says; the identity where it is known to be near.
    """
    steps, falls = pairs[:, 0], pairs[:, 1]
    inner = jnp.sum(steps * falls, -1)
    rho = jnp.where(curved, 1 / jnp.where(curved, inner, 1), 0)

    def back(q, pair):
        s, y, r = pair
        a = r * (s @ q)
        return q - a * y, a

    def forth(q, pair):
        s, y, r, a = pair
        return q + s * (a - r * (y @ q)), None

    q, a = jax.lax.scan(back, grad, (steps, falls, rho), reverse=True)
    square = jnp.sum(falls[-1] ** 2)
    last = jnp.where(known, 1.0, inner[-1] / jnp.where(square > 0, square, 1))
    scale = jnp.where(curved[-1] & (square > 0), last, 1 / _norm(grad))
    return jax.lax.scan(forth, q * scale, (steps, falls, rho, a))[0]


def _pushed(rows: Array, new: Array, where: Array) -> Array:
    """The rows with a new one at their end in place of the first, where that is wanted."""
    return jnp.where(where, jnp.concatenate([rows[1:], new[None]]), rows)


def _norm(v: Array) -> Array:
    return jnp.maximum(jnp.linalg.norm(v), jnp.finfo(v.dtype).tiny)


def _unit(v: Array) -> Array:
    top = jnp.max(jnp.abs(v))
    v = v / jnp.where(top > 0, top, 1)
    return v / _norm(v)
