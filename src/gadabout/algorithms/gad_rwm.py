r"""Gradient-based adaptive random walk Metropolis (paper, section 2.2).

Algorithm 1 with the random walk proposal $y = x + L\varepsilon$; see `gad_mala` for the algorithm line by line. The
gradient of the lower bound is $[\nabla\log\pi(y_t)\,\varepsilon_t^\top]_{lower} + \beta\,\mathrm{diag}(1/L_{ii})$ where
$\log\pi(y_t) < \log\pi(x_t)$, and its second term alone otherwise. The target's gradient is used while adapting only.
"""

from jax.tree_util import Partial

from gadabout.adaptations import Gain, Optimiser
from gadabout.algorithms.recipe import recipe
from gadabout.algorithms.settings import FADING, FactorKind, for_ever, initial_factor, optional_positive, speed_measure
from gadabout.checks import check_one_of
from gadabout.kernels import Metropolis
from gadabout.proposals import RandomWalk
from gadabout.sampler import Sampler


@recipe
def gad_rwm(
    factor: FactorKind = "dense",
    *,
    target_acceptance: float = 0.25,
    learning_rate: float = 4e-3,
    beta_rate: float = 0.02,
    scale: float | None = None,
    beta_cap: float | None = 100.0,
    relative: bool = True,
    diagonal_floor: float = 1e-3,
    safeguards: bool = True,
    gain: Gain | None = FADING,
    adapt_for_ever: bool = False,
    optimiser: Optimiser | None = None,
) -> Sampler:
    """Gradient-based adaptive random walk Metropolis (gadRWM) with a dense or a diagonal factor.

    Args:
        factor: "dense" learns a Cholesky factor, "diagonal" standard deviations.
        target_acceptance: α*, the average acceptance rate that β is steered to, in (0, 1).
        learning_rate: η of RMSprop, in the factor's own units; the paper's 5e-5 goes with its other forms.
        beta_rate: ρ_β.
        scale: initial L is scale · I; 0.1/√n by default.
        beta_cap: largest β; None for none, the paper's form.
        relative: whether θ is learned in units of its own and with a common scale, so that units of x make no
            difference; False is the paper's form.
        diagonal_floor: smallest diagonal entry of a factor, in units of its row's norm, or of x where not `relative`.
        safeguards: whether gradients are clipped and θ is shrunk where a chain stalls; False is the paper's form.
        gain: γ_k, by which both rates are multiplied in iteration k; (1 + k/2000)^−0.6 by default, None for 1, the
            paper's form.
        adapt_for_ever: whether adaptation continues while draws are kept, which a diminishing `gain` allows.
        optimiser: an optax transformation in place of RMSprop; `learning_rate` is then unused.

    Raises:
        ValueError: if a setting is out of range.
    """
    check_one_of("factor", factor, ("dense", "diagonal"))
    adaptation = speed_measure(
        optimiser,
        learning_rate,
        target_acceptance,
        beta_rate,
        beta_cap=beta_cap,
        relative=relative,
        diagonal_floor=diagonal_floor,
        safeguards=safeguards,
        gain=gain,
    )
    kernel = Partial(_kernel, factor=factor, scale=optional_positive("scale", scale))
    return Sampler("gad-rwm", kernel, for_ever(adaptation, adapt_for_ever), num_warmup=20_000)


def _kernel(n, learned, *, factor, scale):
    return Metropolis(RandomWalk(initial_factor(n, factor, scale, learned)), learn=True)
