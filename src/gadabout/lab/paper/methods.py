"""The methods of the tables, with the settings under which the paper's figures were made."""

from collections.abc import Callable
from dataclasses import dataclass

from gadabout.algorithms import am, gad_mala, gad_rwm, hmc, mala, nuts, rwm
from gadabout.sampler import Sampler

ADAPTING = COLLECTED = 20_000


@dataclass(frozen=True)
class Method:
    """A row of a table: a sampler, its numbers of iterations, and how to run repeats that take over a minute."""

    label: str
    sampler: Callable[[], Sampler]
    num_warmup: int = ADAPTING
    num_draws: int = COLLECTED
    together: bool = False
    """whether the repeats run as vectorised chains, each with its own θ, while one chain alone is timed"""
    num_repeats: int | None = None
    """largest number of repeats; None for no limit"""
    start_at_zero: bool = False
    """whether chains start at 0, not at a draw from N(0, I)"""
    keep_factor: bool = False
    """whether a repeat keeps the whole learned factor and the last β, not only the factor's diagonal"""

    @property
    def published(self) -> str:
        """Name of the published row for comparison: the label without the variant that follows a comma."""
        return self.label.partition(",")[0]

    @property
    def scale(self) -> float:
        """Factor that scales ESS and sampling time to the paper's 20,000 draws."""
        return COLLECTED / self.num_draws


def methods(target: str) -> list[Method]:
    """The rows of a target's table, in the paper's order; HMC with all three numbers of leapfrog steps."""
    return _mnist(target) if target.startswith("mnist") else _usual(target)


def _usual(target: str) -> list[Method]:
    diagonal = "diagonal" if target == "neal" else "dense"
    slow = target == "caravan"
    return [
        Method("gadMALAf", lambda: gad_mala(learning_rate=1.5e-4, form="paper")),
        Method("gadMALAe", lambda: gad_mala(variant="exact", learning_rate=1.5e-4, form="paper")),
        Method("gadRWM", lambda: gad_rwm(learning_rate=5e-5, form="paper")),
        Method("AM, as run", lambda: am(factor=diagonal)),
        Method("AM, as written", lambda: am(variant="as-written")),
        Method("RWM", rwm),
        Method("MALA", lambda: mala(target_acceptance=0.54)),
        *(_hmc(steps, together=slow and steps > 5) for steps in (5, 10, 20)),
        _paper_nuts(num_draws=2_000 if slow else COLLECTED),
        _modern_nuts(num_draws=2_000 if slow else COLLECTED),
    ]


def _mnist(target: str) -> list[Method]:
    """The gradient-based methods, with fewer repeats of HMC and fewer draws of NUTS: the paper's NUTS took 22 hours.

    With correct labels only gadMALAf and MALA: the published rows are of the posterior with the paper's labels.
    """
    gad = Method("gadMALAf", lambda: gad_mala(learning_rate=1e-5, form="paper"), num_warmup=50_000, together=True)
    mala_row = Method("MALA", lambda: mala(target_acceptance=0.54), together=True)
    if target != "mnist-56-as-published":
        return [gad, mala_row]
    return [
        gad,
        mala_row,
        _hmc(5, together=True, num_repeats=2),
        _hmc(10, num_repeats=1),
        _hmc(20, num_repeats=1),
        _paper_nuts(num_draws=200, num_repeats=1),
        _modern_nuts(num_draws=1_000, num_repeats=1),
    ]


def _hmc(steps: int, **settings) -> Method:
    label = f"HMC-{steps}"
    return Method(label, lambda: hmc(steps, target_acceptance=0.7), **settings)


def _paper_nuts(**settings) -> Method:
    """NUTS as the paper ran it: unit metric, 500 iterations of warm-up, tree depth at most 12 in warm-up, then 10."""
    recipe = lambda: nuts(metric="unit", max_depth=10, warmup_max_depth=12)
    return Method("NUTS, unit metric", recipe, num_warmup=500, **settings)


def _modern_nuts(**settings) -> Method:
    """NUTS as it is usually run: adapted diagonal metric, 1,000 iterations of warm-up."""
    return Method("NUTS, adapted metric", nuts, num_warmup=1_000, **settings)
