"""The ascent to the typical set, the first Gaussian, and modes: found, or discarded for their mass."""

import numpy as np
import pytest

from gadabout.density.base import AbstractDensity
from gadabout.ensemble.ascent import (
    MEMORY,
    Points,
    ascend,
    beneath_tangents,
    climb_to_typical_set,
    gradients_rise,
    replacements,
    room_below,
)
from gadabout.ensemble.coordinates import Coordinates
from gadabout.ensemble.gaussian import curvature, curved, geometric_mean, of_paths
from gadabout.ensemble.modes import connected, discarded_chains, distinct_starts, lowest_between, search_modes

N = 20


class Density(AbstractDensity):
    """Of a function of rows that returns log π and its gradient, computed in double or in single precision."""

    def __init__(self, function, dim, dtype=np.float64):
        super().__init__(dim)
        self.function, self.dtype = function, dtype

    def _value_and_grad(self, x):
        value, grad = (np.asarray(part, self.dtype) for part in self.function(x.astype(self.dtype)))
        return value.astype(float), grad.astype(float)

    def _value(self, x):
        return self._value_and_grad(x)[0]


def gaussian(scales, mean=0.0, rotation=None, height=0.0):
    """log π and gradients of N(mean, R diag(scales²) Rᵀ), shifted by a height."""
    scales = np.asarray(scales)
    rotation = np.eye(len(scales)) if rotation is None else rotation

    def function(x):
        z = ((x - mean) @ rotation.astype(x.dtype)) / scales.astype(x.dtype)
        return height - 0.5 * np.sum(z**2, 1), -(z / scales.astype(x.dtype)) @ rotation.T.astype(x.dtype)

    return function


def sum_of(*parts):
    """The mixture of what these functions return."""

    def function(x):
        values, grads = zip(*(part(x) for part in parts), strict=True)
        value = np.logaddexp.reduce(values)
        return value, sum(np.exp(v - value)[:, None] * g for v, g in zip(values, grads, strict=True))

    return function


def regression(x):
    """A logistic regression with five weights and a weak prior."""
    rows = np.random.default_rng(0).normal(size=(50, 5)).astype(x.dtype)
    a = x @ rows.T
    return -np.sum(np.logaddexp(0, a), 1) - 0.01 * np.sum(x**2, 1), -(1 / (1 + np.exp(-a))) @ rows - 0.02 * x


def rotation_of(n, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(n, n)))[0]


def off(factor, root):
    """By how much the logarithm of any direction's width is wrong."""
    return np.abs(np.log(np.linalg.svd(np.linalg.solve(root, factor), compute_uv=False))).max()


def test_an_ascent_ends_in_the_typical_set_and_not_at_the_mode():
    """At exact draws of a Gaussian −2 log π is χ²(n): within five of its standard deviations of n, and not near 0."""
    density = Density(gaussian(np.logspace(-1, 1, N), 5.0), N)
    starts = 5 + np.random.default_rng(0).normal(size=(16, N))
    paths = ascend(density, starts)
    assert paths.arrived.all()
    assert (-2 * paths.ends.value <= N + 5 * np.sqrt(2 * N)).all()
    assert np.median(-2 * paths.ends.value) > 0.05 * N
    np.testing.assert_array_equal(paths.x[:, -1], paths.ends.x)
    alone = [ascend(density, start[None]).ends.x[0] for start in starts]
    np.testing.assert_allclose(paths.ends.x, alone, rtol=1e-9)  # chains do not wait for one another
    assert density.gradients < 16 * 2 * 40


def test_a_wall_of_exponentials_does_not_end_an_ascent():
    """Of −u − e^(−u), u = 100 x: a first step of 1 from u = −150 makes the inverse Hessian so small that the end seems
    near."""
    walled = Density(lambda x: (-(100 * x + np.exp(-100 * x)).sum(1), 100 * (np.exp(-100 * x) - 1)), 4)
    paths = ascend(walled, np.random.default_rng(1).uniform(-2, 2, (16, 4)))
    assert paths.arrived.all()
    assert 100 * paths.ends.x.min() > -4  # not −89, where log π is −10³⁸


def test_a_path_that_has_ended_is_not_evaluated_again():
    density = Density(gaussian(np.ones(3)), 3)
    paths = ascend(density, np.concatenate([np.zeros((9, 3)), np.full((1, 3), 50.0)]))
    assert paths.arrived.all()
    assert density.gradients < 10 + 20


def test_a_straight_slope_and_a_point_that_is_not_finite_end():
    """−∞ beyond a wall and no curvature anywhere: chains climb to the wall and stop, finite; one beyond stays there."""
    slope = lambda x: (np.where(x[:, 0] > 0, -np.inf, x.sum(1)), np.where(x[:, :1] > 0, np.nan, np.ones_like(x)))
    paths = ascend(Density(slope, 2), np.array([[-3.0, -3.0], [2.0, 0.0]]))
    assert not paths.arrived.any()
    assert np.isfinite(paths.ends.value[0])
    assert paths.ends.x[0, 0] <= 0
    np.testing.assert_array_equal(paths.ends.x[1], [2.0, 0.0])


def test_the_first_gaussian_is_exact_on_a_rotated_one():
    """Condition 10⁴ in 20 coordinates: widths are right to 1e-9, those of the paths alone are off by more than half."""
    scales, rotation = np.logspace(-1, 1, N), rotation_of(N)
    density = Density(gaussian(scales, 3.0, rotation), N)
    starts = np.random.default_rng(0).normal(size=(16, N))
    ascent, paths = climb_to_typical_set(density, starts, "dense"), ascend(density, starts)
    assert off(ascent.coordinates.factor, rotation * scales) < 1e-9
    assert off(of_paths(paths.x.reshape(-1, N), paths.grad.reshape(-1, N), "dense"), rotation * scales) > 0.5
    assert ascent.distinct == 16
    assert not ascent.apart


def test_a_diagonal_first_factor_has_the_scales_of_raw_units():
    """Scales from 1e-3 to 1e3: each within a factor of ten, where the identity is wrong by a thousand."""
    scales = np.logspace(-3, 3, N)
    starts = 5 + np.random.default_rng(0).normal(size=(16, N))
    ascent = climb_to_typical_set(Density(gaussian(scales, 5.0), N), starts, "diagonal")
    assert np.abs(np.log10(ascent.coordinates.deviations() / scales)).max() < 1


def test_a_gaussian_of_one_straight_path_is_finite():
    ascent = climb_to_typical_set(Density(gaussian(np.ones(3)), 3), np.zeros((1, 3)), "dense")
    assert np.isfinite(ascent.coordinates.factor).all()
    assert np.isfinite(ascent.positions).all()


def test_the_geometric_mean_is_exact_on_a_gaussian():
    """From more draws than coordinates, whatever these draws are; from fewer it is finite and positive."""
    root = rotation_of(N) * np.logspace(-1, 1, N)
    x = np.random.default_rng(1).normal(size=(40, N)) @ root.T
    grad = -np.linalg.solve(root @ root.T, x.T).T
    covariance = geometric_mean(40, np.cov(x.T), np.cov(grad.T))
    assert off(np.linalg.cholesky(covariance), root) < 0.01  # 10⁻⁵ I is added, of which a condition of 10⁴ makes more
    few = geometric_mean(MEMORY, np.cov(x[:MEMORY].T), np.cov(grad[:MEMORY].T), prior_draws=5.0)
    assert (np.linalg.eigvalsh(few) > 0).all()
    np.testing.assert_allclose(geometric_mean(40, x.var(0), 1 / x.var(0)), x.var(0))


def test_hopeless_chains_start_where_others_stand_and_modes_stay():
    """A plateau far below, without a slope, is no place to start; a second mode of less height is."""
    modes = sum_of(gaussian(np.ones(2)), gaussian(np.ones(2), 100.0, height=-50.0))

    def function(x):
        value, grad = modes(x)
        plateau = x[:, 0] < -500
        flat = np.array([1e-9, 0.0])
        return np.where(plateau, -1e4 + x @ flat, value), np.where(plateau[:, None], flat, grad)

    starts = np.array([[-3.0] * 2, [2.0] * 2, [103.0] * 2, [-900.0] * 2])
    ascent = climb_to_typical_set(Density(function, 2), starts, "dense")
    assert ascent.distinct == 3
    assert np.abs(ascent.positions[2] - 100).max() < 5
    np.testing.assert_array_equal(ascent.positions[3], ascent.positions[0])


def test_chains_outside_of_the_typical_set_go_on_to_it():
    """120 coordinates, scales over four decades: eight steps show little of them, gradients along all axes enough."""
    n = 120
    density = Density(gaussian(np.logspace(-2, 2, n), rotation=rotation_of(n)), n)
    starts = 10 * np.random.default_rng(0).normal(size=(16, n))
    low = lambda x: density.value(x) < -n / 2 - room_below(n)
    assert low(ascend(density, starts).ends.x).any()
    ascent = climb_to_typical_set(density, starts, "dense")
    assert not low(ascent.positions).any()
    np.testing.assert_allclose(ascent.coordinates.mean, ascent.positions.mean(0))


def test_where_the_log_density_is_not_concave_low_chains_stay_where_they_are():
    """They may stand in a mode of their own, or in a funnel's neck, where it is not higher ground that is wanted."""
    two = sum_of(gaussian(np.ones(2)), gaussian(0.1 * np.ones(2), 40.0, height=-60.0))
    starts = np.array([[0.5, 0.5]] * 3 + [[40.05, 40.05]])
    ascent = climb_to_typical_set(Density(two, 2), starts, "dense")
    assert np.linalg.norm(ascent.positions[3] - 40.0) < 1


def test_curvature_is_that_of_the_scale_that_matters_and_nothing_widens_where_it_is_convex():
    """Of −z⁴/4 a unit step to either side of 0 makes it 1, where the second derivative is 0; a saddle stays as wide."""
    unit = np.eye(2)
    quartic = Density(lambda x: (-0.25 * np.sum(x**4, 1), -(x**3)), 2)
    np.testing.assert_allclose(curvature(quartic, np.zeros((1, 2)), unit)[0], unit)
    saddle = Density(lambda x: (x**2 @ [-2.0, 0.005], x * [-4.0, 0.01]), 2)
    factor = curved(curvature(saddle, np.zeros((3, 2)), unit), unit)
    np.testing.assert_allclose(Coordinates(np.zeros(2), factor).deviations(), [0.5, 1.0])


def test_points_where_the_gradient_is_not_finite_do_not_count():
    wall = lambda x: (np.where(x[:, 0] > 0.5, np.nan, -2.0 * np.sum(x**2, 1)), -4 * x)
    density, unit, points = Density(wall, 2), np.eye(2), np.array([[-5.0, 0.0], [0.0, 0.0]])
    np.testing.assert_allclose(curved(curvature(density, points, unit), unit), 0.5 * unit)
    np.testing.assert_array_equal(curved(curvature(density, points[1:], unit), unit), unit)
    x = np.array([[-1.0], [1.0], [0.0]])
    parabola = Points(x, x[:, 0] ** 2, np.where(x == 0, np.nan, 2 * x))
    assert gradients_rise(parabola)
    assert not beneath_tangents(parabola)


@pytest.mark.parametrize(("smallest", "variance"), [(1e2, 1e-2), (1e-20, 1.0), (-3.0, 1 / 3.0)])
def test_a_direction_that_rounding_hides_or_that_is_convex_leaves_the_others_as_they_are(smallest, variance):
    n, turn = 70, rotation_of(70)
    H = turn * np.array([smallest, *np.geomspace(0.1, 1e4, n - 1)]) @ turn.T
    factor = curved(H[None], np.eye(n))
    sizes = np.diagonal(turn.T @ factor @ factor.T @ turn)
    np.testing.assert_allclose(sizes, [variance, *np.geomspace(10, 1e-4, n - 1)], rtol=1e-7)
    single = curved(np.diag([4e6, 1e4, 1e-3])[None], np.eye(3), float(np.finfo(np.float32).eps))
    np.testing.assert_allclose(np.diagonal(single), [5e-4, 1e-2, 1.0])


FIVE = np.ones(5)
TWO = sum_of(gaussian(FIVE, -4.0), gaussian(2 * FIVE, 4.0, height=-5 * np.log(2.0)))


def ascent_of(function, dtype=np.float64, centre=0.0):
    """A density, starts, and the ascent from them."""
    density, starts = Density(function, 5, dtype), centre + np.random.default_rng(1).uniform(-2, 2, (16, 5))
    return density, starts, climb_to_typical_set(density, starts, "dense")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("function", [gaussian(np.logspace(-3, 3, 5)), regression])
def test_no_modes_are_searched_for_where_the_log_density_is_concave(function, dtype):
    """Rounding of single precision is not taken for convexity. The price: a gradient at each point."""
    density, starts, ascent = ascent_of(function, dtype)
    before = density.gradients
    found = search_modes(density, starts, ascent, np.random.default_rng(0))
    assert found.elsewhere is None
    assert not found.apart
    assert found.positions is found.ends is ascent.positions
    assert density.gradients == before + 16 + 256


def test_a_mode_in_which_no_chain_stands_is_found():
    """Narrow at −4, twice as wide at 4, of equal mass; all chains climb to the wide one."""
    density, starts, ascent = ascent_of(TWO, centre=4.0)
    assert (ascent.positions > 0).all()
    found = search_modes(density, starts - 4.0, ascent, np.random.default_rng(0))
    assert found.elsewhere is not None
    assert 1 <= found.elsewhere <= 8
    assert found.apart
    moved = np.arange(1, 2 * found.elsewhere, 2)
    assert np.abs(found.positions[moved] + 4).max() < 5
    np.testing.assert_array_equal(np.delete(found.positions, moved, 0), np.delete(ascent.positions, moved, 0))
    np.testing.assert_array_equal(found.ends[-16:], ascent.positions)
    assert (found.ends[:-16] < 0).all(1).any()
    alone = search_modes(density, starts[:1], ascent._replace(positions=ascent.positions[:1]), np.random.default_rng(0))
    assert alone.elsewhere is None


def test_modes_that_chains_found_by_themselves_are_apart():
    """Every second chain starts in each mode: no ascent leads elsewhere, and log π falls between the chains."""
    density, side = Density(TWO, 5), np.where(np.arange(16) % 2, 4.0, -4.0)[:, None]
    starts = side + 0.5 * np.random.default_rng(1).normal(size=(16, 5))
    ascent = climb_to_typical_set(density, starts, "dense")
    found = search_modes(density, starts, ascent, np.random.default_rng(0))
    assert found.elsewhere == 0
    assert found.apart
    assert found.positions is not ascent.positions
    np.testing.assert_array_equal(found.positions, ascent.positions)


def test_no_other_mode_where_there_is_one():
    """Heavy tails are not concave, and have one mode."""
    student = lambda x: (-3 * np.log1p(np.sum(x**2, 1)), -6 * x / (1 + np.sum(x**2, 1))[:, None])
    density, starts, ascent = ascent_of(student)
    found = search_modes(density, starts, ascent, np.random.default_rng(0))
    assert found.elsewhere == 0
    assert not found.apart


def parabola(x):
    """x₂ ~ N(x₁²/2, 0.1), x₁ ~ N(0, 2), as log density and gradient; the others are N(0, 1)."""
    off, scale = (x[:, 1] - 0.5 * x[:, 0] ** 2) / 0.01, np.r_[0.25, 0.0, np.ones(x.shape[1] - 2)]
    value = -0.5 * np.sum(scale * x**2, 1) - 0.005 * off**2
    grad = -scale * x
    grad[:, 0] += off * x[:, 0]
    grad[:, 1] -= off
    return value, grad


def test_the_ends_of_a_curved_ridge_are_in_one_mode():
    """No straight line connects them, but short ones from point to point do."""
    density = Density(parabola, 5)
    along = np.linspace(-4, 4, 40)
    x = np.column_stack([along, 0.5 * along**2, np.zeros((40, 3))])
    assert (lowest_between(density, x[:20], x[20:]) < -20).all()
    modes = connected(density, x, x)
    assert not modes.any()
    order = np.random.default_rng(0).permutation(40)
    assert not connected(density, x[order], x[order]).any()
    starts = np.random.default_rng(1).uniform(-4, 4, (16, 5))
    found = search_modes(density, starts, climb_to_typical_set(density, starts, "dense"), np.random.default_rng(0))
    assert not found.apart


def test_points_are_numbered_by_their_modes():
    """Three modes on a line, six widths and more apart, with 12, 12 and 1 points; a broken chain of points is two."""
    centres = np.array([-8.0, 0.0, 9.0])
    three = sum_of(*(gaussian(np.ones(2), centre) for centre in centres))
    density, rng = Density(three, 2), np.random.default_rng(3)
    which = np.repeat([0, 1, 2], [12, 12, 1])
    x = centres[which, None] + 0.7 * rng.standard_normal((25, 2))
    modes = connected(density, x, x)
    assert [len(set(modes[which == k])) for k in range(3)] == [1, 1, 1]
    assert sorted(np.bincount(modes)) == [1, 12, 12]
    saddle = [[-4.0, -4.0], [-4.2, -3.9]]  # 16 nats below both: the gradient is almost zero, an ascent may end there
    bridged = np.vstack([x[which < 2], saddle])
    modes = connected(density, bridged, bridged)
    assert sorted(np.bincount(modes)) in ([12, 14], [13, 13])
    gap = np.array([-4.0, -3.8, -3.6, 3.6, 3.8, 4.0])
    x = np.column_stack([gap, 0.5 * gap**2, np.zeros((6, 3))])
    assert len(set(connected(Density(parabola, 5), x, x))) == 2


@pytest.mark.parametrize(("mass", "discarded"), [(-5.0, False), (-200.0, True)])
def test_masses_are_weighed_and_not_heights(mass, discarded):
    """Chains 0 to 3 stand in a mode twice as wide, whose log mass is the others' and `mass`: 69 lower at equal mass."""
    rng, n = np.random.default_rng(0), 100
    z, wide = rng.normal(size=(100, 16, n)), np.arange(16) < 4
    draws = np.where(wide[:, None], 2.0 * z + 50, z)
    lp = -0.5 * np.sum(z**2, -1) + np.where(wide, mass - n * np.log(2.0), 0.0)
    np.testing.assert_array_equal(discarded_chains(draws, lp), wide & discarded)
    stuck = np.where(wide[:, None], draws[0], draws)  # their own draws do not show how wide the mode is
    np.testing.assert_array_equal(discarded_chains(stuck, lp), wide & discarded)


def test_discarded_chains_take_the_places_of_others_in_turn():
    np.testing.assert_array_equal(replacements(np.array([True, False, True, True, False])), [1, 1, 4, 1, 4])
    assert distinct_starts(16, np.arange(16) < 4) == 12
    assert distinct_starts(2, np.ones(5, bool)) == 1


@pytest.mark.parametrize("kind", ["dense", "diagonal"])
def test_a_gradient_that_does_not_vary_counts_by_its_square(kind):
    """log π = −3 x₁ − x₂²/2 up to a border, as an exponential's: a width from the paths, not one without bound."""
    x = np.random.default_rng(5).normal(size=(200, 2))
    grad = np.stack([np.full(200, -3.0), -x[:, 1]], 1)
    factor = of_paths(x, grad, kind)
    widths = np.sqrt(np.sum(factor**2, 1)) if kind == "dense" else factor
    np.testing.assert_allclose(widths, [np.sqrt(1 / 3), 1.0], rtol=0.3)
    empty = of_paths(np.empty((0, 2)), np.empty((0, 2)), kind)
    assert np.isfinite(empty).all()
