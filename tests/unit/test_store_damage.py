"""What is missing from a store, or damaged in it, is said; what is not the run's own is left alone."""

import json
import os
import shutil
import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

import gadabout as gad
from gadabout.api.status import status_of
from gadabout.cli.app import app
from gadabout.driver import CheckpointError
from gadabout.driver.chunk import ChunkLength
from gadabout.lab.verify.damage import Killed, killed_at
from gadabout.reporting.page import read
from gadabout.store import Manifest, StoreError, ZarrSink
from gadabout.store.arrays import Arrays
from gadabout.store.checkpoints import META, read_arrays, write_arrays

CALL = {"num_chains": 2, "num_warmup": 60, "num_draws": 130, "progress": False, "seed": 7}
KILLED_AT = 500
"""files after which the run is killed: in the midst of its draws"""
MALA = gad.gad_mala()


def density(x):
    return -0.5 * jnp.sum(x**2)


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    """A checkpoint before every piece of work, and pieces of at most seven iterations."""
    monkeypatch.setattr(ZarrSink, "due", lambda self: True)
    monkeypatch.setattr(ChunkLength, "SECONDS", 1e9)
    monkeypatch.setattr(ChunkLength, "LONGEST", 7)


def start(path=None, log_density=density, sampler=MALA, **more):
    return gad.sample(log_density, jnp.zeros(3), sampler=sampler, out=path, **(CALL | more))


def go_on(path, log_density=density, **more):
    return gad.resume(path, log_density, progress=False, **more)


def kill(path, count=KILLED_AT, **more):
    with killed_at(count), pytest.MonkeyPatch.context() as patch:
        patch.setattr(ZarrSink, "remove", lambda self: None)
        with pytest.raises(Killed):
            start(path, **more)


@cache
def left_alone():
    return np.asarray(start()["posterior"]["x"])


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    return tmp_path_factory.mktemp("stores")


@pytest.fixture
def killed(tmp_path, stores, quick_to_compile):
    """A store whose run was killed among its draws."""
    if not (stores / "killed.zarr").exists():
        kill(stores / "killed.zarr")
    return shutil.copytree(stores / "killed.zarr", tmp_path / "run.zarr")


@pytest.fixture
def ended(tmp_path, stores, quick_to_compile):
    """A store whose run has ended."""
    if not (stores / "ended.zarr").exists():
        start(stores / "ended.zarr")
    return shutil.copytree(stores / "ended.zarr", tmp_path / "ended.zarr")


READERS = {"resume": go_on, "status": status_of, "report": read}


def refused(path, *words):
    """Whether every reader of a store refuses it in one line with the words and the remedy."""
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    for name, reader in READERS.items():
        with pytest.raises(StoreError) as caught:
            reader(path)
        message = str(caught.value)
        assert all(word in message for word in (*words, "put a copy")), (name, message)
        assert "\n" not in message
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file() and file.name != "lock"} == {
        file: content for file, content in before.items() if file.name != "lock"
    }
    return True


def chunks(path):
    """The files of all chunks of the store, sorted."""
    return sorted(file for file in path.rglob("*") if file.is_file() and (file.name.isdecimal() or file.name == "c"))


# 1. chunks that are missing


@pytest.mark.parametrize(
    "array", ["posterior/x", "posterior/draw", "posterior/chain", "posterior/x_dim_0", "sample_stats/nonfinite",
              "sample_stats/lp", "warmup_posterior/x"],
)  # fmt: skip
def test_a_missing_chunk_is_refused(killed, array):
    """Those of zeros or False too, which Zarr would not write of itself."""
    (first, *_) = chunks(killed / array)
    first.unlink()
    assert refused(killed, array, "lacks 1 of its chunks", str(first.relative_to(killed / array)))


@pytest.mark.parametrize("folder", ["posterior", "sample_stats", "posterior/x", "posterior/x/c"])
def test_a_missing_folder_is_refused(killed, folder):
    shutil.rmtree(killed / folder)
    assert refused(killed, folder.removesuffix("/c"))


@pytest.mark.parametrize("array", ["posterior/x", "learned/mean", "diagnostics/rhat/x", "diagnostics/ess/x"])
def test_a_missing_chunk_of_a_run_that_has_ended_is_refused(ended, array):
    found = [file for file in chunks(ended) if str(file.relative_to(ended)).startswith(f"{array.split('/')[0]}/")]
    found[0].unlink()
    assert refused(ended, "lacks 1 of its chunks")


def test_draws_that_readers_do_not_see_yet_are_counted_too(tmp_path, monkeypatch):
    """Killed after a checkpoint and before its draws are shown: the checkpoint counts more than the root does."""
    path = tmp_path / "run.zarr"
    with monkeypatch.context() as patch:
        publish = Arrays.publish

        def dying(self):
            if self.rows.get("posterior"):
                raise Killed
            publish(self)

        patch.setattr(Arrays, "publish", dying)
        patch.setattr(ZarrSink, "remove", lambda self: None)
        with pytest.raises(Killed):
            start(path)
    assert "posterior" not in xr.open_datatree(path, engine="zarr")
    copied = shutil.copytree(path, tmp_path / "copy.zarr")
    chunks(path / "posterior/x")[0].unlink()
    with pytest.raises(StoreError, match="posterior/x lacks 1 of its chunks"):
        go_on(path)
    assert "posterior/x lacks" in status_of(path).obstacle
    np.testing.assert_array_equal(go_on(copied)["posterior"]["x"], left_alone())


@pytest.mark.parametrize("gone", ["posterior", "posterior/x/c", "sample_stats/lp"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_draws_removed_during_a_run_end_it(tmp_path, gone):
    path, removed = tmp_path / "run.zarr", []

    def remove(progress):
        if progress.stage == "sampling" and progress.done > 60 and not removed:
            removed.append(shutil.rmtree(path / gone))

    with pytest.raises(gad.RunStopped, match=f"could not be written: .*draws are gone.*{gone}"):
        start(path, callback=remove)
    assert removed
    assert refused(path, gone.removesuffix("/c"))


# 2. checksums


def flip(file, share):
    content = file.read_bytes()
    at = int(share * 8 * len(content))
    file.write_bytes(content[: at // 8] + bytes([content[at // 8] ^ 1 << at % 8]) + content[at // 8 + 1 :])


def test_a_flipped_bit_of_any_chunk_is_refused(killed, ended):
    """One of each array, anywhere in it; seed chosen once. CRC-32C finds all single bits: no false passes."""
    random = np.random.default_rng(20191208)
    for path in (killed, ended):
        for file in chunks(path):
            whole = file.read_bytes()
            flip(file, random.uniform())
            with pytest.raises(StoreError, match="does not match its checksum"):
                status_of(path)
            file.write_bytes(whole)
    assert status_of(ended).draws == 130


@pytest.mark.parametrize("array", ["posterior/x", "posterior/draw", "sample_stats/lp", "warmup_posterior/x"])
def test_every_reader_refuses_a_flipped_bit(killed, array):
    flip(chunks(killed / array)[0], 0.3)
    assert refused(killed, array, "does not match its checksum in 1 of its chunks")


@pytest.mark.parametrize("share", [0, 0.5, 0.99])
def test_a_chunk_that_was_cut_short_is_refused(killed, share):
    file = chunks(killed / "posterior/x")[0]
    os.truncate(file, int(share * file.stat().st_size))
    assert refused(killed, "posterior/x", "does not match its checksum")


def test_what_the_root_says_of_arrays_is_under_a_checksum(ended):
    """One row more, which would be NaN, or less; the same of the manifest."""
    root = (ended / "zarr.json").read_text()
    for other in (131, 129):
        (ended / "zarr.json").write_text(root.replace("130", str(other)))
        assert refused(ended, "zarr.json", "its checksum is another")
    (ended / "zarr.json").write_text(root[:-40])
    assert refused(ended, "zarr.json", "missing or damaged")


def test_the_manifest_is_under_a_checksum(killed):
    manifest = killed / ".gadabout" / "run.json"
    manifest.write_text(manifest.read_text().replace('"seed": 7', '"seed": 6'))
    assert refused(killed, "run.json", "its checksum is another")


def test_readers_elsewhere_meet_the_checksum_too(ended):
    flip(chunks(ended / "posterior/x")[0], 0.5)
    with pytest.raises(ValueError, match="checksum"):
        xr.open_datatree(ended, engine="zarr")["posterior"]["x"].load()


def test_a_damaged_file_of_a_node_is_mended(killed):
    """What readers are shown, under the root's checksum, stands in for it."""
    node = killed / "posterior" / "x" / "zarr.json"
    node.write_text(node.read_text().replace("NaN", "0.0"))
    (killed / "sample_stats" / "lp" / "zarr.json").write_text("{")
    np.testing.assert_array_equal(go_on(killed)["posterior"]["x"], left_alone())
    assert json.loads(node.read_text())["fill_value"] == "NaN"


def test_a_damaged_chunk_behind_the_last_checkpoint_is_dropped(killed):
    """It is made again."""
    late = killed / "posterior" / "x" / "c" / "0" / "1" / "0"
    late.parent.mkdir()
    late.write_bytes(b"a process was killed, the disk's cache was lost")
    np.testing.assert_array_equal(go_on(killed)["posterior"]["x"], left_alone())
    assert not late.exists()


# 3. files of others

FOREIGN = ("notes.txt", ".git/config", ".git/zarr.json.lock", "plots/trace.png", "posterior/notes.txt", ".hidden",
           "posterior/x/c/read.me", "learned/mine.csv", ".gadabout/why.md")  # fmt: skip


def test_foreign_files_are_left_alone(killed, ended):
    for path, more in ((killed, {}), (ended, {"num_draws": 140})):
        for name in FOREIGN:
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_text(f"mine: {name}")
        go_on(path, **more)
        assert [(path / name).read_text() for name in FOREIGN] == [f"mine: {name}" for name in FOREIGN]
        assert status_of(path).ending == "completed"


def test_groups_of_others_are_left_alone(ended):
    mine = xr.Dataset({"score": ("i", np.arange(3.0))})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Zarr, which lists the files that are not its own
        mine.to_zarr(ended, group="mine", mode="a", zarr_format=3)
    tree = go_on(ended, num_draws=140)
    assert tree["posterior"].sizes["draw"] == 140
    assert xr.open_dataset(ended, group="mine", engine="zarr")["score"].values.tolist() == [0, 1, 2]
    assert status_of(ended).draws == 140


def test_unfinished_files_are_removed(killed):
    ours = [
        killed / f".{'0f' * 16}.json",
        killed / ".gadabout" / f".{'a1' * 16}.npz",
        killed / "posterior/x/c/0/0.partial",
    ]
    for file in ours:
        file.write_text("half a")
    go_on(killed)
    assert not any(file.exists() for file in ours)


# 4. a store with checkpoints


@pytest.mark.parametrize("record", [["posterior"], ["lp"], None])
def test_an_exception_in_warmup_leaves_a_store_that_goes_on(tmp_path, record):
    path, calls = tmp_path / "run.zarr", []

    def failing(x):
        calls.append(x)
        if len(calls) > 400:
            raise RuntimeError("the disk of the model is gone")
        return -0.5 * x @ x, -x

    arguments = {"num_chains": 2, "num_warmup": 60, "num_draws": 30, "progress": False, "record": record}
    model = lambda function: gad.models.python(function, np.zeros(3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception, match="the disk of the model is gone"):
            gad.sample(model(failing), np.ones(3), out=path, **arguments)
        tree = gad.resume(path, model(lambda x: (-0.5 * x @ x, -x)), progress=False)
        expected = gad.sample(model(lambda x: (-0.5 * x @ x, -x)), np.ones(3), **arguments)
    group, name = ("posterior", "x") if record != ["lp"] else ("sample_stats", "lp")
    np.testing.assert_array_equal(tree[group][name], expected[group][name])


# 6, 7. the same model and the same keys


def far(scale):
    return lambda x: -1e6 - 0.5 * jnp.sum((x / scale) ** 2)


def bent(x):
    return -1e6 - 0.5 * jnp.sum(x**2) + 0.01 * jnp.sum(jnp.sin(x))


@pytest.mark.parametrize(
    "sampler", [MALA, gad.default(move="split-hmc"), gad.rwm()], ids=["gad-mala", "default", "rwm"]
)
def test_a_changed_prior_is_no_rounding(tmp_path, sampler):
    """A little wider, much wider, and bent; the store that was refused with them goes on with its own."""
    path = tmp_path / "run.zarr"
    kill(path, 100, log_density=far(1.0), sampler=sampler)
    for other in (far(1.05), far(2.0), bent):
        with pytest.raises(StoreError, match=r"logdensity: (it differs by|it is -1000|its derivative by x\[)"):
            go_on(path, other)
    go_on(path, far(1.0))


def test_a_gradient_of_its_own_is_compared(tmp_path):
    """The value is the same everywhere."""

    def with_gradient(factor):
        function = jax.custom_vjp(density)
        function.defvjp(lambda x: (density(x), x), lambda x, g: (-factor * g * x,))
        return lambda x: function(x)

    path = tmp_path / "run.zarr"
    kill(path, 100, log_density=with_gradient(1.0))
    with pytest.raises(StoreError, match=r"its derivative by x\[0\] is .* where chain 0 started, and was"):
        go_on(path, with_gradient(1.001))


def test_rounding_is_warned_of(tmp_path):
    path = tmp_path / "run.zarr"
    kill(path, 100, log_density=far(1.0))
    with pytest.warns(UserWarning, match="its values differ from the run's by rounding"):
        go_on(path, lambda x: -1e6 - 0.5 * jnp.sum(x[::-1] ** 2) * (1 + 4e-16))


@pytest.mark.parametrize(
    ("other", "name"),
    [(lambda: jax.threefry_partitionable(not jax.config.jax_threefry_partitionable), "jax_threefry_partitionable"),
     (lambda: jax.default_prng_impl("rbg"), "jax_default_prng_impl")],
)  # fmt: skip
def test_other_keys_are_refused(killed, other, name):
    with (
        other(),
        pytest.raises(StoreError, match=f"the run has {name}=.*, JAX is set to .*jax.config.update\\('{name}'"),
    ):
        go_on(killed)
    go_on(killed)


# 8. status


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def checkpoints(path):
    return sorted((path / ".gadabout").glob("checkpoint-*.npz"))


def test_status_advises_resume_only_where_it_goes_on(killed):
    assert f"it goes on by gadabout.resume({str(killed)!r}, logdensity)" in run("status", killed).stdout
    first, last = checkpoints(killed)
    last.write_bytes(b"")
    told = run("status", killed).stdout
    assert f"warning: {last.name} is damaged" in told
    assert "it goes on by" in told
    first.write_bytes(b"")
    told = run("status", killed).stdout
    assert "it cannot go on: " in told
    assert "it goes on by" not in told
    assert status_of(killed).obstacle.endswith("the run cannot go on; its draws can still be read")


def test_status_of_a_run_that_has_not_begun(tmp_path):
    path = tmp_path / "run.zarr"
    kill(path, 4)
    told = run("status", path)
    assert told.exit_code == 0, told.output
    assert "it cannot go on: " in told.stdout
    assert "start the run again" in told.stdout
    with pytest.raises(StoreError, match="was stopped before it began"):
        go_on(path)


def test_status_says_what_is_to_be_passed_again(killed):
    file = killed / ".gadabout" / "run.json"
    found = Manifest.read(file)
    replace(found, model=found.model | {"origin": {"target": "my file.py:f"}}).write(file)
    assert f"`gadabout resume {killed} --target 'my file.py:f'`" in run("status", killed).stdout
    replace(found, model=found.model | {"origin": {"target": "german"}}).write(file)
    assert f"`gadabout resume {killed}`" in run("status", killed).stdout
    replace(found, sampler=None).write(file)
    assert "logdensity, sampler)" in run("status", killed).stdout


ESCAPES = "\x1b[31mred\x1b]0;title\x07\x9b2J\r"


def test_control_characters_of_a_file_do_not_reach_the_terminal(killed):
    file, status = killed / ".gadabout" / "run.json", killed / ".gadabout" / "status.json"
    found = Manifest.read(file)
    replace(found, model=found.model | {"name": ESCAPES}).write(file)
    status.write_text(json.dumps(json.loads(status.read_text()) | {"stage": ESCAPES}))
    told = run("status", killed)
    assert told.exit_code == 0, told.output
    assert told.stdout.count("\\x1b[31mred\\x1b]0;title\\x07\\x9b2J\\r") == 2
    assert all(letter.isprintable() for line in told.stdout.split("\n") for letter in line)
    replace(found, model=found.model | {"origin": {"target": ESCAPES}}).write(file)
    error = run("resume", killed).stderr
    assert "TARGET" in error
    assert all(letter.isprintable() for letter in error.strip("\n"))


@pytest.mark.parametrize("content", ["", "[]", '{"stage": 3}', '{"stage": "a", "done": [], "total": 3, "seconds": 1}'])
def test_a_damaged_note_of_progress_is_left_out(killed, content):
    (killed / ".gadabout" / "status.json").write_text(content)
    assert status_of(killed).total == 0


# 9. sizes


def test_a_checkpoint_larger_than_the_run_makes_is_not_read(killed, monkeypatch):
    for file in checkpoints(killed):
        os.truncate(file, 2 * 2**30)  # a hole in a file takes no disk
    read_bytes = Path.read_bytes

    def small(self):
        assert self.stat().st_size < 2**30
        return read_bytes(self)

    monkeypatch.setattr(Path, "read_bytes", small)
    with pytest.raises(CheckpointError, match=r"has 2,147,483,\d+ bytes, those of the run at most 1,048,576"):
        go_on(killed)
    assert "2,147,483," in status_of(killed).obstacle


def test_starts_larger_than_the_run_makes_are_not_read(killed):
    os.truncate(killed / ".gadabout" / "start.npz", 2 * 2**30)
    with pytest.raises(CheckpointError, match=r"start.npz has 2,147,483,\d+ bytes"):
        go_on(killed)


@pytest.mark.parametrize(("group", "most"), [("posterior", 130), ("warmup_posterior", 60), ("sample_stats", 130)])
def test_more_draws_than_the_run_makes_are_not_believed(killed, group, most):
    for file in checkpoints(killed):
        arrays = read_arrays(file)
        plain = json.loads(bytes(arrays[META]))
        plain["rows"][group] = 10**9
        write_arrays(file, arrays | {META: np.frombuffer(json.dumps(plain).encode(), np.uint8)})
    with pytest.raises(CheckpointError, match=f"1,000,000,000 draws in '{group}', the run makes at most {most}"):
        go_on(killed)


def test_a_larger_checkpoint_of_the_run_is_believed(tmp_path):
    """θ of 25 chains with a matrix of 100² each: two megabytes, which the manifest does not allow for at first."""
    path, settings = tmp_path / "run.zarr", {"num_chains": 25, "num_warmup": 20, "num_draws": 20, "adapt": "per-chain"}
    call = {"init": jnp.zeros(100), "sampler": MALA, "progress": False, **settings}
    gad.sample(density, out=path, **call)
    assert max(file.stat().st_size for file in checkpoints(path)) > 2**20
    longer = go_on(path, num_draws=30)["posterior"]["x"]
    np.testing.assert_array_equal(longer[:, :20], gad.sample(density, **call)["posterior"]["x"])
