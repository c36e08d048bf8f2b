"""JAX's persistent compilation cache, in a folder that is the user's own."""

import os
import stat
import sys
import warnings
from pathlib import Path

import jax

MOST_BYTES = 2**29
"""that the folder holds; what was not used for longest goes first"""
LEAST_SECONDS = 0.1
"""of compilation, for a program to be kept"""


def user_folder() -> Path:
    """$XDG_CACHE_HOME/gadabout/jax, with ~/.cache where there is no such variable."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gadabout" / "jax"


def check_own(folder: Path) -> None:
    """Makes a folder if need be; raises OSError unless it is the user's, and no one else's to write: it holds code."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise OSError(f"{str(folder)!r} is a symbolic link; remove it, or name a folder by JAX_COMPILATION_CACHE_DIR")
    if hasattr(os, "geteuid") and found.st_uid != os.geteuid():
        raise OSError(f"{str(folder)!r} belongs to another user; name a folder by JAX_COMPILATION_CACHE_DIR")
    if os.name == "posix" and found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise OSError(f"others may write to {str(folder)!r}; take that right from them: chmod go-w")


def keep_for_commands() -> None:
    """Has JAX keep what it compiles for later commands; one line on stderr where the folder is not the user's own.

    Nothing is set where JAX has a folder already, or where its cache is switched off.
    """
    if not jax.config.jax_enable_compilation_cache or jax.config.jax_compilation_cache_dir:
        return
    folder = user_folder()
    try:
        check_own(folder)
    except OSError as error:
        print(f"gadabout: compiled programs are not kept: {error}", file=sys.stderr)
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_compilation_cache_max_size", MOST_BYTES)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", LEAST_SECONDS)


def keep_programs(folder: str | os.PathLike | None = None) -> Path:
    """Deprecated: `jax.config.update("jax_compilation_cache_dir", folder)`, which is all it does.

    Args:
        folder: of JAX's persistent compilation cache; by default the one that JAX has, or one in the user's cache.

    Returns:
        The folder.
    """
    warnings.warn(
        'keep_programs goes in the next minor version: use jax.config.update("jax_compilation_cache_dir", folder)',
        DeprecationWarning,
        stacklevel=2,
    )
    path = Path(folder or jax.config.jax_compilation_cache_dir or user_folder()).expanduser()
    jax.config.update("jax_compilation_cache_dir", str(path))
    return path
