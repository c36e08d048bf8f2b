"""The descent to the typical set, and the first Gaussian from its paths."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arviz_stats.base.array import array_stats

import gadabout as gad
from gadabout.driver.descend import (
    Landing,
    _fitted,
    concave,
    convex,
    curvature,
    curved,
    descend,
    land,
    nobody,
    room_below,
)
from gadabout.driver.kept import form_of
from gadabout.driver.programs import operations
from gadabout.factors import isotropic
from gadabout.sampler import Learned
from gadabout.schedule.evidence import Look, seen
from gadabout.target import Point, Target

N = 20


def gaussian(decades):
    """Centred at 5, with scales over so many decades to either side of 1."""
    scales = np.logspace(-decades, decades, N)
    return Target(lambda x: -0.5 * jnp.sum(((x - 5.0) / jnp.asarray(scales, x.dtype)) ** 2)), scales


@pytest.mark.parametrize("x64", [True, False], ids=["float64", "float32"])
def test_it_ends_in_the_typical_set_and_not_at_the_mode(x64):
    """At exact draws of a Gaussian −2 log π is χ²(n): within five of its standard deviations of n, and not near 0."""
    with jax.enable_x64(x64):
        target, _ = gaussian(1)
        starts = 5 + jax.random.normal(jax.random.key(0), (16, N))
        ways = jax.jit(lambda x: descend(target, x))(starts)
    form = -2 * np.asarray(ways.here.logp)
    assert ways.arrived.all()
    assert (form <= N + 5 * np.sqrt(2 * N)).all()
    assert np.median(form) > 0.05 * N


def test_the_first_factor_knows_the_scales_of_raw_units():
    """Scales from 1e-3 to 1e3: each within a factor of ten, where the identity is wrong by a thousand."""
    target, scales = gaussian(3)
    starts = 5 + jax.random.normal(jax.random.key(0), (16, N))
    landing = land(target, starts, "diagonal")
    assert landing.learned.factor is not None
    wrong = np.log10(landing.learned.factor.deviations() / scales)
    assert np.abs(wrong).max() < 1


def test_a_straight_slope_and_a_point_that_is_not_finite_end():
    """−∞ beyond a wall and no curvature anywhere: chains climb to the wall and stop, finite."""
    wall = lambda x: jnp.where(x[0] > 0, -jnp.inf, jnp.sum(x))
    way = jax.jit(lambda x: descend(Target(wall), x))(-3 * jnp.ones((1, 2)))
    assert not way.arrived
    assert jnp.isfinite(way.here.logp)
    assert way.here.x[0, 0] <= 0


def test_chains_that_are_lost_start_where_others_stand_and_modes_stay():
    """A plateau far below, without a slope, is no place to start; a second mode of less height is."""

    def density(x):
        modes = jnp.logaddexp(-0.5 * jnp.sum(x**2), -50.0 - 0.5 * jnp.sum((x - 100.0) ** 2))
        return jnp.where(x[0] < -500.0, -1e4 + 1e-9 * x[0], modes)

    starts = jnp.stack([jnp.full(2, s) for s in (-3.0, 2.0, 103.0, -900.0)])
    landing = land(Target(density), starts, "dense")
    assert landing.distinct == 3
    assert jnp.abs(landing.positions[2] - 100.0).max() < 5
    assert jnp.abs(landing.positions[3]).max() < 110  # with one of the others


def test_a_first_factor_of_one_straight_path_is_finite():
    landing = land(Target(lambda x: -0.5 * jnp.sum(x**2)), jnp.zeros((1, 3)), "dense")
    assert jnp.isfinite(landing.learned.factor.dense()).all()
    assert jnp.isfinite(landing.positions).all()


@pytest.mark.parametrize("x64", [pytest.param(True, marks=pytest.mark.long), False], ids=["float64", "float32"])
def test_the_default_plan_learns_a_regression_in_raw_units_in_a_few_iterations(x64):
    """Widths from 1e-3 to 1e3 and a start a thousand deviations off: means and variances within 5 standard errors.

    32 figures at 5 standard errors, which themselves are known to some 10 %: false alarm below 1 in 1,000. The smallest
    error that is found is 5/√(16 · 250) ≈ 8 % of a deviation.
    """
    n = 16
    scales = np.logspace(-3, 3, n)
    with jax.enable_x64(x64):
        density = lambda x, s: -0.5 * jnp.sum((x / s) ** 2)
        tree = gad.sample(
            density, lambda key: jax.random.normal(key, (n,)), data=jnp.asarray(scales, float),
            sampler=gad.default(), num_chains=16, num_draws=250, progress=False,
        )  # fmt: skip
    draws = tree["posterior"]["x"].values.astype(float).reshape(-1, n) / scales
    assert tree["warmup_sample_stats"].sizes["draw"] < 500
    assert tree["learned"]
    for values, truth, sd in ((draws, 0, 1), (draws**2, 1, np.sqrt(2))):
        ess = array_stats.ess(np.ascontiguousarray(values.T.reshape(n, 16, 250)))
        assert (np.abs(values.mean(0) - truth) < 5 * sd / np.sqrt(ess)).all()


WIDE = 310
SHORT = {"num_warmup": 200, "num_draws": 24, "num_chains": 16, "seed": 0, "progress": False}


def dear(x, rows):
    return -0.5 * jnp.sum((rows @ x) ** 2)


def cheap(x, rows):
    return -0.5 * jnp.sum((x / rows[0]) ** 2)


def test_operations_are_counted():
    """A gradient of |Ax|² is two products with A, 4 m n; of n exponentials, at least ten for each."""
    rows = jnp.ones((40, 30))
    gradient = lambda f: operations(lambda x: Target(f).at(x, 1), jnp.ones(30))
    assert 1 <= gradient(lambda x: dear(x, rows)) / (4 * rows.size) < 1.2
    assert 300 <= gradient(lambda x: jnp.sum(jnp.exp(x))) < 600


@pytest.mark.parametrize(("density", "dense"), [pytest.param(dear, True, marks=pytest.mark.long), (cheap, False)])
def test_many_coordinates_get_the_factor_that_their_gradient_is_worth(density, dense, tmp_path):
    """The same kind once a stored run goes on, in the same draws: its progress fits what the checkpoint holds."""
    rows = jax.random.normal(jax.random.key(0), (2 * WIDE, WIDE)) + 0.3
    plan = gad.default(move="split-hmc")
    calls = {"data": rows, "sampler": plan}
    whole = gad.sample(density, jnp.zeros(WIDE), **calls, **SHORT)
    assert ("proposal.factor.matrix" in whole["learned"]) is dense
    gad.sample(density, jnp.zeros(WIDE), out=tmp_path / "run.zarr", **calls, **SHORT | {"num_draws": 8})
    again = gad.resume(tmp_path / "run.zarr", density, data=rows, num_draws=24, progress=False)
    np.testing.assert_array_equal(again["posterior"]["x"], whole["posterior"]["x"])


@pytest.mark.parametrize(
    ("bug", "doubt"), [("none", False), ("diverges", True), ("lags", True), ("apart", True), ("frozen", True)]
)
def test_what_gives_cause_for_doubt(bug, doubt):
    """Independent draws (t, chains, n) give none; each planted fault does."""
    draws = np.random.default_rng(0).normal(size=(100, 16, 3))
    stats = {"acceptance_rate": np.full((100, 16), 0.8), "diverging": np.zeros((100, 16), bool)}
    if bug == "diverges":
        stats["diverging"][:2, 0] = True
    if bug == "lags":
        stats["acceptance_rate"][:, 3] = 0.1
    if bug == "apart":
        draws[:, 5, 1] += 3
    if bug == "frozen":
        draws[:, :, 2] = draws[0, :, 2]
    assert bool(seen(Look(draws, stats))["doubt"]) is doubt


@pytest.mark.parametrize("x64", [True, False], ids=["float64", "float32"])
def test_the_first_factor_knows_a_rotated_gaussian_as_paths_alone_do_not(x64):
    """Condition 10⁴ in 20 coordinates: no direction's width is off by 1 %, that of the paths by more than a half."""
    with jax.enable_x64(x64):
        scales = np.logspace(-1, 1, N)
        rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(N, N)))[0]
        root = jnp.asarray(rotation * scales, float)
        target = Target(
            lambda x: -0.5 * jnp.sum(((x @ jnp.asarray(rotation, x.dtype)) / jnp.asarray(scales, x.dtype)) ** 2)
        )
        starts = jax.random.normal(jax.random.key(0), (16, N))
        factor = land(target, starts, "dense").learned.factor
        ways = jax.jit(lambda x: descend(target, x))(starts)
        stretches = lambda factor: np.linalg.svd(np.linalg.solve(root, factor.dense()), compute_uv=False)
        off = lambda factor: np.abs(np.log(stretches(factor))).max()
        assert factor is not None
        assert off(factor) < 0.01
        assert off(_fitted(ways.path, jnp.ones(16, bool), "dense")) > 0.5


def test_curvature_is_that_of_the_scale_that_matters_and_nothing_widens_where_it_is_convex():
    """Of −z⁴/4 a unit step to either side of 0 makes it 1, where the second derivative is 0; a saddle stays as wide."""
    quartic = Target(lambda x: -0.25 * jnp.sum(x**4))
    unit = isotropic(2, 1.0, "dense")
    np.testing.assert_allclose(curvature(quartic, jnp.zeros((1, 2)), unit)[0], np.eye(2), atol=1e-6)
    saddle = Target(lambda x: -2.0 * x[0] ** 2 + 0.005 * x[1] ** 2)
    np.testing.assert_allclose(
        curved(curvature(saddle, jnp.zeros((3, 2)), unit), unit).deviations(), [0.5, 1.0], rtol=1e-5
    )


def test_points_where_the_gradient_is_not_finite_tell_of_no_curvature():
    wall = Target(lambda x: jnp.where(x[0] > 0.5, jnp.nan, -2.0 * jnp.sum(x**2)))
    unit = isotropic(2, 1.0, "dense")
    points = jnp.array([[-5.0, 0.0], [0.0, 0.0]])
    np.testing.assert_allclose(curved(curvature(wall, points, unit), unit).deviations(), [0.5, 0.5], rtol=1e-5)
    nowhere = curved(curvature(wall, points[1:], unit), unit)
    assert np.array_equal(nowhere.dense(), unit.dense())


@pytest.mark.parametrize("x64", [True, False], ids=["float64", "float32"])
def test_a_direction_that_rounding_hides_leaves_the_others_what_they_are_told(x64):
    """As pixels that are black in nearly all pictures, beside a prior that is wide: in float32 all was thrown away."""
    with jax.enable_x64(x64):
        factor = isotropic(3, 1.0, "dense")
        widths = curved(jnp.diag(jnp.array([4e6, 1e4, 1e-12]))[None], factor).deviations()
    np.testing.assert_allclose(widths, [5e-4, 1e-2, 1.0], rtol=1e-5)


@pytest.mark.parametrize(
    ("hidden", "sizes"), [(1e2, None), (1e-20, 1.0), (-3.0, 3.0)], ids=["concave", "hidden by rounding", "convex"]
)
def test_many_directions_are_told_as_few_are(monkeypatch, hidden, sizes):
    """By Cholesky's factor where log π is concave in all of them, by eigenvectors where that says nothing: the same."""
    n = 70
    turn, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(n, n)))
    H = turn * np.array([hidden, *np.geomspace(0.1, 1e4, n - 1)]) @ turn.T

    def covariance():
        with jax.enable_x64(True):
            dense = curved(jnp.asarray(H)[None], isotropic(n, jnp.ones(()), "dense")).dense()
            return np.asarray(dense @ dense.T)

    many = covariance()
    monkeypatch.setattr("gadabout.driver.descend.MANY_DIRECTIONS", n + 1)
    np.testing.assert_allclose(many, covariance(), rtol=1e-6, atol=1e-10)
    np.testing.assert_allclose(turn[:, 0] @ many @ turn[:, 0], 1 / (sizes or hidden), rtol=1e-8)


def test_chains_outside_of_the_typical_set_go_on_to_it():
    """300 coordinates, scales over two decades: eight steps show little of them, gradients along all axes enough."""
    n, chains = 300, 16
    scales = jnp.asarray(np.logspace(-1, 1, n))
    rotation = jnp.asarray(np.linalg.qr(np.random.default_rng(0).normal(size=(n, n)))[0])
    target = Target(lambda x: -0.5 * jnp.sum((rotation.T @ x / scales) ** 2))
    starts = 10 * jax.random.normal(jax.random.key(0), (chains, n))
    landing = land(target, starts, "dense")
    height = lambda landing: np.asarray(jax.vmap(target.log_density)(landing.positions))
    gone = land(target, landing.positions, "dense", before=landing)
    before, after = height(landing), height(gone)
    assert landing.outside.any()
    assert (before[landing.outside] < -n / 2 - room_below(n)).all()
    assert (after >= -n / 2 - room_below(n)).all()
    stay = ~np.asarray(landing.outside)
    assert np.array_equal(gone.positions[stay], landing.positions[stay])


def test_a_second_landing_runs_the_program_of_the_first():
    positions, density = jnp.ones((2, 3)), lambda x: -0.5 * jnp.sum(x**2)
    form = lambda landing: form_of(landing._replace(learned=(landing.learned.mean, landing.learned.factor)))
    assert form(land(Target(density), positions, "dense")) == form(nobody(positions, "dense"))


def test_a_chain_that_would_end_further_outside_stays_where_it_was():
    """The way up a funnel ends in its neck, where the Gaussian of its mouth says that it is far outside."""
    n, chains = 10, 16
    funnel = lambda x: -0.5 * x[0] ** 2 / 9 - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-x[0]) - 0.5 * (n - 1) * x[0]
    target, factor = Target(funnel), isotropic(n, jnp.ones(()), "dense")
    positions = jax.random.normal(jax.random.key(0), (chains, n)) * jnp.exp(1.0)
    positions = positions.at[:, 0].set(2.0 - 0.2 * jnp.arange(chains))
    form = lambda x: np.asarray(jnp.sum(jax.vmap(jax.grad(funnel))(x) ** 2, -1))
    everybody, zero = jnp.ones(chains, bool), jnp.asarray(0)
    learned = Learned(jnp.zeros(n), factor)
    landing = Landing(positions, learned, zero, zero + chains, everybody[0], everybody, jnp.asarray(form(positions)))
    gone = land(target, landing.positions, "dense", before=landing)
    walked = (np.asarray(gone.positions) != np.asarray(positions)).any(1)
    assert 0 < walked.sum() < chains
    assert (form(gone.positions)[walked] < form(positions)[walked]).all()


def test_paths_that_show_few_of_many_directions_make_the_others_no_narrower():
    """A regression on 300 inputs whose scales span two decades, in single precision, and four paths of eight points.

    All widths of the Gaussian are right within a factor of ten. One was narrower by eight thousand: curvature that
    small is hidden by rounding in coordinates in which it is.
    """
    n, rows, chains = 300, 2_000, 4
    random = np.random.default_rng(0)
    inputs = random.normal(size=(rows, n)) * np.geomspace(10, 0.1, n)
    with jax.enable_x64(False):
        signed = jnp.asarray(inputs * np.where(inputs[:, :1] > 0, 1, -1), jnp.float32)
        density = lambda x: jnp.sum(jax.nn.log_sigmoid(signed @ x)) - 0.5 * x @ x
        landing = land(Target(density), jax.random.normal(jax.random.key(0), (chains, n)), "dense")
        mode = jnp.zeros(n)
        for _ in range(30):
            mode -= jnp.linalg.solve(jax.hessian(density)(mode), jax.grad(density)(mode))
        L, H = (np.asarray(matrix, float) for matrix in (landing.learned.factor.dense(), -jax.hessian(density)(mode)))
    wider = np.sqrt(np.linalg.eigvalsh(L.T @ H @ L))
    assert 0.1 < wider.min() <= wider.max() < 10


def test_where_the_log_density_is_not_concave_low_chains_stay_where_they_are():
    """They may stand in a mode of their own, or in a funnel's neck, where it is not higher ground that is wanted."""
    narrow = lambda x: -0.5 * jnp.sum((x - 40.0) ** 2) * 100
    two_modes = lambda x: jnp.logaddexp(-0.5 * jnp.sum(x**2), narrow(x) - 60.0)
    starts = jnp.concatenate([jnp.zeros((3, 2)) + 0.5, jnp.full((1, 2), 40.05)])
    landing = land(Target(two_modes), starts, "dense")
    assert jnp.linalg.norm(landing.positions[3] - 40.0) < 1
    assert not landing.outside.any()


def test_a_point_that_is_not_finite_hides_nothing_of_the_others():
    """Two of three points lie on a parabola that opens upwards; the third has no gradient."""
    x = jnp.array([[-1.0], [1.0], [0.0]])
    points = Point(x, x[:, 0] ** 2, jnp.where(x == 0, jnp.nan, 2 * x))
    assert convex(points)
    assert not concave(points)
