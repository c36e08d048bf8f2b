"""What a run will run is compiled while it is on its way there: most of what a new process waits for."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import jax

from gadabout.driver import aside, kept, loop
from gadabout.driver.programs import blank, drop_traced, told_before
from gadabout.driver.services import Services
from gadabout.driver.skeleton import Skeleton
from gadabout.garbage import uncollected
from gadabout.sampler import Sampler
from gadabout.schedule import Chosen, Descend, Draw, Judge, Learn, Search, Sift


class Foresight:
    """Compiles the programs of a run on one device before it needs them, side by side in other threads.

    What is wrong with a log density is said where the run calls it, so that nothing is said here.
    """

    def __init__(self, services: Services):
        self.services = services
        self.possible = services.settings.mesh is None and services.pipeline.feed is None
        self.likely: int | None = None

    def begin(self) -> None:
        """The first programs, and those of what an earlier process chose."""
        services, stages = self.services, self.services.plan.stages
        first = next(i for i, stage in enumerate(stages) if not isinstance(stage, Search | Descend | Sift))
        if not self.possible or not isinstance(stages[first], Learn | Draw):
            return
        fresh = services.learned is None
        services.known = told_before(services.target, services.plan, services.settings.num_chains, fresh)
        if services.known:
            return
        drop_traced()
        skeleton = Skeleton(services)
        with suppress(Exception), uncollected():
            for stage in reversed(stages[:first]):  # a descent takes longer to compile than the search before it
                if isinstance(stage, Descend) and fresh:
                    skeleton.descend_ahead(stage.factor)
                if isinstance(stage, Search):
                    skeleton.search_ahead()
            self._stage(first, skeleton, compiled=True)
            if before := kept.recall(name) if (name := self._name_of_choice()) else None:
                self._stages(before[0], compiled=True)
            else:
                likely = (stage.likely(services.starts.layout.dim) for stage in stages[first:])
                self.likely = next((choice for choice in likely if choice is not None), None)

    def meanwhile(self) -> None:
        """Traces what is likely chosen: XLA begins a program with a thread's work, and nobody needs the other core."""
        choice, self.likely = self.likely, None
        if choice is not None:
            with suppress(Exception), uncollected():
                self._stages(choice, compiled=False)

    def chosen(self, choice: int) -> None:
        """The programs of what was chosen, which is kept for other processes."""
        if self.services.known or not self.possible:
            return
        with suppress(Exception):
            self._stages(choice, compiled=True)
        if name := self._name_of_choice():
            kept.remember(name, (choice,))

    def compiling(self, index: int, run: loop.Run, choice: int, compiled: bool = True) -> list[Any]:
        """The programs of a stage, and of the one after it where it has the same sampler, for a run like this one.

        Where something was chosen, and compiled, or only traced.
        """
        services = self.services
        stage = services.acting(index, choice)
        sampler, compiling, following = stage.samplers[0], [], stage
        if isinstance(stage, Learn):
            following = services.acting(index + 1, choice)
            compiling.append(self._chunk(sampler, run, compiled, adapt=True, warmup=True))
            if compiled and sampler.adaptation.finishes and not services.pipeline.within(sampler):
                ending = sampler.adaptation.ending(1, 1)
                compiling.append(lambda: loop.end_window.ahead(sampler, services.gathered(run), ending))
        if isinstance(following, Judge):
            compiling.append(lambda: aside.look_ahead(services, sampler, run))
            compiling.append(lambda: aside.seen_ahead(services, following, run))
        elif following is stage or following.samplers[0] is sampler:
            drawing, adapt = services.drawing(sampler), sampler.adaptation.continues
            compiling.append(self._chunk(drawing, run, compiled, adapt=adapt, warmup=False))
        return [] if services.known else [asked() for asked in compiling]

    def _chunk(self, sampler: Sampler, run: loop.Run, compiled: bool, *, adapt: bool, warmup: bool) -> Callable:
        """What compiles, or traces, a chunk, once its records are known to fit into memory."""
        services, records = self.services, self.services.records
        recorded = records.shapes(sampler, services.target, run, adapt, warmup)
        if warmup:
            records.check_memory(recorded, services.settings.num_warmup // services.thinning, "num_warmup")
        else:
            records.check_memory(recorded, services.num_draws, "num_draws")
        buffered = lambda: tuple(records.buffered(sampler, services.target, run, adapt, warmup))
        return lambda: services.pipeline.ahead(sampler, run, adapt, buffered(), compiled)

    def _stages(self, choice: int, compiled: bool) -> None:
        """The programs of all that a choice stands for."""
        skeleton = Skeleton(self.services)
        skeleton.choice = skeleton.known_choice = choice
        for index, stage in enumerate(self.services.plan.stages):
            if isinstance(stage, Chosen):
                self._stage(index, skeleton, compiled)

    def _stage(self, index: int, skeleton: Skeleton, compiled: bool) -> None:
        """The programs of a stage, if it runs a sampler, its start among them."""
        services = self.services
        warm, run = (jax.tree.map(blank, told(index)) for told in (skeleton.warm_of, skeleton.progress_of))
        if not isinstance(run, loop.Run):
            return
        if warm.pools is None:
            begun = loop.start.ahead if compiled else loop.start.trace
            begun(services.acting(index, skeleton.choice).samplers[0], services.target, warm, services.settings.pooled)
        self.compiling(index, run, skeleton.choice, compiled)

    def _name_of_choice(self) -> str | None:
        """Under which it is kept what was chosen for a model and a plan."""
        services = self.services
        known = services.target, services.plan, services.settings.num_chains
        return kept.name_of(("choice",), known) if kept.keeps() else None
