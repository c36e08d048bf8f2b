"""The form of a run's progress, without the run."""

from dataclasses import replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from gadabout.driver import loop
from gadabout.driver.programs import blank, shapes_of
from gadabout.driver.services import Keys, Services, round_one


class Skeleton(Services):
    """Runs nothing, and knows the shapes of everything: the form of the progress of every stage."""

    known_choice: int

    def __init__(self, services: Services):
        self.__dict__.update(services.__dict__, known_choice=services.choice)

    @cached_property
    def keys(self):
        alike = lambda *shape: blank(jax.ShapeDtypeStruct(shape, self.key.dtype))
        return Keys(alike(), alike(self.settings.num_chains))

    def progress_of(self, stage: int) -> PyTree:
        """The shapes of a stage's progress."""
        return self.plan.stages[stage].begin(self, self.warm_of(stage))

    def warm_of(self, stage: int) -> Any:
        """The shapes of what a stage begins with."""
        warm: Any = self.first()
        for before in self.plan.stages[:stage]:
            warm = before.end(self, before.begin(self, warm))
            self.choice = self.known_choice
        return warm

    def search(self, warm):
        shape = (self.settings.num_chains, self.starts.layout.dim)
        return replace(warm, positions=jax.ShapeDtypeStruct(shape, jnp.result_type(float)))

    def descend(self, warm, factor):
        n, kind = self.starts.layout.dim, self.kind(factor)
        shape = (self.settings.num_chains, n)
        positions = jax.ShapeDtypeStruct(shape, jnp.result_type(float)) if warm.positions is None else warm.positions
        learned = shapes_of(round_one, n, kind)
        return replace(warm, positions=positions, learned=learned)

    def gathered(self, tree):
        return tree

    def shaped(self, function, *arguments):
        return shapes_of(function, *arguments)

    def start(self, sampler, warm):
        if warm.pools is not None and self.goes_on(sampler, warm):
            return loop.Run(warm.pools, warm.chain_keys, warm.t)
        if warm.positions is None:
            warm = self.search(warm)
        return shapes_of(loop.start, sampler, self.target, warm, self.settings.pooled)

    def settle(self, sampler, run):
        return shapes_of(loop.settle, sampler, run) if run.pools.kernel.settles else run
