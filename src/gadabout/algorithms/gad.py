"""Algorithm 1 for any reparametrisable proposal, the user's own included, with any objective and estimator."""

from typing import Any

from jax.tree_util import Partial

from gadabout.adaptations import AbstractGradient, AbstractObjective, Gain, Optimiser, Pathwise, ScoreFunction
from gadabout.algorithms.recipe import recipe
from gadabout.algorithms.settings import FADING, Form, fitting, for_ever, speed_measure
from gadabout.checks import shown
from gadabout.kernels import Metropolis
from gadabout.proposals import AbstractProposal, AbstractReparametrised
from gadabout.sampler import Sampler


@recipe
def gad(
    proposal: AbstractProposal,
    *,
    target_acceptance: float = 0.25,
    form: Form = "hardened",
    learning_rate: float | None = None,
    beta_rate: float = 0.02,
    gain: Gain | None = FADING,
    adapt_for_ever: bool = False,
    optimiser: Optimiser | None = None,
    objective: AbstractObjective | None = None,
    estimator: AbstractGradient | None = None,
) -> Sampler:
    """Gradient-based adaptive MCMC with the user's own proposal (Titsias & Dellaportas 2019, Algorithm 1).

    Args:
        proposal: the proposal with its initial θ: all its floating-point array leaves are learned.
        target_acceptance: α*, the average acceptance rate towards which β is adapted, in (0, 1).
        form: "paper" is the paper's Algorithm 1 to the letter (`SpeedMeasure` lists differences): θ in units of x with
            a diagonal of at least 1e-3, β without a cap, gradients not clipped, rates constant. "hardened" learns θ in
            units of its own, caps β at 100, clips gradients, shrinks θ where a chain stalls, and decreases the rates.
        learning_rate: η of RMSprop; by default 4e-3 in the factor's own units, or 1.5e-4 if `form` is "paper".
        beta_rate: ρ_β.
        gain: γ_k, the factor of both rates in iteration k; by default (1 + k/2000)^−0.6, or 1 if `form` is "paper";
            None means 1.
        adapt_for_ever: whether adaptation continues while draws are kept, which a diminishing `gain` allows.
        optimiser: an optax transformation in place of RMSprop; `learning_rate` is then unused.
        objective: the objective that is ascended, from `gadabout.adaptations`; by default the paper's
            `LogAcceptance()`. `LogRatio` and `JumpDistance` use neither β nor α*.
        estimator: the estimator of its gradient; by default the paper's `Pathwise()`, or `ScoreFunction()` for a
            proposal that cannot be reparametrised but has `log_q`.

    Raises:
        TypeError: if `proposal` is no `AbstractReparametrised` and has no `log_q`, or does not fit the estimator.
        ValueError: if a setting is out of range.
    """
    estimator = _estimator(proposal, estimator)
    if not isinstance(objective, AbstractObjective | None):
        remedy = "such as gadabout.adaptations.JumpDistance()"
        raise TypeError(f"objective must be an AbstractObjective, {remedy}, got {shown(objective)}")
    adaptation = speed_measure(
        optimiser,
        learning_rate,
        target_acceptance,
        beta_rate,
        form=form,
        paper_rate=1.5e-4,
        gain=gain,
        parts={"estimator": estimator} | ({} if objective is None else {"objective": objective}),
    )
    return Sampler("gad", Partial(_kernel, proposal), for_ever(adaptation, adapt_for_ever), num_warmup=20_000)


def _estimator(proposal: Any, estimator: AbstractGradient | None) -> AbstractGradient:
    """The given estimator, or the default for the proposal; raises TypeError if the proposal does not fit."""
    pathwise = isinstance(proposal, AbstractReparametrised)
    scored = isinstance(proposal, AbstractProposal) and type(proposal).log_q is not AbstractProposal.log_q
    if not (pathwise or scored):
        raise TypeError(
            f"proposal must be an AbstractReparametrised (noise, move, entropy), got {type(proposal).__name__}; "
            "derive your class from gadabout.AbstractReparametrised, or give it log_q, the density of its proposals"
        )
    if estimator is None:
        return Pathwise() if pathwise else ScoreFunction()
    if not isinstance(estimator, AbstractGradient):
        remedy = "such as gadabout.adaptations.ScoreFunction()"
        raise TypeError(f"estimator must be an AbstractGradient, {remedy}, got {shown(estimator)}")
    if not {Pathwise: pathwise, ScoreFunction: scored}.get(type(estimator), True):
        wanted = {Pathwise: "an AbstractReparametrised", ScoreFunction: "a proposal with log_q"}[type(estimator)]
        raise TypeError(f"estimator {type(estimator).__name__} needs {wanted}, got {type(proposal).__name__}")
    return estimator


def _kernel(proposal, n, learned):
    return Metropolis(fitting(proposal, n, "proposal"), learn=True)
