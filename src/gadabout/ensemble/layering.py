"""Layers of coordinates: found in draws by `ensemble.unfolding`, tried, and kept where they pay."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gadabout.ensemble import unfolding
from gadabout.ensemble.curvature import Sample
from gadabout.ensemble.divergence import divergence_in, fisher_divergence, gaussian_of
from gadabout.ensemble.handover import Handover
from gadabout.ensemble.in_words import in_words
from gadabout.ensemble.noncentring import Noncentring, placed
from gadabout.ensemble.pilot_runs import PilotRuns
from gadabout.ensemble.trial import Trial

Layers = tuple[Noncentring, ...]
MOST_DRAWS = 1_600
"""draws of a trial at most that layers are searched for in"""
SHORTER = 0.2
"""the share of trajectories with shorter and with finer steps in coordinates with layers"""
LAYERED = 300
"""iterations of a trial in coordinates with layers at the least: necks are seldom visited"""
MOST_TIMES, SMALL = 3, 0.06
"""`MOST_TIMES`: searches for layers at most. `SMALL`: Fisher divergence with layers below which no search follows"""
TOO_MANY = 1e-3
"""share of diverging trajectories above which layers are tried as people write them (`unfolding.plain_layers`)"""


@dataclass
class Layering:
    """The search for layers.

    Args:
        runs: the runs that the pilot run is made of.
        dense: whether the Gaussian has a full covariance.
    """

    runs: PilotRuns
    dense: bool

    def layered(self, begun: Handover, trial: Trial, names: Sequence[str]) -> tuple[Handover, Trial, dict[str, Any]]:
        """The handover and a trial in coordinates with layers, where these pay, and the evidence on them.

        Layers are searched for again in the draws that they made possible, and the Gaussian is fitted to these, until
        the Fisher divergence with the learned coordinates is small or no longer falls. New coordinates are compared
        with those before on draws made in the new ones, which may reach further.

        Args:
            begun: the positions of chains after the trial, and the learned parameters.
            trial: the trial of split HMC that ended there.
            names: of the coordinates of x.
        """
        density, rng, told = self.runs.density, self.runs.rng, {}
        sample, length = self._sample(begun, trial), max(len(trial.draws), LAYERED)
        here = divergence_in(begun.coordinates, sample)
        for _ in range(MOST_TIMES):
            if here < (unfolding.SMALL if begun.layers is None else SMALL):
                break
            layers, predicted = unfolding.layers_for(density, sample, self.dense, rng)
            if not layers or (begun.layers is not None and predicted >= unfolding.GAIN * here):
                break
            there, further, settled = self._under(layers, begun, sample, length)
            sample = self._sample(there, further)
            before, here = (divergence_in(each.coordinates, sample) for each in (begun, there))
            if not here < before:
                break
            begun, trial, told = there, further, {"settled": settled}
        if begun.layers is not None and trial.diverging > TOO_MANY:  # the fit holds only where there are draws
            layers = unfolding.plain_layers(density, sample, begun.coordinates.layers, self.dense, rng)
            there, further, settled = self._under(layers, begun, sample, length)
            if further.diverging < 0.5 * trial.diverging:
                begun, trial, told = there, further, {"settled": settled}
                sample = self._sample(begun, trial)
        both = (fisher_divergence(sample.below(layers), self.dense) for layers in ((), begun.coordinates.layers))
        told |= {"fisher_divergence": [float(f"{each:.3g}") for each in both]}
        if begun.layers is not None:
            told |= {"coordinates": in_words(begun.coordinates.layers, names)}
        return begun, trial, told

    def _under(self, layers: Layers, begun: Handover, sample: Sample, iterations: int) -> tuple[Handover, Trial, bool]:
        """The handover after a warm-up in coordinates with layers, a trial there, and whether the warm-up settled."""
        here = gaussian_of(sample.below(layers), self.dense, layers)
        there, settled = self.runs.warmup(replace(begun, **here.arrays()))
        return *self.runs.split_hmc(replace(there, shorter=np.asarray(SHORTER)), iterations), settled

    def _sample(self, begun: Handover, trial: Trial) -> Sample:
        """Some draws x of a trial, with the gradients of log π where these are finite."""
        y = trial.flat[np.sort(self.runs.rng.permutation(len(trial.flat))[:MOST_DRAWS])]
        x = placed(begun.coordinates.layers, y).x
        grad = self.runs.density.value_and_grad(x)[1]
        good = np.isfinite(grad).all(1)
        return Sample(x[good], grad[good])
