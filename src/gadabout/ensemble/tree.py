r"""Trees of No-U-Turn trajectories, one for each chain, each at its own leaf (Hoffman & Gelman 2014; Betancourt 2017).

A trajectory is doubled forwards or backwards. A state is drawn from the new half with weights $e^{-H}$. When the half
is full, this state replaces the current draw with probability $\min(1, w_{new}/w_{old})$ (multinomial and biased
progressive sampling; Betancourt 2017, appendix A.3). A trajectory turns if $p_{left}\cdot\rho \le 0$ or
$p_{right}\cdot\rho \le 0$, where ρ is the sum of its momenta less half of those at its end points. It also ends if a
sub-tree of the new half turns; this half is then not drawn from. Sub-trees are checked at their last leaf, against the
momentum stored at their first leaf. The bits of the leaf's number give both (the loop form of `kernels.tree`).

A leaf may take many leapfrog steps (`halving`). A tree with at most D doublings is also not doubled once there are
$2^D$ leapfrog steps between its states. A trajectory ends before a new half with as many between its own states. Like
turns, both are properties of a set of states, whichever of them is the start, so the target remains invariant.

A phase is a row of z, p, $L^\top\nabla\log\pi$, log π and the log odds of `halving`: 3n + 2 numbers. The first three
rows (chains,) of `uniforms` are for the draw within a half, the draw of a half, and the direction.
"""

import numpy as np

from gadabout.ensemble.move import State


def momenta(phases: np.ndarray) -> np.ndarray:
    """A view of the momenta of phases, (..., n)."""
    n = phases.shape[-1] // 3
    return phases[..., n : 2 * n]


def energies(phases: np.ndarray) -> np.ndarray:
    """H = −log π + ‖p‖²/2 of phases, shape (m,)."""
    p = momenta(phases)
    return 0.5 * np.einsum("kn,kn->k", p, p) - phases[:, -2]


def turns(left: np.ndarray, right: np.ndarray, rho: np.ndarray) -> np.ndarray:
    """Whether trajectories turn, shape (m,), from their first and last momenta and the sums of all, (m, n) each."""
    middle = rho - 0.5 * (left + right)
    return (np.einsum("kn,kn->k", left, middle) <= 0) | (np.einsum("kn,kn->k", right, middle) <= 0)


def no_trees(phases: np.ndarray, max_depth: int) -> State:
    """The state of trees at phases (chains, width), before any trajectory begins.

    `drawn` is the state drawn so far, `weight` the log of the sum of weights relative to the start's, `rho` the sum of
    momenta, `cost` the number of leapfrog steps between the states. `half_…` are the same for the new half, to which
    `link` leapfrog steps lead. `first` holds the momenta at the first leaves of open sub-trees, and the sums of momenta
    before them. `direction` is 0 where no trajectory is under way.
    """
    chains, n = momenta(phases).shape
    state = {name: np.zeros(chains) for name in ("initial_energy", "weight", "half_weight", "direction")}
    state |= {name: np.zeros(chains, int) for name in ("depth", "leaves", "states", "cost", "half_cost", "link")}
    state |= {"moved": np.zeros(chains, bool)}
    state |= {"here": phases.copy(), "drawn": phases.copy(), "half_drawn": phases.copy()}
    state |= {"ends": np.stack([phases, phases]), "rho": np.zeros((chains, n)), "half_rho": np.zeros((chains, n))}
    return state | {"first": np.zeros((max_depth, chains, 2, n))}


def begin(s: State, i: np.ndarray, p: np.ndarray, uniforms: np.ndarray) -> None:
    """Begin trajectories of chains i (m,) from the states drawn last, with momenta p (m, n)."""
    start = s["drawn"][i]
    momenta(start)[:], start[:, -1] = p, 0.0
    s["drawn"][i] = s["ends"][0, i] = s["ends"][1, i] = start
    s["rho"][i], s["initial_energy"][i] = p, energies(start)
    s["weight"][i], s["depth"][i], s["states"][i], s["cost"][i], s["moved"][i] = 0.0, 0, 0, 0, False
    extend(s, i, uniforms[2])


def extend(s: State, i: np.ndarray, uniform: np.ndarray) -> None:
    """Begin new halves of the trajectories of chains i (m,), forwards or backwards."""
    forwards = uniform[i] < 0.5
    s["direction"][i] = np.where(forwards, 1.0, -1.0)
    s["here"][i] = s["ends"][forwards.astype(int), i]
    s["half_weight"][i], s["half_rho"][i], s["leaves"][i], s["half_cost"][i] = -np.inf, 0.0, 0, 0


def grow(
    s: State, i: np.ndarray, leaf: np.ndarray, weight: np.ndarray, uniforms: np.ndarray, cost: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Add leaves, phases (m, width) with these log weights, to the new halves of chains i (m,).

    A trajectory ends at a leaf of weight −∞. `cost` (m,) is the number of leapfrog steps to each leaf, None if it is 1.
    Returns whether trajectories are over, and whether the limit on depth or cost ended them, both (m,).
    """
    p = momenta(leaf)
    s["half_weight"][i] = total = np.logaddexp(s["half_weight"][i], weight)
    taken = uniforms[0][i] < np.exp(weight - total)
    s["half_drawn"][i[taken]] = leaf[taken]
    s["half_rho"][i] = rho = s["half_rho"][i] + p
    over, limit = (weight == -np.inf) | sub_tree_turns(s, i, p, rho), np.zeros(len(i), bool)
    if cost is not None:
        first = s["leaves"][i] == 0
        s["link"][i] = np.where(first, cost, s["link"][i])
        s["half_cost"][i] = half = s["half_cost"][i] + np.where(first, 0, cost)
        limit = ~over & (half >= 1 << len(s["first"]))
        over |= limit
    s["depth"][i[over]] += 1
    s["leaves"][i] = leaves = s["leaves"][i] + 1
    s["states"][i] += 1
    full = (~over & (leaves == 1 << s["depth"][i])).nonzero()[0]
    if len(full):
        turned, deepest = double(s, i[full], leaf[full], uniforms)
        over[full], limit[full] = turned | deepest, deepest & ~turned
    return over, limit


def sub_tree_turns(s: State, i: np.ndarray, p: np.ndarray, rho: np.ndarray) -> np.ndarray:
    """Whether a sub-tree that ends at new leaves turns, shape (m,), from their momenta and the new halves' sums (m, n).

    An even leaf j is the first of a sub-tree, and is stored at level popcount(j >> 1). An odd leaf is the last of as
    many sub-trees as its number has trailing ones.
    """
    leaf = s["leaves"][i]
    level, ended = np.bitwise_count(leaf >> 1), np.bitwise_count(leaf & ~(leaf + 1))
    even, turned = (ended == 0).nonzero()[0], np.zeros(len(i), bool)
    s["first"][level[even], i[even], 0], s["first"][level[even], i[even], 1] = p[even], rho[even] - p[even]
    if len(even) == len(i):
        return turned
    levels = np.arange(level.max(initial=0) + 1)[:, None]
    at, k = np.nonzero((levels <= level) & (levels + ended > level))
    first = s["first"][at, i[k]]
    turned[k[turns(first[:, 0], p[k], rho[k] - first[:, 1])]] = True
    return turned


def double(s: State, i: np.ndarray, leaf: np.ndarray, uniforms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Add full halves, which end at these leaves, to the trajectories of chains i (m,); extend those that continue.

    Returns whether the trajectory turns, and whether it has reached the limit on depth or cost, both (m,).
    """
    s["ends"][(s["direction"][i] > 0).astype(int), i] = leaf
    half, weight = s["half_weight"][i], s["weight"][i]
    moved = i[uniforms[1][i] < np.exp(half - weight)]
    s["drawn"][moved], s["moved"][moved] = s["half_drawn"][moved], True
    s["weight"][i] = np.logaddexp(weight, half)
    s["rho"][i] = rho = s["rho"][i] + s["half_rho"][i]
    s["depth"][i] = depth = s["depth"][i] + 1
    left, right = momenta(s["ends"][:, i])
    s["cost"][i] = cost = s["cost"][i] + s["half_cost"][i] + s["link"][i]
    turned, deepest = turns(left, right, rho), (depth >= len(s["first"])) | (cost >= 1 << len(s["first"]))
    extend(s, i[~(turned | deepest)], uniforms[2])
    return turned, deepest
