r"""Split Hamiltonian Monte Carlo: trajectories that rotate about a Gaussian near the target.

In coordinates z in which the Gaussian is N(0, I), the energy is split into that of the Gaussian, whose flow is a
rotation, and the rest, whose gradient is minus the residual $r(z) = \nabla_z\log\pi + z$ (Shahbaba, Lan, Johnson & Neal
2014, "Split Hamiltonian Monte Carlo"):
$$p \leftarrow p + \tfrac h2 r(z),\quad (z, p) \leftarrow (z\cos h + p\sin h,\; p\cos h - z\sin h),\quad
p \leftarrow p + \tfrac h2 r(z).$$
Each part preserves volume and is reversible, so the log ratio is the change of $\log\pi - \tfrac12\|p\|^2$; it is 0 if
the target is the Gaussian. If the target has necks that are too narrow for the step, some trajectories have shorter
steps: h times $4^{-j}$ with j geometric, drawn for each chain and trajectory independently of the state.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from gadabout.density.base import AbstractDensity
from gadabout.ensemble.coordinates import Coordinates
from gadabout.ensemble.move import STATISTICS, AbstractMove, Draws, State

QUARTER = 0.5 * math.pi
"""rotation, in radians, after which a trajectory on the Gaussian is independent of its start"""
SHORTEST = 0.6
"""smallest rotation of a trajectory, as a share of the largest"""
DIVERGENCE = -1000.0
"""log ratio at or below which a trajectory diverges"""
SHORTENED = 0.25
"""factor of the step size for each level of shortening"""


@dataclass(frozen=True)
class SplitHMC(AbstractMove):
    """Split HMC: each chain rotates by an angle uniform on (0.6, 1) · π/2, in the same number of equal steps.

    Its state is `z` and `residual`, of shape (chains, n), and `lp`, log π(x) + `coordinates.log_det`, (chains,).

    Args:
        density: log π.
        coordinates: coordinates z, in which the Gaussian is N(0, I).
        step_size: the longest step, in radians.
        max_steps: maximum number of steps of a trajectory; if more would be needed, it rotates by less.
        repeats: trajectories of an iteration. Acceptance rates are averaged, steps and gradients summed. `accepted`,
            `nonfinite` and `diverging` hold for an iteration if they hold for one of its trajectories.
        shorter: share, below 1, of trajectories whose steps are at least four times shorter; the same share of those
            has steps at least sixteen times shorter, and so on.
        finer: share of iterations in which all steps are four times shorter and four times as many, at most
            `max_steps`. Where scales are almost zero, log π falls as slowly as e^x, far outside the Gaussian; only
            trajectories that are both long and accurate lead there and back.
    """

    density: AbstractDensity
    coordinates: Coordinates
    step_size: float
    max_steps: int = 32
    repeats: int = 1
    shorter: float = 0.0
    finer: float = 0.0

    @property
    def steps(self) -> int:
        """Number of steps, hence of gradients, of a trajectory."""
        return int(np.clip(np.ceil(QUARTER / self.step_size), 1, self.max_steps))

    @np.errstate(all="ignore")
    def init(self, x, rng):
        z = self.coordinates.z(x)
        lp, grad = self.coordinates.value_and_grad(self.density, z)
        return {"z": z, "residual": grad + z, "lp": lp}

    def positions(self, state):
        return self.coordinates.x(state["z"])

    @np.errstate(all="ignore")
    def advance(self, state, rng, iterations):
        chains, n = state["z"].shape
        drawn = {"position": np.empty((iterations, chains, n))}
        drawn |= {name: np.empty((iterations, chains), kind) for name, kind in STATISTICS.items()}
        finer = replace(self, step_size=SHORTENED * self.step_size)
        for i in range(iterations):
            move, told = finer if self.finer and rng.random() < self.finer else self, []
            for _ in range(self.repeats):
                momentum, uniform = rng.standard_normal((chains, n)), rng.random(chains)
                wait = rng.standard_exponential(chains)
                times = rng.geometric(1 - self.shorter, chains) - 1 if self.shorter else np.zeros(chains)
                state, found = move.step(state, momentum, uniform, wait, SHORTENED**times)
                told.append(found)
            for name, values in (told[0] if len(told) == 1 else together(told)).items():
                drawn[name][i] = values
        return state, drawn

    def step(
        self, state: State, momentum: np.ndarray, uniform: np.ndarray, wait: np.ndarray, scale: np.ndarray | float = 1.0
    ) -> tuple[State, Draws]:
        """The state after one trajectory per chain is accepted or rejected, and its draws: positions and statistics.

        Args:
            state: state of the chains.
            momentum: standard normals, of shape (chains, n).
            uniform: uniforms on [0, 1), for the angle, of shape (chains,).
            wait: standard exponentials, for the acceptance of a trajectory's end, of shape (chains,).
            scale: factor of the steps, of shape (chains,) or ().
        """
        there, p = self.trajectory(state, momentum, uniform, scale)
        kinetic = 0.5 * squares(momentum)
        finite = np.isfinite(there["lp"]) & np.isfinite(there["residual"]).all(1)
        log_ratio = there["lp"] - state["lp"] + kinetic - 0.5 * squares(p)
        accepted, log_ratio, finite = accept(wait, log_ratio, finite)
        after = {
            name: np.where(accepted[:, None] if new.ndim > 1 else accepted, new, state[name])
            for name, new in there.items()
        }
        here = self.coordinates.at(after["z"])
        return after, {
            "position": here.x,
            "lp": after["lp"] - here.log_det,
            "acceptance_rate": np.exp(np.minimum(0, log_ratio)),
            "accepted": accepted,
            "nonfinite": ~finite,
            "diverging": ~(log_ratio > DIVERGENCE),
            "n_steps": np.asarray(self.steps),
            "gradient_evaluations": np.asarray(self.steps),
            "energy": kinetic - state["lp"],
            "step_size": np.asarray(self.step_size * scale),
        }

    def trajectory(
        self, state: State, momentum: np.ndarray, uniform: np.ndarray, scale: np.ndarray | float = 1.0
    ) -> tuple[State, np.ndarray]:
        """The state at the ends of trajectories, and the momenta there, of shape (chains, n); arguments as in `step`.

        The half kicks at the end of one step and at the beginning of the next are merged.
        """
        N = self.steps
        h = ((SHORTEST + (1 - SHORTEST) * uniform) * min(QUARTER / N, self.step_size) * scale)[:, None]
        cos, sin = np.cos(h), np.sin(h)
        z, residual, lp = state["z"], state["residual"], state["lp"]
        p = momentum + 0.5 * h * residual
        for i in range(N):
            z, p = z * cos + p * sin, p * cos - z * sin
            lp, grad = self.coordinates.value_and_grad(self.density, z)
            residual = grad + z
            p += (h if i < N - 1 else 0.5 * h) * residual
        return {"z": z, "residual": residual, "lp": lp}, p


def together(told: list[Draws]) -> Draws:
    """The statistics of an iteration, from those of its trajectories."""
    last = dict(told[-1])
    each = lambda name: np.stack([found[name] for found in told])
    last["acceptance_rate"] = np.mean(each("acceptance_rate"), 0)
    for name in ("accepted", "nonfinite", "diverging"):
        last[name] = np.any(each(name), 0)
    for name in ("n_steps", "gradient_evaluations"):
        last[name] = np.sum(each(name), 0)
    return last


def squares(rows: np.ndarray) -> np.ndarray:
    """The squared lengths of vectors (..., n)."""
    return np.einsum("...i,...i->...", rows, rows)


def accept(
    wait: np.ndarray, log_ratio: np.ndarray, finite: np.ndarray | bool = True
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Whether proposals are accepted, with probability $\min\{1, e^{\text{log ratio}}\}$; log ratios; finiteness.

    A proposal that is not `finite`, or whose log ratio is −∞ or NaN, is rejected, with the log ratio −∞. All arrays
    have the same shape; `wait` holds standard exponentials.
    """
    finite = finite & (log_ratio > -np.inf)
    log_ratio = np.where(finite, log_ratio, -np.inf)
    return -wait <= log_ratio, log_ratio, finite
