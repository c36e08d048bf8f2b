"""The stages of a run, one after another."""

from html import escape
from typing import Any

import equinox as eqx

from gadabout.checks import check_finite, check_whole, shown
from gadabout.sampler import Sampler
from gadabout.schedule.stages import AbstractStage, Draw, Learn, Search
from gadabout.settings import settings_of

FEW_CHAINS = 4
"""default number of chains of a sampler whose chains learn little from one another"""
LONGEST_WARMUP = 1_000
"""most iterations of warm-up in a plan that ends warm-up itself"""


class Plan(eqx.Module):
    """The stages of a run, one after another; accepted wherever a sampler is accepted.

    Args:
        stages: the stages in their order; the last of them draws.
        name: its name in results.
        num_chains: default number of chains.

    Raises ValueError unless the last stage, and no other, draws, and the shares of warm-up sum to 1.
    """

    stages: tuple[AbstractStage, ...]
    name: str = eqx.field(static=True, default="plan")
    num_chains: int = eqx.field(static=True, default=FEW_CHAINS)

    def __check_init__(self):
        if not isinstance(self.stages, tuple | list) or not all(isinstance(one, AbstractStage) for one in self.stages):
            raise TypeError(
                "stages must be a tuple of stages, such as (Search(), Learn(sampler), Draw(sampler)) of "
                f"gadabout.schedule, the last of them Draw; got {shown(self.stages)}"
            )
        for sampler in self.samplers:
            if not isinstance(sampler, Sampler):
                raise TypeError(f"stages: a sampler must be a recipe's result, such as rwm(), got {shown(sampler)}")
        if not self.stages or [stage.draws for stage in self.stages] != [False] * (len(self.stages) - 1) + [True]:
            names = [type(stage).__name__ for stage in self.stages]
            raise ValueError(f"stages: the last stage of a plan, and no other, must be Draw; got {names}")
        if len({stage.on_host for stage in self.stages}) > 1:
            raise ValueError("stages: those of the default and those that run a sampler do not go together")
        check_whole("num_chains", self.num_chains)
        shares = [check_finite("stages: a share of warm-up", s.share) for s in self.stages if isinstance(s, Learn)]
        if any(share < 0 for share in shares) or (shares and abs(sum(shares) - 1) > 1e-9):
            raise ValueError(f"stages: the shares of warm-up must be at least 0 and sum to 1, got {shares}")

    def __repr__(self) -> str:
        """One line for the plan and one for each stage, with the names of its samplers, or its settings."""
        stages = [f"\n  {i}. {_in_a_line(stage)}" for i, stage in enumerate(self.stages, 1)]
        return f"Plan {self.name!r}, {self.num_chains} chains:{''.join(stages)}"

    def _repr_html_(self) -> str:
        """HTML for notebooks: the stages in their order, each with the settings of its samplers."""
        stages = [
            f"{type(stage).__name__}{''.join(one._repr_html_() for one in stage.samplers)}" for stage in self.stages
        ]
        listed = "".join(f"<li>{stage}</li>" for stage in stages).replace("<details open>", "<details>")
        return f"<b>{escape(self.name)}</b>, {self.num_chains} chains<ol>{listed}</ol>"

    @property
    def samplers(self) -> tuple[Sampler, ...]:
        """All compiled samplers of the plan; the last one makes the draws. Empty for the default's stages."""
        return tuple(sampler for stage in self.stages for sampler in stage.samplers)

    @property
    def on_host(self) -> bool:
        """Whether the stages run in NumPy on the host."""
        return self.stages[-1].on_host

    @property
    def num_warmup(self) -> int:
        """Default number of warm-up iterations."""
        return max((sampler.num_warmup for sampler in self.samplers), default=LONGEST_WARMUP)

    @property
    def takes_discrete(self) -> bool:
        """Whether positions may hold whole numbers."""
        return not self.on_host and all(sampler.takes_discrete for sampler in self.samplers)

    @property
    def about(self) -> dict[str, Any]:
        """The entries of a result's attributes about how the draws were made."""
        if self.on_host:
            settings = settings_of(self.stages)
            return {"adaptation": "stops after warm-up", "exact": True, "bias": "", "sampler_settings": settings}
        last = self.samplers[-1]
        about = {"adaptation": last.adaptation_ends, "exact": last.exact, "bias": last.bias}
        return about | {"sampler_settings": settings_of(last)}

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of all stages, by path."""
        if self.on_host:
            return settings_of(self.stages)
        each = enumerate(map(settings_of, self.samplers))
        return {f"{i}.{name}": value for i, settings in each for name, value in settings.items()}


def _in_a_line(stage: AbstractStage) -> str:
    """A stage in one line, with its samplers or its settings."""
    name = type(stage).__name__
    if stage.samplers:
        return f"{name}({', '.join(sampler.name for sampler in stage.samplers)})"
    settings = settings_of((stage,)).items()
    return f"{name}({', '.join(f'{path.rpartition(".")[2]}={value}' for path, value in settings if path != name)})"


def plan_of(sampler: Sampler | Plan) -> Plan:
    """The plan of a sampler: search for starts, learn, draw; a plan is returned unchanged."""
    return sampler if isinstance(sampler, Plan) else Plan((Search(), Learn(sampler), Draw(sampler)), sampler.name)


def lengths(shares: list[float], num_warmup: int) -> list[int]:
    """Iterations of each stage of warm-up, which add up to `num_warmup`."""
    ends = [round(num_warmup * sum(shares[: i + 1])) for i in range(len(shares))]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]
