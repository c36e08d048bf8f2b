"""The inputs of stages: a context, which is the engine, and the handover from the previous stage."""

from typing import Any, Protocol

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Key, PyTree, UInt

from gadabout.density import AbstractDensity
from gadabout.sampler import Learned, Sampler, State
from gadabout.starts import Starts


class Handover(eqx.Module):
    """The data that one compiled stage hands over to the next: arrays only.

    Args:
        chain_keys: the key of each chain's noise, shape (num_chains,) or the shape that pools have.
        t: iterations since the run's start. It continues from stage to stage, so that no noise is used twice.
        positions: positions of chains, shape (num_chains, n); None before the search for starts, and if `pools` has
            them.
        learned: knowledge of the target, for kernels that begin; None if there is none.
        pools: the whole state of the sampler that ran last; a stage with the same sampler continues from it.
    """

    chain_keys: Key[Array, "..."]
    t: UInt[Array, ""]
    positions: Float[Array, "chains n"] | None = None
    learned: Learned | None = None
    pools: State | None = None


class Lengths(Protocol):
    """The lengths of a run."""

    @property
    def num_chains(self) -> int: ...

    @property
    def num_warmup(self) -> int: ...

    @property
    def num_draws(self) -> int: ...

    @property
    def thinning(self) -> int: ...


class CompiledRunner(Protocol):
    """Runs compiled samplers; a running sampler's state is a pytree of arrays, which is donated to the next piece."""

    def first(self) -> Handover:
        """The handover to the first stage."""
        ...

    def search(self, handover: Handover) -> Handover:
        """The handover with positions at which the log density and its derivatives are finite."""
        ...

    def start(self, sampler: Sampler, handover: Handover) -> Any:
        """The state of a sampler at its beginning."""
        ...

    def check_memory(self, sampler: Sampler, run: Any, warmup: bool) -> None:
        """Raises MemoryError if the records of a stage do not fit into memory."""
        ...

    def form(self, sampler: Sampler) -> Any:
        """The shapes and types of a sampler's state."""
        ...

    def learn(self, sampler: Sampler, run: Any, stage: str, done: int, total: int) -> tuple[Any, int]:
        """Makes the next iterations of warm-up; returns the state and all iterations done."""
        ...

    def draw(self, sampler: Sampler, run: Any, stage: str, done: int, total: int) -> tuple[Any, int]:
        """Makes the next iterations that are kept; returns the state and their number."""
        ...

    def settle(self, sampler: Sampler, run: Any) -> Any:
        """The state with the kernels that make the draws."""
        ...

    def hand_over(self, run: Any) -> Handover:
        """The handover to the next stage."""
        ...


class Context(Protocol):
    """The part of the engine that stages use."""

    evidence: dict[str, Any]
    """evidence of how the draws were made, for the result"""
    progress: PyTree
    """progress of the current stage"""
    done: int
    """iterations of the current stage"""
    learned: Learned | None
    """knowledge of the target before the run"""
    starts: Starts
    rng: np.random.Generator

    @property
    def settings(self) -> Lengths: ...

    @property
    def density(self) -> AbstractDensity: ...

    @property
    def runner(self) -> CompiledRunner: ...

    def share_of_warmup(self, stage: Any) -> int:
        """Iterations of a compiled stage of warm-up."""
        ...

    def started(self, positions: Any, values: Any = None, gradients: Any = None, tries: Any = None) -> None:
        """Passes on the start positions, and log π and its gradient there."""
        ...

    def note(self, evidence: dict[str, Any]) -> None:
        """Adds to the evidence."""
        ...

    def piece(self, done: int, total: int, warmup: bool) -> int:
        """Iterations of a host stage's next piece of work, after `done` of `total`."""
        ...

    def keep(self, name: str, draws: dict[str, np.ndarray], done: int, total: int, warmup: bool, began: float) -> None:
        """Stores draws (t, chains, ...) of a host stage that come after `done`, made since `began`."""
        ...

    def compiled(self) -> None:
        """Counts the time up to now as compilation."""
        ...
