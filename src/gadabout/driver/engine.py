"""The engine of a run: it carries a plan out piece by piece, and between two pieces it can be stopped and stored."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from gadabout.driver import loop
from gadabout.driver.checkpoint import Checkpoint, CheckpointError, Cursor, take
from gadabout.driver.ending import Completed, Ending, Failed, Interrupted, Satisfied
from gadabout.driver.pipeline import Pipeline, Segment, Settings
from gadabout.driver.progress import Progress
from gadabout.driver.records import Records
from gadabout.driver.search import Starts, find_start
from gadabout.minibatch import AbstractFeed
from gadabout.model import AbstractModel
from gadabout.sampler import Learned, Sampler
from gadabout.schedule import AbstractStage, Hold, Learn, Plan, Warm, lengths
from gadabout.target import Target


class Engine:
    """Runs the programs that stages ask for, keeps what they record, and knows how to stop and to go on.

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
        self.start_key, self.stream = jax.random.split(key)
        began = time.perf_counter() if began is None else began
        self.pipeline = Pipeline(self.target, settings, records, observers, began, feed)
        self.stage, self.done, self.choice = 0, 0, 0
        self.progress: PyTree = None
        self._compiled: set = set()

    # what stages ask for

    @property
    def num_draws(self) -> int:
        """Draws that are wanted of each chain."""
        return self.settings.num_draws

    @property
    def thinning(self) -> int:
        """Iterations for each draw."""
        return self.settings.thinning

    def share_of_warmup(self, stage: AbstractStage) -> int:
        """Iterations of a stage of warm-up."""
        stages = [getattr(each, "stages", (each,)) for each in self.plan.stages]
        warm = [group for group in stages if isinstance(group[0], Learn | Hold)]
        each = lengths([group[0].share for group in warm], self.settings.num_warmup)  # pyright: ignore
        return next(length for group, length in zip(warm, each, strict=True) if any(one is stage for one in group))

    def search(self, warm: Warm) -> Warm:
        """The warm state with places to start, where the log density and its derivatives are finite."""
        order = max(derivatives_needed(sampler, self.target) for sampler in self.plan.samplers)
        positions = find_start(self.target, self.starts, self.settings.num_chains, order, self.start_key)
        return replace(warm, positions=positions)

    def start(self, sampler: Sampler, warm: Warm) -> loop.Run:
        """A run of a sampler from what the stage before hands over: its very state, if it is of the same kind."""
        fresh = eqx.filter_eval_shape(loop.start, sampler, self.target, warm, self.settings.pooled)
        if warm.pools is not None and _alike(warm.pools, fresh.pools):
            run = loop.Run(warm.pools, warm.chain_keys.reshape(fresh.chain_keys.shape), warm.t)
        else:
            run = loop.start(sampler, self.target, warm, self.settings.pooled)
        return loop.lay(run, self.settings.mesh)

    def settle(self, sampler: Sampler, run: loop.Run) -> loop.Run:
        """A run whose kernels are those that draws are made with."""
        return loop.settle(sampler, run)

    def hand_over(self, run: loop.Run) -> Warm:
        """What the next stage begins with."""
        return loop.hand_over(run, self.learned)

    def end_window(self, sampler: Sampler, run: loop.Run, ending: PyTree) -> loop.Run:
        """A run where windows of its adaptation end; `run` is donated."""
        return loop.end_window(sampler, run, ending)

    def chunk(
        self, sampler: Sampler, run: loop.Run, stage: str, done: int, end: int, total: int, *, adapt: bool, warmup: bool
    ) -> tuple[loop.Run, int]:
        """The next iterations of a stage, at most up to `end`: the run, still being computed, and their number.

        While they are computed, the records of those before are stored.
        """
        return self.pipeline.chunk(sampler, run, Segment(stage, done, end, total, adapt, warmup))

    def trial(self, sampler: Sampler, warm: Warm, num_iterations: int) -> tuple[Warm, np.ndarray, float]:
        """Runs a sampler, learning in the first half: where that leaves chains, the second half's draws, its cost.

        Draws have the shape (iterations, num_chains, n), the cost is in gradients an iteration of a chain.
        """
        run, half = self.start(sampler, warm), max(2, num_iterations // 2)
        parts, gradients, fields = [], 0, (loop.POSITION,)
        for adapt in (True, False):
            done, segment = 0, Segment("choose", 0, half, half, adapt, True)
            room = loop.buffer_length(self.records.offered(sampler, self.target, run, adapt, fields))
            while done < half:
                run, chunk = self.pipeline.send(sampler, run, segment, min(room, half - done), fields, 1)
                done += chunk.length
                if not adapt:
                    parts.append(np.array(chunk.buffer[loop.POSITION])[: chunk.length])
                    gradients += int(np.sum(np.asarray(chunk.tally.gradient_evaluations)))
            if adapt:
                run = loop.settle(sampler, loop.end_window(sampler, run, sampler.adaptation.ending(1, 1)))
        draws = np.concatenate(parts)
        draws = draws.reshape(len(draws), -1, draws.shape[-1])
        return replace(self.hand_over(run), pools=None), draws, gradients / draws[..., 0].size

    def offered(self) -> set[str]:
        """The names of all that the plan's iterations can record."""
        positions = jax.ShapeDtypeStruct((self.settings.num_chains, self.starts.layout.dim), jnp.zeros(0).dtype)
        warm, names = replace(self.first(), positions=positions), set()
        for sampler in self.plan.samplers:
            run = eqx.filter_eval_shape(loop.start, sampler, self.target, warm, self.settings.pooled)
            for adapt in (True, False):
                names |= set(loop.shapes(sampler, self.target, run, adapt))
        return names

    # the course of a run

    def drive(self, checkpoint: Checkpoint | None = None) -> Ending:
        """Carries the plan out: from its beginning, from a checkpoint, or from where it was stopped."""
        if checkpoint is not None:
            self._restore(checkpoint)
        elif self.progress is None:
            self.progress = self.plan.stages[0].begin(self, self.first())
        while True:
            stage = self.plan.stages[self.stage]
            self._compile(stage)
            while self.done < stage.length(self):
                self.pipeline.wait()
                if (ending := self._reason_to_end()) is not None:
                    return ending
                snapshot = self.checkpoint() if self.records.sink.durable else None
                self.progress, self.done = stage.advance(self, self.progress, self.done)
                if snapshot is not None:
                    self.records.sink.commit(snapshot)
            self.pipeline.store()
            if self.stage + 1 == len(self.plan.stages):
                break
            warm = stage.end(self, self.progress)
            self.stage, self.done = self.stage + 1, 0
            self.progress = self.plan.stages[self.stage].begin(self, warm)
        if self.records.sink.durable:
            self.records.sink.commit(self.checkpoint())
        return Completed() if self.pipeline.failure is None else Failed(self.pipeline.failure)

    def checkpoint(self) -> Checkpoint:
        """The run as it stands between two pieces of work, in copies."""
        account = self.pipeline.account
        cursor = Cursor(self.stage, self.done, self.pipeline.t, self.choice)
        return take(self.progress, cursor, replace(account, seconds=dict(account.seconds)), self.fingerprint)

    @property
    def fingerprint(self) -> str:
        """What a checkpoint must share with the run that goes on from it."""
        names, s = "+".join(type(stage).__name__ for stage in self.plan.stages), self.settings
        return f"{self.plan.name} ({names}), {s.num_chains} chains, {s.num_warmup} of warm-up, thinning {s.thinning}"

    def settled(self) -> PyTree:
        """The kernels as draws are made with them, from a copy: a run that was stopped can still go on."""
        run, stage = self.progress, self._acting()
        if not isinstance(run, loop.Run):
            return None
        if isinstance(stage, Learn):
            sampler = stage.sampler
            copied = jax.tree.map(lambda leaf: jnp.copy(leaf) if eqx.is_array(leaf) else leaf, run)
            run = loop.settle(sampler, loop.end_window(sampler, copied, sampler.adaptation.ending(1, 1)))
        return run.pools.kernel

    @property
    def sampler(self) -> Sampler:
        """The sampler that draws, or would draw."""
        last = self.plan.stages[-1].samplers
        return last[min(self.choice, len(last) - 1)]

    def first(self) -> Warm:
        """What the first stage begins with."""
        keys = jax.vmap(lambda c: jax.random.fold_in(self.stream, c))(jnp.arange(self.settings.num_chains))
        return Warm(keys, jnp.zeros((), jnp.uint32), None, self.learned)

    def _acting(self) -> AbstractStage:
        stage = self.plan.stages[self.stage]
        return getattr(stage, "stages", (stage,) * (self.choice + 1))[self.choice]

    def _restore(self, checkpoint: Checkpoint) -> None:
        """Puts the run where a checkpoint was taken."""
        if checkpoint.fingerprint != self.fingerprint:
            raise CheckpointError(f"the checkpoint is of {checkpoint.fingerprint}, this run of {self.fingerprint}")
        cursor, account = checkpoint.cursor, checkpoint.account
        if self.pipeline.feed is not None:
            self.pipeline.feed.go_on(cursor.t)
        self.stage, self.done, self.pipeline.t, self.choice = cursor.stage, cursor.done, cursor.t, cursor.choice
        self.pipeline.account = replace(account, seconds=dict(account.seconds))
        progress = checkpoint.progress(Skeleton(self).progress_of(cursor.stage))
        self.progress = loop.lay(progress, self.settings.mesh) if isinstance(progress, loop.Run) else progress

    def _compile(self, stage: AbstractStage) -> None:
        """Compiles what a stage will run, and those after it with its sampler, without moving a chain."""
        if isinstance(self.progress, loop.Run):
            sampler = self._acting().samplers[0]
            later = [one for stage in self.plan.stages[self.stage + 1 :] for one in stage.samplers]
            if isinstance(self._acting(), Learn):
                self._compile_one(sampler, adapt=True, warmup=True)
                nothing = jax.tree.map(jnp.zeros_like, sampler.adaptation.ending(1, 1))
                self.progress = self.end_window(sampler, self.progress, nothing)
            if not isinstance(self._acting(), Learn) or any(one is sampler for one in later):
                self._compile_one(sampler.drawing(), adapt=sampler.adaptation.continues, warmup=False)
            jax.block_until_ready(self.progress)
        self.pipeline.clock("compile")

    def _compile_one(self, sampler: Sampler, *, adapt: bool, warmup: bool) -> None:
        recorded = self.records.shapes(sampler, self.target, self.progress, adapt, warmup)
        argument, wanted = ("num_warmup", self.settings.num_warmup) if warmup else ("num_draws", self.num_draws)
        self.records.check_memory(recorded, wanted // self.thinning if warmup else wanted, argument)
        segment = Segment("", 0, 0, 0, adapt, warmup)
        self.progress, _ = self.pipeline.send(sampler, self.progress, segment, 0, tuple(recorded))

    def _reason_to_end(self) -> Ending | None:
        """Why the run ends here, all records stored; None if it goes on."""
        until, stop, asked = self.settings.until, self.interrupted(), False
        if until is not None and self.stage + 1 == len(self.plan.stages) and self.done:
            asked = self.done % self.pipeline.every(self.progress, self._acting().samplers[0].adaptation.continues) == 0
        if stop or asked or self.pipeline.failure is not None:
            self.pipeline.store()
        if self.pipeline.failure is not None:
            return Failed(self.pipeline.failure)
        if stop:
            return Interrupted()
        reason = until.met(self.records.draws(), self.pipeline.account.seconds["sampling"]) if asked else None
        return None if reason is None else Satisfied(reason)


class Skeleton(Engine):
    """An engine that runs nothing and knows the shapes of everything."""

    def __init__(self, engine: Engine):
        self.__dict__.update(engine.__dict__, known_choice=engine.choice)

    def progress_of(self, stage: int) -> PyTree:
        """The shapes of a stage's progress."""
        warm: Any = self.first()
        for before in self.plan.stages[:stage]:
            warm = before.end(self, before.begin(self, warm))
            self.choice = self.known_choice
        return self.plan.stages[stage].begin(self, warm)

    def search(self, warm):
        shape = (self.settings.num_chains, self.starts.layout.dim)
        return replace(warm, positions=jax.ShapeDtypeStruct(shape, jnp.zeros(0).dtype))

    def start(self, sampler, warm):
        return eqx.filter_eval_shape(loop.start, sampler, self.target, warm, self.settings.pooled)

    def settle(self, sampler, run):
        return eqx.filter_eval_shape(loop.settle, sampler, run)

    def hand_over(self, run):
        return eqx.filter_eval_shape(loop.hand_over, run, self.learned)


def derivatives_needed(sampler: Sampler, target: Target) -> int:
    """Derivatives of the log density that the sampler takes, learning included."""
    kernel = eqx.filter_eval_shape(sampler.kernel, target.layout.dim)
    return max(kernel.order, int(kernel.gradient_evaluations(True) > 0))


def _alike(a: PyTree, b: PyTree) -> bool:
    """Whether two trees have the same form, and leaves of the same shapes and types."""
    if jax.tree.structure(a) != jax.tree.structure(b):
        return False
    form = lambda leaf: (jnp.shape(leaf), getattr(leaf, "dtype", None))
    return all(form(x) == form(y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))
