"""What stages are given: a context, which the engine is, and what the stage before hands over."""

from typing import Any, Protocol

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Key, PyTree, UInt

from gadabout.density import AbstractDensity
from gadabout.sampler import Learned, Sampler, State
from gadabout.starts import Starts


class Handover(eqx.Module):
    """What one compiled stage hands to the next: arrays alone.

    Args:
        chain_keys: the key of each chain's noise, shape (num_chains,) or as pools have them.
        t: iterations since the run's start. It goes on from stage to stage, so that no noise is used twice.
        positions: where chains stand, shape (num_chains, n); None before the search for starts, and where `pools` say.
        learned: what is known of the target, for kernels that begin; None if nothing is.
        pools: the whole state of the sampler that ran last, which a stage with the same sampler goes on with.
    """

    chain_keys: Key[Array, "..."]
    t: UInt[Array, ""]
    positions: Float[Array, "chains n"] | None = None
    learned: Learned | None = None
    pools: State | None = None


class Lengths(Protocol):
    """How long a run is."""

    @property
    def num_chains(self) -> int: ...

    @property
    def num_warmup(self) -> int: ...

    @property
    def num_draws(self) -> int: ...

    @property
    def thinning(self) -> int: ...


class CompiledRunner(Protocol):
    """Runs compiled samplers; the state of one that runs is a pytree of arrays, which is donated to the next piece."""

    def first(self) -> Handover:
        """What the first stage begins with."""
        ...

    def search(self, handover: Handover) -> Handover:
        """The handover with positions at which the log density and its derivatives are finite."""
        ...

    def start(self, sampler: Sampler, handover: Handover) -> Any:
        """The state of a sampler that begins."""
        ...

    def check_memory(self, sampler: Sampler, run: Any, warmup: bool) -> None:
        """Raises MemoryError where the records of a stage would not fit into memory."""
        ...

    def form(self, sampler: Sampler) -> Any:
        """The shapes and types of a sampler's state."""
        ...

    def learn(self, sampler: Sampler, run: Any, stage: str, done: int, total: int) -> tuple[Any, int]:
        """The next iterations of warm-up: the state, and all iterations done."""
        ...

    def draw(self, sampler: Sampler, run: Any, stage: str, done: int, total: int) -> tuple[Any, int]:
        """The next iterations that are kept: the state, and their number."""
        ...

    def settle(self, sampler: Sampler, run: Any) -> Any:
        """The state with the kernels that draws are made with."""
        ...

    def hand_over(self, run: Any) -> Handover:
        """What the next stage begins with."""
        ...


class Context(Protocol):
    """What stages use of the engine."""

    evidence: dict[str, Any]
    """what the result says of how the draws were made"""
    progress: PyTree
    """of the stage under way"""
    done: int
    """iterations of it"""
    learned: Learned | None
    """what is known of the target before the run"""
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
        """Registers where chains start, and log π and its gradient there."""
        ...

    def note(self, evidence: dict[str, Any]) -> None:
        """Adds to the evidence."""
        ...

    def piece(self, done: int, total: int, warmup: bool) -> int:
        """Iterations of a host stage's next piece of work, of which `done` of `total` are made."""
        ...

    def keep(self, name: str, draws: dict[str, np.ndarray], done: int, total: int, warmup: bool, began: float) -> None:
        """Stores draws (t, chains, ...) of a host stage that come after `done`, made since `began`."""
        ...

    def compiled(self) -> None:
        """Counts the time up to now as compilation."""
        ...
