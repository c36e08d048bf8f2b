"""The default in learned coordinates, as users run it: right by quantiles, said in words, and stored."""

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from scipy import stats

import gadabout as gad

LEAST_ESS = 2_000
"""with which a share below an exact quantile is within five standard errors of what it should be"""
SHARES = np.array([0.05, 0.25, 0.5, 0.75, 0.95])


def right_by_quantiles(draws, quantiles, ess):
    """One false alarm in a million or two for each quantile, were the draws right; a shift of 0.1 sd is found."""
    assert float(ess) > LEAST_ESS
    below = (np.asarray(draws).ravel()[:, None] < quantiles).mean(0)
    np.testing.assert_array_less(np.abs(below - SHARES), 5 * np.sqrt(SHARES * (1 - SHARES) / LEAST_ESS))


def normal(x, mean, deviation):
    return jnp.sum(-0.5 * ((x - mean) / deviation) ** 2 - jnp.log(deviation) * jnp.ones_like(x))


def funnel(position):
    """Neal's, in ten coordinates."""
    return normal(position["v"], 0.0, 3.0) + normal(position["x"], 0.0, jnp.exp(0.5 * position["v"]))


FUNNEL = {"v": jnp.zeros(()), "x": jnp.zeros(9)}


def test_a_funnel_is_drawn_from_its_neck_to_its_mouth():
    tree = gad.sample(funnel, FUNNEL, num_draws=500, progress=False)
    posterior, ess = tree["posterior"], tree["diagnostics"]["ess_bulk"]
    right_by_quantiles(posterior["v"].values, 3 * stats.norm.ppf(SHARES), ess["v"])
    scaled = posterior["x"].values * np.exp(-0.5 * posterior["v"].values[..., None])
    for i in range(9):
        right_by_quantiles(scaled[..., i], stats.norm.ppf(SHARES), ess["x"].values[i])
    choice = tree.attrs["choice"]
    assert choice["coordinates"] == ["x is scaled by exp(0.5 v)"]
    before, after = choice["fisher_divergence"]
    assert after < 0.01 * before
    assert choice["move"] == "independence"
    assert not tree.attrs["findings"]


def parabolas(position):
    """Hybrid Rosenbrock: three branches of two parabolas, one along the other."""
    a, b = position["a"], position["b"]
    return normal(a, 1.0, 1.0) + normal(b[:, 0], a**2, 0.3) + normal(b[:, 1], b[:, 0] ** 2, 0.3)


@pytest.mark.parametrize("seed", [0, 1])
def test_curved_ridges_are_drawn_to_their_ends(seed):
    """Also the square of what bends all: a mixture in place of coordinates lost ends, and second moments with them."""
    tree = gad.sample(parabolas, {"a": jnp.zeros(()), "b": jnp.zeros((3, 2))}, seed=seed, progress=False)
    a, b, ess = (*(tree["posterior"][name].values for name in "ab"), tree["diagnostics"]["ess_bulk"])
    right_by_quantiles(a, 1 + stats.norm.ppf(SHARES), ess["a"])
    for before, after in ((a[..., None], b[..., 0]), (b[..., 0], b[..., 1])):
        for off in np.moveaxis((after - before**2) / 0.3, -1, 0):
            right_by_quantiles(off, stats.norm.ppf(SHARES), ess["b"].values.min())
    squares = (a.ravel() - 1) ** 2
    assert abs(squares.mean() - 1) < 5 * np.sqrt(2 / LEAST_ESS)
    choice = tree.attrs["choice"]
    assert choice["coordinates"] == ["b lies about a parabola of b", "b lies about a parabola of a"]
    assert choice["fisher_divergence"][1] < 1e-6
    assert choice["move"] == "independence"
    assert not tree.attrs["findings"]


EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def schools(position):
    """Rubin's eight schools, centred."""
    mu, log_tau, theta = position["mu"], position["log_tau"], position["theta"]
    prior = normal(mu, 0.0, 5.0) - jnp.log1p((jnp.exp(log_tau) / 5) ** 2) + log_tau
    return prior + normal(theta, mu, jnp.exp(log_tau)) + normal(EFFECTS, theta, ERRORS)


SCHOOLS = {"mu": jnp.zeros(()), "log_tau": jnp.zeros(()), "theta": jnp.zeros(8)}


def quantiles_of_schools():
    """Exact ones of μ and log τ: θ and then μ integrated out, log τ on a grid."""
    log_tau = np.linspace(-14, 8, 8_001)
    variance = ERRORS**2 + np.exp(2 * log_tau)[:, None]
    precision = 1 / 25 + np.sum(1 / variance, 1)
    mean = np.sum(EFFECTS / variance, 1) / precision
    log_p = -np.log1p((np.exp(log_tau) / 5) ** 2) + log_tau - 0.5 * np.log(precision)
    log_p += 0.5 * precision * mean**2 - 0.5 * np.sum(EFFECTS**2 / variance + np.log(variance), 1)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    grid = np.linspace(-25, 30, 2_001)
    below = [p @ stats.norm.cdf((v - mean) * np.sqrt(precision)) for v in grid]
    return np.interp(SHARES, below, grid), np.interp(SHARES, np.cumsum(p), log_tau)


def test_eight_schools_written_centred_are_drawn_as_if_not():
    tree = gad.sample(schools, SCHOOLS, num_draws=500, progress=False)
    ess = tree["diagnostics"]["ess_bulk"]
    for name, quantiles in zip(("mu", "log_tau"), quantiles_of_schools(), strict=True):
        right_by_quantiles(tree["posterior"][name].values, quantiles, ess[name])
    (words,) = tree.attrs["choice"]["coordinates"]
    assert "theta" in words
    assert "scaled by exp(log_tau)" in words
    assert not {found["kind"] for found in tree.attrs["findings"]} & {"rhat", "ess"}


@pytest.mark.filterwarnings("ignore")
def test_affine_coordinates_have_no_layers():
    settings = {"num_draws": 50, "num_warmup": 100, "progress": False}
    plans = [gad.default(move="split-hmc", coordinates=each) for each in ("auto", "affine")]
    unfolded, affine = (gad.sample(funnel, FUNNEL, sampler=plan, **settings) for plan in plans)
    assert unfolded.attrs["choice"]["coordinates"] == ["x is scaled by exp(0.5 v)"]
    assert "layers" in unfolded["learned"]
    assert not affine.attrs["choice"].keys() & {"coordinates", "fisher_divergence"}
    assert "layers" not in affine["learned"]
    with pytest.raises(ValueError, match="coordinates must be"):
        gad.default(coordinates="dense")


@pytest.mark.filterwarnings("ignore")
def test_a_gaussian_is_left_as_it_is():
    tree = gad.sample(lambda x: -0.5 * jnp.sum(x**2), jnp.zeros(10), num_draws=50, progress=False)
    assert "coordinates" not in tree.attrs["choice"]
    assert "layers" not in tree["learned"]


@pytest.mark.filterwarnings("ignore:tails are so heavy")  # as e^(v/2) may seem to have by 800 draws
def test_a_stored_run_has_what_was_learned(tmp_path):
    """And a warm start from it finds the coordinates again."""
    path, settings = tmp_path / "run.zarr", {"num_draws": 50, "progress": False}
    tree = gad.sample(funnel, FUNNEL, out=path, **settings)
    back = xr.open_datatree(path, engine="zarr")
    assert back.attrs["choice"] == tree.attrs["choice"]
    assert back["learned"].to_dataset().identical(tree["learned"].to_dataset())
    assert back["posterior"].to_dataset().equals(tree["posterior"].to_dataset())
    warm = gad.sample(funnel, FUNNEL, warm_start=back, num_warmup=0, seed=1, **settings)
    assert warm.attrs["choice"]["coordinates"] == ["x is scaled by exp(0.5 v)"]
    assert warm["posterior"]["v"].values.std() == pytest.approx(3, rel=0.2)
