"""gadabout: Bayesian sampling by gradient-based adaptive Markov chain Monte Carlo.

The public names are those of the file `__init__.pyi`. Each is imported, and JAX with it, once it is asked for: what
needs none of them, such as `gadabout --version`, answers at once. The packages `adaptations`, `algorithms`, `kernels`
and `proposals` do so too: one run needs a few of their modules.
"""

from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import lazy_loader

__version__ = version("gadabout")
_public, _, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    """A module of the package, which is imported alone, or a public name; raises AttributeError for any other."""
    if name in __all__:
        # JAX reads the metadata of all packages; so far down that its frames lie where Python's stack gets another
        # piece, which each call takes and gives back, that takes 0.3 seconds more.
        with import_module("gadabout.garbage").uncollected():
            import_module("jax")
            return _public(name)
    if not name.startswith("__") and find_spec(f"gadabout.{name}") is not None:
        return import_module(f"gadabout.{name}")
    raise AttributeError(f"module 'gadabout' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
