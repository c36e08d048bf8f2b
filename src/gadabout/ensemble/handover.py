"""What one stage of the default hands to the next: where chains stand, and all that was learned."""

from dataclasses import dataclass, fields

import numpy as np

from gadabout.ensemble.coordinates import Affine
from gadabout.ensemble.move import State


@dataclass(frozen=True)
class Handover:
    """Arrays and nothing else, so that a checkpoint holds it; what is not known yet is None.

    Args:
        x: where chains stand, (chains, n).
        mean: of the coordinates x = mean + factor z, (n,).
        factor: of them, (n,) or (n, n).
        step_size: of split HMC in radians, or of NUTS; shape ().
        move: the index of the chosen move in `choose.Move`; shape ().
        weights: of the scales of independence proposals, (K,).
        tails: of independence proposals: shift, width, left and right, (4, n).
    """

    x: np.ndarray
    mean: np.ndarray | None = None
    factor: np.ndarray | None = None
    step_size: np.ndarray | None = None
    move: np.ndarray | None = None
    weights: np.ndarray | None = None
    tails: np.ndarray | None = None

    @property
    def coordinates(self) -> Affine:
        """The learned coordinates."""
        assert self.mean is not None
        assert self.factor is not None
        return Affine(self.mean, self.factor)

    def arrays(self) -> State:
        """What is known, by name."""
        known = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: np.asarray(value) for name, value in known.items() if value is not None}

    @staticmethod
    def of(arrays: State) -> "Handover":
        """What `arrays` told of; raises TypeError for a name that there is not."""
        return Handover(**arrays)
