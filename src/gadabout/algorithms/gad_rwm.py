r"""Gradient-based adaptive random walk Metropolis (paper, section 2.2).

Algorithm 1 with the random walk proposal $y = x + L\varepsilon$; see `gad_mala` for the algorithm line by line. The
gradient of the lower bound is $[\nabla\log\pi(y_t)\,\varepsilon_t^\top]_{lower} + \beta\,\mathrm{diag}(1/L_{ii})$ where
$\log\pi(y_t) < \log\pi(x_t)$, and its second term alone otherwise. The target's gradient is used while adapting only.
"""

from jax.tree_util import Partial

from gadabout.adaptations import Optimiser
from gadabout.algorithms.settings import FactorKind, initial_factor, optional_positive, speed_measure
from gadabout.checks import check_one_of
from gadabout.kernels import Metropolis
from gadabout.proposals import RandomWalk
from gadabout.sampler import Sampler


def gad_rwm(
    factor: FactorKind = "dense",
    *,
    target_acceptance: float = 0.25,
    learning_rate: float = 5e-5,
    beta_rate: float = 0.02,
    scale: float | None = None,
    optimiser: Optimiser | None = None,
) -> Sampler:
    """Gradient-based adaptive random walk Metropolis (gadRWM) with a dense or a diagonal factor.

    Args:
        factor: "dense" learns a Cholesky factor, "diagonal" standard deviations.
        target_acceptance: α*, the average acceptance rate that β is steered to, in (0, 1).
        learning_rate: η of the paper's RMSprop.
        beta_rate: ρ_β.
        scale: initial L is scale · I; 0.1/√n by default.
        optimiser: an optax transformation in place of RMSprop; `learning_rate` is then unused.

    Raises:
        ValueError: if a setting is out of range.
    """
    check_one_of("factor", factor, ("dense", "diagonal"))
    adaptation = speed_measure(optimiser, learning_rate, target_acceptance, beta_rate)
    kernel = Partial(_kernel, factor=factor, scale=optional_positive("scale", scale))
    return Sampler("gad-rwm", kernel, adaptation, num_warmup=20_000)


def _kernel(n, learned, *, factor, scale):
    return Metropolis(RandomWalk(initial_factor(n, factor, scale, learned)), learn=True)
