"""gadabout: Bayesian sampling by gradient-based adaptive Markov chain Monte Carlo.

The public names are those of `gadabout.public`. They are imported, and JAX with them, once one of them is asked for:
what needs none of them, such as `gadabout --version`, answers at once.
"""

from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gadabout.public import *  # noqa: F403

__version__ = version("gadabout")


def __getattr__(name: str) -> Any:
    """A module of the package, which is imported alone, or a public name; raises AttributeError for any other."""
    if not name.startswith("__") and find_spec(f"gadabout.{name}") is not None:
        return import_module(f"gadabout.{name}")
    if not name.startswith("__") or name == "__all__":
        # JAX reads the metadata of all packages; so far down that its frames lie where Python's stack gets another
        # piece, which each call takes and gives back, that takes 0.3 seconds more.
        with import_module("gadabout.garbage").uncollected():
            import_module("jax")
            found = vars(import_module("gadabout.public"))
        if name in found:
            globals()[name] = found[name]
        if name in globals():
            return globals()[name]
    raise AttributeError(f"module 'gadabout' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *import_module("gadabout.public").__all__]
