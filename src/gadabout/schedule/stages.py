"""What a run does: stages that make pieces of work, and hand over what they learned.

There are two families: stages that run a `Sampler` as a compiled loop (here), and those of the default, which are NumPy
on the host (`gadabout.ensemble.stages`). The engine knows neither.
"""

from abc import abstractmethod
from typing import Any

import equinox as eqx
from jaxtyping import PyTree

from gadabout.sampler import Sampler
from gadabout.schedule.context import Context


class AbstractStage(eqx.Module):
    """A part of a run: host code, one bounded piece of work a call; the run can be stopped and stored after each.

    A stage keeps nothing: all that changes is its progress, and the number of iterations done. `context` is the engine.
    """

    @property
    def samplers(self) -> tuple[Sampler, ...]:
        """The compiled samplers that run in it."""
        return ()

    @property
    def on_host(self) -> bool:
        """Whether its progress is a dict of NumPy arrays, of any shape, by name; else it is a pytree of JAX arrays."""
        return False

    @property
    def draws(self) -> bool:
        """Whether it makes the draws that are kept."""
        return False

    @abstractmethod
    def begin(self, context: Context, handover: Any) -> PyTree:
        """The progress before the first piece of work."""

    @abstractmethod
    def length(self, context: Context) -> int:
        """The number of iterations after which the stage is over."""

    @abstractmethod
    def advance(self, context: Context, progress: PyTree, done: int) -> tuple[PyTree, int]:
        """One piece of work: the new progress, and the iterations done with it."""

    @abstractmethod
    def end(self, context: Context, progress: PyTree) -> Any:
        """What is handed to the next stage."""

    def form(self, context: Context) -> PyTree:
        """The shapes and types of its progress, into which a stored one is read; a host stage needs none."""
        raise NotImplementedError

    # of host stages; the runner knows the same of compiled ones

    def memory(self, context: Context) -> tuple[int, str]:
        """Bytes that it holds at once, and what they are for."""
        return 0, ""

    @property
    def statistics(self) -> dict[str, type]:
        """What it records beside positions, a number of each chain: its type by name."""
        return {}

    def learned(self, progress: PyTree) -> dict[str, Any]:
        """What is learned so far, arrays by name."""
        return {}

    def verdict(self, progress: PyTree) -> dict[str, Any]:
        """What the adaptation says of its end."""
        return {}


class Search(AbstractStage):
    """Searches for starts where the log density and its derivatives are finite; one iteration, no noise of t."""

    def begin(self, context, handover):
        return handover

    def length(self, context):
        return 1

    def advance(self, context, progress, done):
        return self.end(context, progress), 1

    def end(self, context, progress):
        if progress.positions is None:
            progress = context.runner.search(progress)
            context.started(progress.positions)
        return progress

    def form(self, context):
        return context.runner.first()


class AbstractRunning(AbstractStage):
    """A stage that runs one sampler, from what the stage before hands over."""

    sampler: eqx.AbstractVar[Sampler]
    name: eqx.AbstractVar[str]
    """what it is called in the display of progress"""

    @property
    def samplers(self):
        return (self.sampler,)

    def begin(self, context, handover):
        run = context.runner.start(self.sampler, handover)
        context.runner.check_memory(self.sampler, run, warmup=not self.draws)
        return run

    def end(self, context, progress):
        return context.runner.hand_over(progress)

    def form(self, context):
        return context.runner.form(self.sampler)


class Learn(AbstractRunning):
    """Runs a sampler while its θ is learned; its records are kept as warm-up.

    Args:
        sampler: what runs and learns.
        share: its share of the run's `num_warmup` iterations.
        name: what it is called in the display of progress.
    """

    sampler: Sampler
    share: float = eqx.field(static=True, default=1.0)
    name: str = eqx.field(static=True, default="warmup")

    def length(self, context):
        return context.share_of_warmup(self)

    def advance(self, context, progress, done):
        return context.runner.learn(self.sampler, progress, self.name, done, self.length(context))


class Draw(AbstractRunning):
    """Makes the draws that are kept, with θ standing still but for adaptations that go on `ForEver`.

    Args:
        sampler: what draws; where the stage before ran the same, this one goes on from its state.
        name: what it is called in the display of progress.
    """

    sampler: Sampler
    name: str = eqx.field(static=True, default="sampling")

    @property
    def draws(self):
        return True

    def begin(self, context, handover):
        return context.runner.settle(self.sampler, super().begin(context, handover))

    def length(self, context):
        return context.settings.num_draws * context.settings.thinning

    def advance(self, context, progress, done):
        run, made = context.runner.draw(self.sampler, progress, self.name, done, self.length(context))
        return run, done + made
