r"""Strides of leapfrogs in as many parts as their energy requires (WALNUTS; Bou-Rabee, Carpenter, Kleppe & Liu 2025).

A stride is `STRIDE` leapfrogs of size ε, or each of them in $2^\ell$ parts. The range r of the energy along it gives
the probability $c(r)$ that level ℓ + 1 is tried (`refinement_probability`). Level ℓ is thus taken with probability
$$P_\ell = (1 - c_\ell) \prod_{j < \ell} c_j, \quad c_j = c(r_j).$$
From a stride's end with the momentum reversed, level ℓ retraces the same states, but levels j < ℓ have other ranges
$r'_j$. They are tried as well, to compute $P'_\ell$. The trajectory's states are then drawn with weights $e^{-H}$ times
$P'_\ell / P_\ell$ for each stride between the start and them (`log_odds`). A stride with $P'_\ell = 0$ cannot be
retraced, and the trajectory ends before it, as before a divergence. Strides of one leapfrog would often have
$P'_\ell = 0$ where the energy oscillates along a trajectory.

Where the density jumps, or log π is rounded, the energy's error does not fall with the step, and halving is given up.
An attempt breaks off where its range reaches `LARGE`. It goes on to its end instead, and is taken ($c_\ell = 0$), if
the largest change of energy in one part has stayed within a factor of `RATIO` for two halvings in a row, or three where
it is large. (On a smooth density each halving divides it by about 8.) So $c_\ell$ depends on the attempts of levels 0
to ℓ, all made from the stride's start. $P'_\ell$ follows by the same rule from attempts that are all made from its end.
If the stride's range reached `LARGE`, one of level ℓ is among them, and $P'_\ell = 0$ unless halving is given up there
at ℓ too. $P'_\ell = 0$ as well where halving is given up there at a lower level. P and P' are thus the probabilities of
the same stride in either direction, which is all that invariance requires.

A trajectory diverges at a stride taken in this way if its energy is not finite or changes by more than `JUMP`. It also
diverges where an attempt has an energy that is not finite after `BORDER_PARTS` parts. Neither depends on the start.

Each chain is at its own part of its own attempt; `advance_part` moves all of them by one gradient.
"""

import numpy as np

from gadabout.ensemble.move import State
from gadabout.ensemble.tree import momenta

SMALL, LARGE = 0.5, 1.5
"""range of the energy along a stride, in nats: up to `SMALL` more parts are never tried, from `LARGE` on always"""
STRIDE = 2
"""number of leapfrogs of size ε in a stride"""
RATIO = 2.0
"""ratio of the largest change of energy in a part to that of the level before, up or down, within which it counts as
unchanged"""
HALVINGS, HALVINGS_IF_LARGE, LARGE_CHANGE = 2, 3, 10.0
"""halvings in a row with an unchanged largest change of energy, after which halving is given up: `HALVINGS`, or
`HALVINGS_IF_LARGE` where that change is at least `LARGE_CHANGE` nats, as steep walls of smooth densities look like such
jumps for longer"""
BORDER_PARTS = 64
"""parts after which an energy that is not finite is taken for a border that shorter steps meet as well"""
JUMP = 1000.0
"""change of the energy along a stride, up or down, in nats, above which the trajectory diverges: counted from the
trajectory's start, as in plain NUTS, a jump of 1000 nats would be crossed from some starts and not from others"""


def refinement_probability(spread: np.ndarray, given_up: np.ndarray) -> np.ndarray:
    """The probability that a stride is tried with more parts, by the range of its energy, `spread`.

    It is 1 where the range is infinite or NaN; else it is 0 where halving is `given_up`.
    """
    by_range = np.where(spread < LARGE, np.maximum(spread - SMALL, 0.0) / (LARGE - SMALL), 1.0)
    return np.where(given_up & (spread < np.inf), 0.0, by_range)


def flatness(flat: np.ndarray, largest: np.ndarray, coarser: np.ndarray) -> np.ndarray:
    """The number of halvings in a row that left the largest change of energy unchanged; `flat` is that before the last.

    It is 0 where one of the two changes is NaN, or both are infinite.
    """
    ratio = largest / coarser
    return np.where((ratio > 1 / RATIO) & (ratio < RATIO), flat + 1, 0)


def gives_up(flat: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """Whether halving is given up after `flat` halvings in a row that left the largest change of energy unchanged."""
    return flat >= np.where(largest < LARGE_CHANGE, HALVINGS, HALVINGS_IF_LARGE)


def log_odds(forth: np.ndarray, back: np.ndarray) -> np.ndarray:
    """log P'/P of strides taken with probability P and retraced with P'; 0 where P' = 0."""
    return np.log(np.where(back > 0, back, forth) / forth)


def no_strides(phases: np.ndarray) -> State:
    """Memory for strides from phases (chains, width), before any begins.

    An attempt begins at `origin` with energy `origin_energy`. It has `made` parts of level `level` so far. In these the
    energy was between `low` and `high`, is `last` now, and changed by at most `largest` in one part, by `coarser` in
    the attempt before; `flat` as in `flatness`. The attempt goes on to its end where halving is `given_up`. Once a
    stride is `found`, of level `enough`, range `range` and largest change `finest`, its `end` is the origin of the way
    back, with the momentum reversed. `forth` and `back` are the probabilities of the levels passed on either way. The
    uniform `coin`, one for each stride, decides on levels. A trajectory is `discontinuous` if a stride of a range of
    `LARGE` or more was taken, or ends it.
    """
    chains = len(phases)
    floats = ("origin_energy", "low", "high", "last", "largest", "coarser", "range", "finest", "forth", "back", "coin")
    state = {name: np.zeros(chains) for name in floats}
    state |= {name: np.zeros(chains, int) for name in ("made", "level", "enough", "flat")}
    state |= {name: np.zeros(chains, bool) for name in ("given_up", "found", "discontinuous")}
    return state | {"origin": phases.copy(), "end": phases.copy()}


def begin_strides(s: State, chains: np.ndarray, energy: np.ndarray, coin: np.ndarray) -> None:
    """Begin strides of these chains from the phases `here`; `energy` and `coin` are given for all chains."""
    s["origin"][chains] = s["here"][chains]
    s["coin"][chains] = coin[chains]
    s["level"][chains] = s["enough"][chains] = s["flat"][chains] = 0
    s["forth"][chains] = s["back"][chains] = 1.0
    s["found"][chains] = False
    s["coarser"][chains] = np.nan
    begin_attempts(s, chains, energy[chains])


def begin_attempts(s: State, i: np.ndarray, energy: np.ndarray) -> None:
    """Begin attempts of chains i (m,) from the phases `origin`, with these energies (m,)."""
    s["made"][i], s["largest"][i], s["given_up"][i] = 0, 0.0, False
    s["origin_energy"][i] = s["low"][i] = s["high"][i] = s["last"][i] = energy


def advance_part(s: State, energy: np.ndarray, halvings: int) -> tuple[np.ndarray, ...]:
    """Count a part just made, to `here` with this energy, and begin the next attempt where one is over.

    Returns the chains (m,) whose stride is over; whether it was found, and whether it cannot be retraced, both (m,);
    P and P', both (m,). The ends of the strides are in `end`.
    """
    i = attempts_over(s, energy)
    if not len(i):
        return i, *np.zeros((2, 0), bool), *np.zeros((2, 0))
    level, found, start, flat = s["level"][i], s["found"][i], s["origin_energy"][i], s["flat"][i]
    forth, back, energy, spread = s["forth"][i], s["back"][i], energy[i], (s["high"] - s["low"])[i]
    given_up = s["given_up"][i] | gives_up(flat, s["largest"][i])
    refine = refinement_probability(spread, given_up)
    border = ~(spread < np.inf) & (s["given_up"][i] | (s["made"][i] >= BORDER_PARTS))
    finer = ~found & (s["coin"][i] < forth * refine)
    beyond = ~found & ~finer & (np.abs(energy - start) > JUMP)
    arrived, border = ~found & ~finer & ~beyond, border | beyond
    acceptance = np.fmax(np.exp(np.minimum(start - energy, 0.0)), 0.0)
    s["acceptance"][i] += np.where(~found & (level == 0), acceptance, 0.0)
    s["discontinuous"][i] |= (arrived | beyond) & (spread >= LARGE)
    s["enough"][i] = enough = np.where(arrived, level, s["enough"][i])
    s["range"][i] = taken = np.where(arrived, spread, s["range"][i])
    s["finest"][i] = finest = np.where(arrived, s["largest"][i], s["finest"][i])
    forth = forth * np.where(finer, refine, np.where(arrived, 1 - refine, 1.0))
    back = back * np.where(found, np.where(level < enough, refine, 1 - refine), 1.0)
    level, found, start = np.where(arrived, 0, level + 1), found | arrived, np.where(arrived, energy, start)
    s["flat"][i] = flat = np.where(arrived, 0, flat)
    s["coarser"][i] = coarser = np.where(arrived, np.nan, s["largest"][i])
    known = found & (level == enough) & (taken < LARGE)  # an attempt of that level would repeat the stride
    refine = refinement_probability(taken, gives_up(flatness(flat, finest, coarser), finest))
    back = np.where(border, 0.0, back * np.where(known, 1 - refine, 1.0))

    ends = i[arrived]
    if len(ends):
        s["end"][ends] = turned = s["here"][ends]
        momenta(turned)[:] *= -1
        s["origin"][ends] = turned
    s["here"][i] = s["origin"][i]
    s["level"][i], s["found"][i], s["forth"][i], s["back"][i] = level, found, forth, back
    begin_attempts(s, i, start)
    done = np.where(found, known | (level > enough) | (back <= 0), (level > halvings) | border)
    return i[done], found[done], (found & (back <= 0))[done], forth[done], back[done]


def attempts_over(s: State, energy: np.ndarray) -> np.ndarray:
    """The chains (m,) whose attempt ends with the part just made, to `here` with this energy; counts the part."""
    s["made"] += 1
    low, high = np.minimum(s["low"], energy, out=s["low"]), np.maximum(s["high"], energy, out=s["high"])
    np.maximum(s["largest"], np.abs(energy - s["last"]), out=s["largest"])
    s["last"][:] = energy
    spread, whole = high - low, s["made"] == STRIDE << s["level"]
    over = whole | ~(spread < np.where(s["given_up"], np.inf, LARGE))
    i = (over & (s["direction"] != 0)).nonzero()[0]
    if not len(i):
        return i
    flat = flatness(s["flat"][i], s["largest"][i], s["coarser"][i])
    s["flat"][i] = flat = np.where(s["given_up"][i], s["flat"][i], flat)
    goes_on = gives_up(flat, s["largest"][i]) & (spread[i] < np.inf) & ~whole[i] & ~s["found"][i]
    s["given_up"][i[goes_on]] = True
    return i[~goes_on]
