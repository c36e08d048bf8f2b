"""Base classes of kernels: transitions that leave the target invariant for a fixed θ."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Self

import equinox as eqx
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from gadabout.target import Point, Target


class AbstractInfo(eqx.Module):
    """The results of one transition that every kernel provides; subclasses add fields for adaptations.

    A kernel that omits one of them fails during tracing. `statistics` holds those specific to the kernel, by their
    ArviZ names. `gradient_evaluations` is given if their number differs from transition to transition.
    """

    lp: Float[Array, ""]
    acceptance_rate: Float[Array, ""]
    accepted: Bool[Array, ""]
    finite: Bool[Array, ""]
    statistics: dict[str, Array] = eqx.field(default_factory=dict, kw_only=True)
    gradient_evaluations: Int[Array, ""] | None = eqx.field(default=None, kw_only=True)

    @property
    def record(self) -> dict[str, Array]:
        """All statistics that the iteration returns, by ArviZ names."""
        common = {
            "lp": self.lp,
            "acceptance_rate": self.acceptance_rate,
            "accepted": self.accepted,
            "nonfinite": ~self.finite,
        }
        counted = self.gradient_evaluations
        return {**self.statistics, **common, **({} if counted is None else {"gradient_evaluations": counted})}


class Info(AbstractInfo):
    """The results of a transition, without fields for adaptations."""


class MetropolisInfo(AbstractInfo):
    """The results of a proposal, with its log acceptance ratio, y, ε, and the pullback of the log-ratio if requested.

    The log-ratio is −∞ if the proposal is not `finite`.
    """

    log_ratio: Float[Array, ""]
    proposed: Point
    noise: PyTree
    pullback: Callable | None


class CompositeInfo(AbstractInfo):
    """The results of a composed kernel, with the transitions of its parts if their order is fixed, for `OfPart`."""

    parts: tuple["Transition", ...] = ()


class Transition(eqx.Module):
    """One chain's state before and after a transition, with its info."""

    before: PyTree
    after: PyTree
    info: Any


class AbstractKernel(eqx.Module):
    """A transition of one chain. Its array leaves are its parameters θ, however they were obtained."""

    @property
    @abstractmethod
    def order(self) -> int:
        """The order of the log density's derivatives that a transition uses (see `Target.at`)."""

    @abstractmethod
    def init(self, x: Float[Array, " n"], target: Target) -> PyTree:
        """The state of a chain at x."""

    @abstractmethod
    def step(self, key: Key[Array, ""], state: PyTree, target: Target) -> tuple[PyTree, AbstractInfo]:
        """One transition; a rejected move returns the state it started from."""

    @abstractmethod
    def position(self, state: PyTree) -> Float[Array, " n"]:
        """The flat position of a state, which is stored as the draw."""

    def point(self, state: PyTree) -> Point:
        """Position, log density and gradient of a state; raises TypeError if the state is not a `Point`."""
        if not isinstance(state, Point):
            raise TypeError(f"the state of {type(self).__name__} is more than a point")
        return state

    @property
    def uneven(self) -> bool:
        """Whether a transition's work depends on the state, so that chains run together wait for the slowest."""
        return False

    def rebase(self, state: PyTree) -> PyTree:
        """The state with everything that depends on θ recomputed; called after θ changes."""
        return state

    @property
    def cached_by(self) -> PyTree:
        """The part of θ that `rebase` uses; while it is unchanged, states need no `rebase`."""
        return self

    @property
    def settles(self) -> bool:
        """Whether `settled` returns another kernel."""
        return type(self).settled is not AbstractKernel.settled

    def settled(self, states: PyTree) -> Self:
        """The kernel that makes the draws, once θ is fixed; `states` are stacked over chains."""
        return self

    def gradient_evaluations(self, learning: bool) -> int:
        """Evaluations of ∇ log π in one transition, including those for an adaptation if `learning`."""
        return min(self.order, 1)
