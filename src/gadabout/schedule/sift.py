"""To see, before anything is learned, which chains stand where there is no mass to speak of."""

from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from gadabout.sampler import Sampler
from gadabout.schedule.modes import distinct_starts, negligible, others
from gadabout.schedule.stages import AbstractStage


class Sift(AbstractStage):
    """Has chains in modes of negligible mass begin where others stand, by a few iterations that nobody keeps.

    Steps and a Gaussian that are learned with such a chain suit neither its mode nor the others'. It acts where there
    seem to be several modes: scouts found some (`started_elsewhere` in the evidence), or descents ended at heights that
    one does not explain (`apart`). What is lost is told by `negligible`, as a `Judge` does later, when chains have had
    more time to show it. `sifted` names the chains.

    Args:
        sampler: what makes the iterations, with what the descent learned.
        num_iterations: how many.
    """

    sampler: Sampler
    num_iterations: int = eqx.field(static=True, default=16)

    @property
    def samplers(self):
        return (self.sampler,)

    def looks_at(self, engine):
        return self.num_iterations

    def begin(self, engine, warm):
        return warm

    def length(self, engine):
        return 1

    def advance(self, engine, progress, done):
        if not (engine.evidence.get("started_elsewhere") or engine.evidence.get("apart")):
            return progress, 1
        run, draws, stats = engine.look(self.sampler, engine.start(self.sampler, progress), self.num_iterations)
        lost = negligible(draws, stats["lp"])
        if lost.any():
            distinct = distinct_starts(engine.evidence, lost)
            engine.note({"sifted": np.flatnonzero(lost).tolist(), "distinct_starts": distinct})
        positions = jnp.asarray(draws[-1][others(lost)])
        return replace(progress, chain_keys=run.chain_keys, t=run.t, positions=positions), 1

    def end(self, engine, progress):
        return progress
