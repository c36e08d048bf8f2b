"""Plain Monte Carlo: an average of independent draws, with its standard error (lectures, "The Monte Carlo method")."""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, PyTree

from gadabout.calls import called, check_call, numbers_from
from gadabout.checks import check_array, check_function, check_whole
from gadabout.executables import compiled
from gadabout.layout import layout_of
from gadabout.monte_carlo.arguments import Seed, as_flat, check_room, key_of
from gadabout.proposals import AbstractDistribution


class Estimate(NamedTuple):
    """An estimate with its standard error, both with the shape of the estimand."""

    value: Float[np.ndarray, "*shape"]
    standard_error: Float[np.ndarray, "*shape"]


class ErrorSplit(NamedTuple):
    """The expected squared error of an estimator and its two parts, each with the estimator's shape."""

    mean_squared_error: Float[np.ndarray, "*shape"]
    squared_bias: Float[np.ndarray, "*shape"]
    variance: Float[np.ndarray, "*shape"]
    bias: Estimate
    """the bias with its sign, and its standard error: √(variance / replicates)"""


def plain(
    f: Callable[..., Any],
    distribution: AbstractDistribution | Callable[..., PyTree],
    *,
    position: PyTree = None,
    num_draws: int = 1_000,
    seed: Seed = 0,
) -> Estimate:
    r"""$\hat f = \tfrac1M\sum_m f(\theta_m)$, $\theta_m \sim p$ independent, with standard error $s_f/\sqrt M$.

    $s_f^2 = \tfrac1{M-1}\sum_m (f(\theta_m) - \hat f)^2$ estimates the variance of f, whatever the dimension of θ
    (lectures, "Accuracy of Monte Carlo").

    Args:
        f: a function of one draw that returns a number or an array of any shape.
        distribution: p, one of the library's distributions of flat positions, or a function of a key that returns one
            draw, any pytree.
        position: an example of the argument of f, if `distribution` is one of flat positions and f takes another form.
        num_draws: M, at least 2.
        seed: an integer below 2³², or a key of `jax.random.key`; the same seed gives the same estimate.

    Raises:
        ValueError: if `num_draws` or `seed` is out of range, or `position` has another number of coordinates.
        TypeError: if an argument has the wrong type.
    """
    check_function("f", f, "of one draw")
    num_draws = check_whole("num_draws", num_draws, 2)
    draw, unravel = _drawn_by(distribution, position)
    check_room("num_draws", num_draws, distribution.dim if isinstance(distribution, AbstractDistribution) else 1)
    keys = jax.random.split(key_of(seed), num_draws)
    return average(evaluate(f, unravel(compiled(jax.vmap(draw), keys)(keys))))


def _drawn_by(distribution: Any, position: PyTree) -> tuple[Callable[..., PyTree], Callable[[Any], PyTree]]:
    """The function of a key that draws, and the function from its draws to the argument of f."""
    if not isinstance(distribution, AbstractDistribution):
        if position is not None:
            raise TypeError("position: f takes what a function of a key draws; leave the argument out")
        own = check_function("distribution", distribution, "of a key, or one of the library's distributions")
        like = lambda key: jax.eval_shape(own, key)
        check_call("distribution", "of a key", own, jax.random.key(0))
        called("distribution", "of a key that returns a draw", like, jax.random.key(0))
        return own, as_flat
    if position is None:
        return distribution.sample, as_flat
    layout = layout_of(jax.tree.map(np.asarray, position), "position")
    if layout.dim != distribution.dim:
        raise ValueError(f"position has {layout.dim} coordinates, distribution {distribution.dim}; they must agree")
    return distribution.sample, layout.unravel


def average(values: Float[Array, "draws *shape"] | np.ndarray) -> Estimate:
    """The mean over the leading axis of independent values, shape (M, *shape), with its standard error.

    Raises ValueError for fewer than two values.
    """
    wanted = "an array with a leading axis of at least 2 independent draws"
    values = check_array("values", values, wanted, finite=False)
    if values.ndim == 0 or len(values) < 2:
        raise ValueError(f"values must have a leading axis of at least 2 independent draws, got shape {values.shape}")
    with np.errstate(invalid="ignore"):  # non-finite values give a non-finite estimate
        return Estimate(values.mean(0), values.std(0, ddof=1) / np.sqrt(len(values)))


def error_split(estimates: Float[Array, "replicates *shape"] | np.ndarray, truth: Any) -> ErrorSplit:
    r"""The mean squared error of independent replicates of an estimate, split into squared bias and variance.

    $\tfrac1R\sum_r (\hat f_r - f)^2 = (\bar f - f)^2 + \tfrac1R\sum_r (\hat f_r - \bar f)^2$, exactly. Where the
    estimates average M draws from q ≠ p, the first part tends to $(E_q f - E_p f)^2$, which no number of draws reduces,
    and the second to $\mathrm{Var}_q f/M$ (lectures, "Accuracy of Monte Carlo"). The estimate of the first part is
    biased upwards by variance/R.

    Args:
        estimates: R replicates of shape (R, *shape), R at least 2.
        truth: the true value, of shape (*shape).

    Raises:
        ValueError: if there are fewer than two replicates, or `truth` has another shape.
    """
    replicates = check_array("estimates", estimates, "an array with a leading axis of replicates", finite=False)
    mean, standard_error = average(replicates)
    truth = check_array("truth", truth, f"an array of shape {mean.shape}", finite=False)
    if np.shape(truth) != mean.shape:
        raise ValueError(f"truth must have the shape {mean.shape} of one estimate, got {np.shape(truth)}")
    bias = np.asarray(mean - truth)
    squared_error = np.mean((replicates - np.asarray(truth)) ** 2, axis=0)
    return ErrorSplit(squared_error, bias**2, replicates.var(0), Estimate(bias, standard_error))


def evaluate(f: Callable[..., Any], draws: PyTree) -> Float[np.ndarray, "draws *shape"]:
    """The values of f at all draws; warns if any is not finite, naming the first such draw."""
    each = jax.vmap(lambda draw: numbers_from("f", "of one draw", f, draw))
    values = np.asarray(compiled(each, draws)(draws))
    finite = np.isfinite(values).reshape(len(values), -1).all(1)
    if not finite.all():
        first = jax.tree.map(lambda leaf: np.asarray(leaf[int(np.argmin(finite))]), draws)
        warnings.warn(
            f"f is not finite at {(~finite).sum()} of {len(values)} draws, the first of them {first}; "
            "the estimate is not finite either",
            stacklevel=3,
        )
    return values
