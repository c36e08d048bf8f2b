"""A stored run can be read at any moment, goes on from wherever it was stopped, and believes nothing damaged."""

import json
import os
import shutil
import signal
from dataclasses import replace
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import xarray as xr

import gadabout as gad
from gadabout.driver import CheckpointError
from gadabout.driver.chunk import ChunkLength
from gadabout.lab.verify.damage import Killed, killed_at
from gadabout.layout import layout_of
from gadabout.store import Manifest, StoreError, ZarrSink, layout_from_json, layout_to_json
from gadabout.store.checkpoints import read_arrays, write_arrays

GROUPS = ("posterior", "sample_stats", "warmup_posterior", "warmup_sample_stats", "learned", "diagnostics/rhat")


def normal(x):
    return -0.5 * jnp.sum(x**2)


def scaled(x, data):
    return -0.5 * jnp.sum((x["a"] / data["sd"]) ** 2) - 0.5 * jnp.sum((x["b"] - 1) ** 2)


INIT = {"a": jnp.zeros(3), "b": jnp.zeros((2, 2))}
DATA = {"sd": np.array([1.0, 2.0, 3.0])}
NAMED = {"init": INIT, "data": DATA, "dims": {"a": ["school"]}, "coords": {"school": ["u", "v", "w"]}}
QUICK = {"num_chains": 2, "num_warmup": 60, "num_draws": 130, "progress": False, "seed": 7}
MALA = gad.gad_mala()


def same(a: xr.DataTree, b: xr.DataTree) -> None:
    """Raises where two results differ by a bit."""
    for group in GROUPS:
        assert (group in a) == (group in b), group
        if group in a:
            left, right = a[group].to_dataset(), b[group].to_dataset()
            assert set(left.variables) == set(right.variables)
            for name, values in left.variables.items():
                np.testing.assert_array_equal(values.values, right[name].values, err_msg=f"{group}/{name}")


@cache
def left_alone():
    return gad.sample(scaled, sampler=MALA, **NAMED, **QUICK)


@pytest.fixture
def whole(quick_to_compile):
    """The run that nobody stopped, compiled as tests are."""
    return left_alone()


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    """A checkpoint before every piece of work, and pieces of at most seven iterations."""
    monkeypatch.setattr(ZarrSink, "due", lambda self: True)
    monkeypatch.setattr(ChunkLength, "SECONDS", 1e9)
    monkeypatch.setattr(ChunkLength, "LONGEST", 7)


def test_a_stored_run_is_the_run(tmp_path, whole):
    tree = gad.sample(scaled, sampler=MALA, out=tmp_path / "run.zarr", **NAMED, **QUICK)
    same(tree, whole)
    back = xr.open_datatree(tmp_path / "run.zarr", engine="zarr")
    same(back, whole)
    assert back["posterior"]["a"].dims == ("chain", "draw", "school")
    assert back["posterior"]["school"].values.tolist() == ["u", "v", "w"]
    volatile = {"created_at", "seconds_compile", "seconds_warmup", "seconds_sampling", "seconds_total"}
    for name in whole.attrs.keys() - volatile - {"findings"}:
        assert back.attrs[name] == tree.attrs[name] == whole.attrs[name], name
    assert back.attrs["findings"] == tree.attrs["findings"]


def dead(monkeypatch, path, count, run) -> bool:
    """Whether a run was killed at a file; nothing that would have tidied up after it was done."""
    with monkeypatch.context() as patch, killed_at(count):
        patch.setattr(ZarrSink, "remove", lambda self: None)
        try:
            run()
        except Killed:
            return True
    return False


@pytest.mark.parametrize("sampler", ["gad-mala", "default"])
def test_killed_at_any_file_it_goes_on_to_the_same_bits(tmp_path, monkeypatch, sampler):
    """One file in 331 of the run: of draws, of their arrays, of checkpoints, of what readers go by."""
    sampler = MALA if sampler == "gad-mala" else gad.default(move="split-hmc")
    expected = gad.sample(scaled, sampler=sampler, **NAMED, **QUICK)
    path, killed = tmp_path / "run.zarr", 0
    start = lambda: gad.sample(scaled, sampler=sampler, out=path, **NAMED, **QUICK)
    for count in range(7, 2_000, 331):
        shutil.rmtree(path, ignore_errors=True)
        if not dead(monkeypatch, path, count, start):
            break
        killed += 1
        if dead(monkeypatch, path, 9, lambda: gad.resume(path, scaled, data=DATA, progress=False)):
            same(gad.resume(path, scaled, data=DATA, progress=False), expected)
    assert killed >= 3
    assert path.exists()


def test_at_any_moment_readers_see_whole_draws(tmp_path, monkeypatch, whole):
    """After one file in seven of the run the store is opened; what is seen are the first draws of the run."""
    path, lengths, files, replace = tmp_path / "run.zarr", [], [], os.replace

    def looked_at(source, target, **kwargs):
        replace(source, target, **kwargs)
        files.append(target)
        if (path / "zarr.json").exists() and len(files) % 7 == 0:
            tree = xr.open_datatree(path, engine="zarr")
            draws = tree["posterior"]["a"].values if "posterior" in tree.children else np.empty((2, 0, 3))
            np.testing.assert_array_equal(draws, whole["posterior"]["a"].values[:, : draws.shape[1]])
            lengths.append(draws.shape[1])

    monkeypatch.setattr(os, "replace", looked_at)
    monkeypatch.setattr(Path, "replace", lambda self, target: looked_at(self, target))
    gad.sample(scaled, sampler=MALA, out=path, **NAMED, **QUICK)
    assert lengths == sorted(lengths)
    assert len(set(lengths)) > 5
    assert lengths[-1] == 130


@pytest.mark.filterwarnings("ignore:no draws were made")
@pytest.mark.parametrize("at", [30, 100])
def test_an_interrupted_run_goes_on(tmp_path, whole, at):
    pressed = []

    def interrupt(progress):  # once: a second one, a second later, ends the process
        if progress.done + (60 if progress.stage == "sampling" else 0) >= at and not pressed:
            pressed.append(progress)
            os.kill(os.getpid(), signal.SIGINT)

    path = tmp_path / "run.zarr"
    with pytest.warns(UserWarning, match="interrupted"):
        tree = gad.sample(scaled, sampler=MALA, out=path, callback=interrupt, **NAMED, **QUICK)
    assert tree.attrs["ending"] == "interrupted"
    same(gad.resume(path, scaled, data=DATA, progress=False), whole)


@pytest.mark.parametrize(
    ("sampler", "draws"),
    [(MALA, 131), (gad.default(move="independence"), 200)]
    + [pytest.param(*more, marks=pytest.mark.long) for more in ((MALA, 200), (gad.default(move="independence"), 131))],
    ids=["gad-mala-131", "default-200", "gad-mala-200", "default-131"],
)
def test_a_finished_run_goes_on_to_more_draws(tmp_path, sampler, draws):
    """By one and by many, of a recipe and of the default."""
    path, settings = tmp_path / "run.zarr", {"sampler": sampler, **NAMED, **QUICK}
    gad.sample(scaled, out=path, **settings)
    done = gad.resume(path)
    assert done["posterior"].sizes["draw"] == 130
    longer = gad.resume(path, scaled, data=DATA, num_draws=draws, progress=False)
    same(longer, gad.sample(scaled, **(settings | {"num_draws": draws})))
    assert longer.attrs["num_draws"] == draws


def test_a_rule_that_was_met_is_left_behind(tmp_path):
    until = gad.Until(ess=1, every=50)
    tree = gad.sample(scaled, sampler=MALA, until=until, out=tmp_path / "run.zarr", **NAMED, **QUICK)
    assert (tree.attrs["ending"], tree["posterior"].sizes["draw"]) == ("satisfied", 50)
    longer = gad.resume(tmp_path / "run.zarr", scaled, data=DATA, num_draws=80, progress=False)
    assert (longer.attrs["ending"], longer["posterior"].sizes["draw"]) == ("completed", 80)


def test_a_warm_start_goes_on(tmp_path, monkeypatch, whole):
    arguments = {"sampler": MALA, "data": DATA, "warm_start": whole, **QUICK}
    expected = gad.sample(scaled, INIT, **arguments)
    path = tmp_path / "run.zarr"
    assert dead(monkeypatch, path, 150, lambda: gad.sample(scaled, INIT, out=path, **arguments))
    tree = gad.resume(path, scaled, data=DATA, progress=False)
    for name in ("a", "b"):
        np.testing.assert_array_equal(tree["posterior"][name].values, expected["posterior"][name].values)


def two_modes(x):
    return jnp.logaddexp(-0.5 * jnp.sum((x - 4) ** 2), -0.5 * jnp.sum((x + 4) ** 2))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("count", [7, *(pytest.param(n, marks=pytest.mark.long) for n in (9, 11))])
def test_starts_that_were_drawn_are_still_so_after_a_kill_before_the_descent(tmp_path, monkeypatch, count):
    """Other modes are looked for from such starts alone; both modes must be found again, on the same bits."""
    settings = {"num_chains": 4, "num_warmup": 60, "num_draws": 50, "progress": False}
    expected = gad.sample(two_modes, jnp.full(2, 2.0), **settings)
    assert expected.attrs["choice"]["started_elsewhere"] > 0
    path = tmp_path / "run.zarr"
    assert dead(monkeypatch, path, count, lambda: gad.sample(two_modes, jnp.full(2, 2.0), out=path, **settings))
    tree = gad.resume(path, two_modes, progress=False)
    assert tree.attrs["choice"] == expected.attrs["choice"]
    np.testing.assert_array_equal(tree["posterior"]["x"].values, expected["posterior"]["x"].values)


def funnel(x):
    return -(x[0] ** 2) / 18 - x[0] - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-x[0])


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("log_density", "known"), [(funnel, "coordinates"), (two_modes, "modes")])
def test_killed_with_layers_or_a_mixture_it_goes_on_to_the_same_bits(tmp_path, monkeypatch, log_density, known):
    """Before and after they are learned, and among the draws."""
    settings = {"init": jnp.full(3, 2.0), "num_chains": 4, "num_warmup": 60, "num_draws": 60, "progress": False}
    expected, path, killed = gad.sample(log_density, **settings), tmp_path / "run.zarr", 0
    assert known in expected.attrs["choice"]
    for count in (20, 150, 300):
        shutil.rmtree(path, ignore_errors=True)
        killed += dead(monkeypatch, path, count, lambda: gad.sample(log_density, out=path, **settings))
        tree = gad.resume(path, log_density, progress=False)
        same(tree, expected)
        assert tree.attrs["choice"] == expected.attrs["choice"]
        same(xr.open_datatree(path, engine="zarr"), expected)
    assert killed == 3


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("stores") / "stopped.zarr"


@pytest.fixture
def stopped(tmp_path, store, monkeypatch, quick_to_compile):
    """A store whose run was killed among its draws."""
    if not store.exists():
        assert dead(monkeypatch, store, 700, lambda: gad.sample(scaled, sampler=MALA, out=store, **NAMED, **QUICK))
    return shutil.copytree(store, tmp_path / "run.zarr")


def test_another_density_is_refused(stopped):
    other = lambda x, data: scaled(x, data) - jnp.sum(x["a"] ** 2)
    with pytest.raises(StoreError, match=r"logdensity: it is .* where chain 0 started"):
        gad.resume(stopped, other, data=DATA)
    with pytest.raises(StoreError, match="logdensity: a store cannot hold"):
        gad.resume(stopped)


def test_other_data_are_refused(stopped):
    with pytest.raises(StoreError, match="data: they are not those of the run"):
        gad.resume(stopped, scaled, data={"sd": np.array([1.0, 2.0, 3.5])})


@pytest.mark.parametrize(
    ("other", "message"), [(gad.nuts(), "the run's is 'gad-mala', got 'nuts'"), (gad.gad_mala("exact"), "kernel.exact")]
)
def test_another_sampler_is_refused(stopped, other, message):
    with pytest.raises(StoreError, match=message):
        gad.resume(stopped, scaled, other, DATA)


def test_a_custom_optimiser_is_passed_again(tmp_path, monkeypatch):
    path, made = tmp_path / "run.zarr", gad.gad_mala(optimiser=optax.adam(1e-3))
    settings = {"sampler": made, **QUICK}
    assert dead(monkeypatch, path, 100, lambda: gad.sample(normal, jnp.zeros(2), out=path, **settings))
    with pytest.raises(StoreError, match="sampler: 'gad-mala' was made of objects"):
        gad.resume(path, normal)
    tree = gad.resume(path, normal, made, progress=False)
    expected = gad.sample(normal, jnp.zeros(2), **settings)
    np.testing.assert_array_equal(tree["posterior"]["x"].values, expected["posterior"]["x"].values)


def test_fewer_draws_than_were_made_are_refused(tmp_path):
    gad.sample(scaled, sampler=MALA, out=tmp_path / "run.zarr", **NAMED, **QUICK)
    with pytest.raises(ValueError, match="num_draws must be at least the 130 draws"):
        gad.resume(tmp_path / "run.zarr", scaled, data=DATA, num_draws=100)


def test_what_is_no_stored_run_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no store"):
        gad.resume(tmp_path / "nothing.zarr")
    (tmp_path / "other.zarr").mkdir()
    with pytest.raises(StoreError, match="is no stored run of gadabout"):
        gad.resume(tmp_path / "other.zarr")


def test_another_float_type_is_refused(stopped):
    with jax.enable_x64(False), pytest.raises(StoreError, match="the run is in float64, JAX is set to float32"):
        gad.resume(stopped, scaled, data=DATA)


def test_other_versions_are_warned_of(stopped, whole):
    manifest = stopped / ".gadabout" / "run.json"
    found = Manifest.read(manifest)
    replace(found, versions=found.versions | {"jax": "0.1"}).write(manifest)
    with pytest.warns(UserWarning, match=r"other versions, so that bits may differ: jax was '0.1'"):
        same(gad.resume(stopped, scaled, data=DATA, progress=False), whole)


def test_one_writer_at_a_time(stopped):
    sink = ZarrSink(stopped, {}, {})
    with pytest.raises(StoreError, match="is being written by another run"):
        gad.resume(stopped, scaled, data=DATA)
    sink.close()
    gad.resume(stopped, scaled, data=DATA, progress=False)


def checkpoints(path):
    return sorted((path / ".gadabout").glob("checkpoint-*.npz"))


def cut(content):
    return content[: len(content) // 2]


def flipped(content):
    return content[:-40] + bytes([content[-40] ^ 1]) + content[-39:]


def emptied(content):
    return b""


def not_a_checkpoint(content):
    return b"no checkpoint at all"


DAMAGES = [cut, flipped, emptied, not_a_checkpoint]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_not_believed(stopped, whole, damage):
    """The one before it is; where both are damaged the run is refused, and its draws can still be read."""
    first, last = checkpoints(stopped)
    last.write_bytes(damage(last.read_bytes()))
    copied = stopped.with_name("copy.zarr")
    shutil.copytree(stopped, copied)
    with pytest.warns(UserWarning, match=f"{last.name} is damaged.* goes on from the one before, {first.name}"):
        same(gad.resume(stopped, scaled, data=DATA, progress=False), whole)
    (first, last) = checkpoints(copied)
    first.write_bytes(damage(first.read_bytes()))
    with pytest.raises(CheckpointError, match="the run cannot go on; its draws can still be read"):
        gad.resume(copied, scaled, data=DATA)
    seen = xr.open_datatree(copied, engine="zarr")["posterior"]["a"].values
    np.testing.assert_array_equal(seen, whole["posterior"]["a"].values[:, : seen.shape[1]])
    assert seen.shape[1] > 0


def test_a_checkpoint_of_another_format_is_refused(stopped):
    for path in checkpoints(stopped):
        arrays = read_arrays(path)
        plain = json.loads(bytes(arrays["meta"]))
        plain["checkpoint"] = plain["checkpoint"].replace('"format": 2', '"format": 99')
        write_arrays(path, arrays | {"meta": np.frombuffer(json.dumps(plain).encode(), np.uint8)})
    with pytest.raises(CheckpointError, match="the format 99, this version reads 2"):
        gad.resume(stopped, scaled, data=DATA)


def test_a_manifest_of_another_format_is_refused(stopped):
    manifest = stopped / ".gadabout" / "run.json"
    manifest.write_text(manifest.read_text().replace('"format": 2', '"format": 1'))
    with pytest.raises(
        StoreError, match="has the format 1, this version of gadabout reads 2: use the version that made"
    ):
        gad.resume(stopped, scaled, data=DATA)
    manifest.write_text("{")
    with pytest.raises(StoreError, match="is damaged"):
        gad.resume(stopped, scaled, data=DATA)


def test_a_full_disk_loses_nothing(tmp_path, monkeypatch, whole):
    path, write = tmp_path / "run.zarr", Path.open
    room = [2_000_000]

    def full(self, mode="r", *args, **kwargs):
        if "w" in mode and str(self).startswith(str(path)):
            room[0] -= 4_000
            if room[0] < 0:
                raise OSError(28, "No space left on device")
        return write(self, mode, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", full)
        with pytest.raises(gad.RunStopped, match=r"could not be written: .*No space left") as caught:
            gad.sample(scaled, sampler=MALA, out=path, **NAMED, **QUICK)
    seen = xr.open_datatree(path, engine="zarr")["posterior"].sizes["draw"]
    assert caught.value.result["posterior"].sizes["draw"] == seen
    same(gad.resume(path, scaled, data=DATA, progress=False), whole)


def test_a_run_that_does_not_fit_on_the_disk_is_refused(tmp_path):
    with pytest.raises(OSError, match=r"the draws need about .* of disk, of which .* are free: use thinning"):
        gad.sample(normal, jnp.zeros(2), sampler=MALA, out=tmp_path / "run.zarr", **(QUICK | {"num_draws": 10**13}))
    assert not (tmp_path / "run.zarr").exists()


def test_nothing_is_left_of_a_run_that_never_began(tmp_path):
    with pytest.raises(ValueError, match="logdensity"):
        gad.sample(lambda x: jnp.nan * x[0], jnp.zeros(2), sampler=MALA, out=tmp_path / "run.zarr", **QUICK)
    assert list(tmp_path.iterdir()) == []


def test_nothing_in_a_store_is_code(stopped):
    kinds = {path.suffix for path in stopped.rglob("*") if path.is_file()}
    assert kinds <= {".json", ".npz", ".partial", ""}
    for path in checkpoints(stopped):
        assert all(array.dtype != object for array in read_arrays(path).values())


@pytest.mark.parametrize(
    "position", [jnp.zeros(3), {"a": jnp.zeros(()), "b": {"c": jnp.ones((2, 3))}}, (jnp.zeros(2), [jnp.ones(1)])]
)
def test_layouts_come_back(position):
    layout = layout_of(position)
    assert layout_from_json(json.loads(json.dumps(layout_to_json(layout)))) == layout


def test_variables_keep_their_order_in_a_store(tmp_path):
    path = tmp_path / "run.zarr"
    density = lambda v: -0.5 * (v["c"] ** 2 + v["a"] ** 2 + jnp.sum(v["b"] ** 2))
    init = {"c": 0.0, "a": 0.0, "b": jnp.zeros(2)}
    sampler = gad.default(move="split-hmc")
    gad.sample(density, init, sampler=sampler, out=path, num_chains=2, num_warmup=5, num_draws=20, progress=False)
    assert list(xr.open_datatree(path, engine="zarr")["posterior"].data_vars) == ["c", "a", "b"]
    tree = gad.resume(path, density, num_draws=30, progress=False)
    assert list(tree["posterior"].data_vars) == ["c", "a", "b"]
    assert list(xr.open_datatree(path, engine="zarr")["diagnostics/rhat"].data_vars) == ["c", "a", "b"]
