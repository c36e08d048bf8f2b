r"""Finite Markov chains: properties computed from the transition matrix, not estimated from samples.

$T_{ij}$ is the probability of a step from state i to state j. Rows sum to one. A law is a row vector, and one step maps
it by $\pi^\top \mapsto \pi^\top T$. (The lectures write $T\pi$ for the same T: a slip.)
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from gadabout.checks import check_array, check_probability, check_whole, shown


@final
@dataclass(frozen=True, eq=False)
class FiniteChain:
    """A Markov chain on the states 0, ..., n − 1 with the `transition` matrix T, shape (n, n).

    Raises ValueError, with the first wrong row, if a row is not a probability distribution.
    """

    transition: Any

    def __post_init__(self):
        T = check_array("transition", self.transition, "a square matrix", finite=False)
        if T.ndim != 2 or T.shape[0] != T.shape[1] or T.size == 0:
            raise ValueError(f"transition must be a square matrix, got the shape {T.shape}")
        right = (T >= 0).all(1) & (np.abs(T.sum(1) - 1) <= 1e-9)
        if not right.all():
            i = int(np.argmin(right))
            raise ValueError(
                "transition must have rows of probabilities that sum to one (row i: from state i); "
                f"row {i} is {T[i]}, with the sum {T[i].sum():g}"
            )
        object.__setattr__(self, "transition", T)

    def marginal(self, start: Any, t: int) -> np.ndarray:
        r"""The law after t steps, $\pi^\top T^t$, from the law `start` (n,), or from each of several laws (k, n)."""
        t = check_whole("t", t, 0)
        return self._law("start", start, several=True) @ np.linalg.matrix_power(self.transition, t)

    def _law(self, name: str, law: Any, several: bool = False) -> np.ndarray:
        """A law (n,), or `several` of them (k, n); raises TypeError or ValueError for anything else."""
        n = len(self.transition)
        found = check_array(name, law, f"probabilities of shape ({n},)")
        if found.ndim not in (1, 1 + several) or found.shape[-1] != n:
            raise ValueError(f"{name} must have the shape ({n},), one probability for each state, got {found.shape}")
        if not ((found >= 0).all() and (np.abs(found.sum(-1) - 1) <= 1e-9).all()):
            raise ValueError(f"{name} must be probabilities that sum to one, got {shown(law)}")
        return found

    @cached_property
    def closed_classes(self) -> list[np.ndarray]:
        """The closed classes, in which the chain ends up: sets of states that reach one another and no other state."""
        n = len(self.transition)
        reach = (self.transition > 0) | np.eye(n, dtype=bool)
        for _ in range(max(n - 1, 1).bit_length()):
            reach = reach.astype(float) @ reach > 0
        closed = [i for i in range(n) if (reach[:, i] >= reach[i]).all()]  # every state that i reaches also reaches i
        return [np.flatnonzero(reach[i]) for i in closed if np.flatnonzero(reach[i])[0] == i]

    @property
    def is_irreducible(self) -> bool:
        """Whether every state can be reached from every other."""
        return len(self.closed_classes[0]) == len(self.transition)

    @cached_property
    def period(self) -> int:
        """The smallest d for which Tᵈ, T²ᵈ, ... converges: the least common multiple of the closed classes' periods."""
        return math.lcm(*(_period(self.transition[np.ix_(c, c)] > 0) for c in self.closed_classes))

    @cached_property
    def stationary_laws(self) -> np.ndarray:
        r"""The laws with $\pi^\top = \pi^\top T$, shape (k, n), one for each closed class; all others are mixtures."""
        laws = np.zeros((len(self.closed_classes), len(self.transition)))
        for law, c in zip(laws, self.closed_classes, strict=True):
            law[c] = _stationary(self.transition[np.ix_(c, c)])
        return laws

    @property
    def stationary_law(self) -> np.ndarray:
        """The stationary law, shape (n,); raises ValueError if there are several."""
        if len(self.stationary_laws) > 1:
            classes = [c.tolist() for c in self.closed_classes]
            raise ValueError(f"the stationary law is not unique: each of {classes} is never left")
        return self.stationary_laws[0]

    def imbalance(self, law: Any = None) -> float:
        r"""$\max_{ij} |\pi_i T_{ij} - \pi_j T_{ji}|$, zero in detailed balance with π, by default a stationary law."""
        law = self.stationary_laws.mean(0) if law is None else self._law("law", law)
        flow = law[:, None] * self.transition
        return float(np.abs(flow - flow.T).max())

    @property
    def is_reversible(self) -> bool:
        """Whether detailed balance holds under the stationary law, up to rounding."""
        return self.imbalance() < 1e-12

    @cached_property
    def eigenvalues(self) -> np.ndarray:
        r"""The eigenvalues of T, largest modulus first.

        If T is reversible, they are computed from $\mathrm{diag}(\sqrt\pi)\,T\,\mathrm{diag}(\sqrt\pi)^{-1}$, which is
        symmetric.
        """
        root = np.sqrt(self.stationary_laws.mean(0))
        symmetric = self.is_reversible and (root > 0).all()
        matrix = root[:, None] * self.transition / root if symmetric else self.transition
        values = np.linalg.eigvalsh((matrix + matrix.T) / 2) if symmetric else np.linalg.eigvals(matrix)
        return values[np.argsort(-np.abs(values), kind="stable")]

    @property
    def second_eigenvalue(self) -> float:
        """|λ₂|: the influence of the start decays as |λ₂|ᵗ over t steps. 1 if the chain never forgets its start."""
        return min(float(np.abs(self.eigenvalues[1])), 1.0) if len(self.eigenvalues) > 1 else 0.0

    def mixing_time(self, distance: float = 0.25) -> float:
        """Steps until the law from the worst start is within `distance` (total variation) of stationarity, or inf."""
        check_probability("distance", distance, "0.25 is usual")
        if len(self.closed_classes) > 1 or self.period > 1:
            return math.inf
        far = lambda power: np.abs(power - self.stationary_law).sum(1).max() / 2 > distance
        doublings = [self.transition]  # T, T², T⁴, ... until one is within `distance`, then bisection
        while far(doublings[-1]):
            square = doublings[-1] @ doublings[-1]
            doublings.append(square / square.sum(1, keepdims=True))
        power, steps = np.eye(len(self.transition)), 0  # the most steps after which the chain is still too far
        for k in range(len(doublings) - 2, -1, -1):
            if far(longer := power @ doublings[k]):
                power, steps = longer, steps + 2**k
        return steps + 1 if far(np.eye(len(power))) else 0

    def simulate(self, seed: int, num_steps: int, start: Any, num_chains: int = 1) -> np.ndarray:
        """States of shape (num_chains, num_steps + 1), the first column drawn from the law `start`."""
        num_steps, num_chains = check_whole("num_steps", num_steps, 0), check_whole("num_chains", num_chains)
        seed, start = check_whole("seed", seed, 0), self._law("start", start)
        first, *uniforms = np.random.default_rng(seed).random((num_steps + 1, num_chains))
        pick = lambda u, cumulative: (u[:, None] >= cumulative[:, :-1]).sum(1)
        cumulative = np.cumsum(self.transition, 1)
        states = [pick(first, np.cumsum(start)[None])]
        for u in uniforms:
            states.append(pick(u, cumulative[states[-1]]))
        return np.stack(states, 1)


def _stationary(T: np.ndarray) -> np.ndarray:
    """The stationary law of an irreducible T, without subtractions (Grassmann, Taksar & Heyman 1985)."""
    T = T.copy()
    for k in range(len(T) - 1, 0, -1):
        T[:k, k] /= T[k, :k].sum()
        T[:k, :k] += np.outer(T[:k, k], T[k, :k])
    law = np.ones(len(T))
    for k in range(1, len(T)):
        law[k] = law[:k] @ T[:k, k]
    return law / law.sum()


def _period(edges: np.ndarray) -> int:
    """The greatest common divisor of the lengths of all closed walks in a strongly connected graph."""
    level = np.full(len(edges), -1)
    level[0], front = 0, np.array([0])
    while len(front):
        found = np.flatnonzero(edges[front].any(0) & (level < 0))
        level[found], front = level[front[0]] + 1, found
    i, j = np.nonzero(edges)
    return int(np.gcd.reduce(level[i] + 1 - level[j]))
