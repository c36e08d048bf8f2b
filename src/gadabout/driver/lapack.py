"""The BLAS and LAPACK that XLA calls on a processor: those of SciPy, without the rest of it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

import jax
import jax.numpy as jnp

WANTED = ("scipy.linalg.cython_blas", "scipy.linalg.cython_lapack")
"""what JAX asks for"""


@cache
def find_lapack() -> None:
    """Has JAX find SciPy's LAPACK, as it does when it lowers what calls it; a program that was loaded crashes else.

    JAX imports two modules for it. That their package comes along takes a tenth of a second.
    """
    with _without_their_package():
        jax.jit(jax.lax.linalg.cholesky).lower(jax.ShapeDtypeStruct((1, 1), jnp.result_type(float)))


@contextmanager
def _without_their_package() -> Iterator[None]:
    """The two modules are there by themselves meanwhile: who imports `scipy.linalg` later finds all as it should be."""
    added = []
    try:
        if "scipy.linalg" not in sys.modules:
            with suppress(Exception):  # a SciPy that is built otherwise: JAX imports what it wants
                for name in WANTED:
                    _import_alone(name)
                    added.append(name)
        yield
    finally:
        for name in added:
            sys.modules.pop(name, None)


def _import_alone(name: str) -> None:
    scipy = import_module("scipy")
    spec = PathFinder.find_spec(name, [str(Path(folder) / "linalg") for folder in scipy.__path__])
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[name] = module
