"""The hierarchical set: multilevel posteriors as users write them, most of them centred, on simulated data.

Each builder simulates its data by a seeded generator. Chains start uniform on (−2, 2) in every unconstrained
coordinate. No default is tuned on this set.
"""

from collections.abc import Callable
from pathlib import Path

from gadabout.model import Model
from gadabout.targets.hierarchical import discrete_outcomes, normal_outcomes, series_and_fields

__all__ = ["BUILDERS", "TRUTH"]

TRUTH = Path(__file__).with_name("truth")
"""The folder of the truth files; `gadabout bench truth` makes them."""

BUILDERS: dict[str, Callable[[], Model]] = {
    builder.__name__.replace("_", "-"): builder
    for builder in (
        normal_outcomes.groups_few_data,
        normal_outcomes.groups_much_data,
        normal_outcomes.varying_slopes,
        normal_outcomes.crossed_effects,
        normal_outcomes.nested_effects,
        normal_outcomes.meta_analysis,
        normal_outcomes.horseshoe_centred,
        discrete_outcomes.poisson_groups,
        discrete_outcomes.bernoulli_groups,
        discrete_outcomes.ordinal_groups,
        discrete_outcomes.item_response_centred,
        series_and_fields.bym2,
        series_and_fields.local_level,
        series_and_fields.volatility_student,
        series_and_fields.gp_latent,
        series_and_fields.gp_hilbert,
    )
}
