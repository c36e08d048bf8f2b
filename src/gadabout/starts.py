"""Starts of chains: draws of a start, up to 100 tries for a finite one, errors that say why none was found."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array, Bool, Float, Int, Key

from gadabout.calls import first_line, place_of
from gadabout.executables import edition, traced_as
from gadabout.layout import Layout
from gadabout.programs import program
from gadabout.target import LogDensityError, Target

SAFE_BRANCHES = (
    "JAX differentiates both branches of jnp.where: make the argument of the one that is not taken safe, "
    "jnp.where(ok, f(jnp.where(ok, x, 1.0)), other)"
)
"""the remedy for a gradient that is NaN where the value is finite"""


@dataclass(frozen=True)
class Uniform:
    """A start drawn with a key: uniform on (−radius, radius) in every unconstrained coordinate, (−2, 2) as in Stan."""

    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    radius: float = 2.0

    def __call__(self, key: Key[Array, ""]) -> dict[str, Float[Array, "..."]]:
        keys = jax.random.split(key, len(self.shapes))
        draw = lambda key, shape: jax.random.uniform(key, shape, jnp.result_type(float), -self.radius, self.radius)
        return {name: draw(each, shape) for each, (name, shape) in zip(keys, self.shapes, strict=True)}

    def rows(self, rng: np.random.Generator, chains: int) -> np.ndarray:
        """Flat positions, shape (chains, n)."""
        n = sum(int(np.prod(shape)) for _, shape in self.shapes)
        return rng.uniform(-self.radius, self.radius, (chains, n))


@dataclass(frozen=True)
class Normal:
    """A start drawn with a key: N(0, I) in n coordinates."""

    dim: int

    def __call__(self, key: Key[Array, ""]) -> Float[Array, " n"]:
        return jax.random.normal(key, (self.dim,))

    def rows(self, rng: np.random.Generator, chains: int) -> np.ndarray:
        """Positions, shape (chains, n)."""
        return rng.standard_normal((chains, self.dim))


class NoFiniteStart(ValueError):
    """No start was finite; `x` is the last position that was tried, shape (n,)."""

    def __init__(self, message: str, x: np.ndarray):
        super().__init__(message)
        self.x = x


class Found(eqx.Module):
    """Each chain's last try: its position, log density, which derivatives are finite, and the number of tries."""

    x: Float[Array, "chains n"]
    logp: Float[Array, " chains"]
    gradient_finite: Bool[Array, "chains n"]
    curvature_finite: Bool[Array, "chains n"]
    tries: Int[Array, " chains"]


class Starts(NamedTuple):
    """The possible starts of chains.

    Args:
        propose: a function (key, chain) in JAX that returns a flat position.
        tries: the most draws of a start until one is finite.
        layout: layout of the positions.
        rows: the starts of all chains at once: a function (generator, number of chains) in NumPy.
    """

    propose: Partial
    tries: int
    layout: Layout
    rows: Callable[[np.random.Generator, int], Any]


def find_start(
    target: Target, starts: Starts, num_chains: int, order: int, key: Key[Array, ""]
) -> Float[Array, "chains n"]:
    """Positions (num_chains, n) at which the log density and its first `order` derivatives are finite.

    Raises:
        TypeError: if the log density branches in Python on traced values.
        ValueError: if it cannot be evaluated or differentiated, or is not finite after `tries` tries; the message
            names the leaf, and whether the value, the gradient or the second derivative failed.
    """
    layout = starts.layout
    try:
        drawn_anew = edition(starts.propose, key, jnp.zeros((), int))
        found = _search(target, starts.propose, drawn_anew, jnp.asarray(starts.tries), num_chains, order, key)
    except LogDensityError:
        raise
    except Exception as error:
        raise explained(error, target, layout, order) from error
    check_found(found, layout, order)
    return found.x


def check_density(target: Target, n: int) -> None:
    """Raises TypeError or ValueError, as `find_start` does, if the log density cannot be evaluated in JAX."""
    try:
        eqx.filter_eval_shape(target.log_density, jax.ShapeDtypeStruct((n,), jnp.result_type(float)))
    except LogDensityError:
        raise
    except Exception as error:
        raise _explained(error, target, n, 0, f"a position of shape ({n},)") from error


def explained(error: Exception, target: Target, layout: Layout, order: int) -> Exception:
    """The error to raise in place of one that the log density raised during its evaluation in JAX."""
    shapes = ", ".join(f"{name}: {shape}" for name, shape in zip(layout.names, layout.shapes, strict=True))
    return _explained(error, target, layout.dim, order, f"a position with {shapes}")


def _explained(error: Exception, target: Target, n: int, order: int, position: str) -> Exception:
    """The error to raise in place of one that the log density raised; it says what is wrong, and the remedy."""
    if isinstance(error, jax.errors.ConcretizationTypeError | jax.errors.TracerArrayConversionError):
        return TypeError(
            "logdensity branches in Python on a traced value, or hands it to NumPy; use jax.numpy, with jnp.where or "
            f"jax.lax.cond in place of if: {first_line(error)}"
        )
    if order == 2 and _works(target, n, 1):
        return ValueError(
            "variant='exact' needs the second derivative of logdensity, which JAX cannot take here: "
            f"{first_line(error)}; use variant='fast'"
        )
    if order >= 1 and _works(target, n, 0):
        return ValueError(
            f"logdensity cannot be differentiated by JAX: {first_line(error)}; write it in jax.numpy, "
            "or use a sampler that needs no gradient, such as rwm() or am()"
        )
    return ValueError(
        f"logdensity failed on {position}: {first_line(error)}{place_of(error)}; check the shapes of init and data"
    )


def _works(target: Target, n: int, order: int) -> bool:
    try:
        eqx.filter_eval_shape(target.at, jax.ShapeDtypeStruct((n,), jnp.result_type(float)), order)
    except Exception:
        return False
    return True


@program(brief=True)
def _search(
    target: Target, drawn: Partial, edition: int, tries: Array, num_chains: int, order: int, key: Key[Array, ""]
) -> Found:
    def propose(key, chain):
        with traced_as(edition):
            return drawn(key, chain)

    def search(chain):
        chain_key = jax.random.fold_in(key, chain)

        def attempt(found):
            x = propose(jax.random.fold_in(chain_key, found.tries), chain)
            point, curvature = target.with_curvature(x) if order == 2 else (target.at(x, order), x)
            gradient = x if point.grad is None else point.grad
            return Found(x, point.logp, jnp.isfinite(gradient), jnp.isfinite(curvature), found.tries + 1)

        def unfinished(found):
            finite = jnp.isfinite(found.logp) & found.gradient_finite.all() & found.curvature_finite.all()
            return ~finite & (found.tries < tries)

        shape = jax.eval_shape(propose, chain_key, chain)
        nowhere = jnp.zeros(shape.shape, bool)
        unseen = Found(jnp.zeros(shape.shape, shape.dtype), jnp.asarray(jnp.nan), nowhere, nowhere, jnp.asarray(0))
        return jax.lax.while_loop(unfinished, attempt, unseen)

    return jax.vmap(search)(jnp.arange(num_chains))


def check_found(found: Found, layout: Layout, order: int) -> None:
    """Raises ValueError for the first chain without a finite start."""
    logp, gradient, curvature = map(np.asarray, (found.logp, found.gradient_finite, found.curvature_finite))
    bad = np.flatnonzero(~(np.isfinite(logp) & gradient.all(-1) & curvature.all(-1)))
    if not len(bad):
        return
    chain = int(bad[0])
    remedy = "pass an init inside the support, or a function of a key that draws one"
    if not np.isfinite(logp[chain]):
        what, where = f"the value of logdensity is {logp[chain]}", ~gradient[chain] | ~np.isfinite(found.x[chain])
    elif not gradient[chain].all():
        what, where = "the gradient of logdensity is NaN or infinite where its value is finite", ~gradient[chain]
        remedy = f"{SAFE_BRANCHES}; or {remedy}"
    else:
        what, where = "the second derivative of logdensity is not finite", ~curvature[chain]
    leaves = [name for name, part in layout.split(where[None]).items() if part.any()] or list(layout.names)
    tries = int(found.tries[chain])
    raise NoFiniteStart(
        f"no finite start for chain {chain} in {tries} {'try' if tries == 1 else 'tries'}: {what} (leaf "
        f"{', '.join(map(repr, leaves))}); {remedy}",
        np.asarray(found.x[chain], float),
    )
