"""Layers of coordinates that are found in draws, tried, and kept where they pay (`ensemble.unfolding` finds them)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gadabout.ensemble import unfolding
from gadabout.ensemble.coordinates import Noncentring, in_words, placed
from gadabout.ensemble.curvature import Sample
from gadabout.ensemble.handover import Handover
from gadabout.ensemble.pilot_runs import PilotRuns
from gadabout.ensemble.trial import Trial

Layers = tuple[Noncentring, ...]
MOST_DRAWS = 1_600
"""draws of a trial in which layers are looked for"""
SHORTER = 0.2
"""the share of trajectories with shorter and with finer steps in coordinates with layers"""
LAYERED = 300
"""iterations of a trial in coordinates with layers at the least: necks are seldom visited"""
MOST_TIMES, SMALL = 3, 0.06
"""times that layers are looked for, and the Fisher divergence with layers that is small enough"""
TOO_MANY = 1e-3
"""the share of trajectories that diverge with which layers as people write them are tried"""


@dataclass
class Layering:
    """The search for layers.

    Args:
        runs: of the pilot run.
        dense: whether the Gaussian has a covariance.
    """

    runs: PilotRuns
    dense: bool

    def layered(self, begun: Handover, trial: Trial, names: Sequence[str]) -> tuple[Handover, Trial, dict[str, Any]]:
        """The handover in coordinates with layers, and a trial there, where they pay; and what is said of that.

        Layers are looked for again in the draws that they made possible, and the Gaussian fitted to these, until the
        Fisher divergence with what was learned is small or no longer falls: what is new is compared with what was
        before on draws made in the new coordinates, which may reach further.

        Args:
            begun: where chains stand, with what they learned.
            trial: of split HMC, which ended there.
            names: of the coordinates of x.
        """
        density, rng, told = self.runs.density, self.runs.rng, {}
        sample, length = self._sample(begun, trial), max(len(trial.draws), LAYERED)
        here = unfolding.divergence_in(begun.coordinates, sample)
        for _ in range(MOST_TIMES):
            if here < (unfolding.SMALL if begun.layers is None else SMALL):
                break
            layers, predicted = unfolding.layers_for(density, sample, self.dense, rng)
            if not layers or (begun.layers is not None and predicted >= unfolding.GAIN * here):
                break
            there, further, settled = self._under(layers, begun, sample, length)
            sample = self._sample(there, further)
            before, here = (unfolding.divergence_in(each.coordinates, sample) for each in (begun, there))
            if not here < before:
                break
            begun, trial, told = there, further, {"settled": settled}
        if begun.layers is not None and trial.diverging > TOO_MANY:  # a fit that ends where draws do
            layers = unfolding.plain_layers(density, sample, begun.coordinates.layers, self.dense, rng)
            there, further, settled = self._under(layers, begun, sample, length)
            if further.diverging < 0.5 * trial.diverging:
                begun, trial, told = there, further, {"settled": settled}
                sample = self._sample(begun, trial)
        both = (
            unfolding.fisher_divergence(sample.below(layers), self.dense) for layers in ((), begun.coordinates.layers)
        )
        told |= {"fisher_divergence": [float(f"{each:.3g}") for each in both]}
        if begun.layers is not None:
            told |= {"coordinates": in_words(begun.coordinates.layers, names)}
        return begun, trial, told

    def _under(self, layers: Layers, begun: Handover, sample: Sample, iterations: int) -> tuple[Handover, Trial, bool]:
        """The handover after a warm-up in coordinates with layers, a trial there, and whether the warm-up settled."""
        here = unfolding.gaussian_of(sample.below(layers), self.dense, layers)
        there, settled = self.runs.warmup(replace(begun, **here.arrays()))
        return *self.runs.split_hmc(replace(there, shorter=np.asarray(SHORTER)), iterations), settled

    def _sample(self, begun: Handover, trial: Trial) -> Sample:
        """Draws of a trial, of x, with the gradients of log π there."""
        y = trial.flat[np.sort(self.runs.rng.permutation(len(trial.flat))[:MOST_DRAWS])]
        x = placed(begun.coordinates.layers, y).x
        grad = self.runs.density.value_and_grad(x)[1]
        good = np.isfinite(grad).all(1)
        return Sample(x[good], grad[good])
