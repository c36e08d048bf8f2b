r"""Gradient-based adaptive MALA: the paper's own sampler (section 2.3 and supplement B).

Algorithm 1 with the preconditioned Langevin proposal $y = x + \tfrac12 LL^\top\nabla\log\pi(x) + L\varepsilon$:

    Initialise L = 0.1/√n I, β = 1.                                        initial_factor, SpeedMeasure.init
    for t = 1, 2, 3, …
        Propose ε_t ~ N(0, I), y_t = T_L(x_t, ε_t).                        Langevin.noise, Langevin.move
        Adapt L:  L ← L + ρ_t ∇_L F_L(x_t, ε_t), ρ_t = η / (1 + √G_t).     Langevin.move_and_pullback,
                                                                           SpeedMeasure.update, RMSprop
        Accept or reject y_t by the Metropolis–Hastings ratio.             Metropolis.step
        α_t = 1 if y_t was accepted, else 0.                               Info.accepted
        Adapt β:  β ← β [1 + ρ_β (α_t − α*)].                              SpeedMeasure.update
    Freeze L, and collect.                                                 the sampling stage

Fast and exact differ in one switch, `Langevin.exact`: whether the derivative in L goes through ∇ log π(y).
"""

from typing import Literal

from jax.tree_util import Partial

from gadabout.adaptations import Gain, Optimiser
from gadabout.algorithms.recipe import recipe
from gadabout.algorithms.settings import (
    FADING,
    Form,
    LearnedKind,
    for_ever,
    initial_factor,
    optional_positive,
    speed_measure,
)
from gadabout.checks import check_one_of
from gadabout.kernels import Metropolis
from gadabout.proposals import Langevin
from gadabout.sampler import Sampler


@recipe
def gad_mala(
    variant: Literal["fast", "exact"] = "fast",
    factor: LearnedKind = "dense",
    *,
    target_acceptance: float = 0.55,
    form: Form = "hardened",
    learning_rate: float | None = None,
    beta_rate: float = 0.02,
    scale: float | None = None,
    gain: Gain | None = FADING,
    adapt_for_ever: bool = False,
    optimiser: Optimiser | None = None,
) -> Sampler:
    """Gradient-based adaptive MALA, fast (gadMALAf) or exact (gadMALAe), with a dense, diagonal or low-rank factor.

    Args:
        variant: "fast" holds ∇ log π(y) constant in L: one gradient evaluation and four O(n²) products per iteration
            while adapting, two products afterwards. "exact" adds one Hessian-vector product while adapting.
        factor: "dense" learns a Cholesky factor, "diagonal" standard deviations, "low-rank" standard deviations and
            correlations along five directions, with products linear in n (`LowRank`).
        target_acceptance: α*, the average acceptance rate towards which β is adapted, in (0, 1).
        form: "paper" is the paper's Algorithm 1 to the letter (`SpeedMeasure` lists differences): θ in units of x with
            a diagonal of at least 1e-3, β without a cap, gradients not clipped, rates constant. "hardened" learns θ in
            units of its own, caps β at 100, clips gradients, shrinks θ where a chain stalls, and decreases the rates.
        learning_rate: η of RMSprop; by default 4e-3 in the factor's own units, or 1.5e-4 if `form` is "paper".
        beta_rate: ρ_β.
        scale: initial L is scale · I; 0.1/√n by default.
        gain: γ_k, the factor of both rates in iteration k; by default (1 + k/2000)^−0.6, or 1 if `form` is "paper";
            None means 1.
        adapt_for_ever: whether adaptation continues while draws are kept, which a diminishing `gain` allows.
        optimiser: an optax transformation in place of RMSprop; `learning_rate` is then unused.

    Raises:
        ValueError: if a setting is out of range.
    """
    exact = check_one_of("variant", variant, ("fast", "exact")) == "exact"
    check_one_of("factor", factor, ("dense", "diagonal", "low-rank"))
    adaptation = speed_measure(
        optimiser,
        learning_rate,
        target_acceptance,
        beta_rate,
        form=form,
        paper_rate=1.5e-4,
        gain=gain,
    )
    kernel = Partial(_kernel, exact=exact, factor=factor, scale=optional_positive("scale", scale))
    return Sampler("gad-mala", kernel, for_ever(adaptation, adapt_for_ever), num_warmup=20_000)


def _kernel(n, learned, *, exact, factor, scale):
    return Metropolis(Langevin(initial_factor(n, factor, scale, learned), exact), learn=True)
