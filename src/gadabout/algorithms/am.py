"""Adaptive Metropolis in the paper's Cholesky form (paper, baseline ii, and supplement B)."""

import math
from typing import Any, Literal

import jax.numpy as jnp
from jax.tree_util import Partial

from gadabout.adaptations import AcceptanceRate, CholeskyMoments, Together
from gadabout.algorithms.recipe import recipe
from gadabout.algorithms.settings import (
    for_ever,
    initial_factor,
    optional_positive,
    probability,
    proposal_scale,
)
from gadabout.checks import check_one_of
from gadabout.factors import FactorKind, Scaled
from gadabout.kernels import Metropolis
from gadabout.proposals import RandomWalk
from gadabout.sampler import Sampler


@recipe
def am(
    variant: Literal["as-run", "as-written"] = "as-run",
    factor: FactorKind = "dense",
    *,
    target_acceptance: float = 0.25,
    scale: float | None = None,
    adapt_for_ever: bool = False,
) -> Sampler:
    r"""Adaptive Metropolis: a random walk whose factor follows the chain's own covariance.

    Proposes $y = x + \sqrt\delta L\varepsilon$. The paper's text and its reference implementation differ in the update
    of L (see `CholeskyMoments`), the rates and the start; each is a variant.

    Args:
        variant: "as-run" starts at L = I and lets the acceptance rate control δ from 0.1/√n, with the rates
            0.0005/(1 + t/5000) for L and 0.01 for μ. "as-written" starts at L = 0.1/√n I and keeps δ = 1, with the
            rate 0.001/(1 + t/4000) for both.
        factor: "dense" or "diagonal" (as the paper ran it on Neal's Gaussian).
        target_acceptance: α*, the target of δ's control, in (0, 1); unused if "as-written".
        scale: initial L is scale · I; the default depends on the variant.
        adapt_for_ever: whether adaptation continues while draws are kept; only "as-written", whose gains diminish.

    Raises:
        ValueError: if a setting is out of range, or adaptation is to continue with gains that do not diminish.
    """
    as_written = check_one_of("variant", variant, ("as-run", "as-written")) == "as-written"
    check_one_of("factor", factor, ("dense", "diagonal"))
    acceptance = AcceptanceRate(probability("target_acceptance", target_acceptance), proposal_scale, power=2)
    if as_written:
        adaptation = CholeskyMoments(True, 0.001, 0.001, 4_000.0, _factor)
    else:
        adaptation = Together((CholeskyMoments(False, 0.0005, 0.01, 5_000.0, _factor), acceptance))
    kernel = Partial(_kernel, as_written=as_written, factor=factor, scale=optional_positive("scale", scale))
    return Sampler("am", kernel, for_ever(adaptation, adapt_for_ever), num_warmup=20_000)


def _kernel(n, learned, *, as_written, factor, scale):
    small, one = jnp.asarray(0.1 / math.sqrt(n), dtype=float), jnp.ones((), float)
    scale = (small if as_written else one) if scale is None else scale
    L = initial_factor(n, factor, scale, learned)
    return Metropolis(RandomWalk(Scaled(one if as_written else jnp.sqrt(small), L)))


def _factor(kernel: Any):
    return kernel.proposal.factor.base
