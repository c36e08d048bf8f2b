"""Files and folders are written whole or not at all, over regular files only, and JSON is strict."""

import json
import os
import socket
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from gadabout import files
from gadabout.files import check_replaceable, json_value, whole_file, write_json, write_text

NAN, INF = float("nan"), float("inf")


def link(path):
    (path.parent / "elsewhere").write_text("old")
    path.symlink_to("elsewhere")


def listen(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


OBSTACLES = {
    "a symbolic link": link,
    "a symbolic link that leads nowhere": lambda path: path.symlink_to("nowhere"),
    "a symbolic link to a folder": lambda path: path.symlink_to(path.parent, target_is_directory=True),
    "a folder": lambda path: path.mkdir(),
    "a pipe": os.mkfifo,
    "a socket": listen,
}


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def full(*_):
    raise OSError(28, "No space left on device")


def test_a_file_appears_with_its_contents_and_the_suffix_of_its_name(tmp_path):
    path = tmp_path / "a.json"
    with whole_file(path) as partial:
        assert (partial.parent, partial.suffix) == (tmp_path, ".json")
        partial.write_text("new")
        assert not path.exists()
    assert path.read_text() == "new"
    assert names(tmp_path) == ["a.json"]


def test_a_regular_file_is_replaced(tmp_path):
    (tmp_path / "a").write_text("old")
    write_text(tmp_path / "a", "new: ∇ log π")
    assert (tmp_path / "a").read_bytes() == "new: ∇ log π".encode()
    assert names(tmp_path) == ["a"]


def test_contents_reach_the_disk_before_the_name(tmp_path, monkeypatch):
    events = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda descriptor: (events.append("fsync"), fsync(descriptor)))
    monkeypatch.setattr(os, "replace", lambda *paths: (events.append("name"), replace(*paths)))
    write_text(tmp_path / "a", "new")
    assert events == ["fsync", "name", "fsync"]


@pytest.mark.parametrize("error", [OSError("disk full"), ValueError("a bug"), KeyboardInterrupt()], ids=repr)
def test_a_failing_block_leaves_nothing(error, tmp_path):
    def write():
        with whole_file(tmp_path / "a") as partial:
            partial.write_text("half")
            raise error

    with pytest.raises(type(error)):
        write()
    assert names(tmp_path) == []


@pytest.mark.parametrize("where", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file(where, tmp_path, monkeypatch):
    write_text(tmp_path / "a", "old")
    monkeypatch.setattr(os, where, full)
    with pytest.raises(OSError, match="No space left"):
        write_text(tmp_path / "a", "new")
    assert (tmp_path / "a").read_text() == "old"
    assert names(tmp_path) == ["a"]


def test_a_block_that_writes_nothing_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError), whole_file(tmp_path / "a"):
        pass
    assert names(tmp_path) == []


@pytest.mark.parametrize("kind", OBSTACLES)
def test_what_is_no_regular_file_is_refused_before_the_block(kind, tmp_path):
    OBSTACLES[kind](tmp_path / "a")
    before, mode = names(tmp_path), os.lstat(tmp_path / "a")
    with pytest.raises(FileExistsError, match=rf"a' is {kind.partition(' that')[0].partition(' to')[0]}, which is not"):
        write_text(tmp_path / "a", "new")
    assert (names(tmp_path), os.lstat(tmp_path / "a")) == (before, mode)
    if kind == "a symbolic link":
        assert (tmp_path / "elsewhere").read_text() == "old"


@pytest.mark.parametrize("kind", OBSTACLES)
def test_what_came_up_during_the_block_is_not_replaced(kind, tmp_path):
    def write():
        with whole_file(tmp_path / "a") as partial:
            partial.write_text("new")
            OBSTACLES[kind](tmp_path / "a")

    with pytest.raises(FileExistsError, match="is not replaced"):
        write()
    assert names(tmp_path) == sorted({"a", *(["elsewhere"] if kind == "a symbolic link" else [])})


@pytest.mark.parametrize("device", ["/dev/null", "/dev/full"])
def test_devices_are_refused(device):
    before = os.lstat(device)
    with pytest.raises(FileExistsError, match="is a device, which is not replaced; choose the name of a file"):
        check_replaceable(Path(device))
    with pytest.raises(FileExistsError, match="is a device"):
        write_json(Path(device), {})
    assert os.lstat(device).st_rdev == before.st_rdev


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float32(0.5), 0.5),
        (np.float64(NAN), None),
        (np.longdouble(0.5), 0.5),
        (jnp.bfloat16(0.5), 0.5),
        (jnp.asarray(INF), None),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.str_("a"), "a"),
        (True, True),
        (None, None),
        (-INF, None),
        (10**30, 10**30),
        ((1, (2, NAN)), [1, [2, None]]),
        (np.array([[1.0, NAN], [2.0, INF]]), [[1.0, None], [2.0, None]]),
        (np.array([0.5, NAN], np.longdouble), [0.5, None]),
        (np.arange(2), [0, 1]),
        (np.array(["a", "b"]), ["a", "b"]),
        ({np.int64(1): {"b": [np.float32(NAN)]}}, {1: {"b": [None]}}),
        ({}, {}),
    ],
    ids=repr,
)
def test_values_of_json(value, expected):
    found = json_value(value)
    assert found == expected
    assert type(found) is type(expected)
    assert "NaN" not in json.dumps(found, allow_nan=False)


def test_json_is_written_to_a_file_or_to_standard_output(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_json(Path("-"), {"a": np.float64(NAN)})
    assert capsys.readouterr().out == '{\n  "a": null\n}\n'
    assert names(tmp_path) == []
    write_json(Path("a.json"), {"a": NAN})
    assert (tmp_path / "a.json").read_text() == '{\n  "a": null\n}\n'


def test_what_json_has_no_word_for_writes_nothing(tmp_path):
    with pytest.raises(TypeError, match="set"):
        files.write_json(tmp_path / "a.json", {"a": {1, 2}})
    assert names(tmp_path) == []
