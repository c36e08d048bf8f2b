"""JAX's persistent compilation cache, in a folder that belongs to the user."""

import os
import stat
import sys
import warnings
from pathlib import Path

import jax

MOST_BYTES = 2**29
"""largest size of the folder, in bytes; the programs unused for longest are removed first"""
LEAST_SECONDS = 0.1
"""shortest compilation time, in seconds, of a program that is stored"""


def user_folder() -> Path:
    """$XDG_CACHE_HOME/gadabout/jax, or ~/.cache/gadabout/jax if the variable is not set."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gadabout" / "jax"


def check_own(folder: Path) -> None:
    """Creates a missing folder; raises OSError unless only its owner, the user, can write to it: it holds code."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise OSError(f"{str(folder)!r} is a symbolic link; remove it, or name a folder by JAX_COMPILATION_CACHE_DIR")
    if hasattr(os, "geteuid") and found.st_uid != os.geteuid():
        raise OSError(f"{str(folder)!r} belongs to another user; name a folder by JAX_COMPILATION_CACHE_DIR")
    if os.name == "posix" and found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise OSError(f"others may write to {str(folder)!r}; take that right from them: chmod go-w")


def keep_for_commands() -> None:
    """Makes JAX store compiled programs for later commands; prints to stderr if the folder is not the user's own.

    Changes nothing if JAX already has a cache folder, or if its cache is disabled.
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
    """Deprecated: use `jax.config.update("jax_compilation_cache_dir", folder)`; this function does nothing else.

    Args:
        folder: folder of JAX's persistent compilation cache; by default JAX's present one, or one in the user's cache.

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
