"""The loader of data files: nothing damaged is used, nothing present is changed, nothing half is left."""

import hashlib

import pytest

from gadabout.targets import data
from gadabout.targets.data import DataError, DataFile, data_folder, fetch

pooch = pytest.importorskip("pooch")
GOOD, ALSO_GOOD, WRONG = b"1 2 0\n3 4 1\n", b"1 2 0\r\n3 4 1\r\n", b"<html>moved</html>"


def sha256(content):
    return hashlib.sha256(content).hexdigest()


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """One file `rows.txt` with two accepted checksums; every download fails unless a test says otherwise."""
    file = DataFile("https://example.org/rows.txt", (sha256(GOOD), sha256(ALSO_GOOD)))
    monkeypatch.setattr(data, "FILES", {"rows.txt": file})
    serve(monkeypatch, ConnectionError("no network"))


def serve(monkeypatch, content):
    """Let every download write `content`, or write a part and raise where it is an exception."""

    class Downloader:
        def __call__(self, url, output_file, pooch):
            failure = isinstance(content, BaseException)
            with open(output_file, "wb") as file:
                file.write(b"part" if failure else content)
            if failure:
                raise content

    monkeypatch.setattr(pooch, "HTTPDownloader", Downloader)


@pytest.mark.parametrize("content", [GOOD, ALSO_GOOD])
def test_a_present_file_of_any_accepted_checksum(tmp_path, content):
    (tmp_path / "rows.txt").write_bytes(content)
    assert fetch("rows.txt", tmp_path) == tmp_path / "rows.txt"
    assert fetch("rows.txt", str(tmp_path)).read_bytes() == content


def test_a_damaged_file_is_named_and_left_alone(tmp_path):
    path = tmp_path / "rows.txt"
    path.write_bytes(WRONG)
    with pytest.raises(DataError) as error:
        fetch("rows.txt", tmp_path)
    for part in (str(path), sha256(WRONG), sha256(GOOD), sha256(ALSO_GOOD), "https://example.org/rows.txt"):
        assert part in str(error.value)
    assert path.read_bytes() == WRONG
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_changes_is_verified_anew(tmp_path):
    path = tmp_path / "rows.txt"
    path.write_bytes(GOOD)
    fetch("rows.txt", tmp_path)
    path.write_bytes(WRONG)
    with pytest.raises(DataError):
        fetch("rows.txt", tmp_path)


def test_a_good_download_takes_its_name(monkeypatch, tmp_path):
    serve(monkeypatch, ALSO_GOOD)
    home = tmp_path / "new" / "home"
    assert fetch("rows.txt", home).read_bytes() == ALSO_GOOD
    assert [path.name for path in home.iterdir()] == ["rows.txt"]


@pytest.mark.parametrize("content", [WRONG, OSError("disk full"), ConnectionError("no network")], ids=str)
def test_a_failed_download_leaves_nothing(monkeypatch, tmp_path, content):
    serve(monkeypatch, content)
    with pytest.raises(DataError) as error:
        fetch("rows.txt", tmp_path)
    for part in ("rows.txt", "https://example.org/rows.txt", str(tmp_path), "GADABOUT_DATA", "data_home"):
        assert part in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_download_leaves_nothing(monkeypatch, tmp_path):
    serve(monkeypatch, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        fetch("rows.txt", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_data_home_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DataError, match="GADABOUT_DATA"):
        fetch("rows.txt", tmp_path / "file")


def test_where_the_data_home_is(monkeypatch, tmp_path):
    monkeypatch.setenv("GADABOUT_DATA", str(tmp_path / "variable"))
    assert data_folder(tmp_path / "argument") == tmp_path / "argument"
    assert data_folder() == tmp_path / "variable"
    monkeypatch.delenv("GADABOUT_DATA")
    assert data_folder() == pooch.os_cache("gadabout")


def test_an_unknown_file_is_named():
    with pytest.raises(ValueError, match=r"filename must be one of rows\.txt; got 'nothing'"):
        fetch("nothing")


def test_a_missing_library_names_the_extra():
    with pytest.raises(ImportError, match=r'no_such_library: pip install "gadabout\[cli\]"'):
        data.optional_import("no_such_library.module")
