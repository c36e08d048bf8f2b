"""The set of modes: posteriors of two to about twenty modes, whose masses a sampler must estimate correctly.

Chains start uniform on (−2, 2) in every coordinate. `two-islands-20` and `period` have a start of their own, because
their chains would otherwise not reach all modes. No default is tuned on this set.
"""

from collections.abc import Callable
from pathlib import Path

from gadabout.model import Model
from gadabout.targets.modes import islands, period, symmetric

__all__ = ["BUILDERS", "TRUTH"]

TRUTH = Path(__file__).with_name("truth")
"""The folder of the truth files; `gadabout bench truth` makes them."""

BUILDERS: dict[str, Callable[[], Model]] = {
    builder.__name__.replace("_", "-"): builder
    for builder in (
        islands.two_islands_2,
        islands.two_islands_5,
        islands.two_islands_20,
        islands.ring_of_eight,
        symmetric.mixture_labels,
        symmetric.sign_flips,
        period.period,
    )
}
