"""Stages of a run, which do pieces of work and hand over their results.

There are two families: stages that run a `Sampler` as a compiled loop (here), and those of the default, in NumPy on the
host (`gadabout.ensemble.stages`). The engine drives both through the same interface.
"""

from abc import abstractmethod
from typing import Any

import equinox as eqx
from jaxtyping import PyTree

from gadabout.sampler import Sampler
from gadabout.schedule.context import Context


class AbstractStage(eqx.Module):
    """A part of a run: host code, one bounded piece of work a call; the run can be stopped and stored after each.

    A stage has no state: only its progress and the number of iterations done change. `context` is the engine.
    """

    @property
    def samplers(self) -> tuple[Sampler, ...]:
        """The compiled samplers of the stage."""
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
        """Does one piece of work; returns the new progress and all iterations done."""

    @abstractmethod
    def end(self, context: Context, progress: PyTree) -> Any:
        """The handover to the next stage."""

    def form(self, context: Context) -> PyTree:
        """The shapes and types of its progress, into which a stored one is read; a host stage needs none."""
        raise NotImplementedError

    # for host stages; the runner does the same for compiled ones

    def memory(self, context: Context) -> tuple[int, str]:
        """Bytes that the stage holds at once, and their purpose in words."""
        return 0, ""

    @property
    def statistics(self) -> dict[str, type]:
        """The types of its statistics, recorded beside positions, by name; each is one number for each chain."""
        return {}

    def learned(self, progress: PyTree) -> dict[str, Any]:
        """The arrays learned so far, by name."""
        return {}

    def verdict(self, progress: PyTree) -> dict[str, Any]:
        """Diagnostics of the adaptation at the end of warm-up."""
        return {}


class Search(AbstractStage):
    """Searches for starts where the log density and its derivatives are finite; one iteration, no chain noise."""

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
    """A stage that runs one sampler, from the handover of the previous stage."""

    sampler: eqx.AbstractVar[Sampler]
    name: eqx.AbstractVar[str]
    """its name in the display of progress"""

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
        sampler: the sampler that runs and learns.
        share: its share of the run's `num_warmup` iterations.
        name: its name in the display of progress.
    """

    sampler: Sampler
    share: float = eqx.field(static=True, default=1.0)
    name: str = eqx.field(static=True, default="warmup")

    def length(self, context):
        return context.share_of_warmup(self)

    def advance(self, context, progress, done):
        return context.runner.learn(self.sampler, progress, self.name, done, self.length(context))


class Draw(AbstractRunning):
    """Makes the draws that are kept; θ is fixed, except for adaptations that continue (`ForEver`).

    Args:
        sampler: the sampler that draws; if the previous stage ran the same one, it continues from that state.
        name: its name in the display of progress.
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
