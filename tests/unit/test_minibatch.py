"""Batches: where they come from, what the front door makes of them, and how a run ends that cannot go on."""

import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad
from gadabout.adaptations import NoAdaptation
from gadabout.api.positions import starts_of
from gadabout.driver import Engine, MemorySink, Records, Settings
from gadabout.kernels import PreconditionedLangevin
from gadabout.minibatch import Batch, Control, EstimatedDensity, feed
from gadabout.schedule import plan_of

pytestmark = pytest.mark.filterwarnings("ignore:step_size. Σ ε_t² < ∞ is violated")

X = np.random.default_rng(0).normal(size=(60, 3))
Y = X @ [1.0, -1.0, 0.5] + np.random.default_rng(1).normal(size=60)
ROWS = {"x": X, "y": Y}
QUICK = {"num_warmup": 10, "num_draws": 40, "num_chains": 2, "progress": False}


def log_prior(w):
    return -0.5 * w @ w


def log_likelihood(w, rows):
    return -0.5 * (rows["y"] - rows["x"] @ w) ** 2


def posterior(rows=ROWS, **arguments):
    return gad.Minibatches(log_prior, log_likelihood, rows, **({"batch_size": 8} | arguments))


def bits(tree):
    return tree["posterior"]["x"].values


def run(target=None, sampler=None, **arguments):
    sampler = gad.sgld(1e-3) if sampler is None else sampler
    return gad.sample(posterior() if target is None else target, jnp.zeros(3), sampler=sampler, **(QUICK | arguments))


# the estimate


def gradients(estimate, position, control=None):
    """ĝ on each of 3,000 batches, in which the mean is exact up to its standard error."""
    source = feed.RowFeed(ROWS, 8, 60, 0, control)
    chunk = lambda t: source.chunk(t, min(source.capacity, 3_000 - t))[0]
    batches = [chunk(t) for t in range(0, 3_000, source.capacity)]
    one = jax.jit(jax.vmap(lambda rows: jax.grad(estimate)(position, Batch(rows, jnp.asarray(60.0), control))))
    return np.concatenate([one(part.rows) for part in batches])[:3_000]


def test_the_estimated_gradient_is_unbiased_and_control_variates_take_its_noise():
    """z of three coordinates below 4.5: a false alarm in 50,000 suites."""
    target, position = posterior(), jnp.array([0.9, -0.8, 0.4])
    exact = jax.grad(target.log_density)(position, ROWS)
    plain = gradients(target.density, position)
    controlled = gradients(target.density, position, target.with_control(position + 0.1).control)
    for found in (plain, controlled):
        z = (found.mean(0) - exact) / (found.std(0, ddof=1) / np.sqrt(len(found)))
        assert np.abs(z).max() < 4.5
    assert np.all(controlled.std(0) < 0.3 * plain.std(0))
    at_reference = gradients(target.density, position, target.with_control(position).control)
    np.testing.assert_allclose(at_reference, np.broadcast_to(exact, at_reference.shape), rtol=1e-9)


def test_the_control_variate_is_the_formula():
    """ĝ = ∇log p(θ) + g(θ*) + N/|B| Σ_B (g_i(θ) − g_i(θ*)), term by term, positions being pytrees."""
    estimate = EstimatedDensity(lambda p: log_prior(p["w"]), lambda p, rows: log_likelihood(p["w"], rows))
    target = gad.Minibatches(estimate.log_prior, estimate.log_likelihood, ROWS, batch_size=8)
    here, reference = {"w": jnp.array([0.3, 0.1, -0.2])}, {"w": jnp.array([1.0, -1.0, 0.5])}
    control = target.with_control(reference).control
    assert isinstance(control, Control)
    batch = {"x": X[:8], "y": Y[:8]}
    found = jax.grad(estimate)(here, Batch(batch, jnp.asarray(60.0), control))["w"]
    g = lambda p, rows: rows["x"].T @ (rows["y"] - rows["x"] @ p["w"])
    expected = -here["w"] + g(reference, ROWS) + 60 / 8 * (g(here, batch) - g(reference, batch))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(control.gradient["w"], g(reference, ROWS), rtol=1e-12)


def test_all_rows_are_gone_through_in_blocks(monkeypatch):
    monkeypatch.setattr("gadabout.minibatch.posterior.BLOCK", 7)
    control = posterior().with_control(jnp.ones(3)).control
    np.testing.assert_allclose(control.value, log_likelihood(jnp.ones(3), ROWS).sum(), rtol=1e-12)


def test_adam_finds_the_mode():
    mode = np.linalg.solve(np.eye(3) + X.T @ X, X.T @ Y)
    np.testing.assert_allclose(posterior().mode(jnp.zeros(3), num_iterations=3_000), mode, atol=0.02)


# where batches come from


def test_batches_depend_on_seed_and_index_alone():
    source = feed.RowFeed(ROWS, 8, 60, 3)
    rows, found = source.fetch(0, 10)
    assert found == 10
    later, _ = source.fetch(4, 2)
    np.testing.assert_array_equal(rows["x"][4:6], later["x"][:2])
    other, _ = feed.RowFeed(ROWS, 8, 60, 4).fetch(0, 10)
    assert not np.array_equal(rows["x"], other["x"])
    chosen = np.stack([source.choice(t, 60) for t in range(2_000)])
    assert all(len(set(batch)) == 8 for batch in chosen)
    counts = np.bincount(chosen.ravel(), minlength=60)
    z = (counts - 2_000 * 8 / 60) / np.sqrt(2_000 * 8 / 60 * 52 / 60)
    assert np.abs(z).max() < 5  # 60 counts: a false alarm in 29,000 suites


def test_memory_mapped_rows_give_the_same_draws(tmp_path):
    maps = {}
    for name, rows in ROWS.items():
        maps[name] = np.memmap(tmp_path / name, rows.dtype, "w+", shape=rows.shape)
        maps[name][:] = rows
    np.testing.assert_array_equal(bits(run(posterior(maps))), bits(run()))


def test_no_more_than_two_chunks_of_batches_live(monkeypatch):
    """Arrays of a chunk's batches alive on the device when the next one is prepared: the one in use at most."""
    monkeypatch.setattr(feed, "CHUNK_BYTES", 8 * 8 * 4 * 16)
    shape, alive = (16, 8, 3), []
    original = feed.RowFeed.fetch

    def counting(self, first, count):
        alive.append(sum(array.shape == shape for array in jax.live_arrays()))
        return original(self, first, count)

    monkeypatch.setattr(feed.RowFeed, "fetch", counting)
    run(num_draws=2_000)
    assert len(alive) > 100
    assert max(alive) <= 1


def chunked(capacity, thinning=1, num_draws=40, **arguments):
    def patched(monkeypatch):
        monkeypatch.setattr(feed, "LONGEST_CHUNK", capacity)
        return bits(run(thinning=thinning, num_draws=num_draws, **arguments))

    return patched


@pytest.mark.parametrize("thinning", [1, 3, 20])
def test_draws_do_not_depend_on_how_many_batches_fit_in_a_chunk(monkeypatch, thinning):
    """Also where the batches of one draw exceed a chunk, and where the last draw of warm-up is cut short."""
    whole = chunked(4_096, thinning)(monkeypatch)
    assert whole.shape == (2, 40, 3)
    for capacity in (8, 1):
        np.testing.assert_array_equal(chunked(capacity, thinning)(monkeypatch), whole)


def test_an_iterator_of_batches(monkeypatch):
    source = feed.RowFeed(ROWS, 8, 60, 0)
    batches = lambda n: iter([jax.tree.map(lambda leaf: leaf[0], source.fetch(t, 1)[0]) for t in range(n)])
    target = gad.Minibatches(log_prior, log_likelihood, batches(51), num_rows=60)
    np.testing.assert_array_equal(bits(run(target)), bits(run()))
    short = gad.Minibatches(log_prior, log_likelihood, batches(31), num_rows=60)
    with pytest.raises(gad.RunStopped, match="ended after 30 iterations") as stopped:
        run(short)
    np.testing.assert_array_equal(bits(stopped.value.result), bits(run())[:, :20])
    uneven = iter([{"x": X[:8], "y": Y[:8]}, {"x": X[:7], "y": Y[:7]}])
    with pytest.raises(ValueError, match="one shape"):
        run(gad.Minibatches(log_prior, log_likelihood, uneven, num_rows=60))
    with pytest.raises(ValueError, match="is empty"):
        run(gad.Minibatches(log_prior, log_likelihood, iter([]), num_rows=60))
    with pytest.raises(ValueError, match="hides"):
        gad.Minibatches(log_prior, log_likelihood, batches(3), num_rows=60).with_control(jnp.zeros(3))


def test_a_resumed_run_gets_the_batches_it_would_have_had():
    plan = plan_of(gad.sgld(1e-3))

    def run_of(num_draws, checkpoint=None):
        model = posterior()
        starts = starts_of(None, jnp.zeros((2, 3)), model, 2, False)
        model = model.laid_out(starts.layout)
        records, settings = Records(model, MemorySink()), Settings(2, 0, num_draws)
        run = Engine(model, plan, settings, 0, records, starts, feed=model.feed(0))
        run.drive(checkpoint)
        return run, records.sink.read("posterior")["x"]

    _, whole = run_of(50)
    run, first = run_of(20)
    _, second = run_of(50, run.checkpoint())
    assert (first.shape, second.shape) == ((2, 20, 3), (2, 30, 3))
    np.testing.assert_array_equal(np.concatenate([first, second], 1), whole)


# the front door


@pytest.mark.parametrize("recipe", [gad.ula, gad.sgld, gad.psgld, gad.sghmc, gad.sgnht])
def test_results_say_that_they_are_not_exact(recipe):
    tree = run(sampler=recipe(1e-3))
    assert tree.attrs["exact"] is False
    assert "not corrected by an accept-reject step" in tree.attrs["bias"]
    assert "8 of 60 rows" in tree.attrs["bias"]
    assert (tree.attrs["num_rows"], tree.attrs["batch_size"]) == (60, 8)
    assert {"lp", "acceptance_rate", "step_size"} <= set(tree["sample_stats"].data_vars)
    assert tree.attrs["gradient_evaluations"] == 2 * 50


def test_exact_samplers_say_so_and_take_no_batches():
    arguments = {"num_warmup": 10, "num_draws": 10, "progress": False}
    tree = gad.sample(posterior().log_density, jnp.zeros(3), data=ROWS, sampler=gad.gad_mala(), **arguments)
    assert tree.attrs["exact"] is True
    assert tree.attrs["bias"] == ""
    with pytest.raises(ValueError, match="gad-mala compares log densities of all rows"):
        gad.sample(posterior(), jnp.zeros(3), sampler=gad.gad_mala())
    with pytest.raises(ValueError, match="default compares log densities of all rows"):
        gad.sample(posterior(), jnp.zeros(3))
    with pytest.raises(TypeError, match="leave the argument out"):
        run(data=ROWS)


@pytest.mark.parametrize("compose", [gad.cycle, gad.mix, lambda sampler: gad.block(sampler, [0])])
def test_chains_with_memory_are_no_parts(compose):
    with pytest.raises(ValueError, match="sgld keeps more than a point"):
        compose(gad.sgld(1e-3))


def test_a_full_batch_is_the_full_gradient():
    whole = bits(run(posterior(batch_size=60), thinning=2))
    full = bits(run(posterior().log_density, gad.ula(1e-3), data=ROWS, thinning=2))
    np.testing.assert_allclose(whole, full, rtol=1e-9)


def test_lp_is_the_log_density_of_the_stored_position():
    tree = run(posterior(batch_size=60))
    lp = jax.vmap(jax.vmap(lambda w: posterior().log_density(w, ROWS)))(bits(tree))
    np.testing.assert_allclose(tree["sample_stats"]["lp"], lp, rtol=1e-9)


def test_a_run_that_blows_up_keeps_its_draws(tmp_path):
    with pytest.raises(gad.RunStopped, match="infinite or NaN since the sampling stage") as stopped:
        run(sampler=gad.sgld(0.5), num_draws=5_000, out=tmp_path / "run.zarr")
    draws = bits(stopped.value.result)
    assert 0 < draws.shape[1] < 5_000
    assert np.isfinite(draws).all()
    assert "stopped early" in stopped.value.result.attrs["warnings"][0]
    assert (tmp_path / "run.zarr").is_dir()
    lean = {"num_draws": 5_000, "record": ["lp"]}
    with pytest.raises(gad.RunStopped) as stopped:
        run(sampler=gad.sgld(0.5), **lean)
    assert "posterior" not in stopped.value.result
    with pytest.raises(gad.RunStopped, match="since the warmup stage") as stopped:
        run(sampler=gad.sgld(0.5), num_warmup=5_000)
    assert bits(stopped.value.result).shape[1] == 0
    assert np.isfinite(stopped.value.result["warmup_posterior"]["x"]).all()


def test_bad_batches_are_named():
    with pytest.raises(ValueError, match="batch_size must be a whole number of at least 1 and below 61"):
        posterior(batch_size=61)
    with pytest.raises(ValueError, match="share a leading axis"):
        posterior({"x": X, "y": Y[:5]})
    with pytest.raises(ValueError, match="1 values that are NaN"):
        posterior({"x": X, "y": np.where(np.arange(60) == 3, np.nan, Y)})
    with pytest.raises(ValueError, match="for an iterator of batches only"):
        posterior(num_rows=60)
    with pytest.raises(ValueError, match="needs num_rows"):
        gad.Minibatches(log_prior, log_likelihood, iter([ROWS]))
    with pytest.raises(ValueError, match="one log likelihood for each row"):
        run(gad.Minibatches(log_prior, lambda w, rows: log_likelihood(w, rows).sum(), ROWS))
    with pytest.raises(ValueError, match="log_prior must return a scalar"):
        run(gad.Minibatches(lambda w: w, log_likelihood, ROWS))


# step sizes


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    ("step_size", "violated"),
    [
        (gad.minibatch.polynomial(1e-3, 10.0, 0.55), []),
        (gad.minibatch.polynomial(1e-3, 10.0, 1.0), []),
        (gad.minibatch.polynomial(1e-3, 10.0, 0.5), ["Σ ε_t² < ∞"]),
        (gad.minibatch.polynomial(1e-3, 10.0, 1.2), ["Σ ε_t = ∞"]),
        (gad.minibatch.constant(1e-3), ["Σ ε_t² < ∞"]),
        (lambda t: 1e-3 / (1 + t) ** 0.7, []),
        (lambda t: 1e-3 / (1 + t) ** 0.3, ["Σ ε_t² < ∞"]),
        (lambda t: 1e-3 / (1 + t) ** 1.5, ["Σ ε_t = ∞"]),
    ],
)
def test_step_sizes_are_checked(step_size, violated):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert gad.minibatch.check_step_sizes(step_size) == violated
        gad.sgld(step_size)
    messages = [str(warning.message) for warning in caught]
    assert len(messages) == 2 * len(violated)
    assert all(violated[0] in message for message in messages)


def test_a_schedule_is_followed_and_said():
    tree = run(sampler=gad.sgld(gad.minibatch.polynomial(1e-2, 5.0, 0.6)), num_warmup=10, num_draws=5)
    np.testing.assert_allclose(tree["sample_stats"]["step_size"][0], 1e-2 * (5.0 + np.arange(11, 16)) ** -0.6)
    assert "vanishes only as fast" in tree.attrs["bias"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: gad.sgld(0.0),
        lambda: gad.sghmc(1e-3, friction=1.0),
        lambda: gad.sghmc(1e-3, noise_estimate=0.1),
        lambda: gad.psgld(1e-3, decay=1.0),
        lambda: gad.psgld(1e-3, damping=-1.0),
        lambda: gad.sgnht(1e-3, friction=0.0),
        lambda: gad.minibatch.polynomial(-1.0),
    ],
)
def test_settings_out_of_range(make):
    with pytest.raises(ValueError, match="must"):
        make()


# the preconditioner


def test_the_drift_of_the_preconditioner_is_its_derivative():
    """Γ against finite differences of P in one dimension, where random signs square to one."""
    target = gad.Target(lambda x: jnp.sum(-0.25 * x**4 + jnp.sin(x)))
    kernel = PreconditionedLangevin(
        gad.minibatch.constant(1.0), *map(jnp.asarray, (0.9, 1e-3)), jnp.zeros(1), jnp.asarray(False)
    )
    x, V = jnp.array([0.7]), jnp.array([0.3])
    P = lambda x: 1 / (1e-3 + jnp.sqrt(0.9 * V + 0.1 * jax.grad(target.log_density)(x) ** 2))
    expected = (P(x + 1e-6) - P(x - 1e-6)) / 2e-6
    with_drift = PreconditionedLangevin(
        kernel.step_size, kernel.decay, kernel.damping, kernel.squares, kernel.frozen, drift=True
    )
    moves = [k.move(jax.random.key(0), jnp.asarray(0.5), target.at(x, 1), V, target)[0] for k in (kernel, with_drift)]
    np.testing.assert_allclose(moves[1] - moves[0], 0.25 * expected, rtol=1e-6)


def test_the_preconditioner_rests_after_warmup_unless_told_otherwise():
    frozen = run(sampler=gad.psgld(1e-3), num_warmup=50)
    assert np.all(frozen["learned"]["squares"].values > 0)
    assert bool(frozen["learned"]["squares"].notnull().all())
    moving = run(sampler=gad.psgld(1e-3, freeze=False), num_warmup=50)
    assert "biases them however small" in moving.attrs["bias"]
    assert not moving["learned"]["squares"].values.any()


def test_unadjusted_samplers_adapt_nothing_else():
    assert gad.sgld(1e-3).adaptation == NoAdaptation()


# the predictive


def test_predictive_averages_probabilities():
    draws = np.random.default_rng(0).normal(size=(2, 150, 3))
    each = -0.5 * (Y - np.einsum("cdj,ij->cdi", draws, X)) ** 2
    expected = np.log(np.exp(each).mean((0, 1)))
    for at_once in (1, 64, 1_000):
        found = gad.predictive(log_likelihood, draws, ROWS, draws_at_once=at_once)
        np.testing.assert_allclose(found, expected, rtol=1e-10)
    probability = gad.predictive(lambda w, rows: jax.nn.sigmoid(rows["x"] @ w), draws, ROWS, log=False)
    np.testing.assert_allclose(probability, (1 / (1 + np.exp(-np.einsum("cdj,ij->cdi", draws, X)))).mean((0, 1)))
    named = gad.predictive(lambda p, rows: log_likelihood(p["w"], rows), {"w": draws}, ROWS)
    np.testing.assert_allclose(named, expected, rtol=1e-10)


def test_predictive_of_a_result_in_blocks_of_rows(monkeypatch):
    monkeypatch.setattr(sys.modules["gadabout.api.predictive"], "ROWS", 7)
    tree = run()
    expected = np.log(np.exp(-0.5 * (Y - np.einsum("cdj,ij->cdi", bits(tree), X)) ** 2).mean((0, 1)))
    np.testing.assert_allclose(gad.predictive(log_likelihood, tree, ROWS), expected, rtol=1e-10)


def test_predictive_does_not_underflow_in_float32():
    with jax.enable_x64(False):
        shift = lambda w, rows: log_likelihood(w, rows) - 1_000.0
        found = gad.predictive(shift, np.zeros((1, 200, 3)), ROWS)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, -0.5 * Y**2 - 1_000, rtol=1e-5)


def test_predictive_names_bad_arguments():
    with pytest.raises(ValueError, match="leading axes"):
        gad.predictive(log_likelihood, np.zeros(3), ROWS)
    with pytest.raises(ValueError, match="no draw"):
        gad.predictive(log_likelihood, np.zeros((1, 0, 3)), ROWS)
    with pytest.raises(ValueError, match="share a leading axis"):
        gad.predictive(log_likelihood, np.zeros((1, 2, 3)), {"x": X, "y": Y[:3]})
