"""The wild set: everyday posteriors and awkward shapes that no default is tuned on, by name.

Builders simulate data by a seeded generator, unless the data are real. Chains start without prior knowledge: uniform on
(−2, 2), whatever the unit.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gadabout.model import Model
from gadabout.targets.wild import geometry, hierarchical, processes, regressions, time_series

__all__ = ["BUILDERS", "TRUTH", "available", "load", "truth"]

TRUTH = Path(__file__).with_name("truth")
"""The folder of the truth files; `gadabout bench truth` makes them."""

BUILDERS: dict[str, Callable[[], Model]] = {
    builder.__name__.replace("_", "-"): builder
    for builder in (
        hierarchical.eight_schools_centred,
        hierarchical.eight_schools_noncentred,
        hierarchical.sleep_study,
        hierarchical.item_response,
        hierarchical.horseshoe,
        hierarchical.mixture,
        regressions.linear_raw,
        regressions.logistic_raw,
        regressions.poisson_raw,
        regressions.negative_binomial_raw,
        regressions.student_t_raw,
        time_series.ark,
        time_series.arma11,
        time_series.garch11,
        time_series.hidden_markov,
        time_series.stochastic_volatility,
        processes.lotka_volterra,
        processes.gp_hyperparameters,
        processes.gp_poisson,
        processes.log_gaussian_cox,
        geometry.funnel,
        geometry.banana,
        geometry.rotated_gaussian,
        geometry.two_modes,
    )
}


def available() -> dict[str, str]:
    """The names of the wild set, each with a description of one line. Simulates no data."""
    return {name: (builder.__doc__ or "").split("\n")[0].removesuffix(".") for name, builder in BUILDERS.items()}


def load(name: str) -> Model:
    """The model called `name`, a key of BUILDERS."""
    model = BUILDERS[name]()
    model.name = name
    return model


def truth(name: str) -> dict[str, Any]:
    """True values of the target called `name`: by variable `mean`, `variance`, `quantiles` and their errors.

    `quantiles`, of shape (*shape, 5), are those at 5, 25, 50, 75 and 95 %; they are left out beyond 200 coordinates.
    `judge` is the criterion for a run: its moments or, for heavy tails, its quantiles.

    Raises FileNotFoundError if the target has no truth file.
    """
    return json.loads((TRUTH / f"{name}.json").read_text())
