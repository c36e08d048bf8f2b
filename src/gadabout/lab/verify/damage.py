"""Truncated, changed or foreign checkpoints and draws are refused, and a full disk loses no draws."""

import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from gadabout.algorithms import gad_mala
from gadabout.api import RunStopped, resume, sample
from gadabout.api.status import status_of
from gadabout.driver import CheckpointError
from gadabout.lab.verify.frame import Figure, Found, Item, Parts
from gadabout.lab.verify.same_bits import in_chunks
from gadabout.store import StoreError, ZarrSink
from gadabout.store.checkpoints import read_arrays, write_arrays

CALL = {"num_chains": 2, "num_warmup": 60, "num_draws": 130, "progress": False, "seed": 7}
FILES = 500
"""number of the file before whose renaming the run is killed, in the midst of its draws"""


class Killed(BaseException):
    """Simulates the end of the process."""


@contextmanager
def killed_at(count: int) -> Iterator[list]:
    """Raises `Killed` before the `count`-th file in the block is renamed to its name; yields the list of names."""
    seen, replace = [], os.replace

    def dying(source, target, **kwargs):
        seen.append(target)
        if len(seen) == count:
            raise Killed
        return replace(source, target, **kwargs)

    with mock.patch.object(os, "replace", dying), mock.patch.object(Path, "replace", lambda a, b: dying(a, b)):
        yield seen


def density(x: jax.Array) -> jax.Array:
    """N(0, I)."""
    return -0.5 * jnp.sum(x**2)


def start(path: Path | None = None) -> np.ndarray:
    """Makes the run, stored at `path` if that is given, and returns its draws."""
    with warnings.catch_warnings(), in_chunks(7), mock.patch.object(ZarrSink, "due", return_value=True):
        warnings.simplefilter("ignore")
        tree = sample(density, jnp.zeros(3), sampler=gad_mala(), out=path, **CALL)
    return np.asarray(tree["posterior"]["x"])


def go_on(path: Path) -> np.ndarray:
    """Resumes the run at `path` and returns its draws."""
    with warnings.catch_warnings(), in_chunks(7), mock.patch.object(ZarrSink, "due", return_value=True):
        warnings.simplefilter("ignore")
        return np.asarray(resume(path, density, progress=False)["posterior"]["x"])


def killed(path: Path) -> None:
    """Writes a store as a killed process leaves it; raises RuntimeError if the run ends before."""
    with killed_at(FILES) as seen:
        try:
            start(path)
        except Killed:
            return
    raise RuntimeError(f"the run wrote {len(seen)} files only")


def foreign(content: bytes, folder: Path) -> bytes:
    """The checkpoint `content` in the format of another version, with a correct checksum."""
    path = folder / "foreign.npz"
    path.write_bytes(content)
    arrays = read_arrays(path)
    plain = json.loads(bytes(arrays["meta"]))
    plain["checkpoint"] = json.dumps(json.loads(plain["checkpoint"]) | {"format": 99})
    write_arrays(path, arrays | {"meta": np.frombuffer(json.dumps(plain).encode(), np.uint8)})
    content = path.read_bytes()
    path.unlink()
    return content


def damages(count: int) -> dict[str, Callable[[bytes, Path], bytes]]:
    """Functions that damage a file's content, by description."""
    random = np.random.default_rng(20191208)
    ways: dict[str, Callable[[bytes, Path], bytes]] = {
        "empty": lambda content, folder: b"",
        "of another version": foreign,
        "random bytes": lambda content, folder: random.bytes(len(content)),
    }
    for share in random.uniform(size=count):
        ways[f"cut after {share:.1%}"] = lambda content, folder, share=share: content[: int(share * len(content))]
    for share in random.uniform(size=count):

        def flip(content, folder, share=share):
            at = int(share * len(content))
            return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]

        ways[f"a bit changed at {share:.1%}"] = flip
    return ways


def _damaged(count: int) -> dict[str, list[str]]:
    """Damages that were not handled, of the newest checkpoint ("one") and of both ("both")."""
    wrong: dict[str, list[str]] = {"one": [], "both": []}
    expected = start()
    with tempfile.TemporaryDirectory(prefix="gadabout-damage-") as name:
        folder = Path(name)
        killed(folder / "run.zarr")
        for what, damage in damages(count).items():
            for which in ("one", "both"):
                path = folder / "copy.zarr"
                shutil.copytree(folder / "run.zarr", path)
                files = sorted((path / ".gadabout").glob("checkpoint-*.npz"))
                for file in files if which == "both" else files[-1:]:
                    file.write_bytes(damage(file.read_bytes(), folder))
                try:
                    right = np.array_equal(go_on(path), expected) and which == "one"
                except CheckpointError as error:
                    right = which == "both" and "the run cannot go on" in str(error)
                if not right:
                    wrong[which].append(what)
                shutil.rmtree(path)
    return wrong


def damages_of_chunks(count: int) -> Iterator[tuple[str, Callable[[Path], None]]]:
    """Yields descriptions and functions that damage the draws of a store: flipped bits, truncated and deleted files."""
    random = np.random.default_rng(20200312)
    for kind in ("flipped", "cut", "deleted"):
        for which, share in random.uniform(size=(count, 2)):

            def damage(path, kind=kind, which=which, share=share):
                files = sorted(file for file in path.glob("*/*/c/**/*") if file.is_file())
                file = files[int(which * len(files))]
                content, at = file.read_bytes(), int(share * file.stat().st_size)
                after = bytes([content[at] ^ 1]) + content[at + 1 :] if kind == "flipped" else b""
                file.unlink()
                if kind != "deleted":
                    file.write_bytes(content[:at] + after)

            yield f"{kind} at {which:.1%}, {share:.1%}", damage


def _damaged_draws(count: int) -> list[str]:
    """Damages to draws that `resume` or `status` did not refuse."""
    passed = []
    with tempfile.TemporaryDirectory(prefix="gadabout-draws-") as name:
        folder = Path(name)
        killed(folder / "run.zarr")
        for what, damage in damages_of_chunks(count):
            path = folder / "copy.zarr"
            shutil.copytree(folder / "run.zarr", path)
            damage(path)
            for reader in (go_on, status_of):
                try:
                    reader(path)
                    passed.append(f"{what} ({reader.__name__})")
                except StoreError as error:
                    if "put a copy of the store in its place" not in str(error):
                        passed.append(f"{what}: {error}")
            shutil.rmtree(path)
    return passed


FOREIGN = ("notes.txt", ".git/config", ".hidden", "posterior/notes.txt", "posterior/x/c/read.me", ".gadabout/why.md")
"""files in the folder of a store that do not belong to it"""


def _foreign_files() -> list[str]:
    """Files of others that a resumed run removed or changed; "draws" comes first if its draws differ."""
    with tempfile.TemporaryDirectory(prefix="gadabout-foreign-") as name:
        path = Path(name) / "run.zarr"
        killed(path)
        for file in FOREIGN:
            (path / file).parent.mkdir(parents=True, exist_ok=True)
            (path / file).write_text(file, encoding="utf-8")
        wrong = [] if np.array_equal(go_on(path), start()) else ["draws"]
        there = lambda file: (path / file).is_file() and (path / file).read_text(encoding="utf-8") == file
        return wrong + [file for file in FOREIGN if not there(file)]


def _full_disk(count: int) -> list[str]:
    """Failed runs on `count` disks of different sizes that fill up: no error is raised, or draws differ."""
    expected, wrong = start(), []
    opening = Path.open
    with tempfile.TemporaryDirectory(prefix="gadabout-full-") as name:
        for i, writes in enumerate(np.linspace(30, 600, count).astype(int)):
            path, left = Path(name) / f"{i}.zarr", [int(writes)]

            def full(self, mode="r", *args, path=path, left=left, **kwargs) -> Any:
                if "w" in mode and str(self).startswith(str(path)):
                    left[0] -= 1
                    if left[0] < 0:
                        raise OSError(28, "No space left on device")
                return opening(self, mode, *args, **kwargs)

            try:
                with mock.patch.object(Path, "open", full):
                    start(path)
                wrong.append(f"{writes} files: no error")
            except RunStopped as error:
                kept = np.asarray(error.result["posterior"]["x"])
                if not np.array_equal(kept, expected[:, : kept.shape[1]]) or not np.array_equal(go_on(path), expected):
                    wrong.append(f"{writes} files")
    return wrong


def _found(full: bool, store: Parts) -> Found:
    count, disks = (20, 20) if full else (2, 2)
    wrong = store.part("damage", {"count": count, "call": CALL}, lambda: _damaged(count))
    lost = store.part("full-disk", {"count": disks, "call": CALL}, lambda: _full_disk(disks))
    passed = store.part("draws", {"count": count, "call": CALL}, lambda: _damaged_draws(count))
    removed = store.part("foreign", {"files": FOREIGN, "call": CALL}, _foreign_files)
    ways, readings = len(damages(count)), 2 * len(list(damages_of_chunks(count)))
    right = lambda bad, of: f"{of - len(bad)} of {of}"
    figures = [
        Figure("the newest is damaged: the one before is used, to the same bits", right(wrong["one"], ways), "all",
               not wrong["one"], "; ".join(wrong["one"])),
        Figure("both are damaged: refused in one line", right(wrong["both"], ways), "all", not wrong["both"],
               "; ".join(wrong["both"])),
        Figure("draws flipped, cut short or deleted: `resume` and `status` refuse", right(passed, readings), "all",
               not passed, "; ".join(passed)),
        Figure("files of others in the folder: left alone", right(removed, len(FOREIGN)), "all", not removed,
               "; ".join(removed)),
        Figure("the disk fills up: draws kept, and the run goes on to the same bits", right(lost, disks), "all",
               not lost, "; ".join(lost)),
    ]  # fmt: skip
    refused, fallen = figures[1].value, figures[0].value
    return Found(
        figures,
        f"damaged checkpoints: {fallen} passed over, {refused} refused; damaged draws: {figures[2].value} refused; "
        f"full disks: {figures[-1].value}",
    )


DAMAGE = Item(
    "damage",
    "Damaged checkpoints and draws, and disks that fill up",
    "a run that goes on from half a checkpoint, or from another version's; draws that are not those that were made; "
    "draws lost where they cannot be written; files of others removed",
    _found,
)
