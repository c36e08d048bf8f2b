"""The engine of a run: it carries out a plan piece by piece, and can be stopped and stored between two pieces."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from gadabout.calls import last_line, place_of
from gadabout.density import AbstractDensity, density_for, raised_by_density
from gadabout.driver import devices, limits, loop
from gadabout.driver.checkpoint import Checkpoint, CheckpointError, Cursor, take
from gadabout.driver.chunk import Pipeline, Segment, Settings
from gadabout.driver.display import Progress
from gadabout.driver.records import Records
from gadabout.driver.runner import Runner, log_densities
from gadabout.driver.stopping import Completed, Ending, Failed, Interrupted
from gadabout.minibatch import AbstractFeed
from gadabout.model import AbstractModel
from gadabout.sampler import Learned, Sampler
from gadabout.schedule import AbstractStage, Learn, Plan, lengths
from gadabout.starts import Found, Starts, check_found


class Engine:
    """Carries out a plan, stores its records, and can stop and continue; it is the `context` of its stages.

    Args:
        model: the model that is sampled, laid out.
        plan: the stages.
        settings: lengths, number of chains, devices.
        seed: source of all randomness of the run but that of batches.
        records: which records of the run are stored, and where.
        starts: the possible starts of chains.
        learned: knowledge of the target before the run.
        observers: called with a `Progress` after every chunk.
        interrupted: called before every piece of work; returns whether to stop.
        began: `time.perf_counter()` at the start of the call whose compile time is accounted for.
        feed: the source of batches, one for each iteration, if there is one.
    """

    def __init__(
        self,
        model: AbstractModel,
        plan: Plan,
        settings: Settings,
        seed: int,
        records: Records,
        starts: Starts,
        *,
        learned: Learned | None = None,
        observers: Sequence[Callable[[Progress], object]] = (),
        interrupted: Callable[[], bool] = lambda: False,
        began: float | None = None,
        feed: AbstractFeed | None = None,
    ):
        self.plan, self.settings, self.records, self.starts, self.seed = plan, settings, records, starts, seed
        self.model, self.learned, self.interrupted, self.feed = model, learned, interrupted, feed
        began = time.perf_counter() if began is None else began
        self.pipeline = Pipeline(settings, records, observers, began)
        self.stage, self.done = 0, 0
        self.evidence: dict[str, Any] = {}
        self.progress: PyTree = None
        self._density: AbstractDensity | None = None
        self._runner: Runner | None = None
        self.rng = np.random.Generator(np.random.Philox(np.random.SeedSequence(seed)))

    @property
    def density(self) -> AbstractDensity:
        """The density that host stages evaluate, traced and compiled from its first use on.

        Raises TypeError or ValueError, with the remedy, for a log density that cannot be evaluated or differentiated.
        """
        if self._density is None:
            chains, mesh, block = self.settings.num_chains, self.settings.mesh, self.settings.chain_block
            self._density = density_for(self.model.target, self.starts.layout, chains, mesh, block)
        return self._density

    @property
    def runner(self) -> Runner:
        """The runner of compiled stages, made at its first use."""
        if self._runner is None:
            self._runner = Runner(
                self.plan, self.model.target, self.settings, self.records, self.starts, self.pipeline,
                self.seed, self.learned, self.feed,
            )  # fmt: skip
        return self._runner

    def compile(self) -> None:
        """Begins to compile, in threads, the density of host stages; raises MemoryError for too large a plan."""
        limits.check_plan(self, self.plan, self.records)
        if self.plan.on_host:
            _ = self.density
        else:
            limits.check_matrices(self, self.plan, self.runner.kernels.sizes)

    def drive(self, checkpoint: Checkpoint | None = None) -> Ending:
        """Carries out the plan: from its beginning, from a checkpoint, or from where it was stopped."""
        with devices.one_thread():
            try:
                self._begin(checkpoint)
                return self._go_on()
            except Exception as error:
                if not raised_by_density(error):
                    raise
                return self._ended_by(error)

    def _ended_by(self, error: Exception) -> Failed:
        """The ending after an error of the density; iterations made before are kept.

        If there are none, the error is raised, as a ValueError in one line if the user's function raised it.
        """
        text = f"logdensity failed: {last_line(error)}{place_of(error)}"
        if not self.pipeline.iterations:
            own = "\n" not in str(error) and isinstance(error, TypeError | ValueError) and not place_of(error)
            if own:
                raise error
            remedy = "it must return log π at every position that chains may reach, −∞ where the density is zero"
            raise ValueError(f"{text}; {remedy}") from error
        self.pipeline.abandon()
        self.pipeline.fail(text, error)
        self.progress = None
        return Failed(text)

    def _begin(self, checkpoint: Checkpoint | None) -> None:
        """Sets the run to a checkpoint if one is given, else to its beginning if it is not in progress."""
        if checkpoint is not None:
            self._restore(checkpoint)
        elif self.progress is None:
            self.compile()
            first = self.learned if self.plan.on_host else self.runner.first()
            self.progress = self.plan.stages[0].begin(self, first)

    def _go_on(self) -> Ending:
        while True:
            stage = self.plan.stages[self.stage]
            self._commit()
            self.pipeline.clock("compile")
            while self.done < stage.length(self):
                self.pipeline.wait()
                stop, failed, due = self.pipeline.agreed(self.interrupted())
                if (ending := self._reason_to_end(stop, failed)) is not None:
                    if not isinstance(ending, Failed):
                        self._commit()
                    return ending
                if due and stage.on_host and self.done:
                    self._commit()
                snapshot = self.checkpoint() if due and not stage.on_host else None
                self.progress, self.done = stage.advance(self, self.progress, self.done)
                if stage.on_host:
                    self.pipeline.clock("sampling" if stage.draws else "warmup")
                if snapshot is not None:  # the records made before it are stored, and accounted for, by now
                    self._commit(replace(snapshot, account=self.pipeline.account))
            self.pipeline.store()
            if self.stage + 1 == len(self.plan.stages):
                break
            handover = stage.end(self, self.progress)
            self.stage, self.done = self.stage + 1, 0
            self.progress = self.plan.stages[self.stage].begin(self, handover)
        self._commit()
        return self.pipeline.failed() or Completed()

    def _commit(self, checkpoint: Checkpoint | None = None) -> None:
        """Passes a checkpoint to a durable sink, by default of the present run, with all its records stored."""
        if self.records.sink.durable:
            taken = checkpoint or self.checkpoint()
            if self.pipeline.failure is None:
                self.pipeline.guarded(lambda: self.records.sink.commit(taken))

    def checkpoint(self) -> Checkpoint:
        """A checkpoint of the run between two pieces of work, in copies."""
        cursor = Cursor(self.stage, self.done, self.pipeline.t, dict(self.evidence))
        if self.plan.on_host:
            rng, counts = self.rng.bit_generator.state, self.density.counts
            progress = {"progress": self.progress, "rng": rng, "counts": counts}
        else:
            progress = self.runner.gathered(self.progress)
        return take(progress, cursor, self.pipeline.account, self.fingerprint)

    @property
    def fingerprint(self) -> str:
        """The text that a checkpoint must share with the run that continues from it."""
        names, s = "+".join(type(stage).__name__ for stage in self.plan.stages), self.settings
        return f"{self.plan.name} ({names}), {s.num_chains} chains, {s.num_warmup} of warm-up, thinning {s.thinning}"

    def _restore(self, checkpoint: Checkpoint) -> None:
        """Sets the run to a checkpoint; raises CheckpointError for one of another run."""
        if checkpoint.fingerprint != self.fingerprint:
            raise CheckpointError(f"the checkpoint is of {checkpoint.fingerprint}, this run of {self.fingerprint}")
        cursor = checkpoint.cursor
        if self.feed is not None:
            self.feed.go_on(cursor.t)
        self.pipeline.restore(cursor.t, checkpoint.account)
        self.stage, self.done, self.evidence = cursor.stage, cursor.done, dict(cursor.evidence)
        stage = self.plan.stages[cursor.stage]
        if stage.on_host:
            stored = checkpoint.nested()
            self.progress, self.rng.bit_generator.state = stored["progress"], stored["rng"]
            self.density.counts = stored["counts"]
            return
        progress = checkpoint.progress(stage.form(self))
        self.progress = self.runner.lay(progress) if isinstance(progress, loop.Run) else progress

    def _reason_to_end(self, stop: bool, failed: bool) -> Ending | None:
        """The reason to end the run here, with all records stored; None if it continues."""
        every = self.settings.iterations_between_rules
        evaluate = every and self.done and self.stage + 1 == len(self.plan.stages) and self.done % every == 0
        if not (stop or evaluate or failed):
            return None
        self.pipeline.store()
        stopped = Interrupted() if stop else None
        return self.pipeline.failed() or stopped or self.pipeline.satisfied(self.done)

    # called by stages

    def share_of_warmup(self, stage: AbstractStage) -> int:
        """Iterations of a compiled stage of warm-up."""
        warm = [each for each in self.plan.stages if isinstance(each, Learn)]
        each = lengths([one.share for one in warm], self.settings.num_warmup)
        return next(length for one, length in zip(warm, each, strict=True) if one is stage)

    def started(self, positions: Any, values: Any = None, gradients: Any = None, tries: Any = None) -> None:
        """Passes the start positions, and log π and its gradient there, to the sink.

        Raises ValueError if values or gradients are not finite, OSError if draws need more disk space than is free.
        """
        if gradients is not None:
            finite = np.isfinite(gradients)
            check_found(Found(positions, values, finite, finite, tries), self.starts.layout, 1)
        sink = self.records.sink
        if not sink.durable:
            return
        if values is None:
            order = max(self.runner.kernels.derivatives)
            values, gradients = log_densities(self.runner.target, positions, order)
        start = (np.asarray(positions), np.asarray(values), None if gradients is None else np.asarray(gradients))
        sizes = () if self.plan.on_host else self.runner.kernels.sizes
        needed = limits.needed(self, self.records, sizes)
        devices.in_step(self.settings.mesh, lambda: (sink.started(*start), sink.reserve(*needed)))

    def note(self, evidence: dict[str, Any]) -> None:
        """Adds to the evidence of how the draws were made, in the result's `attrs["choice"]`."""
        self.evidence = {**self.evidence, **evidence}

    def piece(self, done: int, total: int, warmup: bool) -> int:
        """Iterations of a host stage's next piece, after `done` of `total`."""
        return self.pipeline.length(Segment("", done, total, total, adapt=warmup, warmup=warmup))

    def keep(self, name: str, draws: dict[str, np.ndarray], done: int, total: int, warmup: bool, began: float) -> None:
        """Stores draws (t, chains, ...) of a host stage that come after `done`, and reports progress."""
        segment = Segment(name, done, total, total, adapt=warmup, warmup=warmup)
        self.pipeline.keep(segment, draws, self.density.gradients, began)

    def compiled(self) -> None:
        """Counts the time up to now as compilation."""
        self.pipeline.clock("compile")

    # used by results

    @property
    def sampler(self) -> Sampler:
        """The compiled sampler that makes the draws."""
        return self.plan.samplers[-1]

    def offered(self) -> set[str]:
        """The names of all records that the plan's iterations can make."""
        if self.plan.on_host:
            return {loop.POSITION, *(name for stage in self.plan.stages for name in stage.statistics)}
        return self.runner.offered()

    def nothing(self) -> dict[str, dict[str, np.ndarray]]:
        """The groups of a result without any draw."""
        chains, stage = self.settings.num_chains, self.plan.stages[-1]
        if self.plan.on_host:
            drawn = {name: jax.ShapeDtypeStruct((1, chains), kind) for name, kind in stage.statistics.items()}
            drawn[loop.POSITION] = jax.ShapeDtypeStruct((1, chains, self.starts.layout.dim), np.float64)
        else:
            drawn = self.runner.drawn()
        return self.records.nothing(drawn, chains)

    def theta(self) -> PyTree:
        """The learned state: the kernels that make the draws, or a dict of arrays by name; None if there is nothing."""
        stage = self.plan.stages[self.stage]
        if self.progress is None:
            return None
        if stage.on_host:
            return stage.learned(self.progress)
        if not isinstance(self.progress, loop.Run):
            return None
        return self.runner.settled(stage.samplers[0], self.progress, isinstance(stage, Learn))

    def verdict(self) -> dict[str, np.ndarray]:
        """Diagnostics of the adaptation at the end of warm-up, an entry a pool; empty if the run did not get so far."""
        stage = self.plan.stages[self.stage]
        if not stage.draws or not self.settings.num_warmup or self.progress is None:
            return {}
        if stage.on_host:
            return stage.verdict(self.progress)
        return self.runner.verdict(self.sampler, self.progress)
