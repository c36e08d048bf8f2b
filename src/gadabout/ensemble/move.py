r"""A move of all chains at once: a Markov kernel $K_\theta$ with $\pi K_\theta = \pi$ and fixed θ.

Its coordinates and tuning parameters θ are given at construction. Code that adapts θ makes a new move.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

STATISTICS = {
    "lp": float, "acceptance_rate": float, "accepted": bool, "nonfinite": bool, "diverging": bool, "n_steps": int,
    "gradient_evaluations": int, "energy": float, "step_size": float,
}  # fmt: skip
"""statistics that every move records of an iteration, and their types"""
TREE = {"tree_depth": int, "cut_short": bool, "discontinuous": bool, "reached_max_treedepth": bool}
"""statistics that NUTS records in addition, and their types"""
State = dict[str, np.ndarray]
"""All arrays that change in a move: with them and the generator's state, a run continues bit for bit."""
Draws = dict[str, np.ndarray]
"""`position` of shape (t, chains, n) and statistics of shape (t, chains) by the names of ArviZ (see `AbstractMove`)."""


class AbstractMove(ABC):
    """A Markov kernel of all chains that leaves π invariant.

    Every move records `STATISTICS`, and NUTS `TREE` as well. A proposal is `diverging` if its log ratio is not above
    −1000. It is `nonfinite`, and rejected, if its log ratio is not finite.
    """

    @abstractmethod
    def init(self, x: np.ndarray, rng: np.random.Generator) -> State:
        """The state of chains at positions x, of shape (chains, n)."""

    @abstractmethod
    def advance(self, state: State, rng: np.random.Generator, iterations: int) -> tuple[State, Draws]:
        """The state after about `iterations` iterations, and their draws; the arrays of the given state do not change.

        Draws do not depend on how a run is cut: 10 iterations and 7 more give the bits of 17. A move that works in
        blocks may return more rows than requested; NUTS returns the rows that all chains have completed.
        """

    @abstractmethod
    def positions(self, state: State) -> np.ndarray:
        """Positions of the chains, of shape (chains, n)."""


def in_blocks(
    block: Callable[[State, np.random.Generator], tuple[State, Draws]],
    state: State,
    rng: np.random.Generator,
    count: int,
) -> tuple[State, Draws]:
    """The state after `count` blocks, at least one, and their draws one after another."""
    state, *rest = block(state, rng)
    for _ in range(count - 1):
        state, drawn = block(state, rng)
        rest.append(drawn)
    return state, rest[0] if count == 1 else {name: np.concatenate([each[name] for each in rest]) for name in rest[0]}
