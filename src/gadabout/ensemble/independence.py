r"""A move of split HMC, then many independence proposals evaluated in one batch (Samsonov et al. 2022, "Ex²MCMC").

A proposal y ~ q is accepted with probability $\min\{1, w(y)/w(x)\}$, $w = \pi/q$; q is `tails.ScaleMixture`. Every
second proposal is a half-turn: x is the draw of q from some uniforms, and each uniform becomes u ± ½. This maps q to
itself and is its own inverse, so the same ratio accepts it. A draw and its half-turn lie on opposite sides of each
coordinate's median, one near it if the other is far. Under a normal q, x correlates by −0.33 and x² by −0.44
(systematic sampling with two strata), products of two independent coordinates by 0.11. Split HMC leads out of places to
which q gives too little mass, where independence proposals would be rejected for long.
"""

from dataclasses import dataclass

import numpy as np

from gadabout.ensemble.move import AbstractMove, Draws, State, in_blocks
from gadabout.ensemble.split_hmc import SplitHMC, accept
from gadabout.ensemble.tails import ScaleMixture, Tails


@dataclass(frozen=True)
class Independence(AbstractMove):
    """Blocks of `period` iterations: one of split HMC, the others independence proposals and half-turns.

    The kind of an iteration depends on its number alone, so π stays invariant. The state is that of split HMC and `x`.

    Args:
        local: split HMC; proposals are made in its coordinates.
        tails: the tails of q.
        weights: the weights of the scales of q, of shape (K,).
        period: iterations from one move of split HMC to the next, 2 or more.
    """

    local: SplitHMC
    tails: Tails
    weights: np.ndarray
    period: int = 32

    @property
    def distribution(self) -> ScaleMixture:
        """The distribution q of proposals z."""
        return ScaleMixture(self.tails, self.weights)

    def init(self, x, rng):
        state = self.local.init(x, rng)
        return state | {"x": self.local.positions(state)}

    def positions(self, state):
        return state["x"]

    @np.errstate(all="ignore")
    def advance(self, state, rng, iterations):
        if not iterations:
            return state, self.local.advance(state, rng, 0)[1]
        return in_blocks(self._block, state, rng, -(-iterations // self.period))

    def _block(self, state: State, rng: np.random.Generator) -> tuple[State, Draws]:
        """The state after a block, and its draws, of `period` rows."""
        here, first = self.local.advance(state, rng, 1)
        coordinates, density, P = self.local.coordinates, self.local.density, self.period - 1
        stayed = ~first["accepted"][0]
        first["position"][0, stayed] = state["x"][stayed]  # exact to the last bit, which depends on the number of rows
        z, log_q, own, opposite = self.proposals(here["z"], rng)
        chains, n = here["z"].shape
        there = coordinates.at(z.reshape(-1, n))
        x, log_det = there.x.reshape(z.shape), there.log_det.reshape(z.shape[:2])
        x[P] = first["position"][0]
        lp = np.append(density.value(x[:P].reshape(-1, n)).reshape(P, chains) + log_det[:P], here["lp"][None], 0)
        waits, each = rng.standard_exponential((P, chains)), np.arange(chains)
        rows, accepted, log_ratio, finite = accept_in_turn(lp - log_q, waits, own, opposite)
        x, lp, log_det, z = x[rows, each], lp[rows, each], log_det[rows, each], z[rows[-1], each]
        end_lp, grad = coordinates.value_and_grad(density, z)
        found = {
            "position": x, "lp": lp - log_det, "acceptance_rate": np.exp(np.minimum(0, log_ratio)),
            "accepted": accepted, "nonfinite": ~finite, "energy": -lp,
            "step_size": np.full((P, chains), self.local.step_size),
        }  # fmt: skip
        found |= {name: np.zeros((P, chains), first[name].dtype) for name in first.keys() - found.keys()}
        first["gradient_evaluations"] += 1  # the gradient at the end, with which the next block begins
        drawn = {name: np.concatenate([rows, found[name]]) for name, rows in first.items()}
        return {"z": z, "residual": grad + z, "lp": end_lp, "x": x[-1]}, drawn

    def proposals(
        self, here: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """All proposals of a block for chains at `here`, of shape (chains, n), and their log q.

        The rows are first the half-turns, of `here` and of those draws that a half-turn follows; then the draws; last
        `here`. Returns z of shape (period, chains, n), log q of shape (period, chains), and, for each proposal in turn,
        the row of a draw and that of its half-turn, of shape (period − 1,).
        """
        q, (chains, n), turns = self.distribution, here.shape, np.arange(self.period - 1)
        pairs, halves, fresh = (turns + 1) // 2, self.period // 2, (self.period - 1) // 2
        k_here, u_here = q.noise_at(rng.random(chains), here)
        k, u = q.scale_index(rng.random((fresh, chains))), rng.standard_normal((fresh, chains, n))
        turned = q.half_turn(np.concatenate([u_here[None], u[: halves - 1]]))
        k = np.concatenate([k_here[None], k[: halves - 1], k, k_here[None]])
        z, log_q = q.draw(k, np.concatenate([turned, u, u_here[None]]))
        z[-1] = here
        return z, log_q, halves + pairs - 1, np.minimum(pairs, halves - 1)


def accept_in_turn(
    log_weights: np.ndarray, waits: np.ndarray, own: np.ndarray, opposite: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The rows where chains stand after each proposal, and the results of `accept`; all of shape (P, chains).

    Chains begin at the last row, whose half-turn is row 0. Proposals with even numbers are half-turns of the chains'
    positions, the others draws.

    Args:
        log_weights: log π − log q of the proposals, and, in the last row, of where chains stand; (P + 1, chains).
        waits: standard exponentials, of shape (P, chains).
        own: the rows of draws, of shape (P,).
        opposite: the rows of their half-turns, of shape (P,).
    """
    P, chains = waits.shape
    w = np.where(np.isfinite(log_weights), log_weights, -np.inf)
    w[P] = log_weights[P]
    known = np.stack([w, np.broadcast_to(np.arange(P + 1.0)[:, None], w.shape)])  # axes: log weight or row, row, chain
    drawn = np.stack([known[:, own], known[:, opposite]], 2)  # axes: ..., proposal, draw or half-turn, chain
    here = known[:, [P, 0]]
    rows, log_ratio = np.empty((P, chains)), np.empty((P, chains))
    for i in range(P):
        there = drawn[:, i] if i % 2 else here[:, ::-1]
        np.subtract(there[0, 0], here[0, 0], out=log_ratio[i])
        here = np.where(-waits[i] <= log_ratio[i], there, here)
        rows[i] = here[1, 0]
    return rows.astype(int), *accept(waits, log_ratio)
