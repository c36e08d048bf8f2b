"""Samplers made of samplers: in a cycle, one at random, on a block of coordinates (lectures, "Composing kernels")."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import ArrayLike

from gadabout.adaptations import OfPart, Together
from gadabout.driver import Sampler
from gadabout.kernels import Block, Cycle, Mix


def cycle(*samplers: Sampler, random_order: bool = False) -> Sampler:
    """All the samplers, one after another in every iteration, each learning its own part.

    Args:
        samplers: recipes' results. Each keeps its adaptation; traces get the part's number after their name.
        random_order: a new random order for every iteration. The parts then learn nothing and keep the θ that they
            start with. An order that depends on where the chain stands is wrong, and cannot be given.

    Raises:
        ValueError: if there is no sampler.
    """
    _check(samplers)
    parts = () if random_order else tuple(OfPart(i, sampler.adaptation) for i, sampler in enumerate(samplers))
    kernel = Partial(_random_cycle if random_order else _cycle, _makers(samplers))
    return _of(samplers, "cycle", kernel, Together(parts))


def mix(*samplers: Sampler, weights: ArrayLike | None = None) -> Sampler:
    """One of the samplers in every iteration, chosen at random; they learn nothing and keep the θ they start with.

    Args:
        samplers: recipes' results.
        weights: probabilities up to a factor, positive; equal by default. They cannot depend on where the chain stands.

    Raises:
        ValueError: if there is no sampler, or the weights are not positive numbers, one for each.
    """
    _check(samplers)
    values = np.ones(len(samplers)) if weights is None else np.asarray(weights, float)
    if values.shape != (len(samplers),) or not (np.isfinite(values).all() and (values > 0).all()):
        raise ValueError(f"weights must be {len(samplers)} finite numbers above 0, one for each sampler, got {weights}")
    kernel = Partial(_mix, _makers(samplers), jnp.asarray(values / values.sum(), dtype=float))
    return _of(samplers, "mix", kernel, Together(()))


def block(sampler: Sampler, indices: Sequence[int], *, takes_discrete: bool = False) -> Sampler:
    """A sampler on some coordinates, with the others held; for a `cycle` that moves them all.

    Args:
        sampler: a recipe's result, which learns as it does alone.
        indices: which coordinates of the flat position, in which the leaves of a position lie one after another.
        takes_discrete: whether coordinates outside the block may be whole numbers. Those inside may if the sampler
            takes them.

    Raises:
        ValueError: if the indices are not different whole numbers from 0 on.
    """
    _check((sampler,))
    kernel = Partial(_block, sampler.make_kernel, indices=tuple(int(i) for i in indices))
    discrete = sampler.takes_discrete or takes_discrete
    adaptation = OfPart(0, sampler.adaptation)
    return Sampler("block", kernel, adaptation, num_warmup=sampler.num_warmup, takes_discrete=discrete)


def _check(samplers: tuple[Sampler, ...]) -> None:
    if not samplers:
        raise ValueError("give at least one sampler, such as rwm()")
    for sampler in samplers:
        if sampler.bias:
            raise ValueError(f"{sampler.name} keeps more than a point between its moves, and cannot be a part")


def _of(samplers: tuple[Sampler, ...], name: str, kernel: Partial, adaptation: Together) -> Sampler:
    num_warmup = max(sampler.num_warmup for sampler in samplers)
    discrete = all(sampler.takes_discrete for sampler in samplers)
    return Sampler(name, kernel, adaptation, num_warmup=num_warmup, takes_discrete=discrete)


def _makers(samplers: tuple[Sampler, ...]) -> tuple:
    return tuple(sampler.make_kernel for sampler in samplers)


def _parts(makers, n):
    return tuple(make_kernel(n) for make_kernel in makers)


def _cycle(makers, n):
    return Cycle(_parts(makers, n))


def _random_cycle(makers, n):
    return Cycle(_parts(makers, n), random_order=True)


def _mix(makers, weights, n):
    return Mix(_parts(makers, n), weights)


def _block(make_kernel, n, *, indices):
    return Block(make_kernel(len(indices)), indices)
