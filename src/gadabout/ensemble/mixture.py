r"""Several modes at once: a mixture of Student-t distributions, learned by importance-weighted EM, to propose from.

Components begin at the ends of ascents, with the curvature there and Laplace's masses
$\pi(m_k)\,|L_k|$. Then rounds of draws y ~ q are weighted by $\pi/q$, and each component's weight, mean and covariance
become those of the draws that it answers for (population Monte Carlo; Cappé, Douc, Guillin, Marin & Robert 2008,
"Adaptive importance sampling in general mixture classes"). Weights are tempered while few draws carry them.

Proposals from the mixture, which now stands still, are accepted with probability $\min\{1, w(y)/w(x)\}$, $w = \pi/q$:
chains go from mode to mode as often as mass says. One in every `period` moves is local: a component k is drawn by its
responsibility $r_k(x)$, split HMC goes about it, and the end x' is accepted with $r_k(x')/r_k(x)$ in the ratio as well,
so that π(x) r_k(x) is left as it is, and with it π. What no ascent finds, no mixture has.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import logsumexp

from gadabout.density.base import AbstractDensity
from gadabout.diagnostics import pareto_k
from gadabout.ensemble.ascent import ascend
from gadabout.ensemble.move import AbstractMove, Draws, State
from gadabout.ensemble.split_hmc import DIVERGENCE, SplitHMC, accept, squares
from gadabout.ensemble.warmup import LONGEST_STEP, STEP_SIZE, DualAveraging

FREEDOM = 8.0
"""degrees of freedom: tails longer than those of what components stand for"""
MOST_COMPONENTS, MOST_POINTS, MOST_COORDINATES = 48, 96, 40
CLIMB, NEARLY = 200, 1e-2
"""turns from where an ascent ended to the mode, at most, and gᵀ H⁻¹ g over n there"""
APART = 2.0
"""a mode is another one if it is further from those before than so many widths of theirs, times √n"""
SEARCHES, AGAIN = 12, 128
"""more rounds of ascents at most, and ascents of each"""
FEW = 0.02
"""the chance of another mode that is let be"""
NEGLIGIBLE = 9.0
"""nats of mass below the first"""
ROUNDS, PATIENCE, DRAWS = 16, 4, 4_000
"""of EM, those without a gain after which it ends, and draws of each"""
GAINED = 1.05
"""times as large a share is a gain"""
TEMPERED, EFFECTIVE = (1.0, 0.7, 0.5, 0.35, 0.25), 0.1
"""powers of weights, of which the largest is taken that leaves so large an effective share"""
ENOUGH, LEAST = 0.6, 0.02
"""the effective share of weighted draws from which EM goes on no more, and below which the mixture is of no use"""
LARGEST_PARETO_K = 0.7
WIDE = 0.05
"""the share of the component between the modes, to begin with"""
SPREAD = 0.05
"""of all weight, which is spread evenly over components"""
LEARNING = 30
"""local moves that their step size is learned in"""


def _log_sum(parts: np.ndarray) -> np.ndarray:
    """log Σ_k exp of rows (m, K), shape (m,)."""
    return np.asarray(logsumexp(parts, 1))


@dataclass(frozen=True)
class Mixture:
    """Student-t components in proportion to `weights` (K,): `means` (K, n), lower-triangular `factors` (K, n, n).

    And of which of the `modes` each is, (K,); −1 of none.
    """

    weights: np.ndarray
    means: np.ndarray
    factors: np.ndarray
    modes: np.ndarray

    @cached_property
    def _inverses(self) -> np.ndarray:
        return np.linalg.inv(self.factors)

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """So many draws, (count, n)."""
        n = self.means.shape[1]
        k = np.searchsorted(np.cumsum(self.weights)[:-1], rng.random(count), side="right")
        z = rng.standard_normal((count, n)) / np.sqrt(rng.chisquare(FREEDOM, (count, 1)) / FREEDOM)
        return self.means[k] + np.einsum("aij,aj->ai", self.factors[k], z)

    def parts(self, x: np.ndarray) -> np.ndarray:
        """log w_k t_k(x) up to a constant, (m, K), of x (m, n)."""
        z = np.einsum("kij,kmj->kmi", self._inverses, x - self.means[:, None])
        volumes = np.log(np.abs(np.diagonal(self.factors, axis1=1, axis2=2))).sum(1)
        tails = 0.5 * (FREEDOM + x.shape[1]) * np.log1p(squares(z) / FREEDOM)
        return np.log(self.weights) - volumes - tails.T

    def log_q(self, x: np.ndarray) -> np.ndarray:
        """log q(x) up to a constant, (m,)."""
        return _log_sum(self.parts(x))

    def halves(self, rng: np.random.Generator) -> "Mixture":
        """The mixture with two components for each, a standard deviation apart in a direction drawn at random."""
        direction = rng.standard_normal(self.means.shape)
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        shift = 0.5 * np.einsum("kij,kj->ki", self.factors, direction)
        twice = lambda array: np.concatenate([array, array])
        means = np.concatenate([self.means - shift, self.means + shift])
        return Mixture(0.5 * twice(self.weights), means, twice(self.factors), twice(self.modes))

    def arrays(self) -> State:
        """All of it, by name."""
        return {
            "component_weights": self.weights, "component_means": self.means,
            "component_factors": self.factors, "component_modes": self.modes,
        }  # fmt: skip


@np.errstate(all="ignore")
def fitted(
    density: AbstractDensity, ends: np.ndarray, rng: np.random.Generator
) -> tuple[Mixture | None, dict[str, Any]]:
    """The mixture for modes near where ascents ended, (m, n), and what its weights say; None where it is of no use.

    A mode that one component does not fit gets two. `modes` of the evidence holds the mass of each and its standard
    error, by the draws of the last round.
    """
    found = _modes(density, ends, rng)
    if found is None or len(found.x) < 2:
        return None, {}
    q, told = _learned(density, found.mixture(), rng)
    if told["mixture_efficiency"] < ENOUGH:
        halves, better = _learned(density, q.halves(rng), rng)
        if better["mixture_efficiency"] > told["mixture_efficiency"]:
            q, told = halves, better
    good = told["mixture_efficiency"] >= LEAST and told["mixture_pareto_k"] < LARGEST_PARETO_K
    return (q if good else None), told | {"modes_seen_once": found.seen_once}


def _learned(density: AbstractDensity, q: Mixture, rng: np.random.Generator) -> tuple[Mixture, dict[str, Any]]:
    """The best mixture of some rounds of EM, and what its weights say."""
    best, since = (q, {"mixture_efficiency": -1.0}), 0
    for _ in range(ROUNDS):
        y = q.draw(rng, DRAWS)
        parts = q.parts(y)
        log_w = density.value(y) - _log_sum(parts)
        log_w = np.where(np.isfinite(log_w), log_w - np.max(log_w[np.isfinite(log_w)], initial=-np.inf), -np.inf)
        share, responsible = _effective(log_w), np.exp(parts - _log_sum(parts)[:, None])
        since += 1
        if share > best[1]["mixture_efficiency"]:
            since = 0 if share > GAINED * best[1]["mixture_efficiency"] else since
            k = max(float(pareto_k(log_w)), 0.0)
            best = q, {"mixture_efficiency": share, "mixture_pareto_k": k, "modes": _masses(q, log_w, responsible)}
        if share > ENOUGH or since >= PATIENCE or not np.isfinite(log_w).any():
            break
        power = next((t for t in TEMPERED if _effective(t * log_w) >= EFFECTIVE), TEMPERED[-1])
        weights = np.exp(power * log_w)
        q = _maximised(q, y, responsible * (weights / weights.sum())[:, None])
    return best


def _effective(log_weights: np.ndarray) -> float:
    """The share of draws that weighted ones are worth."""
    w = np.exp(log_weights)
    return float(np.nan_to_num(np.sum(w) ** 2 / np.sum(w**2) / len(w)))


def _masses(q: Mixture, log_weights: np.ndarray, responsible: np.ndarray) -> list[dict[str, float]]:
    """Of each mode the mass and its standard error, the heaviest first."""
    W = np.exp(log_weights)
    W /= W.sum()
    of_modes = np.stack([responsible[:, q.modes == k].sum(1) for k in range(q.modes.max() + 1)], 1)
    of_modes /= np.maximum(of_modes.sum(1, keepdims=True), np.finfo(float).tiny)  # what lies between, too
    mass = W @ of_modes
    error = np.sqrt(np.sum((W[:, None] * (of_modes - mass)) ** 2, 0))
    digits = lambda value: float(f"{value:.3g}")
    return [{"mass": digits(mass[k]), "error": digits(error[k])} for k in np.argsort(-mass)]


def _maximised(q: Mixture, y: np.ndarray, weights: np.ndarray) -> Mixture:
    """The mixture of the weighted draws that each component answers for, by weights (m, K); few draws change little."""
    total = weights.sum(0)
    effective = total**2 / np.maximum(np.sum(weights**2, 0), np.finfo(float).tiny)
    trust = effective / (effective + 2 * y.shape[1])
    own = (weights.T @ y) / np.maximum(total, np.finfo(float).tiny)[:, None]
    means = q.means + trust[:, None] * (own - q.means)
    covariances = []
    for k, factor in enumerate(q.factors):
        d = y - own[k]
        covariance = (weights[:, k, None] * d).T @ d / max(total[k], np.finfo(float).tiny)
        covariances.append(trust[k] * covariance + (1 - trust[k]) * factor @ factor.T)
    shares = (1 - SPREAD) * total / total.sum() + SPREAD / len(total)
    return Mixture(shares, means, np.linalg.cholesky(np.array(covariances)), q.modes)


@dataclass(frozen=True)
class Modes:
    """Modes of log π, the heaviest first: `x` (K, n), log masses by Laplace's method (K,), factors (K, n, n), and how
    many ascents led to each, (K,).
    """

    x: np.ndarray
    mass: np.ndarray
    factors: np.ndarray
    count: np.ndarray

    def mixture(self) -> Mixture:
        """Components as curved as log π is in the modes, in proportion to their masses, and one as wide as all of them.

        That one, of mode −1, stands for what lies between the modes.
        """
        K = min(len(self.x), MOST_COMPONENTS)
        shares = np.exp(self.mass[:K] - self.mass[0])
        shares = 0.9 * shares / shares.sum() + 0.1 / K
        centred = self.x[:K] - shares @ self.x[:K]
        inside = np.einsum("k,kij,klj->il", shares, self.factors[:K], self.factors[:K])
        wide = np.linalg.cholesky((shares[:, None] * centred).T @ centred + inside)
        return Mixture(
            np.append((1 - WIDE) * shares, WIDE),
            np.concatenate([self.x[:K], (shares @ self.x[:K])[None]]),
            np.concatenate([self.factors[:K], wide[None]]),
            np.append(np.arange(K), -1),
        )

    @property
    def seen_once(self) -> float:
        """The share of ascents to these modes whose mode no other found: the chance that the next finds another (Good
        1953, "The population frequencies of species and the estimation of population parameters")."""
        return float(np.sum(self.count == 1) / max(np.sum(self.count), 1))


def _modes(density: AbstractDensity, ends: np.ndarray, rng: np.random.Generator) -> Modes | None:
    """Modes of no negligible mass; ascents from about those that were found are added until few are seen once."""
    scale = ends.std(0) + 1e-8
    tops = _climbed(density, ends, scale)
    for further in range(SEARCHES + 1):
        found = _different(density, *tops, scale)
        if found is None or len(found.x) < 2 or further == SEARCHES or (further and found.seen_once < FEW):
            return found
        spread = np.sqrt(np.var(found.x, 0) + np.mean(np.sum(found.factors**2, 2), 0))
        widths = np.resize((1.0, 2.0), AGAIN)[:, None] * spread
        starts = found.x.mean(0) + widths * rng.standard_normal((AGAIN, ends.shape[1]))
        more = _climbed(density, starts, scale)
        tops = np.concatenate([tops[0], more[0]]), np.concatenate([tops[1], more[1]])
    raise AssertionError


def _climbed(density: AbstractDensity, starts: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Modes that ascents lead to, (m, n), and log π there.

    One that began in a mode finds no step that climbs: it counts where its gradient is small by the curvature there.
    """
    paths = ascend(density, starts, CLIMB, near=1e-4)
    ends, there = paths.ends, paths.arrived.copy()
    rest = np.flatnonzero(~there & ends.finite)
    if len(rest):
        steps = np.einsum("kij,ki->kj", _inverse_curvature(density, ends.x[rest], scale), ends.grad[rest])
        there[rest] = squares(steps) < NEARLY * starts.shape[1]
    return ends.x[there], ends.value[there]


def _different(density: AbstractDensity, x: np.ndarray, value: np.ndarray, scale: np.ndarray) -> Modes | None:
    """Modes among where ascents ended, (m, n), with log π there: those that are `APART`, and of no negligible mass."""
    n, left = x.shape[1], np.argsort(-value)
    found: list[tuple[np.ndarray, float, np.ndarray, int]] = []
    while len(left) and len(found) < MOST_POINTS:
        top = x[left[0]]
        factor = _inverse_curvature(density, top[None], scale)[0]
        near = np.linalg.norm(np.linalg.solve(factor, (x[left] - top).T), axis=0) <= APART * np.sqrt(n)
        near[0] = True
        mass = float(value[left[0]] + np.log(np.abs(np.diagonal(factor))).sum())
        found.append((top, mass, factor, int(near.sum())))
        left = left[~near]
    if not found:
        return None
    tops, masses, factors, counts = (np.array(part) for part in zip(*found, strict=True))
    order = np.argsort(-masses)
    order = order[masses[order] >= masses.max() - NEGLIGIBLE]
    return Modes(tops[order], masses[order], factors[order], counts[order])


def _inverse_curvature(density: AbstractDensity, x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Factors of the inverse of −∇² log π at points (m, n), as wide as they may be ten times `scale` (n,)."""
    m, n = x.shape
    step = 1e-4 * scale
    ends = x[:, None, None] + np.stack([-np.diag(step), np.diag(step)])
    grad = density.value_and_grad(ends.reshape(-1, n))[1].reshape(m, 2, n, n)
    H = (grad[:, 0] - grad[:, 1]) / (2 * step[:, None]) * scale[:, None] * scale
    values, vectors = np.linalg.eigh(np.nan_to_num(0.5 * (H + np.swapaxes(H, 1, 2))))
    root = scale[:, None] * vectors / np.sqrt(np.clip(values, 1e-2, 1e12))[:, None]
    return np.linalg.cholesky(root @ np.swapaxes(root, 1, 2))


@dataclass(frozen=True)
class OwnCoordinates:
    """Affine coordinates of each chain: `means` (chains, n) and `factors` (chains, n, n)."""

    means: np.ndarray
    factors: np.ndarray

    def x(self, z: np.ndarray) -> np.ndarray:
        """Positions, (chains, n)."""
        return self.means + np.einsum("aij,aj->ai", self.factors, z)

    def z(self, x: np.ndarray) -> np.ndarray:
        """Coordinates, (chains, n)."""
        return np.linalg.solve(self.factors, (x - self.means)[..., None])[..., 0]

    def pull(self, grad: np.ndarray) -> np.ndarray:
        """Gradients with respect to z, (chains, n)."""
        return np.einsum("aij,ai->aj", self.factors, grad)

    def value_and_grad(self, density: AbstractDensity, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log π and its gradients with respect to z."""
        value, grad = density.value_and_grad(self.x(z))
        return value, self.pull(grad)


@dataclass(frozen=True)
class FromMixture(AbstractMove):
    """Blocks of `period` iterations: a local move, then proposals from the mixture, evaluated at once.

    Its state is `x` and `grad`, of shape (chains, n), and `lp`, of shape (chains,).

    Args:
        density: log π.
        mixture: q.
        step_size: of split HMC about a component, in radians.
        period: iterations from one local move to the next.
    """

    density: AbstractDensity
    mixture: Mixture
    step_size: float
    period: int = 8

    @np.errstate(all="ignore")
    def init(self, x, rng):
        lp, grad = self.density.value_and_grad(x)
        return {"x": np.array(x, float), "grad": grad, "lp": lp}

    def positions(self, state):
        return state["x"]

    @np.errstate(all="ignore")
    def advance(self, state, rng, iterations):
        blocks = []
        for _ in range(-(-iterations // self.period)):
            state, local = self.local(state, rng)
            state, proposed = self._proposals(state, rng)
            blocks.append({name: np.concatenate([rows[None], proposed[name]]) for name, rows in local.items()})
        if not blocks:
            rows = {name: rows[:0] for name, rows in self._proposals(state, rng.spawn(1)[0])[1].items()}
            return state, rows
        return state, {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}

    def local(self, state: State, rng: np.random.Generator) -> tuple[State, Draws]:
        """The state after a local move of each chain, and its statistics, of shape (chains,)."""
        x, (chains, n) = state["x"], state["x"].shape
        at_modes = self.mixture.modes >= 0  # about what lies between modes no local move goes
        here = self.mixture.parts(x)[:, at_modes]
        k = np.argmax(here + rng.gumbel(size=here.shape), 1)
        own = OwnCoordinates(self.mixture.means[at_modes][k], self.mixture.factors[at_modes][k])
        move: Any = SplitHMC(self.density, own, self.step_size)  # pyright: ignore[reportArgumentType]
        z, momentum = own.z(x), rng.standard_normal((chains, n))
        begun = {"z": z, "residual": own.pull(state["grad"]) + z, "lp": state["lp"]}
        end, p = move.trajectory(begun, momentum, rng.random(chains))
        there_x = own.x(end["z"])
        there, each = self.mixture.parts(there_x)[:, at_modes], np.arange(chains)
        of_k = (there - _log_sum(there)[:, None])[each, k] - (here - _log_sum(here)[:, None])[each, k]
        log_ratio = end["lp"] - state["lp"] + 0.5 * (squares(momentum) - squares(p))
        finite = np.isfinite(end["lp"]) & np.isfinite(end["residual"]).all(1)
        diverging = ~(log_ratio > DIVERGENCE)
        accepted, log_ratio, finite = accept(rng.standard_exponential(chains), log_ratio + of_k, finite)
        grad = np.einsum("aji,aj->ai", np.linalg.inv(own.factors), end["residual"] - end["z"])
        after = {
            "x": np.where(accepted[:, None], there_x, x),
            "grad": np.where(accepted[:, None], grad, state["grad"]),
            "lp": np.where(accepted, end["lp"], state["lp"]),
        }
        return after, {
            "position": after["x"], "lp": after["lp"], "acceptance_rate": np.exp(np.minimum(0, log_ratio)),
            "accepted": accepted, "nonfinite": ~finite, "diverging": diverging,
            "n_steps": np.full(chains, move.steps), "gradient_evaluations": np.full(chains, move.steps + 1),
            "energy": 0.5 * squares(momentum) - state["lp"], "step_size": np.full(chains, float(self.step_size)),
        }  # fmt: skip

    def _proposals(self, state: State, rng: np.random.Generator) -> tuple[State, Draws]:
        """The state after `period` − 1 proposals from the mixture, and the draws."""
        P, (chains, n) = self.period - 1, state["x"].shape
        y = self.mixture.draw(rng, P * chains)
        lp, log_q = self.density.value(y), self.mixture.log_q(y)
        weight = np.where(np.isfinite(lp), lp - log_q, -np.inf).reshape(P, chains)
        y, lp = y.reshape(P, chains, n), lp.reshape(P, chains)
        waits = rng.standard_exponential((P, chains))
        x, here, own = state["x"], state["lp"] - self.mixture.log_q(state["x"]), state["lp"]
        drawn = {"position": np.empty((P, chains, n)), "lp": np.empty((P, chains))}
        ratios = np.empty((P, chains))
        for i in range(P):
            ratios[i] = weight[i] - here
            taken = -waits[i] <= ratios[i]
            x, own = np.where(taken[:, None], y[i], x), np.where(taken, lp[i], own)
            here = np.where(taken, weight[i], here)
            drawn["position"][i], drawn["lp"][i] = x, own
        accepted, ratios, finite = accept(waits, ratios)
        drawn |= {
            "acceptance_rate": np.exp(np.minimum(0, ratios)), "accepted": accepted, "nonfinite": ~finite,
            "diverging": np.zeros((P, chains), bool), "n_steps": np.zeros((P, chains), int),
            "gradient_evaluations": np.zeros((P, chains), int), "energy": -drawn["lp"],
            "step_size": np.full((P, chains), float(self.step_size)),
        }  # fmt: skip
        return {"x": x, "grad": self.density.value_and_grad(x)[1], "lp": own}, drawn


def local_step(
    density: AbstractDensity, mixture: Mixture, rng: np.random.Generator, chains: int, target_acceptance: float
) -> tuple[np.ndarray, float]:
    """Draws of π, nearly, for chains to begin at, (chains, n), and the step size of local moves."""
    y = mixture.draw(rng, 32 * chains)
    log_w = density.value(y) - mixture.log_q(y)
    log_w = np.where(np.isfinite(log_w), log_w, -np.inf)
    x = y[np.argsort(-(log_w + rng.gumbel(size=len(y))))[:chains]]
    rule = DualAveraging(target_acceptance, LONGEST_STEP)
    memory = rule.init(STEP_SIZE)
    state = FromMixture(density, mixture, STEP_SIZE).init(x, rng)
    for _ in range(LEARNING):
        state, told = FromMixture(density, mixture, float(memory[0])).local(state, rng)
        memory = rule.update(memory, float(told["acceptance_rate"].mean()))
    return state["x"], rule.finished(memory)
