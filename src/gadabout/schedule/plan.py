"""The stages of a run, one after another."""

from html import escape

import equinox as eqx

from gadabout.checks import check_finite, check_whole, shown
from gadabout.sampler import Sampler
from gadabout.schedule.stages import AbstractStage, AbstractWarmup, Draw, Learn, Search

FEW_CHAINS = 4
"""of a sampler whose chains learn little from one another"""


class Plan(eqx.Module):
    """The stages of a run, one after another; accepted wherever a sampler is named.

    Args:
        stages: what is done, the last of them a `Draw`.
        name: what results call it.
        num_chains: chains that are run where nobody says how many.

    Raises ValueError where the last stage does not draw, or another does, or the shares of warm-up do not sum to 1.
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
        kinds = [stage.alternatives[0] for stage in self.stages]
        if not kinds or [isinstance(kind, Draw) for kind in kinds] != [False] * (len(kinds) - 1) + [True]:
            names = [type(kind).__name__ for kind in kinds]
            raise ValueError(f"stages: the last stage of a plan, and no other, must be Draw; got {names}")
        check_whole("num_chains", self.num_chains)
        warm = [kind for kind in kinds if isinstance(kind, AbstractWarmup)]
        shares = [check_finite("stages: a share of warm-up", kind.share) for kind in warm]
        if any(share < 0 for share in shares) or (shares and abs(sum(shares) - 1) > 1e-9):
            raise ValueError(f"stages: the shares of warm-up must be at least 0 and sum to 1, got {shares}")

    def _repr_html_(self) -> str:
        """In a notebook: its stages in their order, each with the settings of the samplers that may run in it."""
        stages = [
            f"{type(stage.alternatives[0]).__name__}{''.join(one._repr_html_() for one in stage.samplers)}"
            for stage in self.stages
        ]
        listed = "".join(f"<li>{stage}</li>" for stage in stages).replace("<details open>", "<details>")
        return f"<b>{escape(self.name)}</b>, {self.num_chains} chains<ol>{listed}</ol>"

    @property
    def samplers(self) -> tuple[Sampler, ...]:
        """All samplers that may run in it; the first of those that make the draws comes last."""
        return tuple(sampler for stage in self.stages for sampler in stage.samplers)


def plan_of(sampler: Sampler | Plan) -> Plan:
    """A sampler's own plan: to look for starts, to learn, to draw."""
    return sampler if isinstance(sampler, Plan) else Plan((Search(), Learn(sampler), Draw(sampler)), sampler.name)


def lengths(shares: list[float], num_warmup: int) -> list[int]:
    """Iterations of each stage of warm-up, which add up to `num_warmup`."""
    ends = [round(num_warmup * sum(shares[: i + 1])) for i in range(len(shares))]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]
