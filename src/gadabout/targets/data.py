"""The loader of data files: finds or downloads a file, and always verifies its checksum."""

import hashlib
import os
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from gadabout.files import whole_file


class DataError(RuntimeError):
    """A data file is damaged, or could not be downloaded."""


class DataFile(NamedTuple):
    """URL of a file, and its accepted sha256 checksums."""

    url: str
    checksums: tuple[str, ...]


_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
_RDATASETS = "https://vincentarelbundock.github.io/Rdatasets/csv/MASS"
_MNIST = "http://yann.lecun.com/exdb/mnist"

FILES = {
    "german.data-numeric": DataFile(
        f"{_UCI}/statlog/german/german.data-numeric",
        ("2752b044394958ab6dd193a0b56ca0f0b3a2d8bc7cb8c008e35a5e84bbec02f8",),
    ),
    "australian.dat": DataFile(
        f"{_UCI}/statlog/australian/australian.dat",
        ("3abe5af151afa50b999a9ba21cbc884e80d80a4050b716cf88b34a2e6ecb731c",),
    ),
    "heart.dat": DataFile(
        f"{_UCI}/statlog/heart/heart.dat", ("f5f3b4204c285bafadd85cb735f38b47689f2be7047feb172dcbeab648110bf9",)
    ),
    "Pima.tr.csv": DataFile(
        f"{_RDATASETS}/Pima.tr.csv", ("78e6284c75bf81eaae97815f7d0dd2992a119629ec6622de7918258311c32a7a",)
    ),
    "Pima.te.csv": DataFile(
        f"{_RDATASETS}/Pima.te.csv", ("b00bf6540cce6b6bc44ea65a149da3142b2039b37980dbcdf18d3750fc9db032",)
    ),
    "synth.tr": DataFile(
        "http://www.stats.ox.ac.uk/pub/PRNN/synth.tr",
        ("c0d3bbce9af4bfc22d5f225d903808e113638569b1751a4890feb02275005526",),
    ),
    "ticdata2000.txt": DataFile(
        f"{_UCI}/tic-mld/ticdata2000.txt",
        (
            "4e967da7c4d1759b9f2ddbd39aace45af6a6685a7a7ecd6febb161a60dd8fe0a",  # line ends LF
            "5d5bdca1be0b9a6c012b93a8c8104761201bd70f7e08764fa67f2cfb26243723",  # line ends CRLF
        ),
    ),
    "train-images-idx3-ubyte.gz": DataFile(
        f"{_MNIST}/train-images-idx3-ubyte.gz", ("440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",)
    ),
    "train-labels-idx1-ubyte.gz": DataFile(
        f"{_MNIST}/train-labels-idx1-ubyte.gz", ("3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",)
    ),
}


def optional_import(module: str) -> Any:
    """A module of the extra `cli`; raises ImportError with the command that installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(f'the built-in targets need {package}: pip install "gadabout[cli]"') from error


def data_folder(data_home: str | Path | None = None) -> Path:
    """The folder of data files: `data_home`, else the variable GADABOUT_DATA, else the user's cache."""
    home = data_home or os.environ.get("GADABOUT_DATA")
    return Path(home or optional_import("pooch").os_cache("gadabout")).expanduser()


def fetch(filename: str, data_home: str | Path | None = None) -> Path:
    """The path of a data file, downloaded if it is missing, and always verified by its sha256 checksum.

    An existing file is never written to. A download has a temporary name until it is verified. Raises ValueError for a
    file that is not in FILES, DataError if the checksum differs or the download fails.
    """
    if filename not in FILES:
        raise ValueError(f"filename must be one of {', '.join(FILES)}; got {filename!r}")
    path = data_folder(data_home) / filename
    if path.exists():
        got = _checksum(path)
        if got not in FILES[filename].checksums:
            raise DataError(
                f"data file {filename} at {path} is not the expected one: {_differs(got, filename)}; "
                f"move it away to have it downloaded, or put the original from {FILES[filename].url} in its place"
            )
    else:
        _download(filename, path)
    return path


def _download(filename: str, path: Path) -> None:
    """Downloads a registered file to `path`: under a temporary name in the same folder until it is verified."""
    pooch = optional_import("pooch")
    url = FILES[filename].url
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as partial:
            pooch.HTTPDownloader()(url, str(partial), None)
            got = _sha256(partial)
            if got not in FILES[filename].checksums:
                raise DataError(f"the download is not the expected file: {_differs(got, filename)}")
    except Exception as error:
        raise DataError(
            f"could not download data file {filename} from {url} ({error}); put the file into {path.parent}, "
            "or name the folder that holds it by data_home or the variable GADABOUT_DATA"
        ) from error


def _differs(got: str, filename: str) -> str:
    """Text with the checksum found and the accepted ones."""
    return f"its sha256 is {got}, expected {' or '.join(FILES[filename].checksums)}"


def _checksum(path: Path) -> str:
    """The sha256 of a file, computed once in a process unless its modification time or size changes."""
    state = path.stat()
    return _checksum_of(str(path), state.st_mtime_ns, state.st_size)


@lru_cache
def _checksum_of(path: str, mtime_ns: int, size: int) -> str:
    return _sha256(Path(path))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
