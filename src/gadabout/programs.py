"""Compiled programs whose arguments contain samplers and targets, and with them functions of the user."""

import functools
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from types import FunctionType
from typing import Any

import equinox as eqx
import jax
from jax.core import Tracer
from jax.stages import Lowered

from gadabout import executables
from gadabout.executables import QUICK, edition, is_array, new_edition, uncompiled
from gadabout.precision import whole_products
from gadabout.target import Target

BRIEF = QUICK | {"xla_backend_optimization_level": 0}
"""options for few evaluations of a log density: level 0 compiles in two thirds of the time of level 1"""
IN_GRAPHS = {
    "xla_gpu_enable_command_buffer": "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,DYNAMIC_SLICE_FUSION,WHILE,CONDITIONAL"
}
"""Operations that a GPU launches as one graph: XLA's own choice, and loops and branches.

Otherwise the host waits at each turn of a loop. (Centred eight schools, 16 chains of NUTS on an H100: 0.7 s instead of
1.8, and compilation takes no longer.)
"""
KNOWN = {"builtins", "equinox", "functools", "gadabout", "jax", "jaxlib", "numpy", "optax"}
"""packages whose functions do not change"""


class Program:
    """`jax.jit` of a function whose arguments may contain more than arrays, with compiler options.

    Parts of arguments and results that are not arrays belong to the program. JAX's cache identifies them by hash and
    equality, and a target by its edition too. Unlike a call of `equinox.filter_jit`, a call of a program returns before
    its arrays are computed. The options are omitted if JAX is set to disable most optimisations.

    Args:
        function: the function to compile, once for each shape of its arguments.
        donates: whether it may overwrite the arrays of its arguments, except those of the first.
        options: options of the compiler on a CPU.
        on_gpu: options of the compiler on a GPU.
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

    def __call__(self, *arguments: Any) -> Any:
        if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(arguments)):
            return self.function(*arguments)  # called while another program is traced
        with _donating(self.donates), whole_products():
            arrays, others = self._compiled(self._options)(*_parted(arguments))
        return _joined(arrays, others.static)

    def shapes(self, *arguments: Any) -> Any:
        """The result with shapes and types in place of arrays; arguments may hold arrays, or shapes and types."""
        shape = lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, weak_type=getattr(leaf, "weak_type", False))
        arguments = jax.tree.map(lambda leaf: shape(leaf) if is_array(leaf) else leaf, arguments)
        with whole_products():
            arrays, others = self._compiled(self._options).eval_shape(*_parted(arguments))
        return _joined(arrays, others.static)

    def lower(self, *arguments: Any) -> Lowered:
        """The lowered program for such arguments, not yet compiled, as from `jax.jit`."""
        with whole_products():
            return self._compiled(self._options).lower(*_parted(arguments))

    @functools.cached_property
    def optimised(self) -> "Program":
        """The same program, compiled with all optimisations."""
        return Program(self.function, self.donates, on_gpu=dict(self.on_gpu))

    @functools.cached_property
    def in_graphs(self) -> "Program":
        """The same program; on a GPU its loops and branches are each launched as one, with everything in them."""
        return Program(self.function, self.donates, dict(self.options), IN_GRAPHS)

    @property
    def _options(self) -> tuple:
        """The compiler options on this backend."""
        if jax.config.read("jax_disable_most_optimizations"):
            return ()
        return {"cpu": self.options, "gpu": self.on_gpu}.get(jax.default_backend(), ())

    @functools.cache  # noqa: B019  (programs live as long as the module that they are in)
    def _compiled(self, options: tuple) -> Any:
        def parted(first, rest, static):
            arguments = *_joined(first, static[0]), *_joined(rest, static[1])
            with executables.traced_as(_edition_of(arguments)):
                arrays, others = _arrays_of(self.function(*arguments))
            return arrays, Static(others)

        parted.__name__ = self.function.__name__
        donated = 1 if self.donates else ()
        return jax.jit(parted, static_argnums=2, donate_argnums=donated, compiler_options=dict(options) or None)


class Static(eqx.Module):
    """The part of a program's result that is not arrays."""

    static: Any = eqx.field(static=True)


def _parted(arguments: tuple) -> tuple[tuple, tuple, tuple]:
    """The arrays of the first argument, the arrays of all others, and the rest of both."""
    (first, static), (rest, more) = _arrays_of(arguments[:1]), _arrays_of(arguments[1:])
    return first, rest, (static, more)


def _arrays_of(tree: Any) -> tuple[tuple, tuple]:
    """The arrays among a tree's leaves, with None for every other leaf, and the rest, which has a hash."""
    leaves, structure = jax.tree.flatten(tree)
    arrays = tuple(leaf if is_array(leaf) else None for leaf in leaves)
    return arrays, (tuple(None if is_array(leaf) else leaf for leaf in leaves), structure)


def _joined(arrays: tuple, static: tuple) -> Any:
    """The tree that `_arrays_of` has split."""
    others, structure = static
    return structure.unflatten(other if array is None else array for array, other in zip(arrays, others, strict=True))


def _edition_of(arguments: tuple) -> int | None:
    """The edition of the target in the arguments, if any: the user's functions within samplers are traced with it."""
    is_target = lambda node: isinstance(node, Target)
    return next((node.edition for node in jax.tree.leaves(arguments, is_leaf=is_target) if is_target(node)), None)


@contextmanager
def _donating(donates: bool) -> Iterator[None]:
    """Suppresses JAX's warning about donated arrays that are not usable, as on a platform without donation."""
    if not donates:
        yield
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Some donated buffers were not usable")
        yield


def program(function: Callable | None = None, *, donates: bool = False, brief: bool = False) -> Any:
    """Makes a function a `Program`; `brief` is for one that evaluates log densities only a few times."""
    made = functools.partial(Program, donates=donates, options=BRIEF if brief else QUICK)
    return made if function is None else made(function)


def shapes_of(function: Callable, *arguments: Any) -> Any:
    """`Program.shapes` of a program, or of a function that lives as long as its module; traced once, then cached."""
    return (function if isinstance(function, Program) else _program_of(function)).shapes(*arguments)


_program_of = functools.cache(Program)


def forget() -> None:
    """Drops everything compiled and traced in this process, because functions of this package may have changed."""
    jax.clear_caches()
    executables.forget()


def asks_the_host(function: Callable, *arguments: Any) -> bool:
    """Whether a function calls back to the host; the operations of such calls cannot be counted."""
    module: Any = uncompiled(function, *arguments).compiler_ir()
    return "callback" in module.operation.get_asm(large_elements_limit=8)


def fresh_with(target: Target, parts: Any, call: Callable[..., Any], *arguments: Any) -> Target:
    """The target with an edition that also stands for the user's functions in `parts` (see `target.fresh`).

    If there are such functions, `call(target, *arguments)`, which calls them, is traced anew.
    """
    if not own(parts):
        return target
    with suppress(Exception):  # errors of the user's functions are explained when the run calls them
        return replace(target, edition=edition(call, target, *arguments))
    return replace(target, edition=new_edition())


def own(part: Any) -> bool:
    """Whether a part is or contains an object or a function from a package outside of `KNOWN`."""
    return _own(part, set())


def _own(part: Any, known: set[int]) -> bool:
    if id(part) in known:  # a function may refer to itself
        return False
    known.add(id(part))
    held: list[Any] = []
    if isinstance(part, tuple | list):
        held = list(part)
    elif isinstance(part, dict):
        held = list(part.values())
    elif isinstance(part, functools.partial):
        held = [part.func, part.args, part.keywords]
    else:
        module = getattr(part if callable(part) and hasattr(part, "__qualname__") else type(part), "__module__", None)
        if (module or "").partition(".")[0] not in KNOWN:
            return True
        if isinstance(part, eqx.Module):
            held = [getattr(part, each.name, None) for each in fields(part)]
        elif isinstance(part, FunctionType):
            held = [cell.cell_contents for cell in part.__closure__ or ()]
    return any(_own(each, known) for each in held)
