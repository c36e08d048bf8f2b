"""Densities that a host function evaluates, without compiled programs."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import jax
import numpy as np

from gadabout.density.base import AbstractDensity
from gadabout.density.host import HostDensity, Rows
from gadabout.layout import Layout


class RowsDensity(AbstractDensity):
    """log π by a host function of rows; errors of the function are raised unchanged.

    Args:
        rows: function of float64 rows (m, n) that returns log π (m,) and its gradient (m, n).
        dim: number n of coordinates of a position.
        value_rows: function of the same rows that returns log π alone; by default `rows`, whose gradients are dropped.
        order: columns of a position in the order in which the functions take them; by default unchanged.
        differentiable: False if the gradients that `rows` returns are invalid; `value_and_grad` then raises TypeError.
    """

    def __init__(
        self,
        rows: Rows,
        dim: int,
        value_rows: Callable[[np.ndarray], np.ndarray] | None = None,
        order: np.ndarray | None = None,
        differentiable: bool = True,
    ):
        super().__init__(dim)
        self._both, self._differentiable = rows, differentiable
        self._values = (lambda x: rows(x)[0]) if value_rows is None else value_rows
        self._order = np.arange(dim) if order is None else order

    def _value(self, x):
        return np.asarray(self._values(x[:, self._order]), np.float64)

    def _value_and_grad(self, x):
        if not self._differentiable:
            raise TypeError("the log density has no gradient; use a sampler that needs none, such as gad.rwm()")
        values, slopes = self._both(x[:, self._order])
        gradients = np.empty_like(x)
        gradients[:, self._order] = slopes
        return np.array(values, np.float64), gradients


def rows_density(host: HostDensity, dim: int, layout: Layout | None) -> RowsDensity:
    """The density of flat positions of a layout without transforms; coordinates stand in the layout's order."""
    order = None
    if layout is not None:
        position = layout.position(layout.split(np.arange(float(dim))))
        leaves = jax.tree.leaves(position) if host.names is None else [position[name] for name in host.names]
        order = np.concatenate([np.ravel(leaf) for leaf in leaves]).astype(int)
    return RowsDensity(host.rows, dim, host.value_rows, order, host.differentiable)


class InThreads:
    """`Rows` from a function of one position (n,) that releases Python's lock, such as a call of BridgeStan.

    Rows are divided among threads; results keep their order. An error of the function is raised with a note of its row.

    Args:
        function: returns log π and its gradient (n,), or None for the gradient where the density is zero.
        threads: maximum number of threads; by default one for each core.
    """

    def __init__(self, function: Callable[[np.ndarray], tuple[Any, Any]], threads: int | None = None):
        self.function, self.threads = function, threads or os.cpu_count() or 1

    def __call__(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values, gradients = np.empty(len(x)), np.zeros(x.shape)

        def fill(part):
            for i in part:
                try:
                    values[i], gradient = self.function(x[i])
                except Exception as error:
                    error.add_note(f"log density of row {i}: {x[i]}")
                    raise
                if gradient is not None:
                    gradients[i] = gradient

        parts = np.array_split(np.arange(len(x)), max(min(self.threads, len(x)), 1))
        for _ in map(fill, parts) if len(parts) == 1 else self._pool.map(fill, parts):
            pass
        return values, gradients

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.threads, "gadabout-rows")
