"""Modes by their mass: chains go from one to another where a mixture is fitted; else all of some mass are kept."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad
from gadabout.ensemble import made, modes, stages
from gadabout.ensemble.modes import discarded_chains, replacements
from gadabout.findings.run import FEWEST_STARTS

MASS = 0.25


def islands(x):
    """Widths 1 and 2, thirty apart in five coordinates, of a quarter and three quarters of the mass."""
    narrow, wide = -0.5 * jnp.sum((x + 7.0) ** 2), -0.125 * jnp.sum((x - 7.0) ** 2) - len(x) * jnp.log(2.0)
    return jnp.logaddexp(jnp.log(MASS) + narrow, jnp.log(1 - MASS) + wide)


def right_by_moments(x):
    """Draws (chains, t, n) of `islands`: the share of each mode to 0.03, five standard errors, and its moments."""
    narrow = x[..., 0] < 0
    assert narrow.mean() == pytest.approx(MASS, abs=0.03)
    for inside, mean, width in ((narrow, -7.0, 1.0), (~narrow, 7.0, 2.0)):
        np.testing.assert_allclose(x[inside].mean(0), mean, atol=0.15 * width)
        np.testing.assert_allclose(x[inside].std(0), width, rtol=0.1)


@pytest.mark.parametrize("given", [False, True], ids=["found", "given"])
def test_chains_go_from_mode_to_mode_by_their_masses(given):
    """From starts between them, and from starts that the user gives in each, where the pilot run finds that out."""
    side = np.where(np.arange(16) < 8, -7.0, 7.0)[:, None]
    each = side + np.random.default_rng(0).normal(size=(16, 5))
    starts = {"init_per_chain": each} if given else {"init": jnp.zeros(5)}
    tree = gad.sample(islands, **starts, num_draws=500, progress=False)
    choice = tree.attrs["choice"]
    right_by_moments(tree["posterior"]["x"].values)
    assert choice["move"] == "mixture"
    assert ("started_elsewhere" in choice) != given
    assert [mode["mass"] for mode in choice["modes"]] == pytest.approx([1 - MASS, MASS], abs=0.04)
    for mode, mass in zip(choice["modes"], (1 - MASS, MASS), strict=True):
        assert abs(mode["mass"] - mass) < 5 * mode["error"]
    assert not tree.attrs["findings"]
    each = (tree["posterior"]["x"].values[..., 0] > 0).mean(1)
    assert ((each > 0.5) & (each < 0.95)).all()


def test_a_warm_start_keeps_all_modes():
    tree = gad.sample(islands, jnp.zeros(5), num_draws=200, progress=False)
    warm = gad.sample(islands, jnp.zeros(5), num_draws=500, warm_start=tree, seed=1, progress=False)
    right_by_moments(warm["posterior"]["x"].values)


@pytest.mark.filterwarnings("ignore")
def test_without_a_mixture_chains_are_in_both_modes_and_said_not_to_mix(monkeypatch):
    for module in (stages, made):
        monkeypatch.setattr(module, "MOST_COORDINATES", 4)
    tree = gad.sample(islands, jnp.zeros(5), num_draws=100, num_warmup=600, progress=False)
    choice = tree.attrs["choice"]
    assert "modes" not in choice
    assert choice["started_elsewhere"] > 0
    assert choice["move"].startswith("nuts")
    sides = np.sign(tree["posterior"]["x"].values[..., 0]).mean(1)
    assert sides.min() < -0.9
    assert sides.max() > 0.9
    assert any(found["kind"] == "rhat" for found in tree.attrs["findings"])


@pytest.mark.filterwarnings("ignore")
def test_two_modes_of_equal_mass_are_kept_and_said_not_to_mix():
    """Scales 1 and 2 in 100 coordinates: in the typical sets log π differs by 100 log 2 = 69, the mass does not."""
    n = 100

    def density(x):
        narrow, wide = -0.5 * jnp.sum((x + 20.0) ** 2), -0.125 * jnp.sum((x - 20.0) ** 2) - n * jnp.log(2.0)
        return jnp.logaddexp(narrow, wide)

    side = np.where(np.arange(16) % 2, 20.0, -20.0)[:, None]
    starts = side + 3 * np.random.default_rng(0).normal(size=(16, n))
    plan = gad.default(move="split-hmc")  # NUTS takes a million gradients here
    tree = gad.sample(density, init_per_chain=starts, sampler=plan, num_draws=100, num_warmup=600, progress=False)
    assert np.array_equal(np.sign(tree["posterior"]["x"].values.mean((1, 2))), np.sign(side[:, 0]))
    assert tree.attrs["choice"]["distinct_starts"] == 16
    assert any(found["kind"] == "rhat" for found in tree.attrs["findings"])


def test_a_mode_hundreds_below_is_left_and_the_draws_are_right():
    """A third of the chains begin in a mode of mass e^-300; means within 5 standard errors of the other mode's."""

    def density(x):
        return jnp.logaddexp(-0.5 * jnp.sum(x**2), -300.0 - 0.5 * jnp.sum((x - 60.0) ** 2 / 0.01))

    side = np.where(np.arange(16) % 3 == 0, 60.0, 0.0)[:, None]
    starts = jnp.asarray(side + 0.1 * np.random.default_rng(0).normal(size=(16, 5)))
    tree = gad.sample(density, init_per_chain=starts, num_draws=200, progress=False)
    x = tree["posterior"]["x"].values
    assert np.abs(x.mean((0, 1))).max() < 5 / np.sqrt(tree["diagnostics"]["ess_bulk"]["x"].values.min())
    assert tree.attrs["choice"]["sifted"] == [0, 3, 6, 9, 12, 15]
    assert tree.attrs["choice"]["distinct_starts"] == 10
    assert not tree.attrs["findings"]


@pytest.mark.parametrize(("mass", "lost"), [(-5.0, False), (-200.0, True)])
def test_masses_are_weighed_and_not_heights(mass, lost):
    """Chains 0 to 3 stand in a mode twice as wide, whose log mass is the others' and `mass`: 69 lower at equal mass."""
    rng, n = np.random.default_rng(0), 100
    z = rng.normal(size=(100, 16, n))
    wide = np.arange(16) < 4
    draws = np.where(wide[:, None], 2.0 * z + 50, z)
    lp = -0.5 * np.sum(z**2, -1) + np.where(wide, mass - n * np.log(2.0), 0.0)
    np.testing.assert_array_equal(discarded_chains(draws, lp), wide & lost)
    stuck = np.where(wide[:, None], draws[0], draws)  # their own draws do not say how wide the mode is
    np.testing.assert_array_equal(discarded_chains(stuck, lp), wide & lost)
    assert replacements(wide).min() == 4
    np.testing.assert_array_equal(replacements(~wide)[:4], np.arange(4))


def test_chains_that_stand_still_in_a_narrow_mode_do_not_make_others_discarded():
    """Half of the chains move in a mode twice as wide as that in which the others hardly do, and as heavy."""
    rng, n = np.random.default_rng(0), 10
    wide, moves = np.arange(16) < 8, rng.uniform(size=(50, 16)) < 0.2
    z = rng.normal(size=(50, 16, n))
    for t in range(1, len(z)):
        z[t] = np.where((wide | moves[t])[:, None], z[t], z[t - 1])
    lp = -0.5 * np.sum(z**2, -1) - np.where(wide, n * np.log(2.0), 0.0)
    assert not discarded_chains(np.where(wide[:, None], 2.0 * z + 20, z), lp).any()


@pytest.mark.parametrize("heavier", [35.0, 5.0])
def test_one_chain_that_moves_where_the_mass_is_makes_the_others_discarded(heavier):
    """16 draws each, of chain 7 in a mode with e^35 times the mass of that where all others are, or with e^5 times."""
    rng, n = np.random.default_rng(0), 8
    z, best = rng.normal(size=(16, 16, n)), np.arange(16) == 7
    draws, lp = np.where(best[:, None], 0.5 * z + 20, z), -0.5 * np.sum(z**2, -1)
    lp = lp + np.where(best, heavier + n * np.log(2.0), 0.0)
    np.testing.assert_array_equal(discarded_chains(draws, lp), ~best if heavier > 10 else np.zeros(16, bool))


@pytest.mark.filterwarnings("ignore")  # few places to start in may remain, as the finding says
@pytest.mark.parametrize("sifting", [True, False])
def test_chains_leave_a_mode_without_mass_before_anything_is_learned(sifting, monkeypatch):
    """All begin near a mode of mass e^-60; the search finds the other, to which half of the chains go, then the rest.

    Where none are discarded then, all do after learning, which is done again. No mixture has modes of so little mass.
    """
    if not sifting:
        monkeypatch.setattr(stages, "discarded_chains", lambda draws, lp: np.zeros(draws.shape[1], bool))

    def density(x):
        return jnp.logaddexp(-0.5 * jnp.sum((x + 4.0) ** 2), -60.0 - 0.5 * jnp.sum((x - 4.0) ** 2))

    start = lambda key: 4 + jax.random.uniform(key, (5,), float, -2, 2)
    tree = gad.sample(density, start, num_draws=200, progress=False)
    x, choice = tree["posterior"]["x"].values, tree.attrs["choice"]
    key = "sifted" if sifting else "started_anew"
    assert len(set(range(0, 16, 2)) & set(choice[key])) >= 7  # one may have crossed by itself while it learned
    assert ("started_anew" in choice) != sifting
    assert choice["distinct_starts"] == 16 - len(choice[key])
    np.testing.assert_allclose(x.mean((0, 1)), -4.0, atol=5 / np.sqrt(1_000))
    assert (choice["move"], "modes" in choice) == ("independence", False)
    few = choice["distinct_starts"] < FEWEST_STARTS
    assert {found["kind"] for found in tree.attrs["findings"]} == ({"starts"} if few else set())


def test_a_mode_is_not_found_narrow_because_its_chain_is_slow(monkeypatch):
    """16 draws of the wider of two modes of equal mass, autocorrelated by 0.85: of 200 such chains none is lost.

    Where it is not told how much less they spread, 73 in 100 are; where the mode weighs e^-200, all are.
    """

    def drawn(seed, mass):
        rng, n, wide = np.random.default_rng(seed), 100, np.arange(16) < 4
        z = rng.normal(size=(16, 16, n))
        for t in range(1, len(z)):
            z[t] = np.where(wide[:, None], 0.85 * z[t - 1] + np.sqrt(1 - 0.85**2) * z[t], z[t])
        lp = -0.5 * np.sum(z**2, -1) + np.where(wide, mass - n * np.log(2.0), 0.0)
        return np.where(wide[:, None], 2.0 * z + 50, z), lp

    lost = lambda mass: np.mean([discarded_chains(*drawn(seed, mass))[:4] for seed in range(50)])
    assert lost(0.0) == 0
    assert lost(-200.0) == 1
    monkeypatch.setattr(modes, "variance_share", lambda draws: np.ones(draws.shape[1]))
    assert lost(0.0) > 0.5
