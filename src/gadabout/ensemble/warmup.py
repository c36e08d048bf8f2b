r"""Warm-up: short windows of split HMC, after each of which the Gaussian is fitted to all chains' draws and gradients.

Covariance and mean are fitted in the coordinates $z = L^{-1}(x - m)$ of the last fit, in which widths that differ by
orders of magnitude, and correlations near 1, lose no digits. Successive fits agree if no direction's width changes by
more than a factor of 1.4, or of exp(√(n/draws)) if that is more, but at most 2. When successive fits that agree have,
together, twenty draws more than there are coordinates, one further window adapts the step size alone, and warm-up ends.
A fit that agrees changes the Gaussian by its share of those draws.
"""

from dataclasses import dataclass
from functools import cache
from itertools import accumulate, chain, count

import numpy as np

from gadabout.density import AbstractDensity
from gadabout.ensemble.coordinates import Coordinates
from gadabout.ensemble.gaussian import factor_of, geometric_mean
from gadabout.ensemble.move import Draws, State
from gadabout.ensemble.split_hmc import SplitHMC

AGREEMENT = 0.35
"""largest log change of a direction's width between fits that agree"""
FEWEST_WINDOWS = 3
"""windows after which agreement of fits may end warm-up"""
FEWEST_DRAWS = 20
"""draws, beyond the number of coordinates, that successive fits that agree must have before warm-up may end"""
STEP_WINDOW = 12
"""iterations of a window for the step size alone"""
PRIOR_DRAWS = 5.0
"""weight of the last Gaussian in a fit, in draws"""
STEP_SIZE, LONGEST_STEP = 0.3, 1.5
"""`STEP_SIZE`: first step, in radians. `LONGEST_STEP`: longest, just below the quarter turn of a whole trajectory."""
REGULARISATION, OFFSET, DECAY = 0.05, 10.0, 0.75
"""γ, t₀ and κ of dual averaging (Hoffman & Gelman 2014, section 3.2)"""


@cache
def quick_windows(length: int, last: int = 50) -> tuple[int, ...]:
    """Lengths of windows: 8, 8, 12, 16, 24, 32, 64, 128, … iterations, and the last one for the step size alone.

    Windows after one of more than 12 iterations are divided after 12 iterations, where warm-up may end.
    """
    if length < 20:
        return (length,)
    last = min(last, length // 5)
    windows, left, before = [], length - last, 0
    for window in chain((8, 8, 12, 16, 24, 32), (2**power for power in count(6))):
        if left < 2 * window:
            return *windows, left, last
        windows += [STEP_WINDOW, window - STEP_WINDOW] if before > STEP_WINDOW else [window]
        left, before = left - window, window
    raise AssertionError("windows grow")


class DualAveraging:
    r"""Dual averaging: adapts ε to a target acceptance probability (Hoffman & Gelman 2014, equation 6 and algorithm 5).

    $$\bar H_t = \Bigl(1 - \frac1{t + t_0}\Bigr)\bar H_{t-1} + \frac{\delta - \alpha_t}{t + t_0},\quad
    \log\varepsilon_t = \mu - \frac{\sqrt t}{\gamma}\bar H_t,\quad
    \log\bar\varepsilon_t = t^{-\kappa}\log\varepsilon_t + (1 - t^{-\kappa})\log\bar\varepsilon_{t-1}$$
    with $\mu = \log(m\,\varepsilon_0)$. Its memory is an array: ε, μ, $\bar H_t$, $\log\bar\varepsilon_t$, t.
    """

    def __init__(self, target_acceptance: float, largest: float = np.inf):
        self.target_acceptance, self.log_largest = target_acceptance, np.log(largest)

    def init(self, step_size: float, longer: float = 10.0) -> np.ndarray:
        """The memory before the first update; the first trial steps are m = `longer` times as long as `step_size`."""
        log_start = np.log(step_size)
        return np.array([step_size, min(np.log(longer) + log_start, self.log_largest), 0.0, log_start, 0.0])

    def update(self, memory: np.ndarray, acceptance: float, share: float = 1.0) -> np.ndarray:
        """The memory after an iteration with this mean acceptance probability, over this share of the chains."""
        _, shrinkage_point, mean_error, log_average, t = memory
        t += share
        eta, weight = share / (t + OFFSET), share * t**-DECAY
        mean_error = (1 - eta) * mean_error + eta * (self.target_acceptance - acceptance)
        log_step = min(shrinkage_point - np.sqrt(t) / REGULARISATION * mean_error, self.log_largest)
        log_average = weight * log_step + (1 - weight) * log_average
        return np.array([np.exp(log_step), shrinkage_point, mean_error, log_average, t])

    def finished(self, memory: np.ndarray) -> float:
        """The averaged step size."""
        return float(np.exp(memory[3]))


@dataclass(frozen=True)
class Warmup:
    """Split HMC of all chains while the Gaussian and the step size are learned.

    Its state holds the coordinates, the memory of the step size, the sums of the window (in z), the chains, and counts:
    windows, draws of the last fit, draws of successive fits that agree, whether these are enough, whether a window has
    passed since, iterations done.

    Args:
        density: log π.
        length: maximum number of iterations.
        target_acceptance: target acceptance probability of whole trajectories.
    """

    density: AbstractDensity
    length: int
    target_acceptance: float = 0.8

    @property
    def rule(self) -> DualAveraging:
        """The adaptation of the step size."""
        return DualAveraging(self.target_acceptance, LONGEST_STEP)

    @property
    def ends(self) -> tuple[int, ...]:
        """The numbers of iterations after which windows end."""
        return tuple(accumulate(quick_windows(self.length)))

    def init(
        self, x: np.ndarray, coordinates: Coordinates, rng: np.random.Generator, step_size: float = STEP_SIZE
    ) -> State:
        """The state of chains at positions x, (chains, n)."""
        begun = coordinates.arrays() | {"rule": self.rule.init(step_size)}
        begun |= {"counts": np.zeros(6, int)} | self._no_sums(coordinates)
        chains = SplitHMC(self.density, coordinates, step_size).init(x, rng)
        return begun | {f"chains.{name}": values for name, values in chains.items()}

    def move(self, state: State) -> SplitHMC:
        """Split HMC with the coordinates and step size learned so far."""
        return SplitHMC(self.density, Coordinates.of(state), float(state["rule"][0]))

    def settled(self, state: State) -> bool:
        """Whether fits agree, and the step size was adapted after that."""
        return bool(state["counts"][4])

    def over(self, state: State) -> bool:
        """Whether warm-up is over."""
        return self.settled(state) or int(state["counts"][5]) >= self.length

    def advance(self, state: State, rng: np.random.Generator, iterations: int) -> tuple[State, Draws]:
        """The state after `iterations` iterations, fewer if warm-up is over, and their draws."""
        rows = []
        for _ in range(iterations):
            if self.over(state):
                break
            state, drawn = self._iteration(state, rng)
            rows.append(drawn)
        return state, {name: np.concatenate([row[name] for row in rows]) for name in rows[0]} if rows else {}

    def _iteration(self, state: State, rng: np.random.Generator) -> tuple[State, Draws]:
        chains = chains_of(state)
        chains, drawn = self.move(state).advance(chains, rng, 1)
        z, grad = chains["z"], chains["residual"] - chains["z"]
        dense, counts = state["factor"].ndim == 2, state["counts"].copy()
        product = lambda rows: rows.T @ rows if dense else np.sum(rows * rows, 0)
        sums = {
            "rows": state["rows"] + len(z),
            "sum_z": state["sum_z"] + z.sum(0),
            "sum_g": state["sum_g"] + grad.sum(0),
            "products_z": state["products_z"] + product(z),
            "products_g": state["products_g"] + product(grad),
        }
        counts[5] += 1
        rule = self.rule.update(state["rule"], float(drawn["acceptance_rate"].mean()))
        state = state | sums | {"counts": counts, "rule": rule}
        state |= {f"chains.{name}": values for name, values in chains.items()}
        return (self._end_window(state, rng) if counts[5] in self.ends else state), drawn

    def _end_window(self, state: State, rng: np.random.Generator) -> State:
        """The state at a window's end, with the Gaussian refitted if draws are enough and fits do not agree yet."""
        windows, used, agreed, agrees, _, done = (int(count) for count in state["counts"])
        rows, step_size, n = int(state["rows"]), self.rule.finished(state["rule"]), len(state["mean"])
        state = state | {"rule": np.concatenate([[step_size], state["rule"][1:]])}
        settled = agrees
        if agrees or rows < used:  # too few draws are added to the next window
            none = self._no_sums(Coordinates.of(state)) if agrees else {}
            return state | none | {"counts": np.array([windows + agrees, used, agreed, agrees, settled, done])}
        coordinates, stretch = self._fit(state, agreed)
        if np.isfinite(coordinates.factor).all() and np.isfinite(coordinates.mean).all() and np.isfinite(stretch):
            alike = windows > 0 and stretch < agreement(n, rows)
            agreed, used = (agreed + rows if alike else 0), rows
            agrees = int(alike and windows >= FEWEST_WINDOWS - 1 and agreed >= n + FEWEST_DRAWS)
            x = Coordinates.of(state).x(state["chains.z"])
            chains = SplitHMC(self.density, coordinates, step_size).init(x, rng)
            state |= coordinates.arrays() | {"rule": self.rule.init(step_size)}
            state |= {f"chains.{name}": values for name, values in chains.items()}
        else:
            agreed = 0
        counts = np.array([windows + 1, used, agreed, agrees, settled, done])
        return state | self._no_sums(Coordinates.of(state)) | {"counts": counts}

    def _fit(self, state: State, agreed: int) -> tuple[Coordinates, float]:
        """The coordinates fitted to a window's draws, and the largest log change of a direction's width.

        If the fit agrees with the last one, coordinates change only by this window's share of the draws that agree.
        """
        rows, dense, here = int(state["rows"]), state["factor"].ndim == 2, Coordinates.of(state)
        mean_z, mean_g = state["sum_z"] / rows, state["sum_g"] / rows
        square = (lambda v: np.outer(v, v)) if dense else np.square
        covariance = lambda products, mean: (products - rows * square(mean)) / max(rows - 1, 1)
        cov_z, cov_g = covariance(state["products_z"], mean_z), covariance(state["products_g"], mean_g)
        found = geometric_mean(rows, cov_z, cov_g, PRIOR_DRAWS)
        unit = np.eye(here.dim) if dense else np.ones(here.dim)
        if not np.isfinite(found).all():
            return here, np.nan
        widths = np.linalg.eigvalsh(found) if dense else found
        stretch = float(np.max(np.abs(0.5 * np.log(np.maximum(widths, np.finfo(float).tiny)))))
        share = rows / (rows + agreed) if stretch < agreement(here.dim, rows) else 1.0
        change = Coordinates(np.zeros(here.dim), factor_of(unit + share * (found - unit), unit))
        shift = share * (mean_z + change.affine(change.through_factor(mean_g[None]))[0])
        return here.then(shift, change.factor), stretch

    def _no_sums(self, coordinates: Coordinates) -> State:
        shape, n = coordinates.factor.shape, coordinates.dim
        sums = {"sum_z": np.zeros(n), "sum_g": np.zeros(n), "products_z": np.zeros(shape)}
        return {"rows": np.zeros((), int), **sums, "products_g": np.zeros(shape)}


def agreement(n: int, draws: int) -> float:
    """The largest log change of a direction's width, in n dimensions, between fits to so many draws that agree."""
    return float(np.clip(np.sqrt(n / max(draws, 1)), AGREEMENT, 2 * AGREEMENT))


def chains_of(state: State) -> State:
    """The state of the chains' move, out of the state of a warm-up."""
    return {name.removeprefix("chains."): values for name, values in state.items() if name.startswith("chains.")}
