"""The engine of a run: it carries a plan out piece by piece, and between two pieces it can be stopped and stored."""

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
    """Carries a plan out, keeps what it records, and knows how to stop and to go on; the `context` of its stages.

    Args:
        model: what is sampled, laid out.
        plan: the stages.
        settings: how long, how many chains, over which devices.
        seed: all randomness of the run but that of batches comes from it.
        records: what is kept of the run, and where.
        starts: where chains may start.
        learned: what is known of the target before the run.
        observers: called with a `Progress` after every chunk.
        interrupted: called before every piece of work: whether to stop.
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
        """What host stages evaluate, traced and compiled from now on.

        Raises TypeError or ValueError, with the remedy, for a log density that cannot be evaluated or differentiated.
        """
        if self._density is None:
            chains, mesh, block = self.settings.num_chains, self.settings.mesh, self.settings.chain_block
            self._density = density_for(self.model.target, self.starts.layout, chains, mesh, block)
        return self._density

    @property
    def runner(self) -> Runner:
        """What runs compiled stages."""
        if self._runner is None:
            self._runner = Runner(
                self.plan, self.model.target, self.settings, self.records, self.starts, self.pipeline,
                self.seed, self.learned, self.feed,
            )  # fmt: skip
        return self._runner

    def compile(self) -> None:
        """Begins to compile, in threads, what stages on the host evaluate; raises MemoryError for too large a plan."""
        limits.check_plan(self, self.plan, self.records)
        if self.plan.on_host:
            _ = self.density
        else:
            limits.check_matrices(self, self.plan, self.runner.kernels.sizes)

    def drive(self, checkpoint: Checkpoint | None = None) -> Ending:
        """Carries the plan out: from its beginning, from a checkpoint, or from where it was stopped."""
        with devices.one_thread():
            try:
                self._begin(checkpoint)
                return self._go_on()
            except Exception as error:
                if not raised_by_density(error):
                    raise
                return self._ended_by(error)

    def _ended_by(self, error: Exception) -> Failed:
        """That the density raised an error, after iterations that are kept.

        Before the first one it is raised: as ValueError, in one line, where the user's function raised it.
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
        """Puts the run at its beginning, or at a checkpoint, if it is not under way."""
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
                if snapshot is not None:  # by now the records that were made before it are stored, and accounted for
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
        """Hands a checkpoint to a sink that keeps them, by default of the run as it stands, all its records stored."""
        if self.records.sink.durable:
            taken = checkpoint or self.checkpoint()
            if self.pipeline.failure is None:
                self.pipeline.guarded(lambda: self.records.sink.commit(taken))

    def checkpoint(self) -> Checkpoint:
        """The run as it stands between two pieces of work, in copies."""
        cursor = Cursor(self.stage, self.done, self.pipeline.t, dict(self.evidence))
        if self.plan.on_host:
            rng, counts = self.rng.bit_generator.state, self.density.counts
            progress = {"progress": self.progress, "rng": rng, "counts": counts}
        else:
            progress = self.runner.gathered(self.progress)
        return take(progress, cursor, self.pipeline.account, self.fingerprint)

    @property
    def fingerprint(self) -> str:
        """What a checkpoint must share with the run that goes on from it."""
        names, s = "+".join(type(stage).__name__ for stage in self.plan.stages), self.settings
        return f"{self.plan.name} ({names}), {s.num_chains} chains, {s.num_warmup} of warm-up, thinning {s.thinning}"

    def _restore(self, checkpoint: Checkpoint) -> None:
        """Puts the run where a checkpoint was taken."""
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
        """Why the run ends here, all records stored; None if it goes on."""
        every = self.settings.iterations_between_rules
        evaluate = every and self.done and self.stage + 1 == len(self.plan.stages) and self.done % every == 0
        if not (stop or evaluate or failed):
            return None
        self.pipeline.store()
        stopped = Interrupted() if stop else None
        return self.pipeline.failed() or stopped or self.pipeline.satisfied(self.done)

    # what stages call

    def share_of_warmup(self, stage: AbstractStage) -> int:
        """Iterations of a compiled stage of warm-up."""
        warm = [each for each in self.plan.stages if isinstance(each, Learn)]
        each = lengths([one.share for one in warm], self.settings.num_warmup)
        return next(length for one, length in zip(warm, each, strict=True) if one is stage)

    def started(self, positions: Any, values: Any = None, gradients: Any = None, tries: Any = None) -> None:
        """Registers where chains start, and log π and its gradient there, with the sink.

        Raises ValueError where values or gradients are not finite, OSError where draws need more disk than is free.
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
        """Adds to what the result says of how the draws were made (`attrs["choice"]`)."""
        self.evidence = {**self.evidence, **evidence}

    def piece(self, done: int, total: int, warmup: bool) -> int:
        """Iterations of a host stage's next piece, of which `done` of `total` are made."""
        return self.pipeline.length(Segment("", done, total, total, adapt=warmup, warmup=warmup))

    def keep(self, name: str, draws: dict[str, np.ndarray], done: int, total: int, warmup: bool, began: float) -> None:
        """Stores draws (t, chains, ...) of a host stage that come after `done`, and reports progress."""
        segment = Segment(name, done, total, total, adapt=warmup, warmup=warmup)
        self.pipeline.keep(segment, draws, self.density.gradients, began)

    def compiled(self) -> None:
        """Counts the time up to now as compilation."""
        self.pipeline.clock("compile")

    # what results need

    @property
    def sampler(self) -> Sampler:
        """The compiled sampler that draws."""
        return self.plan.samplers[-1]

    def offered(self) -> set[str]:
        """The names of all that the plan's iterations can record."""
        if self.plan.on_host:
            return {loop.POSITION, *(name for stage in self.plan.stages for name in stage.statistics)}
        return self.runner.offered()

    def nothing(self) -> dict[str, dict[str, np.ndarray]]:
        """The groups of a result without a draw."""
        chains, stage = self.settings.num_chains, self.plan.stages[-1]
        if self.plan.on_host:
            drawn = {name: jax.ShapeDtypeStruct((1, chains), kind) for name, kind in stage.statistics.items()}
            drawn[loop.POSITION] = jax.ShapeDtypeStruct((1, chains, self.starts.layout.dim), np.float64)
        else:
            drawn = self.runner.drawn()
        return self.records.nothing(drawn, chains)

    def theta(self) -> PyTree:
        """What was learned: the kernels as draws are made with them, or a dict of arrays by name; None if nothing."""
        stage = self.plan.stages[self.stage]
        if self.progress is None:
            return None
        if stage.on_host:
            return stage.learned(self.progress)
        if not isinstance(self.progress, loop.Run):
            return None
        return self.runner.settled(stage.samplers[0], self.progress, isinstance(stage, Learn))

    def verdict(self) -> dict[str, np.ndarray]:
        """What the adaptation says of its end, an entry for each pool; nothing where it did not get so far."""
        stage = self.plan.stages[self.stage]
        if not stage.draws or not self.settings.num_warmup or self.progress is None:
            return {}
        if stage.on_host:
            return stage.verdict(self.progress)
        return self.runner.verdict(self.sampler, self.progress)
