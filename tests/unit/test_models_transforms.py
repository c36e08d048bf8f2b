"""Models with constrained variables: the law is that of the variables, whatever chains move in; names and order stay.

Statistical tests compare means and second moments with exact ones, in Monte Carlo standard errors: 5 of them, of at
most 22 figures, are exceeded by chance once in 70,000 runs. A dropped Jacobian moves them by more than 20.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arviz_stats.base.array import array_stats
from jax.scipy import stats

import gadabout as gad
from gadabout.layout import Layout

pytest.importorskip("numpyro")

QUICK = {"sampler": gad.default(factor="diagonal"), "num_draws": 2_000, "num_chains": 8, "progress": False}
SHORT = {"num_warmup": 60, "num_draws": 50, "num_chains": 2, "progress": False}
INIT = {"w": np.ones(3) / 3, "tau": 1.0, "p": np.array([0.5, 0.5]), "below": -2.0, "L": np.eye(3), "a": 0.0}
TRANSFORMS = {"tau": "positive", "p": (0, 1), "w": "simplex", "L": "corr_cholesky", "below": (None, 1)}
ALPHA = np.array([2.0, 3.0, 4.0])


def log_density(v):
    """Gamma(3, 1/2), Beta(2, 5) twice, Dirichlet(2, 3, 4), 1 - Gamma(4), LKJ(1) of three rows, N(0, 1)."""
    lkj = jnp.log(v["L"][1, 1])  # uniform on correlation matrices: Π L_ii^(n-i), i = 2..n, here L_22
    return (
        stats.gamma.logpdf(v["tau"], 3.0, scale=2.0)
        + jnp.sum(stats.beta.logpdf(v["p"], 2.0, 5.0))
        + jnp.sum(jnp.log(v["w"]) * (ALPHA - 1))
        + stats.gamma.logpdf(1 - v["below"], 4.0)
        + lkj
        - 0.5 * v["a"] ** 2
    )


def figures(tree):
    """Distances of first and second moments from the exact ones, in Monte Carlo standard errors."""
    v = {name: values.values for name, values in tree["posterior"].data_vars.items()}
    share, total = ALPHA / ALPHA.sum(), ALPHA.sum()
    correlation = (v["L"] @ np.swapaxes(v["L"], -1, -2))[..., (0, 0, 1), (1, 2, 2)]
    exact = [
        (v["tau"][..., None], 6.0, 48.0),
        (v["p"], 2 / 7, 2 * 3 / (7 * 8)),
        (v["w"], share, share * (1 - share) / (total + 1) + share**2),
        (1 - v["below"][..., None], 4.0, 20.0),
        (correlation, 0.0, 1 / 4),  # of LKJ(1) of three rows: (r + 1) / 2 ~ Beta(3/2, 3/2)
        (v["a"][..., None], 0.0, 1.0),
    ]
    found = []
    for x, *moments in exact:
        for power, moment in enumerate(moments, 1):
            error = array_stats.mcse(x**power, chain_axis=0, draw_axis=1, method="mean")
            found += np.ravel((np.mean(x**power, (0, 1)) - moment) / error).tolist()
    return np.abs(found)


def model(density=log_density, **more):
    return gad.Model(density, INIT, transforms=TRANSFORMS, **more)


FEW = {"w": INIT["w"], "tau": 1.0}
"""variables of a model that compiles in half the time, for what does not depend on the transform"""


def few(**more):
    density = lambda v: stats.gamma.logpdf(v["tau"], 3.0) + jnp.sum(jnp.log(v["w"]) * (ALPHA - 1))
    return gad.Model(density, FEW, transforms={"tau": "positive", "w": "simplex"}, **more)


@pytest.fixture(scope="module")
def drawn():
    return gad.sample(model(), INIT, **QUICK)


def test_moments_are_those_of_the_constrained_variables(drawn):
    assert figures(drawn).max() < 5


def test_a_dropped_jacobian_is_found(monkeypatch):
    """Gamma(3) becomes Gamma(2), Beta(2, 5) becomes Beta(1, 4)."""
    monkeypatch.setattr(Layout, "log_jacobian", lambda layout, x: 0.0)
    density = lambda v: stats.gamma.logpdf(v["tau"], 3.0, scale=2.0) + stats.beta.logpdf(v["p"], 2.0, 5.0)
    planted = gad.Model(density, {"tau": 1.0, "p": 0.5}, transforms={"tau": "positive", "p": (0, 1)})
    tree = gad.sample(planted, {"tau": 1.0, "p": 0.5}, **QUICK)
    for values, exact in ((tree["posterior"]["tau"].values, 6.0), (tree["posterior"]["p"].values, 2 / 7)):
        assert abs(values.mean() - exact) > 20 * array_stats.mcse(values, chain_axis=0, draw_axis=1, method="mean")


def test_blocks_of_constrained_variables_have_the_same_law():
    """Blocks see conditionals of their own variables, with the Jacobian once: Dirichlet(2, 3, 4), and Gamma(3)."""
    sampler = gad.cycle(gad.block(gad.barker(), ["tau"]), gad.block(gad.barker(), ["w"]))
    arguments = QUICK | {"sampler": sampler}
    tree = gad.sample(few(), FEW, **arguments)
    tau, w = tree["posterior"]["tau"].values, tree["posterior"]["w"].values[..., 0]
    for values, exact in ((tau, 3.0), (tau**2, 12.0), (w, 2 / 9), (w**2, 2 * 3 / 90)):
        assert abs(values.mean() - exact) < 5 * array_stats.mcse(values, chain_axis=0, draw_axis=1, method="mean")


@pytest.mark.long
def test_blocks_are_the_same_by_name_and_by_number():
    by_name = gad.cycle(gad.block(gad.mala(), ["p", "tau"]), gad.block(gad.block(gad.rwm(), ["a"]), ["w", "a"]))
    by_number = gad.cycle(gad.block(gad.mala(), [3, 4, 2]), gad.block(gad.block(gad.rwm(), [2]), [0, 1, 9]))
    trees = [gad.sample(model(), INIT, **SHORT | {"sampler": sampler}) for sampler in (by_name, by_number)]
    for name, values in trees[0]["posterior"].data_vars.items():
        np.testing.assert_array_equal(values, trees[1]["posterior"][name])
    with pytest.raises(ValueError, match="there is no variable 'sigma'; there are 'w', 'tau'"):
        gad.sample(model(), INIT, **SHORT | {"sampler": gad.block(gad.mala(), ["sigma"])})
    state = by_name.init(model().target, jnp.zeros((2, 10)))
    assert state.position.shape == (2, 10)


def test_variables_keep_the_order_in_which_they_were_written(drawn):
    assert list(drawn["posterior"].data_vars) == list(INIT)
    plain = gad.sample(lambda v: -0.5 * v["z"] ** 2 - 0.5 * jnp.sum(v["b"] ** 2), lambda key: {
        "z": jax.random.normal(key), "b": jax.random.normal(key, (2,))}, **SHORT)  # fmt: skip
    assert list(plain["posterior"].data_vars) == ["z", "b"]
    more = gad.sample(few(outputs=lambda v: {"z": 2 * v["tau"], "b": v["tau"]}), FEW, **SHORT)
    assert list(more["posterior"].data_vars) == [*FEW, "z", "b"]


def test_free_numbers_stand_in_their_own_group(drawn):
    free = drawn["unconstrained_posterior"]
    assert list(free.data_vars) == ["w_unconstrained", "tau", "p", "below", "L_unconstrained", "a"]
    assert free["w_unconstrained"].shape == (8, 2_000, 2)
    np.testing.assert_allclose(np.exp(free["tau"]), drawn["posterior"]["tau"], rtol=1e-12)
    np.testing.assert_allclose(np.sum(drawn["posterior"]["w"], -1), 1, rtol=1e-12)


def test_what_was_learned_is_labelled_by_variable(drawn):
    names = ["w_unconstrained[0]", "w_unconstrained[1]", "tau", "p[0]", "p[1]", "below"]
    names += [f"L_unconstrained[{i}]" for i in range(3)] + ["a"]
    assert drawn["learned"]["coordinate"].values.tolist() == names
    for name in ("mean", "factor"):
        assert drawn["learned"][name].dims == ("coordinate",)
    scales = gad.sample(few(), FEW, **SHORT | {"sampler": gad.gad_mala(factor="diagonal")})
    axes = {dim for values in scales["learned"].data_vars.values() for dim in values.dims}
    assert axes == {"coordinate"}
    assert scales["learned"]["coordinate"].values.tolist() == names[:3]
    normal = gad.Model(
        lambda v: -0.5 * jnp.sum(v["p"] ** 2), {"p": np.zeros(2)}, dims={"p": ["j"]}, coords={"j": ["u", "v"]}
    )
    dense = gad.sample(normal, **SHORT | {"sampler": gad.gad_mala()})
    (matrix,) = [values for values in dense["learned"].data_vars.values() if values.ndim == 2]
    assert matrix.dims == ("coordinate", "other_coordinate")
    assert matrix.sel(coordinate="p[u]", other_coordinate="p[u]").size == 1


def test_a_result_warms_up_a_later_run(drawn):
    later = gad.sample(model(), warm_start=drawn, **QUICK | {"num_warmup": 0})
    assert figures(later).max() < 5
    rates = [float(tree["sample_stats"]["acceptance_rate"].mean()) for tree in (drawn, later)]
    assert abs(rates[0] - rates[1]) < 0.05


def test_a_stored_run_goes_on(tmp_path):
    arguments = SHORT | {"out": tmp_path / "run.zarr"}
    whole = gad.sample(few(), FEW, **SHORT | {"num_draws": 80})
    gad.sample(few(), FEW, **arguments)
    again = gad.resume(tmp_path / "run.zarr", few(), num_draws=80, progress=False)
    for group in ("posterior", "unconstrained_posterior"):
        for name, values in whole[group].data_vars.items():
            np.testing.assert_array_equal(again[group][name], values)


def test_one_position_for_each_chain_is_where_chains_start():
    start = {"w": jnp.array([[0.2, 0.3, 0.5], [0.5, 0.3, 0.2]]), "tau": jnp.array([1.0, 2.0])}
    tree = gad.sample(few(), init_per_chain=start, **SHORT | {"sampler": gad.rwm(step_size=1e-9), "num_warmup": 1})
    for name, values in start.items():
        np.testing.assert_allclose(tree["posterior"][name].values[:, 0], values, atol=1e-6)


def test_conditionals_of_gibbs_see_constrained_values():
    """A conjugate scale: τ² given a is inverse gamma. The marginal of a is Student's t with 6 degrees of freedom."""
    density = lambda v: (
        stats.gamma.logpdf(v["precision"], 3.0, scale=1 / 3) + stats.norm.logpdf(v["a"], 0, v["precision"] ** -0.5)
    )
    draw_scale = lambda key, v: {"precision": jax.random.gamma(key, 3.5) / (3 + v["a"] ** 2 / 2)}
    draw_a = lambda key, v: {"a": jax.random.normal(key) * v["precision"] ** -0.5}
    conjugate = gad.Model(density, {"precision": 1.0, "a": 0.0}, transforms={"precision": "positive"})
    tree = gad.sample(
        conjugate, {"precision": 1.0, "a": 0.0}, sampler=gad.gibbs(draw_scale, draw_a), num_draws=10_000,
        progress=False,
    )  # fmt: skip
    for x, exact in ((tree["posterior"]["precision"].values, 1.0), (np.abs(tree["posterior"]["a"].values), 0.9186)):
        assert abs(x.mean() - exact) < 5 * array_stats.mcse(x, chain_axis=0, draw_axis=1, method="mean")


@pytest.mark.parametrize(
    ("transforms", "error", "message"),
    [
        ({"sigma": "positive"}, ValueError, "there is no variable 'sigma'"),
        ({"tau": "positiv"}, ValueError, r"transforms\['tau'\] must be one of 'positive'.*got 'positiv'"),
        ({"tau": (1, 0)}, ValueError, "with low < high"),
        ({"tau": (None, None)}, ValueError, "bounds"),
        ({"tau": 3}, TypeError, r"transforms\['tau'\] must be one of"),
        (["tau"], TypeError, "transforms must be a dict by variable"),
        ({"tau": "simplex"}, ValueError, r"transforms\['tau'\] does not fit the shape \(\)"),
        ({"w": "corr_cholesky"}, ValueError, r"transforms\['w'\] does not fit the shape \(3,\)"),
    ],
)
def test_what_is_no_constraint_is_refused(transforms, error, message):
    with pytest.raises(error, match=message):
        gad.Model(log_density, INIT, transforms=transforms)


def test_a_start_that_violates_a_constraint_is_refused():
    with pytest.raises(ValueError, match="init: 'tau' violates its constraint"):
        gad.sample(model(), INIT | {"tau": -1.0}, **SHORT)


def test_without_numpyro_transforms_say_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "numpyro", None)
    with pytest.raises(ImportError, match=r"pip install 'gadabout\[models\]'"):
        model()


@pytest.mark.parametrize("x64", [False, pytest.param(True, marks=pytest.mark.long)], ids=["float32", "float64"])
def test_both_precisions_and_far_starts(x64):
    with jax.enable_x64(x64):
        tree = gad.sample(model(), INIT | {"tau": 1e-30 if x64 else 1e-20}, **SHORT)
        target = model().target
        far = target.at(jnp.full(10, 80.0), 1)
    assert all(np.isfinite(values).all() for values in tree["posterior"].data_vars.values())
    assert tree["posterior"]["w"].dtype == ("float64" if x64 else "float32")
    assert not np.isnan(far.logp)


def test_constraints_of_numpyro_are_taken_as_they_are():
    from numpyro.distributions import constraints, transforms

    given = {"x": constraints.interval(jnp.zeros(2), jnp.array([1.0, 10.0])), "y": transforms.SoftplusTransform()}
    density = lambda v: jnp.log(v["x"]).sum() * 0 - v["y"]
    tree = gad.sample(gad.Model(density, {"x": np.array([0.5, 5.0]), "y": 1.0}, transforms=given),
                      {"x": np.array([0.5, 5.0]), "y": 1.0}, **QUICK)  # fmt: skip
    x, y = tree["posterior"]["x"].values, tree["posterior"]["y"].values
    for values, exact in ((x[..., 0], 0.5), (x[..., 1], 5.0), (y, 1.0), (y**2, 2.0), (x[..., 1] ** 2, 100 / 3)):
        error = array_stats.mcse(values, chain_axis=0, draw_axis=1, method="mean")
        assert abs(values.mean() - exact) < 5 * error
