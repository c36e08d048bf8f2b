"""Samplers made of samplers: all in a cycle, one at random, or one on a block (lectures, "Composing kernels")."""

from collections.abc import Callable, Iterable, Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import ArrayLike

from gadabout.adaptations import AbstractAdaptation, NoAdaptation, OfPart, Together
from gadabout.algorithms.recipe import recipe
from gadabout.checks import check_array, check_truth, check_whole, shown
from gadabout.kernels import Block, Cycle, Mix
from gadabout.sampler import AbstractForLayout, Sampler, for_layout


@recipe
def cycle(*samplers: Sampler, random_order: bool = False) -> Sampler:
    """All the samplers, one after another in every iteration, each with its own adaptation.

    Args:
        samplers: recipes' results. Each keeps its adaptation; traces get the part's number after their name.
        random_order: whether every iteration has a new random order. The parts then learn nothing and keep their
            initial θ. An order that depends on the chain's state would be wrong, and cannot be given.

    Raises:
        TypeError: for anything but samplers.
        ValueError: if there is no sampler, or one keeps more than a point.
    """
    _check("cycle", samplers)
    check_truth("random_order", random_order)
    parts = tuple(OfPart(i, sampler.adaptation) for i, sampler in enumerate(samplers))
    kernel = Partial(_random_cycle if random_order else _cycle, _makers(samplers))
    return _of(samplers, "cycle", kernel, NoAdaptation() if random_order else Together(parts))


@recipe
def mix(*samplers: Sampler, weights: ArrayLike | None = None) -> Sampler:
    """One of the samplers in every iteration, chosen at random; they learn nothing and keep their initial θ.

    Args:
        samplers: recipes' results.
        weights: probabilities up to a factor, positive; equal by default. They cannot depend on the chain's state.

    Raises:
        TypeError: for anything but samplers.
        ValueError: if there is no sampler, one keeps more than a point, or the weights are not positive numbers, one
            for each sampler.
    """
    _check("mix", samplers)
    wanted = f"{len(samplers)} finite numbers above 0, one for each sampler"
    values = np.ones(len(samplers)) if weights is None else check_array("weights", weights, wanted)
    if values.shape != (len(samplers),) or not (values > 0).all():
        raise ValueError(f"weights must be {wanted}, got {shown(weights)}")
    kernel = Partial(_mix, _makers(samplers), jnp.asarray(values / values.sum(), dtype=float))
    return _of(samplers, "mix", kernel, NoAdaptation())


@recipe
def block(sampler: Sampler, indices: Sequence[int] | Sequence[str], *, takes_discrete: bool = False) -> Sampler:
    """A sampler of some coordinates, with the others held fixed; meant for a `cycle` that moves them all.

    Args:
        sampler: a recipe's result; it adapts as it does alone.
        indices: names of variables, such as ["mu", "tau"]; or indices into the flat position, in which the leaves of
            a position are concatenated.
        takes_discrete: whether coordinates outside the block may be whole numbers. Those inside may if the sampler
            takes them.

    Raises:
        TypeError: for anything but a sampler, or indices that are no sequence.
        ValueError: if the sampler keeps more than a point, or the indices are not distinct names, or distinct whole
            numbers of at least 0.
    """
    _check("block", (sampler,))
    check_truth("takes_discrete", takes_discrete)
    wanted = "names of variables, or different coordinates, counted from 0, at least one, such as [0, 2]"
    listed = isinstance(indices, Iterable) and not isinstance(indices, str | bytes | dict)
    if not listed or getattr(indices, "ndim", 1) == 0:
        raise TypeError(f"indices must be {wanted}, got {shown(indices)}")
    given = tuple(indices)
    names = tuple(name for name in given if isinstance(name, str))
    named = bool(names) and len(names) == len(given)
    chosen = names if named else tuple(check_whole("indices", i, 0) for i in given)
    if not chosen or len(set(chosen)) < len(chosen):
        raise ValueError(f"indices must be {wanted}, got {shown(indices)}")
    kernel = _NamedBlock(sampler.make_kernel, names) if named else Partial(_block, sampler.make_kernel, indices=chosen)
    discrete = sampler.takes_discrete or takes_discrete
    return _of((sampler,), "block", kernel, OfPart(0, sampler.adaptation), discrete)


def _check(name: str, samplers: tuple[Sampler, ...]) -> None:
    if not samplers:
        raise ValueError(f"{name}: give at least one sampler, such as rwm()")
    for sampler in samplers:
        if not isinstance(sampler, Sampler):
            raise TypeError(f"{name}: each part must be a sampler, such as gadabout.rwm(), got {shown(sampler)}")
        if not sampler.state_is_point:
            raise ValueError(f"{sampler.name} keeps more than a point between its moves, and cannot be a part")


def _of(
    samplers: tuple[Sampler, ...],
    name: str,
    kernel: Callable,
    adaptation: AbstractAdaptation,
    discrete: bool | None = None,
) -> Sampler:
    """A sampler made of samplers, with the longest of their warm-ups; exact if all of them are."""
    return Sampler(
        name,
        kernel,
        adaptation,
        num_warmup=max(sampler.num_warmup for sampler in samplers),
        takes_discrete=all(sampler.takes_discrete for sampler in samplers) if discrete is None else discrete,
        exact=all(sampler.exact for sampler in samplers),
        bias="; ".join(sampler.bias for sampler in samplers if sampler.bias),
    )


def _makers(samplers: tuple[Sampler, ...]) -> tuple:
    return tuple(sampler.make_kernel for sampler in samplers)


def _parts(makers, n, learned):
    return tuple(make_kernel(n, learned) for make_kernel in makers)


def _cycle(makers, n, learned):
    return Cycle(_parts(makers, n, learned))


def _random_cycle(makers, n, learned):
    return Cycle(_parts(makers, n, learned), random_order=True)


def _mix(makers, weights, n, learned):
    return Mix(_parts(makers, n, learned), weights)


def _block(make_kernel, n, learned, *, indices):
    return Block(make_kernel(len(indices), None if learned is None else learned.part(indices)), indices)


class _NamedBlock(AbstractForLayout):
    """A block of the coordinates of variables given by name."""

    make_kernel: Callable
    names: tuple[str, ...] = eqx.field(static=True)

    def for_layout(self, layout):
        if missing := [name for name in self.names if name not in layout.names]:
            there = ", ".join(map(repr, layout.names))
            raise ValueError(f"indices: there is no variable {missing[0]!r}; there are {there}")
        starts = np.cumsum([0, *layout.sizes])
        places = dict(zip(layout.names, zip(starts, layout.sizes, strict=False), strict=True))
        chosen = tuple(int(places[name][0]) + i for name in self.names for i in range(places[name][1]))
        return Partial(_block, for_layout(self.make_kernel, layout.part(chosen)), indices=chosen)

    def __call__(self, n, learned):
        raise ValueError(
            f"indices {list(self.names)} are names of variables, but positions here have none; use numbers"
        )
