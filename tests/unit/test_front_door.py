"""What `sample` takes beside a density: models, rules to end by, earlier results, plans; and what is left alone.

Where no sampler is named, and the call is not about that, it names one that compiles quickly.
"""

import os
import signal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import gadabout as gad
from gadabout.schedule import Draw, Learn, Search

QUICK = {"num_warmup": 60, "num_draws": 50, "progress": False}
MALA = {"sampler": gad.mala(), **QUICK}
SCALES = jnp.asarray([0.1, 1.0, 3.0])
MEAN = jnp.asarray([0.5, -2.0, 30.0])


def scaled_normal(x):
    return -0.5 * jnp.sum(((x - MEAN) / SCALES) ** 2)


def normal(x):
    return -0.5 * jnp.sum(x**2)


# no sampler named


def variables(tree, group="posterior"):
    return {name: values.values for name, values in tree[group].data_vars.items()}


@pytest.mark.parametrize("x64", [False, True], ids=["float32", "float64"])
def test_the_first_call_of_all(x64):
    """Nothing but a log density and a place: sixteen chains, and nothing to be said against the draws.

    Of 16,000 draws with at least a third of as many independent ones, a mean has a standard error below 0.014.
    """
    with jax.enable_x64(x64):
        tree = gad.sample(normal, jnp.zeros(3), progress=False)
    x, dtype = tree["posterior"]["x"], np.dtype("float64" if x64 else "float32")
    assert x.shape == (16, 1_000, 3)
    assert tree["warmup_posterior"].sizes["draw"] < 500
    assert {values.dtype for values in variables(tree).values()} == {dtype}
    assert {values.dtype for values in variables(tree, "learned").values()} == {np.dtype("float64")}
    assert np.abs(x.mean(("chain", "draw"))).max() < 0.07
    assert np.abs((x**2).mean(("chain", "draw")) - 1).max() < 0.1
    assert tree.attrs["warnings"] == []
    assert tree.attrs["sampler"] == "default"
    assert tree.attrs["num_chains"] == 16
    assert 16 * 100 < tree.attrs["gradient_evaluations"] < 16 * 2_000


def test_a_run_of_the_default_is_handed_on_to_the_next():
    """θ as far as it is needed: no warm-up, and every chain begins one iteration from where one stood."""
    before = gad.sample(normal, jnp.zeros(3), progress=False, num_draws=200)
    after = gad.sample(normal, warm_start=before, num_warmup=0, num_draws=200, progress=False)
    assert after["posterior"]["x"].shape == (16, 200, 3)
    assert "warmup_posterior" not in after
    assert rate(after) > 0.8
    assert after.attrs["choice"]["doubt"] == []
    mala = gad.sample(normal, warm_start=before, **MALA | {"num_warmup": 0})
    assert mala["posterior"]["x"].shape == (4, 50, 3)


@pytest.mark.parametrize(
    ("arguments", "num_chains"),
    [({"num_warmup": 0}, 16), ({"num_warmup": 1}, 16), ({"num_chains": 1}, 1), ({"adapt": "per-chain"}, 16)],
    ids=str,
)
def test_the_default_with_little_to_learn_from(arguments, num_chains):
    tree = gad.sample(normal, jnp.zeros(3), num_draws=300, progress=False, **arguments)
    assert tree["posterior"]["x"].shape == (num_chains, 300, 3)
    assert ("warmup_posterior" in tree) == (arguments.get("num_warmup") is None)
    assert all(np.isfinite(theta).all() for theta in variables(tree, "learned").values())
    assert not {"chains-disagree", "no-move"} & {finding["kind"] for finding in tree.attrs["findings"]}


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*(nonfinite|diverging)")
def test_what_is_recorded_does_not_change_what_the_default_chooses():
    """The density has a cliff, at which trajectories diverge, so that there is something to be judged by.

    The move is named; the evidence is what it would be without.
    """
    cliff = lambda x: jnp.where(x[0] > 0, normal(x), -jnp.inf)
    arguments = {"init_per_chain": jnp.ones((16, 3)), "sampler": gad.default(move="split-hmc"), **QUICK}
    whole, rates = (gad.sample(cliff, record=record, **arguments) for record in (None, ["acceptance_rate"]))
    assert any("diverge" in reason for reason in whole.attrs["choice"]["doubt"])
    assert rates.attrs["choice"] == whole.attrs["choice"]
    np.testing.assert_array_equal(rates["sample_stats"]["acceptance_rate"], whole["sample_stats"]["acceptance_rate"])
    assert set(rates.children) == {"sample_stats", "warmup_sample_stats", "learned"}


@pytest.mark.parametrize("stage", ["warmup", "sampling"])
def test_the_default_may_be_interrupted(stage, tmp_path):
    pressed = []

    def interrupt(progress):
        if progress.stage == stage and not pressed:
            pressed.append(progress)
            os.kill(os.getpid(), signal.SIGINT)

    arguments = {"progress": False, "num_draws": 10**6, "callback": interrupt, "out": tmp_path / "run.zarr"}
    with pytest.warns(UserWarning, match="interrupted|no draws were made"):
        tree = gad.sample(normal, jnp.zeros(3), **arguments)
    assert bool(tree["posterior"].sizes["draw"]) == (stage == "sampling")
    assert 0 < tree["warmup_posterior"].sizes["draw"] < 500
    assert tree["learned"].data_vars
    back = xr.open_datatree(tmp_path / "run.zarr", engine="zarr")
    assert back.attrs["ending"] == "interrupted"
    for group in ("warmup_posterior", *(["posterior"] if stage == "sampling" else [])):
        np.testing.assert_array_equal(back[group]["x"], tree[group]["x"])


# warm starts


def earlier(sampler, num_warmup, **settings):
    arguments = {"num_chains": 8, "num_draws": 2_000, "seed": 1, "progress": False} | settings
    return gad.sample(scaled_normal, MEAN, sampler=sampler, num_warmup=num_warmup, **arguments)


def rate(tree):
    return float(tree["sample_stats"]["acceptance_rate"].mean())


@pytest.mark.parametrize(
    ("sampler", "num_warmup"),
    [
        (gad.nuts(), 500),
        pytest.param(gad.nuts("dense"), 500, marks=pytest.mark.long),
        (gad.gad_mala(learning_rate=1e-3), 5_000),
        pytest.param(gad.hmc(5, step_size_rule="dual-averaging"), 1_000, marks=pytest.mark.long),  # NUTS has this rule
        (gad.rwm(), 3_000),
    ],
    ids=["nuts", "nuts-dense", "gad-mala", "hmc", "rwm"],
)
def test_an_earlier_result_stands_in_for_warm_up(sampler, num_warmup):
    """θ as it was learned: the acceptance rate is that of the run before, to the noise of two rates.

    A mean of 16,000 rates has a standard error below 0.005 with what correlation they have: 0.05 is seven of that of
    the difference. θ begun anew accepts less than half of it, or all.
    """
    before = earlier(sampler, num_warmup)
    warm = gad.sample(scaled_normal, warm_start=before, sampler=sampler, num_warmup=0, num_draws=2_000, num_chains=8,
                      seed=2, progress=False)  # fmt: skip
    assert abs(rate(warm) - rate(before)) < 0.05
    for name, theta in before["learned"].data_vars.items():
        np.testing.assert_array_equal(warm["learned"][name], theta)
    last = before["posterior"]["x"].values[:, -1]
    moved = np.abs(warm["posterior"]["x"].values[:, 0] - last)
    assert (moved <= 8 * np.asarray(SCALES)).all()  # one iteration from where chains stood


def test_independence_proposes_from_the_draws_of_an_earlier_result():
    """N(mean, covariance) of 16,000 draws of a Gaussian: nearly all is accepted. From N(0, I) it would be nothing."""
    warm = gad.sample(scaled_normal, warm_start=earlier(gad.nuts(), 500), sampler=gad.independence(), num_warmup=0,
                      num_draws=500, progress=False)  # fmt: skip
    assert rate(warm) > 0.9
    again = gad.sample(scaled_normal, warm_start=warm, sampler=gad.independence(), num_warmup=0, num_draws=500,
                       progress=False)  # fmt: skip
    assert rate(again) > 0.85  # of 2,000 draws


def test_what_was_never_learned_is_not_handed_on():
    """A step size that a user gives holds, whatever that of the run before was."""
    with pytest.warns(UserWarning, match="violated"):
        coarse, fine = gad.sgld(1e-2), gad.sgld(1e-4)
    before = gad.sample(normal, jnp.zeros(2), sampler=coarse, **QUICK)
    after = gad.sample(normal, warm_start=before, sampler=fine, **QUICK | {"num_warmup": 0})
    np.testing.assert_allclose(after["sample_stats"]["step_size"], 1e-4)


def test_chains_of_a_warm_start_may_be_more_or_fewer():
    before = gad.sample(normal, jnp.zeros(2), num_chains=3, sampler=gad.rwm(), **QUICK)
    for chains in (1, 7):
        tree = gad.sample(normal, warm_start=before, sampler=gad.rwm(), num_chains=chains, **QUICK)
        starts = tree["warmup_posterior"]["x"].values[:, 0]
        assert starts.shape == (chains, 2)
        assert len(np.unique(starts[:, 0])) == chains


def test_a_warm_start_of_another_model_is_refused():
    before = gad.sample(normal, jnp.zeros(2), **MALA)
    with pytest.raises(ValueError, match=r"the model needs 'x' of shape \(3,\)"):
        gad.sample(normal, jnp.zeros(3), warm_start=before, **MALA)
    with pytest.raises(ValueError, match="the model needs 'a'"):
        gad.sample(lambda p: normal(p["a"]), {"a": jnp.zeros(2)}, warm_start=before, **MALA)
    with pytest.raises(TypeError, match="warm_start must be a result"):
        gad.sample(normal, jnp.zeros(2), warm_start={"posterior": 1}, **MALA)


# until


def test_a_run_ends_where_its_draws_are_enough_and_they_are_the_first_of_the_longer_run():
    arguments = {"num_warmup": 500, "progress": False, "sampler": gad.mala(), "seed": 3}
    whole = gad.sample(normal, jnp.zeros(2), num_draws=4_000, **arguments)
    until = gad.Until(ess=400, every=300)
    tree = gad.sample(normal, jnp.zeros(2), num_draws=10**6, until=until, **arguments)
    draws = tree["posterior"]["x"].values
    assert draws.shape[1] % 300 == 0
    assert 300 <= draws.shape[1] < 4_000
    np.testing.assert_array_equal(draws, whole["posterior"]["x"].values[:, : draws.shape[1]])
    assert tree.attrs["ending"] == "satisfied"
    assert not tree.attrs["interrupted"]
    before = draws[:, : draws.shape[1] - 300]
    assert until.met(draws, 0.0) is not None
    assert before.shape[1] == 0 or until.met(before, 0.0) is None
    assert whole.attrs["ending"] == "completed"


def test_until_counts_draws_and_not_iterations():
    arguments = {"num_warmup": 60, "progress": False, "sampler": gad.mala(), "until": gad.Until(rhat=50, every=40)}
    tree = gad.sample(normal, jnp.zeros(2), num_draws=10**5, thinning=3, **arguments)
    assert tree["posterior"].sizes["draw"] == 40


def test_until_the_chains_agree():
    arguments = {"num_warmup": 300, "num_draws": 20_000, "progress": False, "sampler": gad.mala()}
    tree = gad.sample(normal, jnp.zeros(2), until=gad.Until(rhat=1.02, ess=100, every=200), **arguments)
    assert tree.attrs["ending"] == "satisfied"
    assert tree["posterior"].sizes["draw"] < 20_000
    assert gad.diagnose(tree, lambda x: x)["rhat"].max() < 1.02 + 1e-9


def test_until_the_time_is_over():
    """At the first question after it, which no clock moves here: the time is over at once."""
    arguments = {"num_warmup": 60, "num_draws": 10**6, "progress": False, "sampler": gad.mala()}
    tree = gad.sample(normal, jnp.zeros(2), until=gad.Until(seconds=1e-9, every=100), **arguments)
    assert tree["posterior"].sizes["draw"] == 100
    both = gad.sample(normal, jnp.zeros(2), until=gad.Until(seconds=1e-9, ess=10**9, every=100), **arguments)
    assert both["posterior"].sizes["draw"] == 100


@pytest.mark.parametrize(
    ("match", "arguments"),
    [("at least one", {}), ("ess", {"ess": 0}), ("rhat", {"rhat": 1.0}), ("seconds", {"seconds": -1}),
     ("every", {"ess": 1, "every": 3})],
)  # fmt: skip
def test_rules_out_of_range(match, arguments):
    with pytest.raises(ValueError, match=match):
        gad.Until(**arguments)


def test_until_is_a_rule():
    with pytest.raises(TypeError, match="until must be a rule"):
        gad.sample(normal, jnp.zeros(2), until=400, **MALA)


# models


def regression(position, data):
    residual = data["y"] - data["x"] @ position["slope"]
    return -0.5 * jnp.sum(residual**2) - 0.5 * jnp.sum(position["slope"] ** 2) - 0.5 * position["shift"] ** 2


DATA = {"x": np.arange(12.0).reshape(6, 2) / 6, "y": np.arange(6.0)}


def draw_start(key):
    return {"slope": 5 + jax.random.uniform(key, (2,)), "shift": jnp.zeros(())}


def test_a_model_brings_all_that_it_has():
    model = gad.Model(
        regression,
        data=DATA,
        start=draw_start,
        dims={"slope": ["input"], "log_likelihood": ["row"]},
        coords={"input": ["first", "second"], "row": np.arange(6)},
        log_likelihood=lambda p, data: -0.5 * (data["y"] - data["x"] @ p["slope"]) ** 2,
        outputs=lambda p, data: {"sum": p["slope"].sum(), "fit": data["x"] @ p["slope"]},
        observed={"y": DATA["y"]},
    )
    tree = gad.sample(model, num_chains=3, sampler=gad.mala(step_size=0.01), **QUICK)
    posterior = tree["posterior"]
    slope = posterior["slope"]
    assert slope.dims == ("chain", "draw", "input")
    assert slope["input"].values.tolist() == ["first", "second"]
    np.testing.assert_allclose(posterior["sum"], slope.values.sum(-1), rtol=1e-12)
    np.testing.assert_allclose(posterior["fit"], slope.values @ DATA["x"].T, rtol=1e-12)
    expected = -0.5 * (DATA["y"] - slope.values @ DATA["x"].T) ** 2
    np.testing.assert_allclose(tree["log_likelihood"]["log_likelihood"], expected, rtol=1e-12)
    assert tree["log_likelihood"]["log_likelihood"].dims == ("chain", "draw", "row")
    np.testing.assert_array_equal(tree["observed_data"]["y"], DATA["y"])
    assert "sum" not in tree["warmup_posterior"].data_vars
    first = tree["warmup_posterior"]["slope"].values[:, 0]
    assert (np.abs(first - 5.5) < 0.6).all()  # where `start` put the chains, one small step further


def test_log_likelihoods_may_be_several():
    model = gad.Model(lambda x: normal(x), jnp.zeros(2), log_likelihood=lambda x: {"a": -(x**2), "b": -0.5 * x[0] ** 2})
    tree = gad.sample(model, jnp.zeros(2), **MALA)
    assert tree["log_likelihood"]["a"].shape == (4, 50, 2)
    assert tree["log_likelihood"]["b"].shape == (4, 50)


def test_a_model_runs_as_its_density_does():
    plain = gad.sample(regression, {"slope": jnp.zeros(2), "shift": 0.0}, data=DATA, **MALA)
    model = gad.Model(regression, {"slope": jnp.zeros(2), "shift": 0.0}, data=DATA)
    tree = gad.sample(model, {"slope": jnp.zeros(2), "shift": 0.0}, **MALA)
    for name in ("slope", "shift"):
        np.testing.assert_array_equal(tree["posterior"][name], plain["posterior"][name])


def test_dims_and_coords_of_a_plain_density():
    names = {"dims": {"x": ["place"]}, "coords": {"place": ["here", "there"]}}
    tree = gad.sample(normal, jnp.zeros(2), **names, **MALA)
    assert tree["posterior"]["x"].sel(place="there").shape == (4, 50)


def test_what_a_model_lacks_is_named():
    with pytest.raises(TypeError, match="has no start of its own"):
        gad.sample(normal, **MALA)
    with pytest.raises(TypeError, match="data: a Model has its own"):
        gad.sample(gad.Model(regression, start=draw_start, data=DATA), data=DATA, **MALA)
    with pytest.raises(TypeError, match="dims: a Model has its own"):
        gad.sample(gad.Model(regression, start=draw_start, data=DATA), dims={"slope": ["input"]}, **MALA)
    with pytest.raises(ValueError, match="init has the leaves"):
        gad.sample(gad.Model(normal, jnp.zeros(3)), jnp.zeros(2), **MALA)
    with pytest.raises(TypeError, match="start"):
        gad.Model(normal, start=3)


# where chains start


def test_init_per_chain_is_one_position_for_each_chain():
    with pytest.raises(ValueError, match=r"init_per_chain must have a leading axis of num_chains = 4.*\(3,\)"):
        gad.sample(normal, init_per_chain=jnp.zeros(3), **MALA)
    with pytest.raises(ValueError, match="init_per_chain must have a leading axis"):
        gad.sample(lambda p: normal(p["a"]), init_per_chain={"a": jnp.zeros((4, 2)), "b": 0.0}, **MALA)
    with pytest.raises(TypeError, match="not both"):
        gad.sample(normal, jnp.zeros(2), init_per_chain=jnp.zeros((4, 2)), **MALA)
    with pytest.raises(TypeError, match="init_per_chain must be a pytree of arrays"):
        gad.sample(normal, init_per_chain="here", **MALA)


def test_data_may_be_infinite_but_not_nan():
    cut = lambda x, data: jnp.where((x > data["low"]).all(), normal(x), -jnp.inf)
    tree = gad.sample(cut, jnp.ones(2), data={"low": jnp.asarray([-jnp.inf, -jnp.inf])}, sampler=gad.rwm(), **QUICK)
    assert np.isfinite(tree["posterior"]["x"]).all()
    with pytest.raises(ValueError, match=r"data\['low'\] holds 1 values that are NaN"):
        gad.sample(cut, jnp.ones(2), data={"low": jnp.asarray([jnp.nan, 0.0])}, sampler=gad.rwm(), **QUICK)


class Rows(eqx.Module):
    """Data of the user's own class, with a method that the library's batches have too."""

    values: jax.Array

    def during(self, i):
        raise AssertionError("nobody but its owner calls this")


def test_a_users_object_with_a_method_of_the_librarys_is_left_alone():
    density = lambda x, data: -0.5 * jnp.sum((x - data.values) ** 2)
    walk = {"sampler": gad.rwm(), **QUICK}
    tree = gad.sample(density, jnp.zeros(2), data=Rows(jnp.asarray([1.0, 2.0])), **walk)
    plain = gad.sample(lambda x: -0.5 * jnp.sum((x - jnp.asarray([1.0, 2.0])) ** 2), jnp.zeros(2), **walk)
    np.testing.assert_allclose(tree["posterior"]["x"], plain["posterior"]["x"], rtol=1e-9, atol=1e-9)


# plans and compositions


def test_a_plan_may_warm_up_with_one_sampler_and_draw_with_another():
    walk, mala = gad.rwm(step_size=1.0), gad.mala(step_size=1.0)
    plan = gad.Plan((Search(), Learn(walk, 0.5), Learn(mala, 0.5), Draw(mala)), "both")
    tree = gad.sample(normal, jnp.zeros(3), sampler=plan, **QUICK)
    assert tree.attrs["sampler"] == "both"
    assert tree["posterior"]["x"].shape == (4, 50, 3)
    assert tree["warmup_posterior"]["x"].shape == (4, 60, 3)
    assert tree.attrs["gradient_evaluations"] == 4 * (30 + 50)  # MALA's; the walk takes none


def test_plans_out_of_order_are_refused():
    sampler = gad.mala()
    with pytest.raises(ValueError, match="must be Draw"):
        gad.Plan((Search(), Learn(sampler)))
    with pytest.raises(ValueError, match="sum to 1"):
        gad.Plan((Search(), Learn(sampler, 0.5), Draw(sampler)))
    with pytest.raises(ValueError, match="do not go together"):
        gad.Plan((*gad.default().stages[:-1], Draw(sampler)))
    with pytest.raises(TypeError, match="each part must be a sampler"):
        gad.cycle(gad.Plan((Search(), Learn(sampler), Draw(sampler))))


def test_kernels_that_count_their_own_gradients_may_be_mixed():
    """Moments of N(0, I): 4 standard errors by 16 chains (Student's t with 15 degrees of freedom: a false alarm in 170
    runs of 6 figures); errors of six standard errors, about 0.1, are found with 97 %."""
    sampler, start = (
        gad.mix(gad.rwm(step_size=1.0), gad.nuts(step_size=0.8)),
        jax.random.normal(jax.random.key(0), (16, 3)),
    )
    arguments = {"num_warmup": 0, "num_draws": 1_000, "num_chains": 16, "progress": False}
    tree = gad.sample(normal, init_per_chain=start, sampler=sampler, **arguments)
    x = tree["posterior"]["x"].values
    for f, truth in ((x, 0), (x**2, 1)):
        chains = f.mean(1)
        assert (np.abs(chains.mean(0) - truth) < 4 * chains.std(0, ddof=1) / 4).all()
    counts = tree["sample_stats"]["gradient_evaluations"]
    assert int(counts.sum()) == tree.attrs["gradient_evaluations"]
    assert len(np.unique(counts)) > 2  # one after the walk, a trajectory's length after the other


def test_a_users_proposal_inside_a_block_sees_the_dict_of_its_variables():
    seen = []

    def walk(key, position):
        seen.append(jax.tree.map(jnp.shape, position))
        return {name: value + jax.random.normal(key, jnp.shape(value)) for name, value in position.items()}

    density = lambda p: normal(p["a"]) + normal(p["b"]) - 0.5 * p["c"] ** 2
    start = {"a": jnp.zeros(2), "b": jnp.zeros((2, 2)), "c": 0.0}
    inside = gad.metropolis_hastings(walk)
    sampler = gad.cycle(gad.block(inside, range(2)), gad.block(inside, [6, 2, 3, 4, 5]), gad.block(inside, [3]))
    tree = gad.sample(density, start, sampler=sampler, **QUICK)
    assert tree["posterior"]["b"].shape == (4, 50, 2, 2)
    forms = [{"a": (2,)}, {"c": (), "b": (2, 2)}, {"b": (1,)}]
    assert all(form in seen for form in forms)
    assert all(form in forms for form in seen)
