"""`NoncentredLangevin`: its coordinates, its ratio and its entropy, written out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad
from gadabout.ensemble.noncentring import Noncentring
from gadabout.factors import Cholesky
from gadabout.proposals import Langevin, NoncentredLangevin, renew_cache
from tests.laws import law_target

TARGET = gad.Target(law_target.log_density)
PLACE = jnp.asarray([0.4, -0.3, 0.9])
FACTOR = Cholesky(jnp.asarray([[0.5, 0.0, 0.0], [0.2, 0.7, 0.0], [-0.1, 0.3, 0.6]]))
K, B, C = jnp.asarray([[0.4], [-0.3]]), jnp.asarray([[0.2], [0.5]]), jnp.asarray([0.1, -0.2])


def proposal(log_scales=K, slopes=B, location=C, **settings):
    return NoncentredLangevin(FACTOR, log_scales, slopes, location, (0,), (1, 2), **settings)


def at(q):
    return renew_cache(q, TARGET.at(PLACE, 1))


@pytest.mark.parametrize("exact", [False, True])
def test_without_a_layer_it_is_the_langevin_proposal(exact):
    ours, theirs = proposal(0 * K, 0 * B, 0 * C, exact=exact), Langevin(FACTOR, exact)
    noise = ours.noise(jax.random.key(1), at(ours))
    for q, other in ((ours, theirs), (theirs, ours)):
        (there, log_q), (y, ratio) = q.move(noise, at(q), TARGET), other.move(noise, at(other), TARGET)
        np.testing.assert_allclose(there.x, y.x, rtol=1e-12)
        np.testing.assert_allclose(log_q, ratio, rtol=1e-10)
    np.testing.assert_allclose(ours.entropy(at(ours)), theirs.entropy(at(theirs)), rtol=1e-12)
    gradients = [q.move_and_pullback(noise, at(q), TARGET)[2](1.0).factor for q in (ours, theirs)]
    dense = [g.matrix if hasattr(g.matrix, "shape") else g.matrix.u[:, None] * g.matrix.v for g in gradients]
    np.testing.assert_allclose(*map(jnp.tril, dense), rtol=1e-9)


LAYER = Noncentring(np.array([0]), np.array([1, 2]), np.zeros(1), *map(np.asarray, (C, B, K)))
"""the same coordinates, by the formulas in NumPy that the default uses: a second opinion"""


def log_q(end, start):
    """log q(end | start), both of shape (m, 3), constants left out: that of a Gaussian for y, less log |∂x/∂y|."""
    y, ahead, L = LAYER.y(start), LAYER.y(end), np.asarray(FACTOR.matrix)
    grad = np.asarray(jax.vmap(lambda x: TARGET.at(x, 1).grad)(jnp.asarray(start)))
    z = np.linalg.solve(L, (ahead - y - 0.5 * LAYER.pull(y, grad) @ L @ L.T).T)
    return -0.5 * np.sum(z**2, 0) - LAYER.log_det(ahead)


def moves(count):
    """Ends of so many moves from `PLACE`, the starts beside them, and the log-ratios."""
    q = proposal()
    one = lambda key: q.move(q.noise(key, at(q)), at(q), TARGET)
    there, ratios = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(2), count))
    return np.asarray(there.x), np.broadcast_to(PLACE, there.x.shape), ratios


def test_its_ratio_is_that_of_densities_of_x():
    ends, starts, ratios = moves(5)
    np.testing.assert_allclose(ratios, log_q(starts, ends) - log_q(ends, starts), rtol=1e-9, atol=1e-11)


def test_its_entropy_is_the_mean_of_minus_log_q():
    """4,000 moves, constants left out; 5 standard errors: a false alarm in 1.7 million seeds."""
    ends, starts, _ = moves(4_000)
    surprise = -log_q(ends, starts)
    entropy = proposal().entropy(at(proposal())) - FACTOR.log_det() + 0.5 * 3
    assert abs(surprise.mean() - entropy) < 5 * surprise.std() / 4_000**0.5


def test_its_entropy_is_differentiated_through_the_coordinates():
    """By differences: y and its gradient move with K, too."""
    h, entropy = 1e-5, lambda k: proposal(k).entropy(at(proposal()))
    one = jnp.zeros_like(K).at[1, 0].set(h)
    np.testing.assert_allclose(jax.grad(entropy)(K)[1, 0], (entropy(K + one) - entropy(K - one)) / (2 * h), rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ancestors": (1,)}, "ancestors and children"),
        ({"children": ()}, "ancestors and children"),
        ({"log_scales": jnp.zeros((1, 2))}, "log_scales"),
        ({"location": jnp.zeros(3)}, "location"),
    ],
)
def test_what_does_not_fit_is_refused(change, words):
    whole = {"log_scales": K, "slopes": B, "location": C, "ancestors": (0,), "children": (1, 2)} | change
    with pytest.raises(ValueError, match=words):
        NoncentredLangevin(FACTOR, **whole)
