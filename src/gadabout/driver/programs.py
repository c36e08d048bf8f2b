"""How the programs of a run are compiled."""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
from jax.core import Tracer

QUICK = {"xla_backend_optimization_level": 1}
"""On a CPU, LLVM's first level takes half the time of its third, and most programs run as fast: their loops are XLA's.

(German, 16 chains, split HMC with independence proposals: 3.3 s of processor time in place of 6.8, 9.6 µs a draw in
place of 9.7. A single chain of gadMALA on Neal, 5 to 7 µs an iteration, loses up to a tenth.)
"""
LONG_WARMUP = 5_000
"""iterations of warm-up from which on a run is better served by programs that are compiled with all optimisations"""


def program(function: Callable | None = None, *, donate: Any = "none") -> Callable:
    """`equinox.filter_jit` with these options on a CPU, unless JAX is told to leave most optimisations away."""
    if function is None:
        return functools.partial(program, donate=donate)

    @functools.cache
    def compiled(quick: bool) -> Callable:
        return eqx.filter_jit(function, donate=donate, **({"compiler_options": QUICK} if quick else {}))

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((arguments, named))):
            return function(*arguments, **named)  # a part of another program, or of one that is only traced
        return compiled(_quick())(*arguments, **named)

    call.optimised = compiled(False)  # pyright: ignore
    call.lower = lambda *arguments, **named: compiled(_quick()).lower(*arguments, **named)  # pyright: ignore
    return call


def _quick() -> bool:
    return jax.default_backend() == "cpu" and not jax.config.read("jax_disable_most_optimizations")
