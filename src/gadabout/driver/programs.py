"""How the programs of a run are compiled."""

import functools
import inspect
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from importlib import import_module
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.stages import Lowered

from gadabout.driver import kept
from gadabout.driver.kept import form_of
from gadabout.precision import whole_products

QUICK = {"xla_backend_optimization_level": 1, "xla_cpu_prefer_vector_width": 512}
"""On a CPU, LLVM's first level takes half the time of its third, and most programs run as fast: their loops are XLA's.

(German, 16 chains, split HMC with independence proposals: 3.3 s of processor time in place of 6.8, 9.6 µs a draw in
place of 9.7. A single chain of gadMALA on Neal, 5 to 7 µs an iteration, loses up to a tenth.) Vectors of 512 bits,
where the processor has them, take a warm call of the default to 0.95 of its time on Ripley and German, 0.86 on Neal.
"""
BRIEF = QUICK | {"xla_backend_optimization_level": 0}
"""Of a program that evaluates a log density a few times, the lowest level takes two thirds of that to compile.

(Ripley and German, 16 chains: 0.9 and 1.0 s for 1.4 and 1.6 of all such programs of a run, which then takes 0.8 and 1.2
ms longer. The descent is none of them: it would take three times as long.)
"""
IN_GRAPHS = {
    "xla_gpu_enable_command_buffer": "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,DYNAMIC_SLICE_FUSION,WHILE,CONDITIONAL"
}
"""What a GPU launches as one: XLA's own choice, and loops and branches, for each turn of which the host waits else.

(Centred eight schools, 16 chains of NUTS on an H100: 0.7 s in place of 1.8, and no longer to compile.)
"""
MOST_KEPT = 256
"""results that each of these stores keeps"""
_shapes: dict[Any, Any] = {}
_traced: dict[Any, Callable] = {}
_compiling: dict[Any, Future] = {}
_told: dict[Any, bool] = {}
TRANSCENDENTAL = 10.0
"""operations that an exponential or a logarithm is counted for"""
LONG_WARMUP = 5_000
"""iterations of warm-up from which on a run is better served by programs that are compiled with all optimisations"""


class Program:
    """`jax.jit` of a function whose arguments may hold more than arrays, with these options on a CPU.

    What is no array is a part of the program, in arguments and results. Unlike a call of `equinox.filter_jit`, one of
    a program returns before its arrays are computed. The options are left away where JAX is told to leave most
    optimisations away.

    Args:
        function: what to compile, once for each shape of its arguments.
        donates: whether it may write over the arrays of its arguments, all but the first.
        options: of the compiler, on a CPU.
        on_gpu: its options on a GPU.
    """

    def __init__(
        self,
        function: Callable,
        donates: bool = False,
        options: Mapping[str, Any] | None = None,
        on_gpu: Mapping[str, Any] | None = None,
    ):
        functools.update_wrapper(self, function)
        self.function, self.donates = function, donates
        self.options, self.on_gpu = (tuple((each or {}).items()) for each in (options, on_gpu))

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((arguments, named))):
            return self.function(*arguments, **named)  # a part of another program, or of one that is only traced
        with _donating(self.donates), whole_products():
            *arrays, rest = _parted(arguments, named)
            if (kept_one := self._from_folder(arguments, named)) is not None:
                return kept_one(*arrays)
            arrays, told = self._compiled(*arrays, rest)
        return _joined(arrays, told.rest)

    def lower(self, *arguments: Any, **named: Any) -> Any:
        """What the arguments are traced to."""
        with _donating(self.donates), whole_products():
            return self._compiled.lower(*_parted(arguments, named))

    def ahead(self, *arguments: Any, **named: Any) -> Future:
        """Traces here, and compiles in another thread, what a call with arguments like these will run (see `ready`).

        Where the same was asked before, that is what is returned. What an earlier process kept is not traced.
        """

        form = self._form(arguments, named)

        def compile_it():
            traced = _kept(_traced, form, lambda: self._trace(arguments, named))
            with suppress(TypeError):  # of what has no hash
                _traced.pop(form, None)
            return _compilers().submit(traced)

        good = lambda before: not (before.cancelled() or (before.done() and before.exception()))
        return _kept(_compiling, form, compile_it, good)

    def trace(self, *arguments: Any, **named: Any) -> None:
        """Traces what `ahead` may be asked for later, and compiles nothing."""
        _kept(_traced, self._form(arguments, named), lambda: self._trace(arguments, named))

    def _form(self, arguments: tuple, named: dict[str, Any]) -> Any:
        """What a program of these arguments is known by in this process."""
        return form_of((self, self._compiled, arguments, named))

    def _trace(self, arguments: tuple, named: dict[str, Any]) -> Callable[[], Callable | None]:
        """What makes a program ready to run: what loads one that an earlier process kept, or compiles what is traced.

        One that was loaded is returned; one that was compiled is JAX's, which runs it when it is called.
        """
        name = None
        if kept.keeps():
            name = kept.name_of((self.function, self.donates, self._options), (arguments, named))
            if name is not None and (load := kept.loaded(name)) is not None:
                return load
        return functools.partial(_compile, self.lower(*arguments, **named), name)

    def _from_folder(self, arguments: tuple, named: dict[str, Any]) -> Callable | None:
        """The program as another process kept it, if one did; else JAX has it."""
        if not kept.keeps():
            return None
        asked = self.ahead(*arguments, **named)
        ready([asked])
        return asked.result()

    @functools.cached_property
    def optimised(self) -> "Program":
        """The same, compiled with all optimisations."""
        return Program(self.function, self.donates, on_gpu=dict(self.on_gpu))

    @functools.cached_property
    def in_graphs(self) -> "Program":
        """The same, its loops and branches launched with all that is in them on a GPU."""
        return Program(self.function, self.donates, dict(self.options), IN_GRAPHS)

    @property
    def _options(self) -> tuple:
        """The options that it is compiled with."""
        if jax.config.read("jax_disable_most_optimizations"):
            return ()
        return {"cpu": self.options, "gpu": self.on_gpu}.get(jax.default_backend(), ())

    def _of_arrays(self, first: tuple, others: tuple, rest: tuple) -> Any:
        """The function of the arrays of its arguments and the rest of them."""
        arguments, named = _joined(first, rest[0]), _joined(others, rest[1])
        return self.function(*arguments, *named[0], **named[1])

    @property
    def _compiled(self) -> Any:
        return self._compiled_with(self._options, kept.edition() if kept.keeps() else "")

    @functools.cache  # noqa: B019  (programs live as long as the module that they are in)
    def _compiled_with(self, options: tuple, edition: str) -> Any:
        def parted(first, others, rest):
            arrays, told = _arrays_of(self._of_arrays(first, others, rest))
            return arrays, Told(told)

        parted.__name__ = f"{self.function.__name__}_{edition}" if edition else self.function.__name__
        donated = 1 if self.donates else ()
        return jax.jit(parted, static_argnums=2, donate_argnums=donated, compiler_options=dict(options) or None)


class Told(eqx.Module):
    """What is no array of a program's result."""

    rest: Any = eqx.field(static=True)


def _parted(arguments: tuple, named: dict[str, Any]) -> tuple[tuple, tuple, tuple]:
    """The arrays of the first argument, those of all others, and the rest of both."""
    (first, rest), (others, more) = _arrays_of(arguments[:1]), _arrays_of((arguments[1:], named))
    return first, others, (rest, more)


def _arrays_of(tree: Any) -> tuple[tuple, tuple]:
    """The arrays among a tree's leaves, None where there is none, and the rest, which has a hash."""
    leaves, structure = jax.tree.flatten(tree)
    arrays = tuple(leaf if eqx.is_array(leaf) else None for leaf in leaves)
    return arrays, (tuple(None if eqx.is_array(leaf) else leaf for leaf in leaves), structure)


def _joined(arrays: tuple, rest: tuple) -> Any:
    """The tree of `_arrays_of`."""
    others, structure = rest
    return structure.unflatten(other if array is None else array for array, other in zip(arrays, others, strict=True))


@contextmanager
def _donating(donates: bool) -> Iterator[None]:
    """Says nothing of donated arrays that are of no use, such as those of a platform without donation."""
    if not donates:
        yield
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Some donated buffers were not usable")
        yield


def _compile(lowered: Lowered, name: str | None) -> None:
    """Compiles what was traced, which JAX has then, and keeps it under a name for other processes."""

    def form():
        arrays, told = jax.tree.unflatten(lowered.out_tree, [...] * lowered.out_tree.num_leaves)
        return _joined(arrays, told.rest)

    if name is None:
        lowered.compile()
    else:
        kept.keep(name, lowered, form)


def forget() -> None:
    """Forgets all that was compiled and traced in this process: what functions they call may be others now."""
    jax.clear_caches()
    _shapes.clear()
    _traced.clear()
    _compiling.clear()
    _told.clear()
    kept.forget()


def drop_traced() -> None:
    """Forgets what was traced in vain."""
    _traced.clear()


def told_before(*kind: Any) -> bool:
    """Whether this was asked of the same `form_of` before, since programs were forgotten; False if it has no form."""
    told_now = []
    _kept(_told, form_of(kind), lambda: told_now.append(kind) or True)
    return not told_now


def program(function: Callable | None = None, *, donates: bool = False, brief: bool = False) -> Any:
    """Makes a function a `Program`, one whose calls are `brief` where it evaluates log densities a few times."""
    made = functools.partial(Program, donates=donates, options=BRIEF if brief else QUICK)
    return made if function is None else made(function)


def operations(function: Callable, *arguments: Any) -> float:
    """Operations on floating-point numbers that a call takes, by XLA's count before it compiles; bodies of loops once.

    An exponential and its like are `TRANSCENDENTAL` of them. What runs outside of XLA is not seen.
    """
    found = _lowered(function, *arguments).cost_analysis() or {}
    return found.get("flops", 0.0) + TRANSCENDENTAL * found.get("transcendentals", 0.0)


def asks_the_host(function: Callable, *arguments: Any) -> bool:
    """Whether a function calls one of the host's, whose operations nobody can count."""
    module: Any = _lowered(function, *arguments).compiler_ir()
    return "callback" in module.operation.get_asm(large_elements_limit=8)


def _lowered(function: Callable, *arguments: Any) -> Lowered:
    compiled: Any = eqx.filter_jit(function)
    with _on_a_processor():
        return compiled.lower(*arguments).lowered


def _on_a_processor() -> AbstractContextManager:
    """Where XLA counts operations: its clients for other devices say nothing."""
    if jax.default_backend() == "cpu":
        return nullcontext()
    try:
        return jax.default_device(jax.local_devices(backend="cpu")[0])
    except RuntimeError:  # JAX was told to know of no processor
        return nullcontext()


def blank(spec: jax.ShapeDtypeStruct) -> Any:
    """An array of a shape and type: programs that are compiled for it serve those whose values are known later.

    It is NumPy's where that can be: JAX takes 0.1 ms to make one.
    """
    if jnp.issubdtype(spec.dtype, jax.dtypes.prng_key):
        data = jax.eval_shape(jax.random.key_data, spec)
        return jax.random.wrap_key_data(jax.device_put(np.zeros(data.shape, data.dtype)))
    if getattr(spec, "weak_type", False):
        return jnp.broadcast_to(jnp.asarray(np.zeros((), spec.dtype).item()), spec.shape)
    return np.zeros(spec.shape, spec.dtype)


def shapes_of(function: Callable, *arguments: Any) -> Any:
    """`equinox.filter_eval_shape`, which traces once for arguments of the same structure, shapes and types.

    The function must be one that lives as long as its module.
    """

    shapes = lambda: eqx.filter_eval_shape(function, *arguments)
    known = form_of((function, kept.keeps(), *arguments))
    return _kept(_shapes, known, lambda: kept.recalled((inspect.unwrap(function),), arguments, shapes))


def _kept(store: dict, form: Any, make: Callable[[], Any], good: Callable[[Any], bool] = lambda found: True) -> Any:
    """What a store has for a form, if it is good; else what is made, which it then has, unless the form has no hash."""
    try:
        found = store.get(form)
    except TypeError:
        return make()
    if found is None or not good(found):
        found = make()
        if len(store) >= MOST_KEPT:
            store.clear()
        store[form] = found
    return found


def ready(ahead: Iterable[Future]) -> None:
    """Returns once programs are compiled, side by side; Python hears of signals meanwhile."""
    waiting = list(ahead)
    while not all(one.done() for one in waiting):
        time.sleep(2e-3)
    for one in waiting:
        one.result()  # raises what the compiler raised


def import_ahead(*names: str) -> None:
    """Imports modules in another thread: what takes a while, while programs are compiled."""
    _compilers().submit(lambda: [import_module(name) for name in names])


def abandon() -> None:
    """Compiles nothing more ahead, so that a process that ends with an error need not wait for what nobody will run."""
    _compilers().shutdown(wait=False, cancel_futures=True)
    _compilers.cache_clear()


@functools.cache
def _compilers() -> ThreadPoolExecutor:
    """Threads that compile, first what is asked for first; JAX's tracing settings belong to the thread that traces."""
    return ThreadPoolExecutor(max(2, os.cpu_count() or 1), "gadabout-compile")
