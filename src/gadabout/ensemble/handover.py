"""The handover from one stage of the default to the next: the positions of chains, and all that was learned."""

from dataclasses import dataclass, fields

import numpy as np

from gadabout.ensemble.coordinates import Coordinates
from gadabout.ensemble.mixture import Mixture
from gadabout.ensemble.move import State
from gadabout.ensemble.noncentring import unpacked


@dataclass(frozen=True)
class Handover:
    """Positions and learned parameters, as arrays only, so that a checkpoint holds them; None if not learned yet.

    Args:
        x: the positions of chains, (chains, n).
        mean: of the coordinates y = mean + factor z, (n,).
        factor: of these coordinates, (n,) or (n, n).
        step_size: of split HMC in radians, or of NUTS; shape ().
        move: the index of the chosen move in `choose.Move`; shape ().
        weights: of the scales of independence proposals, (K,).
        tails: of independence proposals: shift, width, left and right, (4, n).
        repeats: trajectories of split HMC for a draw; shape ().
        shorter: the share of split HMC trajectories with shorter steps, and of iterations with finer ones; shape ().
        layers: of the coordinates, in the form of `coordinates.packed`.
        component_weights: of the mixture that proposals are drawn from, (K,).
        component_means: of this mixture, (K, n).
        component_factors: of this mixture, (K, n, n).
        component_modes: the mode to which each component belongs, (K,).
    """

    x: np.ndarray
    mean: np.ndarray | None = None
    factor: np.ndarray | None = None
    step_size: np.ndarray | None = None
    move: np.ndarray | None = None
    weights: np.ndarray | None = None
    tails: np.ndarray | None = None
    repeats: np.ndarray | None = None
    shorter: np.ndarray | None = None
    layers: np.ndarray | None = None
    component_weights: np.ndarray | None = None
    component_means: np.ndarray | None = None
    component_factors: np.ndarray | None = None
    component_modes: np.ndarray | None = None

    @property
    def coordinates(self) -> Coordinates:
        """The learned coordinates."""
        assert self.mean is not None
        assert self.factor is not None
        return Coordinates(self.mean, self.factor, unpacked(self.layers))

    @property
    def dense(self) -> bool:
        """Whether the factor is a matrix."""
        return self.factor is not None and self.factor.ndim == 2

    @property
    def mixture(self) -> Mixture | None:
        """The mixture that proposals are drawn from; None if there is none."""
        if self.component_weights is None:
            return None
        assert self.component_means is not None
        assert self.component_factors is not None
        assert self.component_modes is not None
        return Mixture(self.component_weights, self.component_means, self.component_factors, self.component_modes)

    def arrays(self) -> State:
        """The fields that are not None, by name."""
        known = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: np.asarray(value) for name, value in known.items() if value is not None}

    @staticmethod
    def of(arrays: State) -> "Handover":
        """The handover of such arrays; raises TypeError for an unknown name."""
        return Handover(**arrays)
