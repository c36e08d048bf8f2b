r"""The No-U-Turn sampler (Hoffman & Gelman 2014) with Stan's warm-up, or as the paper ran it.

    ε: dual averaging to α* = 0.8, begun anew when L changes.                  DualAveraging, WindowedFactor
    L: the scales, or a Cholesky factor, of windows that double.               doubling_windows, WindowedFactor
    Draw p ~ N(0, I); double the trajectory in x = x₀ + L z, at random         NoUTurn.step
    forwards or backwards, until it turns; draw from it with weights e^{-H}.

The paper's baseline (its reference implementation) is `nuts("unit", warmup_max_depth=12)`: no metric at all, 500
warm-up iterations, depth at most 12 in warm-up and 10 afterwards.
"""

from typing import Any, Literal

import jax.numpy as jnp
from jax.tree_util import Partial

from gadabout.adaptations import DualAveraging, GeometricMean, RegularisedCovariance, WindowedFactor
from gadabout.algorithms.recipe import recipe
from gadabout.algorithms.settings import optional_positive, probability
from gadabout.checks import check_one_of, check_truth, check_whole
from gadabout.factors import isotropic, kind_for, of_kind
from gadabout.kernels import NoUTurn
from gadabout.sampler import Sampler, known_factor

Metric = Literal["diagonal", "dense", "auto", "unit"]


DEEPEST = 30
"""largest number of doublings: a 32-bit integer counts the leapfrog steps"""


@recipe
def nuts(
    metric: Metric = "diagonal",
    *,
    target_acceptance: float = 0.8,
    max_depth: int = 10,
    warmup_max_depth: int | None = None,
    step_size: float | None = None,
    with_gradients: bool = False,
) -> Sampler:
    """No-U-Turn sampler: Hamiltonian trajectories that end by themselves, step size and metric learned in warm-up.

    Args:
        metric: "diagonal" learns the coordinates' scales and "dense" their covariance in Stan's windows, over 1,000
            warm-up iterations by default; "auto" is "dense" up to 300 coordinates, and where a covariance is known
            already; "unit" learns the step size alone, over 500.
        target_acceptance: the mean Metropolis probability along a trajectory to which the step size is adapted.
        max_depth: largest number of doublings, up to 30: a trajectory has at most 2^max_depth − 1 steps.
        warmup_max_depth: the same for warm-up; `max_depth` by default.
        step_size: initial ε; 0.1 n^(-1/4) by default.
        with_gradients: whether the metric is also fitted to the gradients at the draws (`GeometricMean`). Where scales
            vary over the space, it then has the scales at which most steps are made, not the largest.

    Raises:
        ValueError: if a setting is out of range.
    """
    check_one_of("metric", metric, ("diagonal", "dense", "auto", "unit"))
    depth = check_whole("max_depth", max_depth, 1, DEEPEST)
    warmup_depth = depth if warmup_max_depth is None else check_whole("warmup_max_depth", warmup_max_depth, 1, DEEPEST)
    alpha = probability("target_acceptance", target_acceptance)
    step = DualAveraging(alpha, _step_size)
    kernel = Partial(
        _kernel,
        step_size=optional_positive("step_size", step_size),
        metric=metric,
        depths=(jnp.asarray(warmup_depth), jnp.asarray(depth)),
        deepest=max(depth, warmup_depth),
    )
    both = check_truth("with_gradients", with_gradients)
    if metric == "unit":
        return Sampler("nuts", kernel, step, num_warmup=500)
    estimate = GeometricMean(prior_draws=5.0) if both else RegularisedCovariance()
    return Sampler("nuts", kernel, WindowedFactor(step, _factor, estimate), num_warmup=1_000)


def _kernel(n, learned, *, step_size, metric, depths, deepest):
    step_size = jnp.asarray(0.1 * n**-0.25, dtype=float) if step_size is None else step_size
    known = None if metric == "unit" else known_factor(learned)
    kind = kind_for("diagonal" if metric == "unit" else metric, n, known)
    factor = isotropic(n, jnp.ones(()), kind) if known is None else of_kind(kind, known)
    return NoUTurn(factor, step_size, depths[0], depths[1], deepest)


def _step_size(kernel: Any):
    return kernel.step_size


def _factor(kernel: Any):
    return kernel.factor
