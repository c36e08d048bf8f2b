"""Algorithm 1 for any reparametrisable proposal, the user's own included."""

from jax.tree_util import Partial

from gadabout.adaptations import Optimiser
from gadabout.algorithms.settings import speed_measure
from gadabout.kernels import Metropolis
from gadabout.proposals import AbstractReparametrised
from gadabout.sampler import Sampler


def gad(
    proposal: AbstractReparametrised,
    *,
    target_acceptance: float = 0.25,
    learning_rate: float = 1.5e-4,
    beta_rate: float = 0.02,
    optimiser: Optimiser | None = None,
) -> Sampler:
    """Gradient-based adaptive MCMC with a proposal of one's own (Titsias & Dellaportas 2019, Algorithm 1).

    Args:
        proposal: the proposal with its initial θ: all its floating-point array leaves are learned.
        target_acceptance: α*, the average acceptance rate that β is steered to, in (0, 1).
        learning_rate: η of the paper's RMSprop.
        beta_rate: ρ_β.
        optimiser: an optax transformation in place of RMSprop; `learning_rate` is then unused.

    Raises:
        TypeError: if `proposal` is not an `AbstractReparametrised`.
        ValueError: if a setting is out of range.
    """
    if not isinstance(proposal, AbstractReparametrised):
        raise TypeError(
            f"proposal must be an AbstractReparametrised (noise, move, entropy), got {type(proposal).__name__}; "
            "derive your class from gadabout.AbstractReparametrised"
        )
    adaptation = speed_measure(optimiser, learning_rate, target_acceptance, beta_rate)
    return Sampler("gad", Partial(_kernel, proposal), adaptation, num_warmup=20_000)


def _kernel(proposal, n, learned):
    return Metropolis(proposal, learn=True)
