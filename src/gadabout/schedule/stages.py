"""What a run does: stages that act on an engine and hand over what they learned."""

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import equinox as eqx
from jaxtyping import Array, Float, Key, PyTree, UInt

from gadabout.factors import FactorChoice
from gadabout.sampler import Learned, Sampler, State


class Warm(eqx.Module):
    """What one stage hands to the next: arrays alone.

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


class AbstractStage(eqx.Module):
    """A part of a run: host code, one bounded piece of work a call; the run can be stopped and stored after each.

    A stage keeps nothing: all that changes is its progress, a pytree of arrays, and the number of iterations done.
    `engine` runs the programs and keeps the records; the same code called with an engine that only knows shapes gives
    the skeleton into which a stored progress is read.
    """

    if not TYPE_CHECKING:
        __getattribute__ = object.__getattribute__  # no program is given its methods, which equinox makes into pytrees

    @property
    def alternatives(self) -> "tuple[AbstractStage, ...]":
        """The stages of which one acts: it alone, unless that depends on what was chosen."""
        return (self,)

    @property
    def samplers(self) -> tuple[Sampler, ...]:
        """The samplers that may run in it."""
        return ()

    def likely(self, n: int) -> int | None:
        """Which of the candidates of stages after it acts, as far as that can be told from n coordinates."""
        return None

    def looks_at(self, engine: Any) -> int:
        """The number of iterations whose draws it holds at once, beside those that are kept."""
        return 0

    @abstractmethod
    def begin(self, engine: Any, warm: Warm) -> PyTree:
        """The progress before the first piece of work."""

    @abstractmethod
    def length(self, engine: Any) -> int:
        """The number of iterations after which the stage is over."""

    @abstractmethod
    def advance(self, engine: Any, progress: PyTree, done: int) -> tuple[PyTree, int]:
        """One piece of work: the new progress, and the iterations done with it."""

    @abstractmethod
    def end(self, engine: Any, progress: PyTree) -> Warm:
        """What is handed to the next stage."""


class Search(AbstractStage):
    """Looks for places to start where the log density and its derivatives are finite; one iteration, no noise of t."""

    def begin(self, engine, warm):
        return warm

    def length(self, engine):
        return 1

    def advance(self, engine, progress, done):
        return engine.search(progress), 1

    def end(self, engine, progress):
        return progress if progress.positions is not None else engine.search(progress)


class Descend(AbstractStage):
    """Leads every chain from its start to the typical set, and fits a first Gaussian on the way; no noise of t.

    What was learned before, from another run, stands in for it.

    Args:
        factor: the kind of factor that is fitted; "auto" is "dense" up to 300 coordinates, and up to 2,000 where a
            gradient takes as many operations as the covariance has entries.
    """

    factor: FactorChoice = eqx.field(static=True, default="auto")

    def begin(self, engine, warm):
        return warm

    def length(self, engine):
        return 1

    def advance(self, engine, progress, done):
        return self.end(engine, progress), 1

    def end(self, engine, progress):
        return engine.descend(progress, self.factor) if progress.learned is None else progress


class Rest(AbstractStage):
    """Does nothing: the alternative to a stage that is not always needed (see `Chosen`)."""

    def begin(self, engine, warm):
        return warm

    def length(self, engine):
        return 0

    def advance(self, engine, progress, done):
        return progress, done

    def end(self, engine, progress):
        return progress


class AbstractRunning(AbstractStage):
    """A stage that runs one sampler, from what the stage before hands over."""

    sampler: eqx.AbstractVar[Sampler]
    name: eqx.AbstractVar[str]
    """what it is called in the display of progress"""

    @property
    def samplers(self):
        return (self.sampler,)

    def begin(self, engine, warm):
        return engine.start(self.sampler, warm)

    def end(self, engine, progress):
        return engine.hand_over(progress)


class AbstractWarmup(AbstractRunning):
    """A part of the run's `num_warmup` iterations, whose records are kept as warm-up."""

    share: eqx.AbstractVar[float]

    def length(self, engine):
        return engine.share_of_warmup(self)


class Learn(AbstractWarmup):
    """Runs a sampler while its θ is learned; its records are kept as warm-up. It ends early where θ has settled.

    Args:
        sampler: what runs and learns.
        share: its share of the run's `num_warmup` iterations.
        name: what it is called in the display of progress.
    """

    sampler: Sampler
    share: float = eqx.field(static=True, default=1.0)
    name: str = eqx.field(static=True, default="warmup")

    def advance(self, engine, progress, done):
        return engine.learn(self.sampler, progress, self.name, done, self.length(engine))


class Hold(AbstractWarmup):
    """Runs a sampler as warm-up with θ standing still."""

    sampler: Sampler
    share: float = eqx.field(static=True, default=1.0)
    name: str = eqx.field(static=True, default="hold")

    def advance(self, engine, progress, done):
        total = self.length(engine)
        run, made = engine.chunk(self.sampler, progress, self.name, done, total, total, adapt=False, warmup=True)
        return run, done + made


class Draw(AbstractRunning):
    """Makes the draws that are kept, with θ standing still but for adaptations that go on `ForEver`.

    Args:
        sampler: what draws; where the stage before ran the same, this one goes on from its state.
        name: what it is called in the display of progress.
    """

    sampler: Sampler
    name: str = eqx.field(static=True, default="sampling")

    def begin(self, engine, warm):
        return engine.settle(self.sampler, super().begin(engine, warm))

    def length(self, engine):
        return engine.num_draws * engine.thinning

    def advance(self, engine, progress, done):
        total, adapt = self.length(engine), self.sampler.adaptation.continues
        sampler = engine.drawing(self.sampler)
        run, made = engine.chunk(sampler, progress, self.name, done, total, total, adapt=adapt, warmup=False)
        return run, done + made
