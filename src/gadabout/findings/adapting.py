"""A finding on Algorithm 1 if it continues while draws are kept and its steps have hardly decreased by then."""

from typing import Any

import numpy as np

from gadabout.adaptations import SpeedMeasure
from gadabout.findings.records import Finding

LARGEST_STEP = 5e-3
"""largest step at the first draw, relative to the proposal's scale; at 0.05 variances are 4 to 5 % too small"""


def constant_gain(adaptation: Any, num_warmup: int, num_draws: int) -> list[Finding]:
    """A finding if an adaptation that `continues` takes large steps (rate × gain) as draws are kept; at most one."""
    measure = getattr(adaptation, "adaptation", None)
    if not (adaptation.continues and isinstance(measure, SpeedMeasure) and measure.gain is not None):
        return []
    rate = getattr(measure.optimiser, "learning_rate", None)
    gain: Any = measure.gain
    first, last = (float(gain(float(k))) for k in (num_warmup + 1, num_warmup + num_draws))
    if rate is None or not float(np.asarray(rate)) * first > LARGEST_STEP:
        return []
    step = float(np.asarray(rate)) * first
    problem = (
        f"θ went on learning with a nearly constant gain: its steps were up to {step:.2g} of the proposal's scale when "
        f"the first draw was kept, and {last / first:.0%} of that at the last: draws follow another law"
    )
    remedy = "use more num_warmup, a smaller learning_rate, a gain that falls earlier, or adapt_for_ever=False"
    return [Finding("constant-gain", problem, remedy, figure=step, limit=LARGEST_STEP)]
