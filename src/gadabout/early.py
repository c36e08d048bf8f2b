"""What a command ran the last time is loaded while Python imports all that runs it.

XLA takes a quarter of a second of a processor to load the programs of a run; Python takes longer than that to import
what runs them, and keeps one core busy. So a command begins with the programs that it asked for when it ran last,
whatever the numbers among its arguments were, and what asks for one by its name finds it. This module imports nothing
that takes a while.
"""

import atexit
import hashlib
import os
import pickle
import re
import sys
import zlib
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from gadabout.garbage import uncollected

MOST = 32
"""programs that a command begins with: more than one run has"""

_begun: dict[str, Future] = {}
_asked: list[str] = []


def folder_of(folder: str | os.PathLike | None = None) -> Path:
    """Where programs are kept: a folder, or that of JAX's own cache, or the user's."""
    import jax

    return Path(folder or jax.config.jax_compilation_cache_dir or user_folder()).expanduser()


def user_folder() -> Path:
    """Where programs are kept if nobody says where: $XDG_CACHE_HOME/gadabout/programs, ~/.cache for the variable."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gadabout" / "programs"


@cache
def begin() -> None:
    """Loads, in threads, what the same command asked for the last time, and notes at the end what it asked for now.

    Once in a process. JAX has its devices from then on, and LAPACK is not looked for: what runs a program has to.
    """
    with uncollected():
        import jax  # noqa: F401  (what is imported stays)
    programs = folder_of() / "gadabout"
    told = programs / command(sys.argv)
    with suppress(OSError):
        names = told.read_text().split()[:MOST]
        threads = ThreadPoolExecutor(max(1, (os.cpu_count() or 1) - 1), "gadabout-early")  # one core imports
        _begun.update({name: threads.submit(executable, programs / name) for name in names})
        threads.shutdown(wait=False)
    atexit.register(_note, told)


def command(words: Iterable[str]) -> str:
    """The name of the list of what a command asks for; all commands that differ in numbers alone have the same."""
    return "command-" + hashlib.sha256(re.sub(r"\d+", "", "\0".join(words)).encode()).hexdigest()


def begun(name: str) -> Future | None:
    """The program that is kept under a name, where it was begun with; it is handed out once.

    The name goes on the list of what the command asked for.
    """
    if len(_asked) < MOST and name not in _asked:
        _asked.append(name)
    return _begun.pop(name, None)


def read(path: Path) -> Any:
    """What a file holds that is kept, whose last use is now; raises whatever the disk, zlib and pickle say of it."""
    kept = pickle.loads(zlib.decompress(path.read_bytes()))
    os.utime(path)
    return kept


def executable(path: Path) -> tuple[Any, bytes]:
    """A program that was kept, and the form of its results as it was written down."""
    import jax
    from jax.experimental.serialize_executable import deserialize_and_load

    program, taken, given, form = read(path)
    trees = jax.tree.structure(taken), jax.tree.structure(given)
    return deserialize_and_load(program, *trees, execution_devices=jax.devices()[:1]), form


def _note(told: Path) -> None:
    """Writes down what was asked for, if it is not what is there."""
    from gadabout.files import whole_file

    text = "\n".join(_asked)
    with suppress(OSError):
        if text and not (told.exists() and told.read_text() == text):
            with whole_file(told, lasting=False) as partial:
                partial.write_text(text)
