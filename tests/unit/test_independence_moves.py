"""The proposals of the default's independence moves, and the evidence that speaks for or against them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import logsumexp
from scipy import integrate, stats

import gadabout as gad
from gadabout.diagnostics import independence_efficiency
from gadabout.factors import Cholesky
from gadabout.proposals import ScaleMixture, Skew, fitted_skew, fitted_weights, log_radial_density, no_skew
from gadabout.proposals.scale_mixture import SCALES
from gadabout.schedule.judge import decide, why

LEANING = Skew(jnp.array([0.3, -0.1]), jnp.array([0.9, 1.2]), jnp.array([0.5, -0.2]))
WEIGHTS = jnp.array([0.1, 0.4, 0.2, 0.1, 0.1, 0.1])


def mixture(n=2):
    skew = Skew(*(leaf[:n] for leaf in (LEANING.shift, LEANING.width, LEANING.angle)))
    factor = Cholesky(jnp.array([[1.5, 0.0], [0.7, 0.4]])[:n, :n])
    return ScaleMixture(jnp.array([1.0, -2.0])[:n], factor, skew, WEIGHTS)


def test_a_skew_and_its_inverse():
    u = jnp.asarray(np.random.default_rng(0).normal(size=2) * 3)
    z, log_slope = LEANING(u)
    back, again = LEANING.inverse(z)
    np.testing.assert_allclose(back, u, rtol=1e-10)
    np.testing.assert_allclose(again, log_slope, rtol=1e-10)
    jacobian = jax.jacobian(lambda u: LEANING(u)[0])(u)
    np.testing.assert_allclose(log_slope, jnp.linalg.slogdet(jacobian)[1], rtol=1e-10)


def test_a_fitted_skew_has_the_moments_of_the_draws():
    """Of 200,000 draws; an even coordinate is left alone, and the identity is returned for it."""
    draws = np.random.default_rng(0).gamma(6.0, size=(200_000, 1)) / np.sqrt(6)
    even = np.random.default_rng(1).normal(size=(200_000, 1))
    skew = fitted_skew(np.concatenate([draws, even], 1))
    assert (skew.shift[1], skew.width[1], skew.angle[1]) == (0, 1, 0)
    u, _ = skew.inverse(np.concatenate([draws, even], 1), np)
    assert abs(stats.skew(u[:, 0])) < 0.1 < 0.8 < stats.skew(draws[:, 0])
    assert abs(u[:, 0].mean()) < 0.02
    assert abs(u[:, 0].std() - 1) < 0.03


def test_the_density_is_that_of_the_draws():
    """Its integral is 1 with its normaliser, and log q of a draw is the same by both ways."""
    one = mixture(1)
    density = lambda x: float(jnp.exp(one.normalised_log_density(jnp.array([x]))))
    np.testing.assert_allclose(integrate.quad(density, -40, 40, limit=400)[0], 1, rtol=1e-6)
    two = mixture()
    noise = jax.vmap(two.noise)(jax.random.split(jax.random.key(0), 200))
    x, log_q = jax.vmap(two.draw_with_log_density)(noise)
    np.testing.assert_allclose(jax.vmap(two.log_density)(x), log_q, rtol=1e-9)
    np.testing.assert_array_equal(jax.vmap(two.draw)(noise), x)


def test_draws_have_the_density():
    """The law of one coordinate by its distribution function; at 20,000 draws the alarm rings falsely once in 10⁵."""
    one = mixture(1)
    x = np.asarray(jax.vmap(one.sample)(jax.random.split(jax.random.key(1), 20_000)))[:, 0]
    grid = np.linspace(-60, 60, 60_001)
    density = np.exp(np.asarray(jax.vmap(lambda v: one.normalised_log_density(v[None]))(jnp.asarray(grid))))
    cdf = integrate.cumulative_trapezoid(density, grid, initial=0)
    assert stats.kstest(x, lambda v: np.interp(v, grid, cdf)).pvalue > 1e-5
    wrong = lambda v: np.interp(v, grid + 0.1, cdf)
    assert stats.kstest(x, wrong).pvalue < 1e-5, "a shift of a fifteenth of the standard deviation is seen"


def test_weights_by_maximum_likelihood():
    rng = np.random.default_rng(0)
    n, scales = 5, rng.choice(SCALES, p=np.asarray(WEIGHTS), size=100_000)
    squares = np.sum((scales[:, None] * rng.normal(size=(100_000, n))) ** 2, 1)
    weights = fitted_weights(squares, n)
    assert weights.sum() == pytest.approx(1)
    assert weights.min() > 0.01
    gain = np.mean(log_radial_density(squares, n, weights) - log_radial_density(squares, n, np.asarray(WEIGHTS)))
    assert gain > -0.01
    terms = jnp.stack([-n * np.log(s) - squares / (2 * s * s) for s in SCALES], -1)
    own = logsumexp(terms, -1, b=weights)
    np.testing.assert_allclose(log_radial_density(squares, n, weights), own, rtol=1e-10)


@pytest.mark.parametrize("sd", [1.0, 0.8, 1.15])
def test_efficiency_is_what_an_independence_chain_has(sd):
    """Predicted from draws of N(0, I₃), against chains with proposals N(0, sd² I): within a factor of 1.6.

    It is pessimistic where chains are caught in tails; weights the wrong way round are far off there.
    """
    draws = np.random.default_rng(0).normal(size=(4_000, 3))
    log_weights = -0.5 * np.sum(draws**2, 1) * (1 - sd**-2)
    acceptance, efficiency = independence_efficiency(log_weights, draws)
    sampler = gad.independence(gad.proposals.Gaussian(jnp.zeros(3), Cholesky(sd * jnp.eye(3))))
    density = lambda x: -0.5 * x @ x
    tree = gad.sample(density, jnp.zeros(3), sampler=sampler, num_chains=8, num_draws=20_000, progress=False)
    x = tree["posterior"]["x"].values
    ess = gad.diagnostics.ess_table(x)
    measured = np.min(np.minimum(ess["bulk"], ess["square"])) / x[..., 0].size
    np.testing.assert_allclose(tree["sample_stats"]["acceptance_rate"].values.mean(), acceptance, atol=0.02)
    assert 0.8 < measured / efficiency < 1.6
    if sd == 0.8:
        assert measured / independence_efficiency(-log_weights, draws)[1] < 0.2


SOUND = {"doubt": [], "efficiency": 0.5, "gradients": 3.0, "named": False, "move": "local"}
FITS = {"independence_efficiency": 0.5, "independence_acceptance": 0.8, "pareto_k": 0.2}


@pytest.mark.parametrize(
    ("evidence", "move"),
    [
        (SOUND, "local"),
        (SOUND | FITS, "independence"),
        (SOUND | FITS | {"pareto_k": 0.6}, "local"),
        (SOUND | FITS | {"independence_efficiency": 0.05}, "local"),
        (SOUND | FITS | {"efficiency": 0.02, "independence_efficiency": 0.06}, "independence"),
        (SOUND | FITS | {"efficiency": 0.02, "independence_efficiency": 0.04}, "local"),
        (SOUND | FITS | {"doubt": ["R-hat is 1.30"]}, "sturdy"),
    ],
)
def test_the_move_that_evidence_speaks_for(evidence, move):
    assert decide(evidence) == move
    assert why(evidence | {"move": move}).count("\n") == 0


@pytest.mark.parametrize(("move", "kernel"), [("independence", "LocalGlobal"), ("nuts", "NoUTurn")])
def test_a_move_that_is_named_is_taken(move, kernel):
    plan = gad.default(move=move)
    tree = gad.sample(lambda x: -0.5 * x @ x, jnp.ones(2), sampler=plan, num_chains=4, num_draws=100, progress=False)
    assert tree.attrs["choice"]["named"]
    assert any(name.startswith("distribution") for name in tree["learned"].data_vars) == (kernel == "LocalGlobal")
    with pytest.raises(ValueError, match="move must be one of"):
        gad.default(move="fastest")


def test_an_even_target_needs_no_skew():
    assert not np.any(fitted_skew(np.random.default_rng(0).normal(size=(1_600, 50))).angle != no_skew(50).angle)


def test_what_a_proposal_of_fixed_size_holds_is_told():
    """θ of a proposal that can be made for no other number of coordinates, with a scalar in it, has its names too."""
    sampler = gad.independence(gad.proposals.StudentT(jnp.zeros(2), Cholesky(jnp.eye(2)), jnp.asarray(5.0)))
    tree = gad.sample(lambda x: -0.5 * x @ x, jnp.zeros(2), sampler=sampler, num_draws=10, progress=False)
    learned = tree["learned"].to_dataset()
    (degrees,) = [values for name, values in learned.items() if str(name).endswith("degrees_of_freedom")]
    assert degrees.shape == ()
    assert float(degrees) == 5.0
    assert ("coordinate", "other_coordinate") in [values.dims for values in learned.data_vars.values()]
