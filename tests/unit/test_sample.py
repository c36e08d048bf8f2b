"""The front door: what goes in, what comes out, and one clear error for each kind of bad input."""

import os
import signal

import arviz_stats
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import gadabout as gad
from gadabout.driver import TextProgress

QUICK = {"num_warmup": 60, "num_draws": 50, "progress": False}
MALA = {"sampler": gad.gad_mala(), **QUICK}


def normal(x):
    return -0.5 * jnp.sum(x**2)


def tree_density(position):
    return -0.5 * jnp.sum(position["w"] ** 2) - 0.5 * (position["b"] - 1) ** 2


def bits(tree, group="posterior"):
    return {name: tree[group][name].values for name in tree[group].data_vars}


def same(a, b):
    return all(np.array_equal(a[name], b[name]) for name in a) and a.keys() == b.keys()


def test_the_tree_has_the_schema():
    tree = gad.sample(tree_density, {"w": jnp.zeros((2, 3)), "b": 0.0}, num_chains=3, **MALA)
    assert tree["posterior"]["w"].dims == ("chain", "draw", "w_dim_0", "w_dim_1")
    assert tree["posterior"]["w"].shape == (3, 50, 2, 3)
    assert tree["posterior"]["b"].shape == (3, 50)
    assert tree["warmup_posterior"]["b"].shape == (3, 60)
    assert {"lp", "acceptance_rate", "accepted"} <= set(tree["sample_stats"].data_vars)
    trace = {"beta", "lower_bound", "entropy", "acceptance_rate"}
    assert trace <= set(tree["warmup_sample_stats"].data_vars)
    assert not {"beta", "lower_bound"} & set(tree["sample_stats"].data_vars)
    assert tree["learned"]["proposal.factor.matrix"].shape == (7, 7)
    flat = np.concatenate(
        [tree["posterior"]["b"].values[..., None], tree["posterior"]["w"].values.reshape(3, 50, 6)], -1
    )
    lp = -0.5 * (flat[..., 0] - 1) ** 2 - 0.5 * np.sum(flat[..., 1:] ** 2, -1)
    np.testing.assert_allclose(tree["sample_stats"]["lp"], lp, rtol=1e-12)
    attributes = tree.attrs
    assert attributes["seed"] == 0
    assert attributes["gradient_evaluations"] == 3 * 110
    assert attributes["sampler"] == "gad-mala"
    parts = sum(attributes[f"seconds_{name}"] for name in ("compile", "warmup", "sampling"))
    assert parts <= attributes["seconds_total"]
    assert attributes["warnings"] == [
        finding["problem"] + "; " + finding["remedy"] for finding in attributes["findings"]
    ]
    assert tree["diagnostics"]["rhat"]["w"].dims == ("w_dim_0", "w_dim_1")
    summary = arviz_stats.summary(tree)
    assert "r_hat" in summary.columns


def test_step_size_and_nuts_names_of_hmc():
    tree = gad.sample(normal, jnp.zeros(2), sampler=gad.hmc(4), **QUICK)
    assert {"step_size", "n_steps", "energy", "diverging", "lp"} <= set(tree["sample_stats"].data_vars)
    assert (tree["sample_stats"]["n_steps"] == 4).all()
    assert tree.attrs["gradient_evaluations"] == 4 * 4 * 110


def test_gradients_of_a_random_walk_are_counted_while_learning_only():
    assert gad.sample(normal, jnp.zeros(2), sampler=gad.gad_rwm(), **QUICK).attrs["gradient_evaluations"] == 4 * 60
    assert gad.sample(normal, jnp.zeros(2), sampler=gad.rwm(), **QUICK).attrs["gradient_evaluations"] == 0
    exact = gad.sample(normal, jnp.zeros(2), sampler=gad.gad_mala("exact"), **QUICK)
    assert exact.attrs["gradient_evaluations"] == 4 * (2 * 60 + 50)


def test_same_seed_same_bits_other_seed_other_draws():
    first, again, other = (gad.sample(normal, jnp.zeros(3), seed=seed, **MALA) for seed in (4, 4, 5))
    assert same(bits(first), bits(again))
    assert not same(bits(first), bits(other))


def test_progress_callback_and_record_change_no_bits():
    plain = gad.sample(normal, jnp.zeros(3), **MALA)
    told = []
    watched = gad.sample(normal, jnp.zeros(3), callback=told.append, **MALA)
    assert same(bits(plain), bits(watched))
    assert told[-1].stage == "sampling"
    assert told[-1].done == told[-1].total == 50
    assert told[-1].gradient_evaluations == 4 * 110
    lean = gad.sample(normal, jnp.zeros(3), record=["posterior", "lp"], **MALA)
    assert same(bits(plain), bits(lean))
    assert set(lean["sample_stats"].data_vars) == {"lp"}
    assert "warmup_posterior" not in lean


def test_initial_positions():
    per_chain = jnp.arange(12.0).reshape(4, 3) / 10
    exact = gad.sample(normal, init_per_chain=per_chain, **(MALA | {"num_warmup": 1}))
    accepted = exact["warmup_sample_stats"]["accepted"].values[:, 0]
    start = exact["warmup_posterior"]["x"].values[:, 0]
    np.testing.assert_array_equal(start[~accepted], per_chain[~accepted])
    assert np.abs(start - per_chain).max() < 1

    around = gad.sample(normal, jnp.full(3, 50.0), **MALA)["warmup_posterior"]["x"].values[:, 0]
    assert np.abs(around - 50).max() < 6
    assert len(np.unique(around)) == 12

    drawn = gad.sample(normal, lambda key: 9 + jax.random.uniform(key, (3,)), **MALA)["warmup_posterior"]["x"][:, 0]
    assert (drawn > 8).all()

    scalar = gad.sample(lambda x: -0.5 * x**2, 0.0, num_chains=4, **QUICK)
    assert scalar["posterior"]["x"].shape == (4, 50)


def test_one_position_or_one_per_chain():
    """`init` is one position whatever its shape; `init_per_chain` has a leading axis of chains in every leaf."""
    four = {"num_chains": 4, **QUICK}
    assert gad.sample(normal, jnp.zeros(4), **four)["posterior"]["x"].shape == (4, 50, 4)
    assert gad.sample(normal, init_per_chain=jnp.zeros((4, 2)), **four)["posterior"]["x"].shape == (4, 50, 2)
    matrix = lambda x: -0.5 * jnp.trace(x @ x.T)
    assert gad.sample(matrix, jnp.zeros((4, 2)), **four)["posterior"]["x"].shape == (4, 50, 4, 2)
    dicts = {"init_per_chain": {"w": jnp.zeros(4), "b": jnp.zeros(4)}}
    either = gad.sample(tree_density, **dicts, **four)
    assert either["posterior"]["b"].shape == (4, 50)


def test_tries_again_for_a_finite_start():
    """Half of all starts lie outside the support; each chain finds one inside."""
    half = lambda x: jnp.where(x[0] > 0, -x[0] - 0.5 * x[1] ** 2, -jnp.inf)
    with pytest.warns(UserWarning, match="border"):
        tree = gad.sample(half, jnp.zeros(2), num_chains=16, sampler=gad.rwm(), **QUICK)
    assert (tree["warmup_posterior"]["x"].values[..., 0] > 0).all()


def test_a_start_is_traced_a_few_times_however_often_it_is_drawn():
    """Bug of old: a trace at each of 100 tries, 12 s of a PyMC model whose data are impossible."""
    traced = []

    def start(key):
        traced.append(key)
        return jax.random.normal(key, (2,))

    with pytest.raises(ValueError, match="no finite start for chain 0 in 100 tries"):
        gad.sample(lambda x: jnp.sum(x) - jnp.inf, start, progress=False)
    assert len(traced) < 10


def test_saved_result(tmp_path):
    tree = gad.sample(normal, jnp.zeros(3), out=tmp_path / "run.zarr", **MALA)
    back = xr.open_datatree(tmp_path / "run.zarr", engine="zarr")
    assert same(bits(tree), bits(back))
    assert back.attrs["seed"] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["run.zarr"]
    with pytest.raises(FileExistsError, match="exists already"):
        gad.sample(normal, jnp.zeros(3), out=tmp_path / "run.zarr", **MALA)


def test_interruption_keeps_the_draws():
    pressed = []

    def interrupt(progress):
        if progress.stage == "sampling" and progress.done > 2_000 and not pressed:
            pressed.append(progress.done)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.warns(UserWarning, match="interrupted"):
        tree = gad.sample(normal, jnp.zeros(3), callback=interrupt, **(MALA | {"num_draws": 10**6}))
    whole = gad.sample(normal, jnp.zeros(3), **(MALA | {"num_draws": 3_000}))
    assert 2_000 < tree["posterior"].sizes["draw"] < 10**6
    np.testing.assert_array_equal(tree["posterior"]["x"][:, :2_000], whole["posterior"]["x"][:, :2_000])
    assert tree.attrs["interrupted"]


def test_a_callback_that_raises_loses_no_draw(tmp_path):
    def trouble(progress):
        if progress.stage == "sampling":
            raise KeyError("mine")

    with pytest.raises(gad.RunStopped, match="callback raised KeyError") as caught:
        gad.sample(normal, jnp.zeros(3), callback=trouble, out=tmp_path / "run.zarr", **MALA)
    assert isinstance(caught.value.__cause__, KeyError)
    whole = bits(gad.sample(normal, jnp.zeros(3), **MALA))["x"]
    kept = bits(caught.value.result)["x"]
    assert 0 < kept.shape[1] <= 50
    np.testing.assert_array_equal(kept, whole[:, : kept.shape[1]])
    assert same(bits(caught.value.result), bits(xr.open_datatree(tmp_path / "run.zarr", engine="zarr")))


def test_float32_stays_float32():
    with jax.enable_x64(False):
        tree = gad.sample(normal, jnp.zeros(3), **MALA)
    assert tree["posterior"]["x"].dtype == np.float32
    assert tree["learned"]["proposal.factor.matrix"].dtype == np.float32
    assert tree["warmup_sample_stats"]["beta"].dtype == np.float32


def test_sampler_made_before_the_float_type_changed():
    with jax.enable_x64(False):
        sampler = gad.gad_mala(scale=0.5)
    assert gad.sample(normal, jnp.zeros(3), sampler=sampler, **QUICK)["posterior"]["x"].dtype == np.float64


def test_a_stuck_chain_is_told():
    spike = lambda x: -1e8 * jnp.sum(x**2)
    with pytest.warns(UserWarning, match=r"chains \[0, 1, 2, 3\] accepted nothing"):
        tree = gad.sample(
            spike, init_per_chain=jnp.zeros((4, 2)), sampler=gad.rwm(), num_warmup=0, num_draws=50, progress=False
        )
    assert len(tree.attrs["warnings"]) == 1


def test_proposals_outside_the_support_are_told():
    half = lambda x: jnp.where(x[0] > 0, -x[0], -jnp.inf)
    with pytest.warns(UserWarning, match="border"):
        gad.sample(half, init_per_chain=jnp.ones((4, 1)), sampler=gad.rwm(step_size=1.0), **QUICK)


def test_zero_warmup():
    tree = gad.sample(normal, jnp.zeros(3), **(MALA | {"num_warmup": 0}))
    assert "warmup_posterior" not in tree


def test_text_progress_writes_log_lines_where_there_is_no_terminal(capsys):
    gad.sample(normal, jnp.zeros(3), **(MALA | {"progress": True}))
    lines = capsys.readouterr().err.splitlines()
    assert any("warmup: 60/60" in line for line in lines)
    assert any("sampling: 50/50" in line for line in lines)
    assert "\r" not in "".join(lines)
    assert TextProgress().live is False


def branching(x):
    return -0.5 * x @ x if x[0] > 0 else -x @ x


def no_second_derivative(x):
    @jax.custom_jvp
    def f(x):
        return -0.5 * x @ x

    @f.defjvp
    def _(primals, tangents):
        value = lambda v: np.asarray(v, np.float64)
        g = jax.pure_callback(
            lambda x: -value(x), jax.ShapeDtypeStruct(x.shape, x.dtype), primals[0], vmap_method="sequential"
        )
        return f(primals[0]), g @ tangents[0]

    return f(x)


def no_derivative(x):
    shape = jax.ShapeDtypeStruct((), x.dtype)
    return jax.pure_callback(lambda x: np.asarray(-0.5 * x @ x, x.dtype), shape, x, vmap_method="sequential")


def bad_value(position):
    return jnp.log(position["a"]) - 0.5 * jnp.sum(position["b"] ** 2)


@jax.custom_jvp
def _bad_slope(x):
    return x


@_bad_slope.defjvp
def _(primals, tangents):
    return _bad_slope(primals[0]), jnp.nan * tangents[0]


def bad_gradient(position):
    return -0.5 * position["a"] ** 2 - 0.5 * jnp.sum(_bad_slope(position["b"]) ** 2)


def with_data(x, data):
    return -0.5 * jnp.sum((data["rows"] @ x) ** 2)


def own_trouble(x):
    raise RuntimeError("own trouble")


def of(name):
    return lambda position: normal(position[name])


POSITION = {"a": jnp.asarray(1.0), "b": jnp.ones(2)}
DEFAULT = {"sampler": None}


@pytest.mark.parametrize(
    ("error", "match", "arguments"),
    [
        (ValueError, r"scalar.*\(3,\)", {"model": lambda x: -(x**2)}),
        (TypeError, "branches in Python", {"model": branching}),
        (TypeError, "jax.numpy", {"model": lambda x: -np.sum(np.exp(x))}),
        (ValueError, r"position with x: \(3,\)", {"model": lambda x: -(x @ jnp.ones((4, 4)) @ x)}),
        (TypeError, "'x' has the type int64", {"init": np.zeros(3, np.int64)}),
        (
            TypeError,
            "'b' has the type int32",
            {"model": tree_density, "init": {"w": jnp.zeros(2), "b": np.int32(1)}},
        ),
        (TypeError, "init must be a pytree of arrays", {"init": "here"}),
        (ValueError, "no numbers", {"init": {}}),
        (ValueError, "value of logdensity is -inf", {"model": lambda x: x[0] * 0 - jnp.inf}),
        (ValueError, "in 100 tries.*nan.*'a'", {"model": bad_value, "init": {"a": -99.0, "b": jnp.zeros(2)}}),
        (ValueError, "gradient of logdensity is NaN or infinite.*'b'", {"model": bad_gradient, "init": POSITION}),
        (ValueError, "in 1 try", {"model": lambda x: jnp.log(x[0]), "init": None, "init_per_chain": -jnp.ones((4, 1))}),
        (ValueError, r"data\['rows'\] holds 1 values", {"model": with_data, "data": {"rows": np.array([np.nan])}}),
        (ValueError, "variant='exact'", {"model": no_second_derivative, "sampler": gad.gad_mala("exact")}),
        (ValueError, "differentiated", {"model": no_derivative}),
        (ValueError, "num_chains.*0", {"num_chains": 0}),
        (ValueError, "num_draws.*-5", {"num_draws": -5}),
        (ValueError, "num_draws.*10.5", {"num_draws": 10.5}),
        (ValueError, "num_warmup.*-1", {"num_warmup": -1}),
        (ValueError, "thinning.*0", {"thinning": 0}),
        (ValueError, "seed.*-3", {"seed": -3}),
        (ValueError, "seed.*below 4294967296", {"seed": 2**40}),
        (ValueError, "adapt.*'shared'", {"adapt": "shared"}),
        (TypeError, "sampler.*'nuts'", {"sampler": "nuts"}),
        (TypeError, "logdensity.*5", {"model": 5}),
        (TypeError, "record", {"record": "lp"}),
        (ValueError, "record.*'speed'.*'lp'", {"record": ["posterior", "speed"]}),
        (ValueError, "zarr", {"out": "run.nc"}),
        (ValueError, "scalar.*a tuple", {"model": lambda x: (normal(x), 1.0)}),
        (ValueError, "scalar.*a dict", {"model": lambda x: {"lp": normal(x)}}),
        (ValueError, "scalar.*a str", {"model": lambda x: "lp"}),
        (ValueError, "scalar.*None", {"model": lambda x: None}),
        (ValueError, "scalar.*complex", {"model": lambda x: normal(x) + 1j}),
        (ValueError, "scalar.*bool", {"model": lambda x: x[0] > 0}),
        (TypeError, "pass data=", {"model": lambda x, y: normal(x)}),
        (ValueError, r"own trouble \(test_sample.py, line \d+\)", {"model": own_trouble}),
        (ValueError, "'a/b' holds a slash", {"model": of("a/b"), "init": {"a/b": jnp.zeros(2)}}),
        (ValueError, "'chain' is the name", {"model": of("chain"), "init": {"chain": jnp.zeros(2)}}),
        (ValueError, "'a_dim_0'", {"model": of("a"), "init": {"a": jnp.zeros(2), "a_dim_0": 0.0}}),
        (MemoryError, "num_draws.*GiB", {"num_draws": 10**12}),
        (MemoryError, "num_chains.*GiB", {"num_chains": 10**10}),
        (MemoryError, "gad-mala on 1,000,000 coordinates", {"init": jnp.zeros(10**6)}),
        (MemoryError, "1,000,000 coordinates of the pilot run", {"init": jnp.zeros(10**6)} | DEFAULT),
        (MemoryError, "num_draws.*GiB", {"num_draws": 10**12} | DEFAULT),
        (MemoryError, "num_warmup.*GiB", {"num_warmup": 10**12} | DEFAULT),
        (ValueError, "differentiated", {"model": no_derivative} | DEFAULT),
        (ValueError, "record.*'speed'.*'lp'", {"record": ["posterior", "speed"]} | DEFAULT),
        (FileNotFoundError, "nowhere", {"out": "nowhere/run.zarr"}),
    ],
)
def test_bad_input(error, match, arguments):
    with pytest.raises(error, match=match):
        gad.sample(**({"model": normal, "init": jnp.zeros(3)} | MALA | arguments))


def test_samplers_that_need_no_gradient_take_densities_without_one():
    tree = gad.sample(no_derivative, jnp.zeros(2), sampler=gad.rwm(), **QUICK)
    assert tree["posterior"]["x"].shape == (4, 50, 2)


def test_fast_takes_a_density_without_second_derivative():
    assert gad.sample(no_second_derivative, jnp.zeros(2), **MALA)["posterior"]["x"].shape == (4, 50, 2)


@pytest.mark.parametrize("recipe", [gad.gad_mala, gad.gad_rwm, gad.mala, gad.rwm, gad.hmc, gad.am])
@pytest.mark.parametrize("value", [0.0, 1.0, -0.2, 1.5, float("nan")])
def test_target_acceptance_is_a_probability(recipe, value):
    with pytest.raises(ValueError, match="target_acceptance"):
        recipe(target_acceptance=value)


@pytest.mark.parametrize(
    ("match", "make"),
    [
        ("variant.*'slow'", lambda: gad.gad_mala("slow")),
        ("factor.*'full'", lambda: gad.gad_rwm("full")),
        ("factor.*'full'", lambda: gad.am(factor="full")),
        ("learning_rate.*-1", lambda: gad.gad_mala(learning_rate=-1)),
        ("scale.*inf", lambda: gad.gad_mala(scale=float("inf"))),
        ("step_size.*0", lambda: gad.hmc(step_size=0)),
        ("num_steps.*2.5", lambda: gad.hmc(2.5)),
    ],
)
def test_bad_settings(match, make):
    with pytest.raises(ValueError, match=match):
        make()


def test_gad_wants_a_reparametrised_proposal():
    with pytest.raises(TypeError, match="AbstractReparametrised"):
        gad.gad(gad.proposals.Hamiltonian(gad.factors.Diagonal(jnp.ones(2)), jnp.asarray(0.1)))


def test_positions_of_the_wrong_shape():
    with pytest.raises(ValueError, match=r"\(num_chains, n\)"):
        gad.gad_mala().init(gad.Target(normal), jnp.zeros(3))


def test_those_who_own_their_loop_start_from_positions_of_the_model():
    """Positions of a model, with a leading axis of chains, start the chains of the flat vectors that they stand for."""
    position = {"s": jnp.asarray(1.0), "m": jnp.zeros((2, 2))}
    log_density = lambda p: -0.5 * jnp.sum(p["m"] ** 2) - p["s"]
    target = gad.Model(log_density, position, transforms={"s": "positive"}).target
    chains = {"s": jnp.array([0.5, 2.0, 3.0]), "m": jnp.arange(12.0).reshape(3, 2, 2)}
    sampler = gad.rwm()
    state, flat = sampler.init(target, chains), sampler.init(target, jax.vmap(target.ravel)(chains))
    np.testing.assert_array_equal(state.position, flat.position)
    back = jax.vmap(target.unravel)(state.position)
    for name, values in chains.items():
        np.testing.assert_allclose(back[name], values, rtol=1e-12)
    assert sampler.step(jax.random.key(0), state, target)[0].position.shape == (3, 5)


def test_a_models_own_start_is_traced_once_and_a_model_may_have_no_hash():
    traced = []

    def start(key):
        traced.append(key)
        return jax.random.normal(key, (2,))

    class Unhashed(gad.Model):
        __hash__ = None  # pyright: ignore[reportAssignmentType]

    def drawn(model):
        traced.clear()
        x = gad.sample(model, sampler=gad.rwm(), num_draws=100, progress=False, seed=1)["posterior"]["x"].values
        return x, len(traced)

    made = [cls(lambda x: -0.5 * jnp.sum(x**2), start=start) for cls in (gad.Model, Unhashed)]
    (first, _), (again, times), (other, more) = drawn(made[0]), drawn(made[0]), drawn(made[1])
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first, other)
    assert times < more
