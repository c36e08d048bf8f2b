"""What earlier processes compiled, found again by all that it was made from.

JAX's own cache keeps what XLA makes of a lowered program: whoever asks it has traced and lowered that program, which is
most of what a new process waits for. Here what XLA made is kept under a digest of what it was traced from: its
function; the settings, and the shapes of arrays, in its arguments; the log density, by the text that JAX lowers it to,
with its gradient and a product of its Hessian; the files of this package as they were last written, the versions of
what it calls, JAX's options, and the processor. What cannot be told in that way, such as a function of the user's own
within a sampler, a log density that calls the host, or chains over several devices, is not kept.
"""

import hashlib
import io
import os
import pickle
import platform
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from threading import Lock
from types import FunctionType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.serialize_executable import serialize
from jax.sharding import Mesh, SingleDeviceSharding
from jaxlib.mlir.passmanager import PassManager
from jaxlib.version import __version__ as jaxlib_version

from gadabout import early
from gadabout.driver.lapack import find_lapack
from gadabout.files import PACKAGE, whole_file
from gadabout.target import Target

TOLD = frozenset({"builtins", "collections", "equinox", "functools", "gadabout", "jax", "jaxlib", "jaxtyping",
                  "ml_dtypes", "numpy", "operator", "pathlib", "types", "typing"})  # fmt: skip
"""packages whose versions, or files, are a part of each name, or change nothing: what is theirs goes by its own name"""
MOST_BYTES = 2**29
"""that a folder holds; what was not asked for longest goes first"""

_folder: Path | None = None
_hits: ContextVar[int] = ContextVar("hits", default=0)
"""what JAX found in its own cache on behalf of a thread"""
_counting, _compiling, _shortest = Lock(), 0, 0.0
"""how many threads compile what is kept here, and what JAX's own cache writes down else"""


class Unnameable(Exception):
    """Something is in a program that no digest can tell."""


def keep_programs(folder: str | os.PathLike | None = None) -> Path:
    """Keeps compiled programs in a folder, and takes from it what other processes have left there.

    A process that samples what another has sampled before, a model of the same log density and shapes, then neither
    traces nor compiles the programs of its run. JAX's own compilation cache is put there too, unless it is somewhere
    already: it has what is compiled besides, and what has no name here, but nothing twice. What is kept is code: name a
    folder that you alone can write to. Nothing is known of functions of this package that somebody puts others in the
    place of while it runs.

    Args:
        folder: made if need be; that of the variable JAX_COMPILATION_CACHE_DIR, or the user's cache, by default.

    Returns:
        The folder.

    Raises:
        OSError: if there can be no such folder.
    """
    global _folder
    configured, path = jax.config.jax_compilation_cache_dir, early.folder_of(folder)
    (path / "gadabout").mkdir(parents=True, exist_ok=True, mode=0o700)
    if configured is None:
        jax.config.update("jax_compilation_cache_dir", str(path))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    _folder = path / "gadabout"
    return path


def keeps() -> bool:
    """Whether programs are kept: `keep_programs` was called, JAX may keep its own, and the run is of one process."""
    return _folder is not None and jax.config.jax_enable_compilation_cache and jax.process_count() == 1


def forget() -> None:
    """Forgets what log densities were lowered to: functions they call may be others now."""
    _prints.clear()


def name_of(kind: tuple, arguments: Any) -> str | None:
    """The name of what a function makes of arguments, arrays by their shapes; None where there can be none."""
    printed = lambda node: Print(print_of(node)) if isinstance(node, Target) else node
    digest = hashlib.sha256(_surroundings())
    try:
        tree = jax.tree.map(printed, arguments, is_leaf=lambda node: isinstance(node, Target))
        _Contents(digest).tell((kind, tree))
    except Exception:  # whatever an object of somebody else's says when it is pickled
        return None
    return digest.hexdigest()


def keep(name: str, lowered: jax.stages.Lowered, form: Callable[[], Any]) -> None:
    """Compiles a program of arrays, and keeps it under a name for other processes, if XLA can write it down.

    It is written down before it runs: XLA cannot do so afterwards if it sorts. What JAX's cache had is not written
    again: of such a program XLA has lost a part.

    Args:
        name: of `name_of`.
        lowered: it returns a tuple of arrays first, and nothing else that is an array.
        form: tells the result that its arrays belong to, with ... in their places.
    """
    _count_hits()
    before = _hits.get()
    with _unwritten_by_jax():
        _forget_places(lowered)
        compiled = lowered.compile()
    if _hits.get() == before:
        with suppress(Exception):
            program, taken, _ = serialize(compiled)
            told = form()
            given = tuple(leaf if leaf is ... else None for leaf in jax.tree.leaves(told))
            remember(name, (program, taken.unflatten([...] * taken.num_leaves), given, pickle.dumps(told)))
            early.begun(name)  # for the next command's list


def _forget_places(lowered: jax.stages.Lowered) -> None:
    """Takes from a program what line of Python each operation comes from: it loads in four fifths of the time."""
    module: Any = lowered.compiler_ir()
    with module.context:
        PassManager.parse("builtin.module(strip-debuginfo)").run(module.operation)


@contextmanager
def _unwritten_by_jax() -> Iterator[None]:
    """JAX's own cache does not write down what takes less than an age to compile meanwhile: it is kept here."""
    global _compiling, _shortest
    with _counting:
        if not _compiling:
            _shortest = jax.config.jax_persistent_cache_min_compile_time_secs
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 1e9)
        _compiling += 1
    try:
        yield
    finally:
        with _counting:
            _compiling -= 1
            if not _compiling:
                jax.config.update("jax_persistent_cache_min_compile_time_secs", _shortest)


def loaded(name: str) -> Callable[[], Callable | None] | None:
    """What loads the program that is kept under a name, to be called with its arrays; None if none is kept.

    It returns None where XLA cannot read what is there.
    """
    assert _folder is not None
    if not (path := _folder / name).exists():
        return None
    begun = early.begun(name)

    def load():
        with suppress(Exception):  # whatever XLA and pickle say of it
            find_lapack()
            run, told = begun.result() if begun else early.executable(path)
            leaves, structure = jax.tree.flatten(pickle.loads(told))
            filled = lambda arrays: (leaf if row is None else row for row, leaf in zip(arrays, leaves, strict=True))
            return lambda *arrays: structure.unflatten(filled(run(*arrays)))
        return None

    return load


@cache
def _count_hits() -> None:
    def note(event, **_):
        if event == "/jax/compilation_cache/cache_hits":
            _hits.set(_hits.get() + 1)

    jax.monitoring.register_event_listener(note)


def edition() -> str:
    """A word that programs bear which are kept, so that JAX's cache has them under a name of their own too.

    It stands for the folder, and for all that stays the same in a process.
    """
    return _edition(_folder)


@cache
def _edition(folder: Path | None) -> str:
    return hashlib.sha256(repr((_fixed(), folder)).encode()).hexdigest()[:8]


def recall(name: str) -> Any:
    """What is kept under a name; None where nothing is, or nothing that can be read."""
    assert _folder is not None
    with suppress(Exception):
        return early.read(_folder / name)
    return None


def remember[T](name: str, value: T) -> T:
    """Keeps a value under a name, if it can be pickled and there is room for it, and returns it."""
    assert _folder is not None
    with suppress(Exception):
        packed = zlib.compress(pickle.dumps(value), 1)
        with whole_file(_folder / name, lasting=False) as partial:  # a checksum tells what a machine's failure left
            partial.write_bytes(packed)
        _make_room(_folder)
    return value


def recalled(kind: tuple, arguments: Any, make: Callable[[], Any]) -> Any:
    """What `make` makes of arguments, shapes or numbers; it is not called where another process has done so."""
    name = name_of(kind, arguments) if keeps() else None
    if name is None:
        return make()
    return (recall(name) or remember(name, (make(),)))[0]


def _make_room(folder: Path) -> None:
    files = sorted(((each.stat(), each) for each in folder.iterdir()), key=lambda pair: pair[0].st_mtime)
    beyond = sum(stat.st_size for stat, _ in files) - MOST_BYTES
    for stat, path in files:
        if beyond <= 0:
            return
        path.unlink(missing_ok=True)
        beyond -= stat.st_size


class Print(eqx.Module):
    """What stands for a target in a name."""

    digest: str = eqx.field(static=True)


def print_of(target: Target) -> str:
    """The digest of a log density: of what JAX lowers it, its gradient and a product of its Hessian to.

    Of two positions at once, as runs ask for it. Raises Unnameable for one that calls the host.
    """
    leaves, structure = jax.tree.flatten(target)
    types = tuple((leaf.shape, leaf.dtype) if hasattr(leaf, "dtype") else leaf for leaf in leaves)
    form = structure, types, jnp.result_type(float)
    if form not in _prints:
        if len(_prints) >= MOST_PRINTS:
            _prints.clear()
        _prints[form] = _printed(target)
    if (found := _prints[form]) is None:
        raise Unnameable("a log density that calls the host")
    return found


MOST_PRINTS = 64
_prints: dict[Any, str | None] = {}


def _printed(target: Target) -> str | None:
    if target.layout is None:
        raise Unnameable("a log density of positions whose form nobody tells")
    text = _told(target, jax.ShapeDtypeStruct((2, target.layout.dim), jnp.result_type(float)))
    if "callback" in text:
        return None
    digest = hashlib.sha256(text.encode())
    _Contents(digest).tell((target.layout, target.data, target.num_rows))
    return digest.hexdigest()


def _told(target: Target, x: Any) -> str:
    """What JAX lowers a log density and its derivatives at several positions to, all constants in it."""
    for derivatives in (Target.with_curvature, _forward_curvature):
        with suppress(Exception):  # a log density with a rule of its own for gradients may have none
            return _text(derivatives, target, x)
    return _text(lambda target, x: target.at(x, 1), target, x)


def _forward_curvature(target: Target, x: Any) -> Any:
    return target.at(x, 1), jax.jvp(lambda x: target.at(x, 2).grad, (x,), (jnp.ones_like(x),))


def _text(derivatives: Callable, target: Target, x: Any) -> str:
    """What JAX lowers a log density to, and what a function makes of a target and a position."""
    arrays, rest = eqx.partition(target, eqx.is_array)
    whole = lambda arrays: eqx.combine(arrays, rest)
    told = lambda arrays, x: (whole(arrays).log_density(x), derivatives(whole(arrays), x))
    return jax.jit(jax.vmap(told, (None, 0))).lower(arrays, x).as_text()


class _Contents(pickle.Pickler):
    """Adds to a digest what objects are made of: no identity, nothing that another process would say otherwise."""

    def __init__(self, digest: Any):
        self.bytes = io.BytesIO()
        super().__init__(self.bytes)
        self.fast, self.digest = True, digest

    def tell(self, tree: Any) -> None:
        """Adds a tree, of whose arrays the types count alone."""
        leaves, structure = jax.tree.flatten(tree)
        self.dump(([_type_of(leaf) for leaf in leaves], structure))
        self.digest.update(self.bytes.getvalue())

    def reducer_override(self, obj):
        named = isinstance(obj, type | FunctionType)
        module = getattr(obj if named else type(obj), "__module__", None) or ""
        if module.partition(".")[0] not in TOLD:
            raise Unnameable(f"{obj!r} of {module}")
        if not isinstance(obj, FunctionType) or obj is _found(module, obj.__qualname__):
            return NotImplemented
        closed = tuple(cell.cell_contents for cell in obj.__closure__ or ())
        place = module, obj.__qualname__, obj.__code__.co_firstlineno
        return tuple, ((place, closed, obj.__defaults__, obj.__kwdefaults__),)


def _found(module: str, name: str) -> Any:
    """What a module has under a name of its own; None where there is nothing."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _type_of(leaf: Any) -> Any:
    """Of an array the type; what is none, as it is."""
    if isinstance(leaf, Mesh) or (isinstance(leaf, jax.Array) and leaf.devices() != set(jax.devices()[:1])):
        raise Unnameable("another device than the first")
    if not hasattr(leaf, "dtype"):
        return leaf
    return leaf.shape, str(leaf.dtype), bool(getattr(leaf, "weak_type", False))


def form_of(tree: Any) -> Any:
    """What programs are compiled for: a tree's structure, its arrays' types and places, all else in it as it is.

    NumPy's arrays lie where JAX puts them.
    """
    leaves, structure = jax.tree.flatten(tree)
    home = _home(jax.config.jax_default_device)
    more = lambda leaf: (bool(getattr(leaf, "weak_type", False)), getattr(leaf, "sharding", home))
    form = ((leaf.shape, leaf.dtype, *more(leaf)) if hasattr(leaf, "dtype") else (type(leaf), leaf) for leaf in leaves)
    return structure, tuple(form), jax.config.read("jax_enable_x64")


@cache
def _home(device: Any) -> Any:
    """Where an array lies that is put nowhere, as long as this is JAX's default device, or its kind."""
    return SingleDeviceSharding(device if isinstance(device, jax.Device) else jax.local_devices(backend=device)[0])


def _surroundings() -> bytes:
    """JAX's options, and what stays the same in a process."""
    options = {name: value for name, value in jax.config.values.items() if "cache" not in name}
    return repr((_fixed(), sorted(options.items()), os.environ.get("XLA_FLAGS"))).encode()


@cache
def _fixed() -> tuple:
    """This package's files, the versions of what it calls, and for what kind of device programs are compiled."""
    files = [(str(path), (told := path.stat()).st_size, told.st_mtime_ns) for path in sorted(PACKAGE.rglob("*.py"))]
    versions = jax.__version__, jaxlib_version, eqx.__version__, np.__version__, sys.version
    return files, versions, jax.default_backend(), jax.devices()[0].device_kind, _processor()


def _processor() -> Any:
    """What machine code for this processor may count on, as far as the system tells."""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))})
    return platform.machine(), platform.processor()
