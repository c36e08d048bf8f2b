r"""Metropolis–Hastings for any proposal (lectures, "The Metropolis-Hastings algorithm").

Propose y ~ q(·|x).                                                AbstractProposal.move
Accept with probability min{1, π(y) q(x|y) / π(x) q(y|x)}.         Metropolis.step
"""

from collections.abc import Callable
from typing import Any

from jax.tree_util import Partial
from jaxtyping import PyTree

from gadabout.adaptations import NoAdaptation
from gadabout.algorithms.recipe import recipe
from gadabout.algorithms.settings import fitting
from gadabout.checks import check_function, check_truth, shown
from gadabout.kernels import Metropolis
from gadabout.proposals import AbstractProposal, UserProposal
from gadabout.sampler import Sampler


@recipe
def metropolis_hastings(
    proposal: AbstractProposal | Callable[..., PyTree],
    log_density: Callable[..., Any] | None = None,
    *,
    takes_discrete: bool = False,
) -> Sampler:
    """Metropolis–Hastings with the user's proposal, symmetric or not; no adaptation.

    Args:
        proposal: a proposal such as `RandomWalk(factor)`, or a function sample(key, x) that draws y ~ q(·|x).
        log_density: log q(y|x), a function (y, x), up to a constant; None means that q is symmetric. Both functions
            take positions in the user's form.
        takes_discrete: whether the proposal moves whole numbers to whole numbers, so that positions may hold them.

    Raises:
        TypeError: if `proposal` is of another type, or `log_density` is given together with an `AbstractProposal`.
    """
    check_truth("takes_discrete", takes_discrete)
    if isinstance(proposal, AbstractProposal):
        if log_density is not None:
            raise TypeError("log_density belongs to a function; this proposal knows its own ratio: leave it out")
        own = proposal
    elif callable(proposal) and not isinstance(proposal, type):
        if log_density is not None:
            check_function("log_density", log_density, "(y, x)")
        own = UserProposal(proposal, log_density)
    else:
        raise TypeError(f"proposal must be an AbstractProposal or a function sample(key, x), got {shown(proposal)}")
    return Sampler("metropolis-hastings", Partial(_kernel, own), NoAdaptation(), takes_discrete=takes_discrete)


def _kernel(proposal, n, learned):
    return Metropolis(fitting(proposal, n, "proposal"))
