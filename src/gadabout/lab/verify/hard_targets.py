"""Targets on which samplers fail, and easy ones, each with its truth: expectations by formula or by quadrature."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float
from scipy import special, stats

Features = Callable[[np.ndarray], np.ndarray]


class Truth(NamedTuple):
    """True expectations: `features` maps draws (..., n) to features (..., k), whose expectations are `values` (k,)."""

    features: Features
    values: np.ndarray


class Hard(NamedTuple):
    """A log density of x (n,), with its truth.

    Args:
        log_density: log π, up to a constant.
        start: a position, or a function of a key.
        truth: expectations; None if the posterior is improper, so that no draws are right.
        single: whether it is sampled in single precision.
    """

    log_density: Callable[[Array], Any]
    start: Any
    truth: Truth | None
    single: bool = False


def moments(mean: Any, variance: Any) -> Truth:
    """The truth given by means (n,) and variances (n,)."""
    mean, variance = np.asarray(mean, float), np.asarray(variance, float)
    return Truth(lambda x: np.concatenate([x, (x - mean) ** 2], -1), np.concatenate([mean, variance]))


def probabilities(n: int, cdf: Callable[[np.ndarray], np.ndarray], points: Any) -> Truth:
    """The truth given by P(x ≤ t) for points t, equal for all n coordinates."""
    points = np.asarray(points, float)
    return Truth(lambda x: np.concatenate([x <= t for t in points], -1).astype(float), np.repeat(cdf(points), n))


def beside(line: Callable[[Array], Array], low: float, high: float, n: int = 3, start: float = 0.0) -> Hard:
    """A coordinate with the log density `line`, a function of arrays, and n − 1 standard normal coordinates."""
    edges = np.linspace(low, high, 400_001)
    x = (edges[1:] + edges[:-1]) / 2
    log = np.nan_to_num(np.asarray(line(jnp.asarray(x)), float), nan=-np.inf)
    weight = np.exp(log - log.max())
    mean = np.average(x, weights=weight)
    variance = np.average((x - mean) ** 2, weights=weight)
    truth = moments([mean, *[0.0] * (n - 1)], [variance, *[1.0] * (n - 1)])
    return Hard(lambda x: line(x[0]) + normal(x[1:]), np.array([start, *[0.0] * (n - 1)]), truth)


def on_plane(log_density: Callable[[Array], Array], half: float, start: Any = (0.0, 0.0)) -> Hard:
    """A law of two coordinates, with moments by quadrature over (−half, half)²."""
    edges = np.linspace(-half, half, 1_501)
    x = np.stack(np.meshgrid(*[(edges[1:] + edges[:-1]) / 2] * 2), -1).reshape(-1, 2)
    log = np.asarray(jax.vmap(log_density)(jnp.asarray(x)), float)
    weight = np.exp(log - log.max())
    mean = np.average(x, axis=0, weights=weight)
    truth = moments(mean, np.average((x - mean) ** 2, axis=0, weights=weight))
    return Hard(log_density, start if callable(start) else np.array(start), truth)


def mixture(masses: Any, centres: Any, sds: Any) -> Hard:
    """A mixture of round Gaussians: masses (K,), centres (K, n), standard deviations (K,)."""
    masses, centres, sds = (np.asarray(each, float) for each in (masses, centres, sds))
    n = centres.shape[1]

    def log_density(x):
        square = jnp.sum((x - jnp.asarray(centres)) ** 2, -1) / sds**2
        return logsumexp(np.log(masses) - n * np.log(sds) - 0.5 * square)

    mean = masses @ centres
    return Hard(log_density, np.zeros(n), moments(mean, masses @ (sds[:, None] ** 2 + centres**2) - mean**2))


def shell(n: int, radius: float, width: float) -> Hard:
    """The density proportional to that of N(radius, width²) at |x|."""
    r = np.linspace(radius - 10 * width, radius + 10 * width, 100_001)
    square = np.average(r**2, weights=r ** (n - 1) * stats.norm.pdf(r, radius, width))
    log_density = lambda x: -0.5 * ((jnp.sqrt(jnp.sum(x**2)) - radius) / width) ** 2
    return Hard(log_density, lambda key: jax.random.normal(key, (n,)), moments(np.zeros(n), np.full(n, square / n)))


def independent(line: Callable[[Array], Array], n: int, truth: Truth, start: float = 0.0) -> Hard:
    """n independent coordinates with the log density `line`."""
    return Hard(lambda x: jnp.sum(line(x)), np.full(n, start), truth)


def normal(x: Float[Array, " n"]) -> Array:
    """N(0, I)."""
    return -0.5 * jnp.sum(x**2)


def with_gradient(gradient: Callable[[Array], Array], n: int = 3) -> Hard:
    """N(0, I) with `gradient` in place of its true gradient."""

    @jax.custom_jvp
    def log_density(x):
        return normal(x)

    log_density.defjvp(lambda x, tangent: (normal(x[0]), gradient(x[0]) @ tangent[0]))
    return Hard(log_density, np.zeros(n), moments(np.zeros(n), np.ones(n)))


def improper(log_density: Callable[[Array], Array], n: int = 3, start: float = 0.0) -> Hard:
    """A target that is no proper density, and has no truth."""
    return Hard(log_density, np.full(n, start), None)


def funnel(spread: float, children: int) -> Hard:
    """q ~ N(0, spread²) and children N(0, eᵠ): mean and variance of q, P(|first child| < 1)."""
    q = np.linspace(-8 * spread, 8 * spread, 100_001)
    within = np.average(special.erf(np.exp(-q / 2) / np.sqrt(2)), weights=stats.norm.pdf(q, 0, spread))
    features = lambda x: np.stack([x[..., 0], x[..., 0] ** 2, np.abs(x[..., 1]) < 1], -1)

    def log_density(x):
        return -0.5 * (x[0] / spread) ** 2 - 0.5 * children * x[0] - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-x[0])

    return Hard(log_density, np.zeros(1 + children), Truth(features, np.array([0.0, spread**2, within])))


def _inside(condition, log_density):
    return lambda x: jnp.where(jnp.all(condition(x)), log_density(x), -jnp.inf)


def _banana(x):
    return -0.5 * x[0] ** 2 - 0.5 * ((x[1] - 3 * x[0] ** 2) / 0.1) ** 2


def _cross(x):
    sds = jnp.array([[10.0, 0.1], [0.1, 10.0]])
    return logsumexp(-0.5 * jnp.sum((x / sds) ** 2, -1))


def _two_shells(x):
    rings = [-0.5 * ((jnp.sqrt(jnp.sum((x - jnp.array([c, 0.0])) ** 2)) - 2) / 0.1) ** 2 for c in (-3.5, 3.5)]
    return jnp.logaddexp(*rings)


def _core(x):
    return jnp.logaddexp(-0.5 * ((jnp.sqrt(jnp.sum(x**2)) - 5) / 0.2) ** 2, 3 - 0.5 * jnp.sum(x**2) / 0.2**2)


def _separable(x):
    rows = np.random.default_rng(0).normal(size=(40, 3))
    return jnp.sum(jax.nn.log_sigmoid((2.0 * (rows[:, 0] > 0) - 1) * (rows @ x)))


def _root_trap(x):
    return -0.5 * x**2 - jnp.where(x > 0, jnp.sqrt(x), 0.0)


def _student(nu):
    return lambda x: -(nu + 1) / 2 * jnp.log1p(x**2 / nu)


SCALES = 10.0 ** np.arange(-6, 7, 2)
RING = 8 * np.stack([np.cos(2 * np.pi * np.arange(5) / 5), np.sin(2 * np.pi * np.arange(5) / 5)], -1)
QUARTERS = [-20.0, -1.0, 0.0, 1.0, 20.0]


def _uniform(key):
    return jax.random.uniform(key, (2,), minval=0.05, maxval=0.45)


def hard() -> dict[str, Hard]:
    """The hard targets by name."""
    nu = {k: probabilities(2, stats.t(k).cdf, [-4.0, -1.0, 0.0, 1.0, 4.0]) for k in (1.0, 1.5, 3.0)}
    return {
        "two far modes": mixture([0.5, 0.5], [[-10, -10], [10, 10]], [1, 1]),
        "uneven far modes": mixture([0.9, 0.1], [[-8, 0, 0], [8, 0, 0]], [1, 1]),
        "far modes in 20 dimensions": mixture([0.5, 0.5], [[-3] * 20, [3] * 20], [1, 1]),
        "five modes": mixture([0.4, 0.3, 0.15, 0.1, 0.05], RING, [1, 1, 1, 1, 1]),
        "modes of two widths": mixture([0.5, 0.5], [[-3, 0], [3, 0]], [1, 0.3]),
        "spike and slab": mixture([0.5, 0.5], [[0, 0], [0, 0]], [0.01, 1]),
        "spike and slab on a line": mixture([0.5, 0.5], [[0], [0]], [0.001, 1]),
        "spike aside": mixture([0.5, 0.5], [[1, 1, 1], [0, 0, 0]], [0.05, 1]),
        "spike and slab in 10 dimensions": mixture([0.5, 0.5], [[0] * 10, [0] * 10], [0.1, 1]),
        "shell": shell(5, 5.0, 0.1),
        "donut": shell(2, 3.0, 0.1),
        "two shells": on_plane(_two_shells, 7.0, lambda key: jax.random.normal(key, (2,))),
        "shell with a core": on_plane(_core, 7.0, lambda key: 3 * jax.random.normal(key, (2,))),
        "cross": Hard(_cross, np.zeros(2), moments([0, 0], [50.005, 50.005])),
        "banana": Hard(_banana, np.zeros(2), moments([0, 3], [1, 18.01])),
        "funnel": funnel(3.0, 9),
        "steep funnel": funnel(5.0, 1),
        "correlation of 0.99999": Hard(
            lambda x: -0.5 * x[0] ** 2 - 0.5 * (x[1] - 0.99999 * x[0]) ** 2 / (1 - 0.99999**2),
            np.zeros(2), moments([0, 0], [1, 1]),
        ),
        "scales from 10⁻⁶ to 10⁶": Hard(lambda x: normal(x / SCALES), np.zeros(7), moments(np.zeros(7), SCALES**2)),
        "Cauchy": independent(_student(1.0), 2, nu[1.0]),
        "Student-t, 1.5 degrees": independent(_student(1.5), 2, nu[1.5]),
        "Student-t, 3 degrees": independent(_student(3.0), 2, nu[3.0]),
        "Cauchy of 5 coordinates together": Hard(
            lambda x: -3 * jnp.log1p(jnp.sum(x**2)), np.zeros(5), probabilities(5, stats.cauchy.cdf, QUARTERS)
        ),
        "log-normal": independent(
            lambda x: jnp.where(x > 0, -0.5 * (jnp.log(jnp.where(x > 0, x, 1)) / 2) ** 2 - jnp.log(x), -jnp.inf), 1,
            probabilities(1, stats.lognorm(2).cdf, [0.1, 1.0, 10.0]), 1.0,
        ),
        "exp(−√|x|)": independent(
            lambda x: -jnp.sqrt(jnp.abs(x)), 2,
            probabilities(2, lambda t: 0.5 + 0.5 * np.sign(t) * special.gammainc(2, np.abs(t) ** 0.5), QUARTERS), 1.0,
        ),
    } | _improper() | _rough()  # fmt: skip


def _improper() -> dict[str, Hard]:
    """Targets whose integral is infinite, by name."""
    return {
        "flat along x₁": improper(lambda x: normal(x[:1]) + normal(x[2:])),
        "flat along x₀ + x₁": improper(lambda x: -0.5 * (x[0] - x[1]) ** 2 - 0.5 * x[2] ** 2),
        "rises along x₀ + x₁": improper(lambda x: -0.5 * (x[0] - x[1]) ** 2 - 0.5 * x[2] ** 2 + 0.1 * (x[0] + x[1])),
        "separable classes": improper(_separable),
        "flat beyond a border": improper(_inside(lambda x: x[0] > 0, lambda x: -0.5 * jnp.sum(x[1:] ** 2)), 2, 1.0),
        "−log π": improper(lambda x: -normal(x)),
        "−log π of a Student-t": improper(lambda x: -jnp.sum(_student(3.0)(x))),
    }


def _rough() -> dict[str, Hard]:
    """Densities that are rough, not differentiable, bounded, or have wrong gradients, by name."""
    std = moments(np.zeros(3), np.ones(3))
    return {
        "fine noise": Hard(lambda x: normal(x) + 0.3 * jnp.sin(1e5 * jnp.sum(x)), np.zeros(3), std),
        "ripples": beside(lambda x: -0.5 * x**2 + jnp.sin(40 * x), -9, 9),
        "staircase": beside(lambda x: jnp.floor(-4 * x**2) / 8, -9, 9),
        "gradient of the wrong sign": with_gradient(lambda x: x),
        "gradient three times too large": with_gradient(lambda x: -3 * x),
        "gradient of zero": with_gradient(lambda x: 0 * x),
        "gradient of another law": with_gradient(lambda x: 3 - x),
        "island of NaN": beside(lambda x: jnp.where(jnp.abs(x - 0.8) < 0.3, jnp.nan, -0.5 * x**2), -9, 9),
        "NaN beyond 1": beside(lambda x: jnp.where(x > 1, jnp.nan, -0.5 * x**2), -9, 9),
        "NaN in gradients": beside(_root_trap, -9, 9),
        "jump": beside(lambda x: -0.5 * x**2 - 3.0 * (x > 0.5), -9, 9),
        "step of 10": beside(lambda x: -0.5 * x**2 - 10.0 * (x > 1), -9, 9),
        "checkerboard": on_plane(lambda x: normal(x) + 2.0 * (jnp.sum(jnp.floor(x)) % 2), 7.5),
        "square": on_plane(_inside(lambda x: (x > 0) & (x < 1), lambda x: 0.0 * x[0]), 1.5, _uniform),
        "triangle": on_plane(_inside(lambda x: (x > 0) & (x.sum() < 1), lambda x: 0.0 * x[0]), 1.5, _uniform),
        "half normal": beside(lambda x: jnp.where(x > 0, -0.5 * x**2, -jnp.inf), -1, 9, start=1.0),
        "exponential": beside(lambda x: jnp.where(x > 0, -x, -jnp.inf), -1, 40, start=1.0),
        "gamma of shape 0.05, logarithm": beside(lambda x: 0.05 * x - jnp.exp(x), -600, 10),
        "starts at 1,000 deviations": scaled(
            independent(lambda x: -x - jnp.exp(-x), 4, moments([np.euler_gamma] * 4, [np.pi**2 / 6] * 4)), 1e-3
        ),
        "10⁶ in single precision": Hard(lambda x: normal(x - 1e6), np.full(2, 1e6), moments([1e6] * 2, [1] * 2), True),
        "log π of 10⁸ in single precision": Hard(lambda x: normal(x) + 1e8, np.zeros(3), std, True),
    }  # fmt: skip


def scaled(target: Hard, scale: float) -> Hard:
    """The law of scale · x, with its moments as truth."""
    assert target.truth is not None
    n = len(target.start)
    mean, variance = scale * target.truth.values[:n], scale**2 * target.truth.values[n:]
    density = lambda x: target.log_density(x / scale)
    return Hard(density, scale * target.start, moments(mean, variance))


def easy() -> dict[str, Hard]:
    """Targets on which no finding may be raised, by name; all have moments as truth."""
    gumbel, logistic = np.euler_gamma, np.pi**2 / 3
    each = {
        "normal": Hard(normal, np.zeros(3), moments(np.zeros(3), np.ones(3))),
        "normal in 30 dimensions": Hard(normal, np.zeros(30), moments(np.zeros(30), np.ones(30))),
        "correlated": Hard(
            lambda x: -0.5 * x[0] ** 2 - 0.5 * (x[1] - 0.9 * x[0]) ** 2 / 0.19, np.zeros(2), moments([0, 0], [1, 1])
        ),
        "Student-t, 10 degrees": Hard(
            lambda x: -7 * jnp.log1p(jnp.sum(x**2) / 10), np.zeros(4), moments(np.zeros(4), np.full(4, 1.25))
        ),
        "Gumbel": beside(lambda x: -x - jnp.exp(-x), -4, 40),
        "logistic": independent(
            lambda x: -x - 2 * jax.nn.softplus(-x), 3, moments(np.zeros(3), np.full(3, logistic))
        ),
        "logarithm of gamma of shape 3": beside(lambda x: 3 * x - jnp.exp(x), -20, 5),
        "logit of beta": beside(lambda x: 3 * x - 10 * jax.nn.softplus(x), -20, 20),
        "mild banana": Hard(
            lambda x: -0.5 * x[0] ** 2 - 0.5 * (x[1] - 0.3 * x[0] ** 2) ** 2, np.zeros(2), moments([0, 0.3], [1, 1.18])
        ),
        "Gumbels": independent(lambda x: -x - jnp.exp(-x), 4, moments([gumbel] * 4, [np.pi**2 / 6] * 4)),
    }  # fmt: skip
    return {
        f"{name}, in units of {1 / s:g}": scaled(target, s) for name, target in each.items() for s in (1e-2, 1, 1e3)
    }
