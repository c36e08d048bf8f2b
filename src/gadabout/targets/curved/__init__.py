"""The set of curved ridges: posteriors in which some coordinates follow a parabola of others.

Chains start uniform on (−2, 2) in every coordinate. docs/wild.md says what was built after runs on this set.
"""

from collections.abc import Callable
from pathlib import Path

from gadabout.model import Model
from gadabout.targets.curved import parabolas, saturation

__all__ = ["BUILDERS", "TRUTH"]

TRUTH = Path(__file__).with_name("truth")
"""The folder of the truth files; `gadabout bench truth` makes them."""

BUILDERS: dict[str, Callable[[], Model]] = {
    builder.__name__.replace("_", "-"): builder
    for builder in (
        parabolas.twisted_gaussian,
        parabolas.rosenbrock,
        parabolas.hybrid_rosenbrock,
        parabolas.six_parabolas,
        parabolas.products,
        parabolas.rotated_parabola,
        parabolas.bent_funnel,
        saturation.saturation,
    )
}
