r"""A move of all chains at once: a Markov kernel $K_\theta$ with $\pi K_\theta = \pi$, in which θ stands still.

A move works in coordinates and with tuning parameters θ that are given when it is made; what adapts θ makes a new one.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

STATISTICS = {
    "lp": float, "acceptance_rate": float, "accepted": bool, "nonfinite": bool, "diverging": bool, "n_steps": int,
    "gradient_evaluations": int, "energy": float, "step_size": float,
}  # fmt: skip
"""what every move records of an iteration, and its type"""
TREE = {"tree_depth": int, "cut_short": bool, "discontinuous": bool, "reached_max_treedepth": bool}
"""what NUTS records beside it"""
State = dict[str, np.ndarray]
"""All that changes in a move, arrays only: with the generator's state a run goes on from it to the same bits."""
Draws = dict[str, np.ndarray]
"""`position` of shape (t, chains, n) and statistics of shape (t, chains) by the names of ArviZ (see `AbstractMove`)."""


class AbstractMove(ABC):
    """A Markov kernel of all chains that leaves π invariant.

    Every move records `STATISTICS`, and NUTS `TREE` as well. A log ratio that is not above −1000 diverges; one that is
    not finite is `nonfinite`, and its proposal is rejected.
    """

    @abstractmethod
    def init(self, x: np.ndarray, rng: np.random.Generator) -> State:
        """The state of chains that stand at x, of shape (chains, n)."""

    @abstractmethod
    def advance(self, state: State, rng: np.random.Generator, iterations: int) -> tuple[State, Draws]:
        """The state after about so many iterations, and their draws; the arrays of the state given do not change.

        Draws do not depend on how a run is cut: 10 iterations and 7 more are 17, bit for bit. A move that works in
        blocks may return more rows than were wanted; NUTS returns those that all chains have completed.
        """

    @abstractmethod
    def positions(self, state: State) -> np.ndarray:
        """Where chains stand, of shape (chains, n)."""


def in_blocks(
    block: Callable[[State, np.random.Generator], tuple[State, Draws]],
    state: State,
    rng: np.random.Generator,
    count: int,
) -> tuple[State, Draws]:
    """The state after so many blocks, one at least, and their draws one after another."""
    state, *rest = block(state, rng)
    for _ in range(count - 1):
        state, drawn = block(state, rng)
        rest.append(drawn)
    return state, rest[0] if count == 1 else {name: np.concatenate([each[name] for each in rest]) for name in rest[0]}
