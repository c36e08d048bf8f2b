r"""The tree of a No-U-Turn trajectory (Hoffman & Gelman 2014, algorithm 3; Betancourt 2017, appendix A).

    Start at one phase (x, p), with weight 1 and ρ = p.                          begin
    while the depth is below its limit, nothing turned and nothing diverged:     trajectory
        Pick a direction at random; add as many leaves as there are states:      grow
            One leapfrog from the last leaf, of weight w = e^{H₀ − H}.           add_leaf
            Draw the leaf with probability w / (weights of the new half).        share_of_leaf
            Stop where it diverges, or where a sub-tree that ends here turns.    sub_tree_turns
        If the half is whole, draw its state in place of the one drawn so        double
        far with probability min(1, weight of the half / weight before).         share_of_half
        Stop where the doubled trajectory turns.                                 turns

The draw is multinomial within a half and biased towards the new half, as in Stan. A trajectory whose momenta sum to ρ
turns if $p_{left}\cdot\rho \le 0$ or $p_{right}\cdot\rho \le 0$, with half the end points subtracted from ρ. Sub-trees
are checked at their last leaf against the momentum stored at their first one, found by the bits of the leaf's number:
the loop form of the recursion (Phan et al. 2019). `ensemble.tree` is the same on the host, for many chains at once.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from gadabout.target import Point

DIVERGENCE = 1000.0
"""growth of the energy along a trajectory that counts as a divergence, in nats (Stan's)"""


class Phase(eqx.Module):
    """A point with a momentum."""

    point: Point
    p: Float[Array, " n"]


Leapfrog = Callable[[Phase, Float[Array, ""]], Phase]
"""one leapfrog step of a phase; the step size may be negative"""


class Half(eqx.Module):
    """The new half of a trajectory, as far as it has been built.

    Args:
        last: the leaf added last; initially the end of the trajectory that the half is added to.
        energy: H of the leaf added last.
        drawn: the state drawn from the half, and `drawn_energy` its H.
        weight: the log of the sum of weights relative to the start's.
        rho: the sum of momenta.
        first: momenta at the first leaves of open sub-trees, and the sums of momenta before them, (depths, 2, n).
        acceptance: the sum of min(1, w) over the leaves.
        leaves: their number.
        turned, diverging: why the half ended early, if it did.
    """

    last: Phase
    energy: Float[Array, ""]
    drawn: Point
    drawn_energy: Float[Array, ""]
    weight: Float[Array, ""]
    rho: Float[Array, " n"]
    first: Float[Array, "depths 2 n"]
    acceptance: Float[Array, ""]
    leaves: Int[Array, ""]
    turned: Bool[Array, ""]
    diverging: Bool[Array, ""]


class Tree(eqx.Module):
    """A trajectory: its ends, the state drawn from it, and sums over its states as in `Half`.

    `states` counts leaves, including those of a discarded half but not the start. `finite` says whether all energies
    were finite.
    """

    left: Phase
    right: Phase
    drawn: Point
    drawn_energy: Float[Array, ""]
    weight: Float[Array, ""]
    rho: Float[Array, " n"]
    first: Float[Array, "depths 2 n"]
    acceptance: Float[Array, ""]
    states: Int[Array, ""]
    depth: Int[Array, ""]
    turned: Bool[Array, ""]
    diverging: Bool[Array, ""]
    finite: Bool[Array, ""]


def energy(phase: Phase) -> Float[Array, ""]:
    """H = −log π + ‖p‖²/2."""
    return 0.5 * phase.p @ phase.p - phase.point.logp


def turns(left: Float[Array, " n"], right: Float[Array, " n"], rho: Float[Array, " n"]) -> Bool[Array, ""]:
    """Whether a trajectory turns, from its first and last momentum and the sum of all."""
    middle = rho - 0.5 * (left + right)
    return (left @ middle <= 0) | (right @ middle <= 0)


def share_of_leaf(weight: Float[Array, ""], total: Float[Array, ""]) -> Float[Array, ""]:
    """The probability of drawing a new leaf, from its log weight and that of the half including it."""
    return jnp.exp(weight - total)


def share_of_half(half: Float[Array, ""], before: Float[Array, ""]) -> Float[Array, ""]:
    """The probability of drawing from a new half, from its log weight and that of the trajectory before."""
    return jnp.exp(jnp.minimum(half - before, 0.0))


def trajectory(
    key: Key[Array, ""], start: Phase, leapfrog: Leapfrog, step_size: Array, max_depth: Array, deepest: int
) -> Tree:
    """The whole trajectory from a phase, doubled `max_depth` times at most; there is memory for `deepest` doublings."""
    initial_energy = energy(start)

    def doubled(tree: Tree) -> Tree:
        direction_key, half_key, draw_key = jax.random.split(jax.random.fold_in(key, tree.depth), 3)
        forwards = jax.random.bernoulli(direction_key)
        end, step = _choose(forwards, tree.right, tree.left), jnp.where(forwards, step_size, -step_size)
        half = grow(half_key, tree, end, lambda phase: leapfrog(phase, step), initial_energy)
        return double(draw_key, tree, half, forwards)

    goes_on = lambda tree: (tree.depth < max_depth) & ~tree.turned & ~tree.diverging
    return jax.lax.while_loop(goes_on, doubled, begin(start, initial_energy, deepest))


def begin(start: Phase, initial_energy: Float[Array, ""], deepest: int) -> Tree:
    """The trajectory of one state."""
    zero, none, no = jnp.zeros_like(initial_energy), jnp.asarray(0), jnp.asarray(False)
    first = jnp.zeros((deepest, 2, *start.p.shape), start.p.dtype)
    return Tree(
        start, start, start.point, initial_energy, zero, start.p, first, zero, none, none, no, no, jnp.asarray(True)
    )


def grow(
    key: Key[Array, ""], tree: Tree, end: Phase, leapfrog: Callable[[Phase], Phase], initial_energy: Float[Array, ""]
) -> Half:
    """A new half from an end of the trajectory, of 2^depth leaves, or fewer if it turns or diverges."""
    zero, no = jnp.zeros_like(initial_energy), jnp.asarray(False)
    half = Half(
        end, zero, tree.drawn, zero, zero - jnp.inf, jnp.zeros_like(end.p), tree.first, zero, jnp.asarray(0), no, no
    )
    full = jnp.left_shift(1, tree.depth)
    goes_on = lambda half: (half.leaves < full) & ~half.turned & ~half.diverging
    add = lambda half: add_leaf(jax.random.fold_in(key, half.leaves), half, leapfrog(half.last), initial_energy)
    return jax.lax.while_loop(goes_on, add, half)


def add_leaf(key: Key[Array, ""], half: Half, leaf: Phase, initial_energy: Float[Array, ""]) -> Half:
    """The half with one more leaf. A leaf that diverges has weight 0."""
    H = energy(leaf)
    diverging = ~(initial_energy - H > -DIVERGENCE)  # true for NaN, too
    weight = jnp.where(diverging, -jnp.inf, initial_energy - H)
    total = jnp.logaddexp(half.weight, weight)
    taken = jax.random.bernoulli(key, share_of_leaf(weight, total))
    drawn, drawn_energy = _choose(taken, (leaf.point, H), (half.drawn, half.drawn_energy))
    rho = half.rho + leaf.p
    turned, first = sub_tree_turns(half.first, half.leaves, leaf.p, half.rho, rho)
    acceptance = half.acceptance + jnp.exp(jnp.minimum(weight, 0.0))
    return Half(leaf, H, drawn, drawn_energy, total, rho, first, acceptance, half.leaves + 1, turned, diverging)


def sub_tree_turns(
    first: Float[Array, "depths 2 n"], leaf: Int[Array, ""], p: Array, before: Array, rho: Array
) -> tuple[Bool[Array, ""], Float[Array, "depths 2 n"]]:
    """Whether a sub-tree that ends at this leaf turns, and `first`, with the leaf added if a sub-tree begins there.

    Leaf number j, if even, is the first of a sub-tree and is stored at level popcount(j >> 1). If odd, it is the last
    of as many sub-trees as j has trailing ones. `before` and `rho` are sums of momenta without and with the leaf.
    """
    level, ended = jnp.bitwise_count(leaf >> 1).astype(int), jnp.bitwise_count(leaf & ~(leaf + 1)).astype(int)
    at = jnp.where(ended == 0, level, len(first))  # out of bounds, which writes nothing
    first = first.at[at].set(jnp.stack([p, before]), mode="drop")
    check = lambda at: (at[0] - 1, turns(first[at[0], 0], p, rho - first[at[0], 1]))
    open_ = lambda at: (at[0] > level - ended) & ~at[1]
    return jax.lax.while_loop(open_, check, (level, jnp.asarray(False)))[1], first


def double(key: Key[Array, ""], tree: Tree, half: Half, forwards: Bool[Array, ""]) -> Tree:
    """The trajectory with its new half; its state is drawn from this half only if the half is complete."""
    whole = ~half.turned & ~half.diverging
    taken = whole & jax.random.bernoulli(key, share_of_half(half.weight, tree.weight))
    drawn, drawn_energy = _choose(taken, (half.drawn, half.drawn_energy), (tree.drawn, tree.drawn_energy))
    left, right = _choose(forwards, (tree.left, half.last), (half.last, tree.right))
    rho = tree.rho + half.rho
    return Tree(
        left,
        right,
        drawn,
        drawn_energy,
        jnp.logaddexp(tree.weight, half.weight),
        rho,
        half.first,
        tree.acceptance + half.acceptance,
        tree.states + half.leaves,
        tree.depth + 1,
        half.turned | turns(left.p, right.p, rho),
        half.diverging,
        jnp.isfinite(half.energy),
    )


def _choose[T](condition: Array, yes: T, no: T) -> T:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)
