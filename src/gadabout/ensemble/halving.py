r"""Strides of leapfrogs in as many parts as their energy asks for (WALNUTS; Bou-Rabee, Carpenter, Kleppe & Liu 2025).

A stride is `STRIDE` leapfrogs of size ε, or each of them in $2^\ell$ parts. The range r of the energy along it gives
the probability $c(r)$ with which level ℓ + 1 is tried (`refinement_probability`), so that level ℓ is taken with
$$P_\ell = (1 - c(r_\ell)) \prod_{j < \ell} c(r_j).$$
From a stride's end with the momentum turned, level ℓ retraces the same states, but levels j < ℓ have other ranges
$r'_j$. They are tried as well, to compute $P'_\ell$: the trajectory's states are then drawn with weights $e^{-H}$ times
$P'_\ell / P_\ell$ for each stride between the start and them (`log_odds`). A stride with $P'_\ell = 0$ cannot be
retraced, and the trajectory ends before it, as before a divergence. Strides of one leapfrog would do so often where the
energy oscillates along a trajectory.

Each chain is at its own part of its own attempt; `advance_part` moves all of them by one gradient.
"""

import numpy as np

from gadabout.ensemble.move import State
from gadabout.ensemble.tree import momenta

SMALL, LARGE = 0.5, 1.5
"""ranges of the energy along a stride, in nats: up to the first no more parts are tried, from the second always"""
STRIDE = 2
"""leapfrogs of size ε"""


def refinement_probability(spread: np.ndarray) -> np.ndarray:
    """The probability that a stride is tried with more parts, by the range of its energy; 1 where that is NaN."""
    return np.where(spread < LARGE, np.maximum(spread - SMALL, 0.0) / (LARGE - SMALL), 1.0)


def log_odds(forth: np.ndarray, back: np.ndarray) -> np.ndarray:
    """log P'/P of strides taken with probability P and retraced with P'; 0 where P' is."""
    return np.log(np.where(back > 0, back, forth) / forth)


def no_strides(phases: np.ndarray) -> State:
    """Memory for strides from phases (chains, width), before any begins.

    An attempt goes from `origin` with energy `origin_energy`: `made` parts of level `level`, in which the energy was
    between `low` and `high`. Once a stride is `found`, of level `enough`, its `end` is the origin of the way back, with
    the momentum turned. `forth` and `back` are the probabilities of the levels passed on either way, and the uniform
    `coin`, one a stride, decides on levels.
    """
    chains = len(phases)
    floats = ("origin_energy", "low", "high", "forth", "back", "coin")
    state = {name: np.zeros(chains) for name in floats} | {name: np.zeros(chains, int) for name in ("made", "level")}
    return state | {
        "enough": np.zeros(chains, int),
        "found": np.zeros(chains, bool),
        "origin": phases.copy(),
        "end": phases.copy(),
    }


def begin_strides(s: State, chains: np.ndarray, energy: np.ndarray, coin: np.ndarray) -> None:
    """Begin strides of these chains from the phases `here`, whose energies and coins are given for all chains."""
    s["origin"][chains] = s["here"][chains]
    s["coin"][chains] = coin[chains]
    s["made"][chains] = s["level"][chains] = s["enough"][chains] = 0
    s["forth"][chains] = s["back"][chains] = 1.0
    s["found"][chains] = False
    s["origin_energy"][chains] = s["low"][chains] = s["high"][chains] = energy[chains]


def advance_part(s: State, energy: np.ndarray, halvings: int) -> tuple[np.ndarray, ...]:
    """Count a part just made, to `here` with this energy, and begin the next attempt where one is over.

    Returns the chains (m,) whose stride is over; whether it was found, and whether it cannot be retraced, both (m,);
    P and P', both (m,). The ends of the strides are in `end`.
    """
    s["made"] += 1
    low, high = np.minimum(s["low"], energy, out=s["low"]), np.maximum(s["high"], energy, out=s["high"])
    over = (s["made"] == STRIDE << s["level"]) | ~(high - low < LARGE)
    i = (over & (s["direction"] != 0)).nonzero()[0]
    if not len(i):
        return i, *np.zeros((2, 0), bool), *np.zeros((2, 0))
    refine = refinement_probability(high[i] - low[i])
    level, found, start = s["level"][i], s["found"][i], s["origin_energy"][i]
    forth, back, energy = s["forth"][i], s["back"][i], energy[i]
    finer = ~found & (s["coin"][i] < forth * refine)
    arrived = ~found & ~finer
    acceptance = np.fmax(np.exp(np.minimum(start - energy, 0.0)), 0.0)
    s["acceptance"][i] += np.where(~found & (level == 0), acceptance, 0.0)
    back = np.where(arrived, 1 - refine, np.where(found, back * refine, back))
    forth = forth * np.where(finer, refine, np.where(arrived, 1 - refine, 1.0))
    s["enough"][i] = enough = np.where(arrived, level, s["enough"][i])
    level, found, start = np.where(arrived, 0, level + 1), found | arrived, np.where(arrived, energy, start)

    ends = i[arrived]
    if len(ends):
        s["end"][ends] = turned = s["here"][ends]
        momenta(turned)[:] *= -1
        s["origin"][ends] = turned
    s["here"][i] = s["origin"][i]
    s["made"][i], s["level"][i], s["found"][i], s["forth"][i], s["back"][i] = 0, level, found, forth, back
    s["origin_energy"][i] = s["low"][i] = s["high"][i] = start
    done = np.where(found, (level >= enough) | (back <= 0), level > halvings)
    return i[done], found[done], (found & (back <= 0))[done], forth[done], back[done]
