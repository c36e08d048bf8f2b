r"""Gradient-based adaptive random walk Metropolis (paper, section 2.2).

Algorithm 1 with the random walk proposal $y = x + L\varepsilon$; see `gad_mala` for the algorithm line by line. The
gradient of the lower bound is $[\nabla\log\pi(y_t)\,\varepsilon_t^\top]_{lower} + \beta\,\mathrm{diag}(1/L_{ii})$ where
$\log\pi(y_t) < \log\pi(x_t)$, and its second term alone otherwise. The target's gradient is used while adapting only.
"""

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
from gadabout.proposals import RandomWalk
from gadabout.sampler import Sampler


@recipe
def gad_rwm(
    factor: LearnedKind = "dense",
    *,
    target_acceptance: float = 0.25,
    form: Form = "hardened",
    learning_rate: float | None = None,
    beta_rate: float = 0.02,
    scale: float | None = None,
    gain: Gain | None = FADING,
    adapt_for_ever: bool = False,
    optimiser: Optimiser | None = None,
) -> Sampler:
    """Gradient-based adaptive random walk Metropolis (gadRWM) with a dense, diagonal or low-rank factor.

    Args:
        factor: "dense" learns a Cholesky factor, "diagonal" standard deviations, "low-rank" standard deviations and
            correlations along five directions, with products linear in n (`LowRank`).
        target_acceptance: α*, the average acceptance rate towards which β is adapted, in (0, 1).
        form: "paper" is the paper's Algorithm 1 to the letter (`SpeedMeasure` lists differences): θ in units of x with
            a diagonal of at least 1e-3, β without a cap, gradients not clipped, rates constant. "hardened" learns θ in
            units of its own, caps β at 100, clips gradients, shrinks θ where a chain stalls, and decreases the rates.
        learning_rate: η of RMSprop; by default 4e-3 in the factor's own units, or 5e-5 if `form` is "paper".
        beta_rate: ρ_β.
        scale: initial L is scale · I; 0.1/√n by default.
        gain: γ_k, the factor of both rates in iteration k; by default (1 + k/2000)^−0.6, or 1 if `form` is "paper";
            None means 1.
        adapt_for_ever: whether adaptation continues while draws are kept, which a diminishing `gain` allows.
        optimiser: an optax transformation in place of RMSprop; `learning_rate` is then unused.

    Raises:
        ValueError: if a setting is out of range.
    """
    check_one_of("factor", factor, ("dense", "diagonal", "low-rank"))
    adaptation = speed_measure(
        optimiser,
        learning_rate,
        target_acceptance,
        beta_rate,
        form=form,
        paper_rate=5e-5,
        gain=gain,
    )
    kernel = Partial(_kernel, factor=factor, scale=optional_positive("scale", scale))
    return Sampler("gad-rwm", kernel, for_ever(adaptation, adapt_for_ever), num_warmup=20_000)


def _kernel(n, learned, *, factor, scale):
    return Metropolis(RandomWalk(initial_factor(n, factor, scale, learned)), learn=True)
