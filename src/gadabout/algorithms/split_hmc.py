r"""Split Hamiltonian Monte Carlo about a Gaussian that is fitted quickly (Shahbaba, Lan, Johnson & Neal 2014).

m, L: the Gaussian of least Fisher divergence from the draws of each       FittedGaussian, GeometricMean
    window and the gradients there, windows of 8, 8, 12, 16, …             quick_windows
h: dual averaging to α* = 0.8, begun anew when m and L change.             DualAveraging
Draw p ~ N(0, I) and an angle near π/2; turn (z, p) by it, z = L⁻¹(x − m), in equal
    steps of at most h, each between two kicks along the residual.         SplitHamiltonian.move
Accept by the change of energy.                                            Metropolis.step
End the warm-up when a fit changes little.                                 FittedGaussian.settled
"""

from typing import Any

import jax.numpy as jnp
from jax.tree_util import Partial

from gadabout.adaptations import DualAveraging, FittedGaussian
from gadabout.algorithms.recipe import recipe
from gadabout.algorithms.settings import optional_positive, probability
from gadabout.checks import check_one_of, check_whole
from gadabout.factors import FactorChoice, isotropic, kind_for, of_kind
from gadabout.kernels import Metropolis
from gadabout.proposals import SplitHamiltonian
from gadabout.sampler import Sampler, known_factor

WIDEST = 1.5
"""the largest step, in radians: just below the quarter turn that is a whole trajectory"""


@recipe
def split_hmc(
    factor: FactorChoice = "auto",
    *,
    target_acceptance: float = 0.8,
    step_size: float | None = None,
    max_steps: int = 32,
) -> Sampler:
    """Trajectories that are exact on a Gaussian fitted in short windows of warm-up, which ends when fits agree.

    Made for many chains (16 or more): windows are short because all chains' draws and gradients are fitted together.

    Args:
        factor: "dense" fits a covariance, "diagonal" standard deviations; "auto" the first up to 300 coordinates,
            and where a covariance is known already.
        target_acceptance: δ, in (0, 1), of the whole trajectory.
        step_size: initial h, in radians of a turn; a trajectory takes about 1.6/h steps. 0.3 by default.
        max_steps: steps of a trajectory at most.

    Raises:
        ValueError: if a setting is out of range.
    """
    check_one_of("factor", factor, ("auto", "dense", "diagonal"))
    step = DualAveraging(probability("target_acceptance", target_acceptance), _step_size, largest=WIDEST)
    kernel = Partial(
        _kernel,
        kind=factor,
        step_size=optional_positive("step_size", step_size),
        max_steps=check_whole("max_steps", max_steps),
    )
    return Sampler("split-hmc", kernel, FittedGaussian(step, fitted_gaussian), num_warmup=1_000)


def _kernel(n, learned, *, kind, step_size, max_steps):
    known = known_factor(learned)
    kind = kind_for(kind, n, known)
    factor = isotropic(n, jnp.ones(()), kind) if known is None else of_kind(kind, known)
    mean = jnp.zeros(n) if learned is None or learned.mean is None else learned.mean
    step_size = jnp.asarray(0.3, dtype=float) if step_size is None else step_size
    return Metropolis(SplitHamiltonian(mean, factor, step_size, max_steps))


def _step_size(kernel: Any):
    return kernel.proposal.step_size


def fitted_gaussian(kernel: Any):
    """The lens to what has the mean and the factor of the fitted Gaussian."""
    return kernel.proposal
