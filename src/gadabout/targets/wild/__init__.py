"""The wild set: everyday posteriors and awkward shapes that no default is tuned on, by name.

Written before any default was tuned on them. Where the data are simulated, a seeded generator stands in the builder.
Chains start where those of a user who knows nothing do: uniform on (−2, 2), whatever the unit.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gadabout.model import Model
from gadabout.targets.wild import geometry, hierarchical, processes, regressions, time_series

__all__ = ["BUILDERS", "TRUTH", "available", "load", "truth"]

TRUTH = Path(__file__).with_name("truth")
"""The folder of what is known of each target; `gadabout bench truth` makes it."""

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
    """What is known of the target called `name`: by variable `mean`, `variance`, `quantiles` and their errors.

    `quantiles`, of shape (*shape, 5), are those at 5, 25, 50, 75 and 95 %, left out beyond 200 coordinates; `judge`
    says whether a run is to be judged by its moments or, where tails are heavy, by its quantiles.

    Raises FileNotFoundError where its truth has not been made.
    """
    return json.loads((TRUTH / f"{name}.json").read_text())
