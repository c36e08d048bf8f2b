"""The engine of a run: it carries a plan out piece by piece, and between two pieces it can be stopped and stored."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from gadabout.diagnostics import spacing_of
from gadabout.driver import aside, loop, processes
from gadabout.driver.checkpoint import Account, Checkpoint, CheckpointError, Cursor, take
from gadabout.driver.ending import Completed, Ending, Failed, Interrupted, Satisfied
from gadabout.driver.foresight import Foresight
from gadabout.driver.pipeline import Pipeline, Settings
from gadabout.driver.programs import import_ahead, ready
from gadabout.driver.progress import Progress
from gadabout.driver.records import Records
from gadabout.driver.search import Starts
from gadabout.driver.services import Services
from gadabout.driver.skeleton import Skeleton
from gadabout.driver.threads import one_thread
from gadabout.minibatch import AbstractFeed
from gadabout.model import AbstractModel
from gadabout.sampler import Learned, Sampler
from gadabout.schedule import Judge, Learn, Plan


class Engine(Services):
    """Carries a plan out, keeps what it records, and knows how to stop and to go on.

    Args:
        model: what is sampled, laid out.
        plan: the stages.
        settings: how long, how many chains, over which devices.
        key: all randomness of the run but that of batches comes from it.
        records: what is kept of the run, and where.
        starts: where chains may start.
        learned: what is known of the target before the run.
        observers: called with a `Progress` after every chunk.
        interrupted: asked before every piece of work whether to stop.
        began: `time.perf_counter()` at the start of the call whose compile time is accounted for.
        feed: the source of batches, one for each iteration, if there is one.
    """

    def __init__(
        self,
        model: AbstractModel,
        plan: Plan,
        settings: Settings,
        key: Key[Array, ""],
        records: Records,
        starts: Starts,
        *,
        learned: Learned | None = None,
        observers: Sequence[Callable[[Progress], object]] = (),
        interrupted: Callable[[], bool] = lambda: False,
        began: float | None = None,
        feed: AbstractFeed | None = None,
    ):
        self.plan, self.settings, self.records, self.starts = plan, settings, records, starts
        self.target = model.target if feed is None else model.target.with_data(feed.start())
        self.learned, self.interrupted = learned, interrupted
        self.key = key
        began = time.perf_counter() if began is None else began
        self.pipeline = Pipeline(self.target, starts.layout.dim, settings, records, observers, began, feed)
        self.stage, self.done, self.choice, self.evidence = 0, 0, 0, {}
        self.known, self.drawn_with, self.foresight = False, {}, Foresight(self)
        looks = [stage.sampler for stage in plan.stages if isinstance(stage, Judge)]
        records.judged = aside.JUDGED if any(map(self.pipeline.looks, looks)) else ()
        self.progress: PyTree = None

    def drive(self, checkpoint: Checkpoint | None = None) -> Ending:
        """Carries the plan out: from its beginning, from a checkpoint, or from where it was stopped."""
        with one_thread(self.starts.layout.dim):
            self._begin(checkpoint)
            return self._go_on()

    def _begin(self, checkpoint: Checkpoint | None) -> None:
        """Puts the run at its beginning, or at a checkpoint, if it is not under way."""
        if checkpoint is not None:
            self._restore(checkpoint)
        elif self.progress is None:
            self.check_memory()
            self.foresight.begin()
            self.progress = self.plan.stages[0].begin(self, self.first())

    def _go_on(self) -> Ending:
        cut = False
        while True:
            stage = self.plan.stages[self.stage]
            self._commit()
            self._compile()
            while self.done < stage.length(self):
                self.pipeline.wait()
                stop, failed, due = self._agreed()
                if (ending := self._reason_to_end(stop, failed)) is not None:
                    if not isinstance(ending, Failed):
                        self._commit()
                    return ending
                cut = self._cuts_a_block()
                snapshot = self.checkpoint() if due or (cut and self.records.sink.durable) else None
                self.progress, self.done = stage.advance(self, self.progress, self.done)
                if snapshot is not None:  # by now the records that were made before it are stored, and accounted for
                    self._commit(replace(snapshot, account=self._account()))
            self.pipeline.store()
            if self.stage + 1 == len(self.plan.stages):
                break
            warm = stage.end(self, self.progress)
            self.stage, self.done = self.stage + 1, 0
            self.progress = self.plan.stages[self.stage].begin(self, warm)
        if not cut:
            self._commit()
        return self._failed() or Completed()

    def _agreed(self) -> tuple[bool, bool, bool]:
        """Whether to stop, whether the run failed, whether a checkpoint is due: in all processes the same.

        So is the length of the next chunk.
        """
        pipeline = self.pipeline
        chunk, mine = pipeline.account.chunk, (self.interrupted(), pipeline.failure is not None)
        rows = processes.told(self.settings.mesh, *mine, self.records.sink.due(), chunk)
        stop, failed = rows[:, :2].any(0)
        _, _, due, chunk = rows[processes.LEADER]
        pipeline.account = replace(pipeline.account, chunk=int(chunk))
        return bool(stop), bool(failed), bool(due)

    def _failed(self) -> Failed | None:
        """That the run could not go on, in this process or another; None if it could."""
        rows = processes.told(self.settings.mesh, self.pipeline.failure is not None)
        if not rows.any():
            return None
        return Failed(self.pipeline.failure or f"process {int(np.argmax(rows))} could not go on; it says why")

    def _cuts_a_block(self) -> bool:
        """Whether what is left of the run is a part of a block: a longer run goes on from before it, and repeats it."""
        if self.stage + 1 < len(self.plan.stages) or not isinstance(self.progress, loop.Run):
            return False
        block = loop.block_of(self.progress, self.sampler.adaptation.continues)
        return self.plan.stages[-1].length(self) - self.done < block

    def _commit(self, checkpoint: Checkpoint | None = None) -> None:
        """Hands a checkpoint to a sink that keeps them, by default of the run as it stands, all its records stored."""
        if self.records.sink.durable:
            taken = checkpoint or self.checkpoint()
            if self.pipeline.failure is None:
                self.pipeline.guarded(lambda: self.records.sink.commit(taken))

    def checkpoint(self) -> Checkpoint:
        """The run as it stands between two pieces of work, in copies."""
        cursor = Cursor(self.stage, self.done, self.pipeline.t, self.choice, dict(self.evidence))
        return take(self.gathered(self.progress), cursor, self._account(), self.fingerprint)

    def _account(self) -> Account:
        return replace(self.pipeline.account, seconds=dict(self.pipeline.account.seconds))

    @property
    def fingerprint(self) -> str:
        """What a checkpoint must share with the run that goes on from it."""
        names, s = "+".join(type(stage).__name__ for stage in self.plan.stages), self.settings
        return f"{self.plan.name} ({names}), {s.num_chains} chains, {s.num_warmup} of warm-up, thinning {s.thinning}"

    def settled(self) -> PyTree:
        """The kernels as draws are made with them, from a copy: a run that was stopped can still go on."""
        is_run = lambda part: isinstance(part, loop.Run)
        runs = filter(is_run, jax.tree.leaves(self.progress, is_leaf=is_run))  # a stage that looks at one holds more
        run, stage = next(runs, None), self.acting(self.stage, self.choice)
        if run is None:
            return None
        if isinstance(stage, Learn):
            sampler = stage.sampler
            if sampler.adaptation.finishes:
                copied = jax.tree.map(lambda leaf: jnp.copy(leaf) if eqx.is_array(leaf) else leaf, run)
                run = self.end_window(sampler, copied, sampler.adaptation.ending(1, 1))
            run = self.settle(sampler, run)
        return self.gathered(run.pools.kernel)

    def verdict(self) -> dict[str, np.ndarray]:
        """What the adaptation says of its end, an entry for each pool; nothing where it did not get so far."""
        if (
            not isinstance(self.progress, loop.Run)
            or not self.settings.num_warmup
            or isinstance(self.acting(self.stage, self.choice), Learn)
        ):
            return {}
        found = loop.verdict(self.sampler, self.gathered(self.progress))
        return {name: np.asarray(value) for name, value in found.items()}

    @property
    def sampler(self) -> Sampler:
        """The sampler that draws, or would draw."""
        last = self.plan.stages[-1].samplers
        return last[min(self.choice, len(last) - 1)]

    def _restore(self, checkpoint: Checkpoint) -> None:
        """Puts the run where a checkpoint was taken."""
        if checkpoint.fingerprint != self.fingerprint:
            raise CheckpointError(f"the checkpoint is of {checkpoint.fingerprint}, this run of {self.fingerprint}")
        cursor, account = checkpoint.cursor, checkpoint.account
        if self.pipeline.feed is not None:
            self.pipeline.feed.go_on(cursor.t)
        self.stage, self.done, self.pipeline.t, self.choice = cursor.stage, cursor.done, cursor.t, cursor.choice
        self.evidence = dict(cursor.evidence)
        self.pipeline.account = replace(account, seconds=dict(account.seconds))
        progress = checkpoint.progress(Skeleton(self).progress_of(cursor.stage))
        is_run = lambda part: isinstance(part, loop.Run)
        lay = lambda part: self.lay(part) if is_run(part) else part
        self.progress = jax.tree.map(lay, progress, is_leaf=is_run)

    def choose(self, choice, evidence):
        super().choose(choice, evidence)
        self.foresight.chosen(choice)

    def _compile(self) -> None:
        """Compiles, side by side, what a stage will run, and those after it with its sampler."""
        if isinstance(self.progress, loop.Run):
            ahead = self.foresight.compiling(self.stage, self.progress, self.choice)
            if self.stage + 1 == len(self.plan.stages) and not all(one.done() for one in ahead):
                import_ahead("xarray")  # the result asks for it; only the last program is left to compile beside it
            self.foresight.meanwhile()
            ready(ahead)
        self.pipeline.clock("compile")

    def _reason_to_end(self, stop: bool, failed: bool) -> Ending | None:
        """Why the run ends here, all records stored; None if it goes on."""
        until, asked = self.settings.until, False
        if until is not None and self.done and self.stage + 1 == len(self.plan.stages):
            asked = self.done % self.pipeline.every(self.progress, self.sampler.adaptation.continues, until) == 0
        if not (stop or asked or failed):
            return None
        self.pipeline.store()
        if (ending := self._failed()) is not None:
            return ending
        if stop:
            return Interrupted()
        assert until is not None
        mesh, reason = self.settings.mesh, None
        if processes.leads(mesh):
            spacing = spacing_of(self.settings.num_chains, self.done // self.settings.thinning)
            reason = until.met(self.records.draws(spacing), self.pipeline.account.seconds["sampling"])
        met = processes.told(mesh, reason is not None)[processes.LEADER].any()
        return Satisfied(reason or f"process {processes.LEADER} found it met") if met else None
