"""Samplers that may move the particles of sequential Monte Carlo: the check of them, and the default."""

import dataclasses
from typing import Any

import jax

from gadabout.adaptations import DualAveraging
from gadabout.algorithms import mala
from gadabout.algorithms.settings import proposal_scale
from gadabout.api.checks import checked_plan
from gadabout.checks import shown
from gadabout.kernels import Gibbs
from gadabout.sampler import Sampler


def default_moves() -> Sampler:
    """MALA whose step size h is adapted by dual averaging to an acceptance rate of 0.574.

    Iterates shrink towards 10 h₀ = √2, near the best h of whitened coordinates. The shrinkage is twice as strong as in
    the source, γ = 0.1: a stage has few iterations, in which wide swings of h would leave an average far too small.
    """
    adaptation = DualAveraging(0.574, proposal_scale, regularisation=0.1)  # pyright: ignore[reportArgumentType]
    return dataclasses.replace(mala(step_size=0.1 * 2**0.5), adaptation=adaptation)


def check_moves(sampler: Any, n: int) -> Sampler:
    """The sampler, with its settings in JAX's current float type; raises if it cannot move particles.

    Its kernel must leave any given target invariant, and its state must be no more than the particle's point. `n` is
    the number of coordinates.

    Raises TypeError unless it is a sampler, ValueError if its moves would make the particles wrong.
    """
    if not isinstance(sampler, Sampler):
        raise TypeError(f"sampler must be a recipe's result, such as gadabout.mala(), got {shown(sampler)}")
    remedy = "choose one that rejects, such as mala(), rwm() or gad_mala()"
    if not sampler.exact:
        why = f" ({sampler.bias})" if sampler.bias else ""
        raise ValueError(
            f"sampler: the moves of {sampler.name} do not leave their target as it is{why}, so that particles and "
            f"weights would no longer belong together; {remedy}"
        )
    if not sampler.state_is_point:
        raise ValueError(
            f"sampler: {sampler.name} keeps more than a point between its moves, which a particle that is resampled "
            f"under another target cannot bring along; {remedy}"
        )
    if sampler.adaptation.moves_chains:
        raise ValueError(
            f"sampler: {sampler.name} may put chains back to where they began, which for particles was under another "
            f"target; pass the sampler that it wraps, or {remedy}"
        )
    sampler = checked_plan(sampler).samplers[-1]
    is_gibbs = lambda node: isinstance(node, Gibbs)
    if any(map(is_gibbs, jax.tree.leaves(sampler.kernel(n), is_leaf=is_gibbs))):
        raise ValueError(
            f"sampler: the conditionals of {sampler.name} are those of the target itself, not of the tempered ones "
            f"before it; {remedy}"
        )
    return sampler
