"""What a kernel is: one transition that leaves the target invariant while θ stands still."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Self

import equinox as eqx
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from gadabout.target import Point, Target


class AbstractInfo(eqx.Module):
    """What every kernel can say of one transition; what more it has for an adaptation stands in its own class.

    A kernel that forgets one of them fails while it is traced. `statistics` holds those that only it knows, by their
    ArviZ names, and `gradient_evaluations` is given where their number differs from transition to transition.
    """

    lp: Float[Array, ""]
    acceptance_rate: Float[Array, ""]
    accepted: Bool[Array, ""]
    finite: Bool[Array, ""]
    statistics: dict[str, Array] = eqx.field(default_factory=dict, kw_only=True)
    gradient_evaluations: Int[Array, ""] | None = eqx.field(default=None, kw_only=True)

    @property
    def record(self) -> dict[str, Array]:
        """All that leaves the iteration, by ArviZ names."""
        common = {
            "lp": self.lp,
            "acceptance_rate": self.acceptance_rate,
            "accepted": self.accepted,
            "nonfinite": ~self.finite,
        }
        counted = self.gradient_evaluations
        return {**self.statistics, **common, **({} if counted is None else {"gradient_evaluations": counted})}


class Info(AbstractInfo):
    """A transition of which nothing is to be learned but what every kernel says."""


class MetropolisInfo(AbstractInfo):
    """A proposal and its judgement: the log acceptance ratio, y, ε, and the pullback of the log-ratio if it is wanted.

    The log-ratio is −∞ where the proposal was not `finite`.
    """

    log_ratio: Float[Array, ""]
    proposed: Point
    noise: PyTree
    pullback: Callable | None


class CompositeInfo(AbstractInfo):
    """The transitions of the parts of a kernel that is composed of others in a fixed order, for `OfPart`."""

    parts: tuple["Transition", ...] = ()


class Transition(eqx.Module):
    """One chain's state before and after a transition, with its info."""

    before: PyTree
    after: PyTree
    info: Any


class AbstractKernel(eqx.Module):
    """A transition of one chain. Its array leaves are its parameters θ; it does not know how they came to be."""

    @property
    @abstractmethod
    def order(self) -> int:
        """Derivatives of the log density that a transition uses (see `Target.at`)."""

    @abstractmethod
    def init(self, x: Float[Array, " n"], target: Target) -> PyTree:
        """The state of a chain that stands at x."""

    @abstractmethod
    def step(self, key: Key[Array, ""], state: PyTree, target: Target) -> tuple[PyTree, AbstractInfo]:
        """One transition; a rejected move returns the state it started from."""

    @abstractmethod
    def position(self, state: PyTree) -> Float[Array, " n"]:
        """What is stored of a state."""

    def point(self, state: PyTree) -> Point:
        """Position, log density and gradient of a state; raises TypeError where it holds more than a point."""
        if not isinstance(state, Point):
            raise TypeError(f"the state of {type(self).__name__} is more than a point")
        return state

    @property
    def uneven(self) -> bool:
        """Whether a transition's work depends on where the chain is: chains that go together wait for the slowest."""
        return False

    def rebase(self, state: PyTree) -> PyTree:
        """The state with whatever depends on θ renewed, called after θ changed."""
        return state

    @property
    def cached_by(self) -> PyTree:
        """That part of θ which `rebase` looks at: while it stands still, states need not be renewed."""
        return self

    @property
    def settles(self) -> bool:
        """Whether `settled` is another kernel."""
        return type(self).settled is not AbstractKernel.settled

    def settled(self, states: PyTree) -> Self:
        """The kernel that draws are made with, once θ stands still; `states` are stacked over chains."""
        return self

    def gradient_evaluations(self, learning: bool) -> int:
        """Evaluations of ∇ log π in one transition, those that a learning adaptation asks for included."""
        return min(self.order, 1)
