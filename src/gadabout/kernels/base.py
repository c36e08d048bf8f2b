"""What a kernel is: one transition that leaves the target invariant while θ stands still."""

from abc import abstractmethod
from collections.abc import Callable

import equinox as eqx
from jaxtyping import Array, Bool, Float, Key, PyTree

from gadabout.target import Point, Target


class Info(eqx.Module):
    """What one transition leaves behind for an adaptation to learn from; only `record` leaves the iteration."""

    log_ratio: Float[Array, ""]
    acceptance_rate: Float[Array, ""]
    accepted: Bool[Array, ""]
    finite: Bool[Array, ""]
    proposed: Point
    noise: PyTree
    pullback: Callable | None
    record: dict[str, Array]
    parts: tuple["Transition", ...] = ()
    """the transitions of the parts of a kernel that is composed of others in a fixed order, for `OfPart`"""


class Transition(eqx.Module):
    """One chain's state before and after a transition, with its `Info`."""

    before: PyTree
    after: PyTree
    info: Info


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
    def step(self, key: Key[Array, ""], state: PyTree, target: Target) -> tuple[PyTree, Info]:
        """One transition; a rejected move returns the state it started from."""

    @abstractmethod
    def position(self, state: PyTree) -> Float[Array, " n"]:
        """What is stored of a state."""

    def rebase(self, state: PyTree) -> PyTree:
        """The state with whatever depends on θ renewed, called after θ changed."""
        return state

    def gradient_evaluations(self, learning: bool) -> int:
        """Evaluations of ∇ log π in one transition, those that a learning adaptation asks for included."""
        return min(self.order, 1)
