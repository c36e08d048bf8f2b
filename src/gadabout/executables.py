"""A cache of executables by the program that they compute, not by the function that they were compiled from.

A function is traced anew at each request, with the present values of globals, attributes, closures and arrays that are
changed in place. If the lowered program equals an earlier one of this process, the earlier executable is returned and
nothing is compiled. The key of a program is a digest of

- its whole StableHLO text, with unused arguments, and the bytes of each constant of the traced jaxpr: JAX puts most
  constants into the text, but may pass them as arguments instead (`jax_use_simplified_jaxpr_constants`);
- types, weak types, shardings, devices and tree structures of arguments and results;
- the compiler's options and all settings of JAX.

The text of a program that calls back to the host has a number in place of the function: it is never cached.
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
"""most executables, and most editions, in the cache; the least recently used are dropped"""
TRANSCENDENTAL = 10.0
"""operations that one exponential or logarithm counts for"""
QUICK = {"xla_backend_optimization_level": 1, "xla_cpu_prefer_vector_width": 512}
"""Options on a CPU. LLVM's level 1 takes half the time of level 3; most programs run as fast: XLA makes their loops.

A single chain of gadMALA on Neal, 5 to 7 µs an iteration, is up to a tenth slower. Vectors of 512 bits, where the
processor has them, speed up 16 rows of gradients: 93 µs instead of 119 (ripley), 60 of 69 (heart), 130 of 137 (german).
"""
NEVER = ("callback", "CustomSPMDPartitioning")
"""words in the text of a program that refers to an object of this process by its number"""

_remembered: OrderedDict[Any, Future] = OrderedDict()
_editions: OrderedDict[Any, int] = OrderedDict()
_lock = threading.Lock()
_compilations = 0
_anew = jax.make_user_context()
"""a part of the key of JAX's trace caches, which identify jitted functions and loop bodies by object identity"""
_numbers = itertools.count(1)


class Executable:
    """A compiled function of arrays; it can be called in any thread, whatever JAX's precision there is."""

    def __init__(self, compiled: Compiled):
        self._compiled, self._x64 = compiled, jax.config.jax_enable_x64

    def __call__(self, *arguments: Any) -> Any:
        if jax.config.jax_enable_x64 == self._x64:
            return self._compiled(*arguments)
        with jax.enable_x64(self._x64):
            return self._compiled(*arguments)


def compiled(function: Callable, *specs: Any, options: Mapping[str, Any] | None = None) -> Executable:
    """The executable of a function of arrays, for arguments of these shapes and types.

    Args:
        function: called once, with tracers.
        specs: pytrees of arrays or `jax.ShapeDtypeStruct`, whose shardings are respected.
        options: options of the compiler.
    """
    return side_by_side((function, *specs), options=options)[0].result()


def side_by_side(*programs: tuple, options: Mapping[str, Any] | None = None) -> list[Future[Executable]]:
    """The executables of several (function, *specs), traced here one after another and compiled in threads.

    Errors of tracing are raised here; errors of the compiler are raised by the future.
    """
    with _anew(next(_numbers)):
        return [_begin(function, specs, dict(options or {})) for function, *specs in programs]


def edition(function: Callable, *arguments: Any) -> int:
    """A number that identifies a function's present program: an earlier number if that is the same, else a new one.

    Args:
        function: called with tracers in place of arrays; its errors are raised. It may be a pytree, whose arrays are
            arguments too.
        arguments: pytrees; the values of arrays make no difference, and `jax.ShapeDtypeStruct` may replace arrays.
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
    """A new number, different from all editions."""
    return next(_numbers)


def traced_as(edition: int | None) -> AbstractContextManager:
    """A context in which tracing has its own caches: jitted functions and loop bodies are traced once an edition.

    With None JAX uses the caches of the caller.
    """
    return nullcontext() if edition is None else _anew(edition)


def count() -> int:
    """The number of compilations that this process has begun."""
    return _compilations


def forget() -> None:
    """Drops all executables."""
    with _lock:
        _remembered.clear()


def operations(function: Callable, *arguments: Any) -> float:
    """Floating-point operations of a call, by XLA's count before compilation; loop bodies count once.

    An exponential or similar function counts as `TRANSCENDENTAL` operations. Work outside of XLA is not counted.
    """
    found = uncompiled(function, *arguments).cost_analysis() or {}
    return found.get("flops", 0.0) + TRANSCENDENTAL * found.get("transcendentals", 0.0)


def uncompiled(function: Callable, *arguments: Any) -> Lowered:
    """A function lowered for a CPU, if there is one: XLA's clients for other devices count no operations.

    Args:
        function: a function of pytrees; parts of its value that are not arrays are dropped.
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
    except RuntimeError:  # JAX has no CPU backend
        return nullcontext()


def is_array(leaf: Any) -> bool:
    """Whether a leaf is an array, or the shape and type of one."""
    return eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)


def _begin(function: Callable, specs: list, options: dict[str, Any]) -> Future[Executable]:
    """The future of the executable, shared with other calls with the same program."""
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
    """A function traced, and lowered together with its unused arguments."""

    def program(*arguments):
        return function(*arguments)

    traced = jax.jit(program, keep_unused=True).trace(*specs)
    return traced, traced.lower()


def _key(traced: Traced, lowered: Lowered, specs: Iterable, options: dict[str, Any]) -> Any:
    """The key of a program; None if the program refers to objects of this process or has parts without bytes."""
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
    except Exception:  # any error of an object without bytes or hash
        return None
    return key


def _parts(jaxpr: Any, known: set[int]) -> Iterator[Any]:
    """Digests of the constants of a jaxpr and of nested jaxprs, and the devices, meshes and shardings in them."""
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
    """The parts of one parameter of an equation."""
    if isinstance(value, ClosedJaxpr | Jaxpr):
        yield from _parts(value, known)
    elif isinstance(value, Mesh | AbstractMesh | Sharding | jax.Device):
        yield value
    elif isinstance(value, tuple | list):
        for each in value:
            yield from _within(each, known)


def _digest(constant: Any) -> Any:
    """Digest of a constant's bytes, its type, shape and sharding; raises TypeError if it is mutable or has no bytes."""
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
    """All settings of JAX in this thread."""
    return tuple((name, repr(getattr(jax.config, name, value))) for name, value in jax.config.values.items())


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(2, os.cpu_count() or 1), "gadabout-compile")
