"""Executables that are remembered by what they compute, not by the function that they were compiled from.

A function is traced anew each time: globals, attributes, closures and arrays changed in place count as they are now. If
the lowered program is the same as before in this process, its executable is returned and nothing is compiled. A program
is known by a digest of

- its whole StableHLO text, unused arguments kept, and the bytes of each constant of the traced jaxpr: JAX puts most of
  them into the text, but may pass them beside it as arguments (`jax_use_simplified_jaxpr_constants`);
- types, weak types, shardings, devices and tree structures of arguments and results;
- the compiler's options and all settings of JAX.

Programs that call back to the host hold a number where they mean a function: they are never remembered.
"""

import itertools
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from hashlib import blake2b
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal  # pyright: ignore[reportPrivateImportUsage]
from jax.sharding import AbstractMesh, Mesh, Sharding
from jax.stages import Compiled, Lowered, Traced

MOST = 256
"""executables that are remembered; those that were used last"""
TRANSCENDENTAL = 10.0
"""operations that an exponential or a logarithm is counted for"""
QUICK = {"xla_backend_optimization_level": 1, "xla_cpu_prefer_vector_width": 512}
"""On a CPU, LLVM's first level takes half the time of its third, and most programs run as fast: their loops are XLA's.

A single chain of gadMALA on Neal, 5 to 7 µs an iteration, loses up to a tenth. Vectors of 512 bits where the processor
has them: 16 rows of gradients take 93 µs in place of 119 (ripley), 60 of 69 (heart), 130 of 137 (german).
"""
NEVER = ("callback", "CustomSPMDPartitioning")
"""what the text of a program has that refers to an object of this process by its number"""

_remembered: OrderedDict[Any, Future] = OrderedDict()
_editions: OrderedDict[Any, int] = OrderedDict()
_lock = threading.Lock()
_compilations = 0
_anew = jax.make_user_context()
"""a part of the key of JAX's caches of traces, where jitted functions and bodies of loops are known by identity"""
_numbers = itertools.count(1)


class Executable:
    """A compiled function of arrays; a call may be made in any thread, whatever precision JAX has there."""

    def __init__(self, compiled: Compiled):
        self._compiled, self._x64 = compiled, jax.config.jax_enable_x64

    def __call__(self, *arguments: Any) -> Any:
        if jax.config.jax_enable_x64 == self._x64:
            return self._compiled(*arguments)
        with jax.enable_x64(self._x64):
            return self._compiled(*arguments)


def compiled(function: Callable, *specs: Any, options: Mapping[str, Any] | None = None) -> Executable:
    """The executable of a function of arrays, for arguments like these.

    Args:
        function: called once, with tracers.
        specs: pytrees of arrays or `jax.ShapeDtypeStruct`, whose shardings are respected.
        options: of the compiler.
    """
    return side_by_side((function, *specs), options=options)[0].result()


def side_by_side(*programs: tuple, options: Mapping[str, Any] | None = None) -> list[Future[Executable]]:
    """The executables of several (function, *specs), traced here one after another and compiled in threads.

    What a function raises while it is traced is raised here; what the compiler raises, by the future.
    """
    with _anew(next(_numbers)):
        return [_begin(function, specs, dict(options or {})) for function, *specs in programs]


def edition(function: Callable, *arguments: Any) -> int:
    """A number of what a function computes now: that of the last time if its program is the same, else a new one.

    Args:
        function: called with tracers in place of arrays; what it raises is raised. It may be a pytree, whose arrays are
            arguments too.
        arguments: pytrees; values of their arrays, or `jax.ShapeDtypeStruct` in their place, make no difference.
    """
    arrays, rest = eqx.partition((function, arguments), is_array)

    def call(arrays):
        function, arguments = eqx.combine(arrays, rest)
        return [leaf for leaf in jax.tree.leaves(function(*arguments)) if eqx.is_array(leaf)]

    with _anew(next(_numbers)):
        traced, lowered = _lowered(call, (arrays,))
        key, new = _key(traced, lowered, (arrays,), {}), next(_numbers)
    with _lock:
        number = new if key is None else _editions.pop(key, new)
        if key is not None:
            _editions[key] = number
        if len(_editions) > MOST:
            _editions.popitem(last=False)
    return number


def new_edition() -> int:
    """A number that no other edition has."""
    return next(_numbers)


def traced_as(edition: int | None) -> AbstractContextManager:
    """What is traced within has caches of its own: jitted functions and bodies of loops are traced once an edition.

    With None JAX's caches are those of the caller.
    """
    return nullcontext() if edition is None else _anew(edition)


def count() -> int:
    """Compilations that this process began."""
    return _compilations


def forget() -> None:
    """Drops all executables."""
    with _lock:
        _remembered.clear()


def operations(function: Callable, *arguments: Any) -> float:
    """Operations on floating-point numbers that a call takes, by XLA's count before it compiles; bodies of loops once.

    An exponential and its like are `TRANSCENDENTAL` of them. What runs outside of XLA is not counted.
    """
    found = uncompiled(function, *arguments).cost_analysis() or {}
    return found.get("flops", 0.0) + TRANSCENDENTAL * found.get("transcendentals", 0.0)


def uncompiled(function: Callable, *arguments: Any) -> Lowered:
    """A function lowered for a processor, where there is one: XLA's clients for other devices count no operations.

    Args:
        function: of pytrees; what it returns beside arrays is dropped.
        arguments: arrays, or `jax.ShapeDtypeStruct` in their place, and anything else.
    """
    arrays, rest = eqx.partition(arguments, is_array)
    call = lambda arrays: eqx.filter(function(*eqx.combine(arrays, rest)), eqx.is_array)
    with _on_a_processor():
        return jax.jit(call).lower(jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), arrays))


def _on_a_processor() -> AbstractContextManager:
    if jax.default_backend() == "cpu":
        return nullcontext()
    try:
        return jax.default_device(jax.local_devices(backend="cpu")[0])
    except RuntimeError:  # JAX knows of no processor
        return nullcontext()


def is_array(leaf: Any) -> bool:
    """Whether a leaf is an array, or has the shape and type of one."""
    return eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)


def _begin(function: Callable, specs: list, options: dict[str, Any]) -> Future[Executable]:
    """The executable's future, which other calls with the same program share."""
    global _compilations

    traced, lowered = _lowered(function, specs)
    key, x64 = _key(traced, lowered, specs, options), jax.config.jax_enable_x64

    def compile_it() -> Executable:
        with jax.enable_x64(x64):
            return Executable(lowered.compile(options or None))

    with _lock:
        future = None if key is None else _remembered.pop(key, None)
        if future is None or (future.done() and future.exception()):
            _compilations += 1
            future = _threads().submit(compile_it)
        if key is not None:
            _remembered[key] = future
        if len(_remembered) > MOST:
            _remembered.popitem(last=False)
    return future


def _lowered(function: Callable, specs: Iterable) -> tuple[Traced, Lowered]:
    """A function traced, and lowered with the arguments that it does not use."""

    def program(*arguments):
        return function(*arguments)

    traced = jax.jit(program, keep_unused=True).trace(*specs)
    return traced, traced.lower()


def _key(traced: Traced, lowered: Lowered, specs: Iterable, options: dict[str, Any]) -> Any:
    """What a program is known by; None where it has parts that have no bytes."""
    text = lowered.as_text()
    if any(word in text for word in NEVER):
        return None
    placed = [(getattr(s, "sharding", None), getattr(s, "committed", None)) for s in jax.tree.leaves(specs)]
    trees = lowered.in_tree, lowered.out_tree
    avals = tuple((a.shape, str(a.dtype), a.weak_type) for a in jax.tree.leaves((traced.in_avals, traced.out_avals)))
    try:
        parts = blake2b(text.encode()).digest(), *_parts(traced.jaxpr, set()), tuple(placed), trees, avals
        key = *parts, tuple(sorted(options.items())), _settings()
        hash(key)
    except Exception:  # whatever an object without bytes or hash raises
        return None
    return key


def _parts(jaxpr: Any, known: set[int]) -> Iterator[Any]:
    """Digests of the constants of a jaxpr and of those within it, and the devices that it names."""
    if id(jaxpr) in known:
        return
    known.add(id(jaxpr))
    if isinstance(jaxpr, ClosedJaxpr):
        yield from map(_digest, jaxpr.consts)
        jaxpr = jaxpr.jaxpr
    for equation in jaxpr.eqns:
        if "callback" in equation.primitive.name or equation.primitive.name == "ffi_call":
            raise TypeError("a call of a function of this process")
        yield from (_digest(atom.val) for atom in equation.invars if isinstance(atom, Literal))
        yield from _within(list(equation.params.values()), known)
    yield from (_digest(atom.val) for atom in jaxpr.outvars if isinstance(atom, Literal))


def _within(value: Any, known: set[int]) -> Iterator[Any]:
    """The parts of what an equation has as a parameter."""
    if isinstance(value, ClosedJaxpr | Jaxpr):
        yield from _parts(value, known)
    elif isinstance(value, Mesh | AbstractMesh | Sharding | jax.Device):
        yield value
    elif isinstance(value, tuple | list):
        for each in value:
            yield from _within(each, known)


def _digest(constant: Any) -> Any:
    """A constant's bytes, type, shape and place; TypeError where what it holds may change or has no bytes."""
    if not isinstance(jax.typeof(constant), ShapedArray):
        raise TypeError("a reference")
    placed = constant.sharding if isinstance(constant, jax.Array) else None
    if jnp.issubdtype(jax.typeof(constant).dtype, jax.dtypes.extended):
        constant = jax.random.key_data(constant)
    array = np.ascontiguousarray(constant)
    if array.dtype.hasobject:
        raise TypeError("an array of objects")
    return blake2b(array.tobytes()).digest(), str(array.dtype), array.shape, placed


def _settings() -> tuple:
    """All settings of JAX as they are in this thread."""
    return tuple((name, repr(getattr(jax.config, name, value))) for name, value in jax.config.values.items())


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(2, os.cpu_count() or 1), "gadabout-compile")
