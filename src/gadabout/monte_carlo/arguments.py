"""Arguments that all of `monte_carlo` shares: seeds, models and positions, in the form in which `sample` takes them."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from gadabout.api.checks import checked_model
from gadabout.api.positions import starts_of
from gadabout.calls import called
from gadabout.checks import check_whole, shown
from gadabout.driver import check_memory
from gadabout.layout import Layout
from gadabout.minibatch import Minibatches
from gadabout.model import AbstractModel
from gadabout.programs import fresh_with
from gadabout.proposals import AbstractDistribution
from gadabout.starts import check_density
from gadabout.target import Target, fresh

COPIES = 4
"""least count of numbers in memory for each coordinate of a draw: noise, draw, gradient, weight"""

type Seed = int | Key[Array, ""]
"""source of all randomness: an integer below 2³², or a key of `jax.random.key`"""

type Density = AbstractModel | Target | Callable[..., Any]
"""log density of a target: a model as `sample` takes it, or a target of flat positions"""


def key_of(seed: Seed) -> Key[Array, ""]:
    """The key that `sample` makes of the same seed; a typed key is returned unchanged.

    Raises TypeError unless the seed is an integer or a key, ValueError for a number out of range or more than one key.
    """
    if not (isinstance(seed, jax.Array) and jnp.issubdtype(seed.dtype, jax.dtypes.prng_key)):
        return jax.random.key(check_whole("seed", seed, 0, 2**32 - 1))
    if seed.shape:
        raise ValueError(f"seed must be one key, got keys of the shape {seed.shape}; pass one of them at a time")
    return seed


def check_room(argument: str, count: int, n: int) -> int:
    """Returns `count`, a number of draws of n coordinates; raises MemoryError with an estimate if they do not fit."""
    check_memory(COPIES * n * jnp.result_type(float).itemsize, count, f"{argument} = {count:,}", "use fewer")
    return count


def model_of(model: Density, data: PyTree, distribution: AbstractDistribution | None = None) -> AbstractModel:
    """The checked model, whose log density is that of all the data at once.

    Raises:
        TypeError: if `model` or `distribution` has the wrong type, data are given twice, or positions are integers.
        ValueError: for a posterior in batches, or if model and distribution differ in their number of coordinates.
    """
    if isinstance(model, Target) and data is not None:
        raise TypeError("data: a Target has its own; leave the argument out")
    if isinstance(model, Minibatches):
        raise ValueError(
            "model: batches only estimate its log density, which must be that of all rows here; pass the posterior's "
            "`log_density` with data=rows"
        )
    model = checked_model(FlatModel(model) if isinstance(model, Target) else model, data, None, None)
    if distribution is not None and not isinstance(distribution, AbstractDistribution):
        raise TypeError(
            f"distribution must be one of the library's, such as gadabout.proposals.Gaussian(mean, factor), or one "
            f"that derives from gadabout.AbstractDistribution, got {shown(distribution)}"
        )
    if model.layout is not None:
        _check_layout(model.layout, distribution)
    if distribution is not None:
        _check_draws(distribution)
        check_density(model.target, distribution.dim)
    return model


def fresh_for(target: Target, distribution: AbstractDistribution, order: int = 0) -> Target:
    """The target with an edition of what its function and a user's distribution compute now (see `target.fresh`)."""
    return fresh_with(fresh(target, distribution.dim, order), distribution, _evaluated, distribution, jax.random.key(0))


def _evaluated(target: Target, distribution: AbstractDistribution, key: Key[Array, ""]) -> Any:
    """All quantities that are computed from a distribution."""
    x = distribution.sample(key)
    return x, distribution.normalised_log_density(x), distribution.draw_with_log_density(distribution.noise(key))


def _check_draws(distribution: AbstractDistribution) -> None:
    """Raises ValueError unless draws of a distribution have the shape (dim,) that it declares."""
    expected = (distribution.dim,)
    draw = lambda key: eqx.filter_eval_shape(distribution.sample, key)
    shape = jnp.shape(called("distribution.sample", "of a key", draw, jax.random.key(0)))
    if shape != expected:
        raise ValueError(f"distribution.sample must draw positions of shape {expected}, got the shape {shape}")


def _check_layout(layout: Layout, distribution: AbstractDistribution | None) -> None:
    for name, dtype in zip(layout.names, layout.dtypes, strict=True):
        if not np.issubdtype(dtype, np.floating):
            raise TypeError(f"model: {name!r} has the type {dtype}, but distributions here are of real numbers")
    if distribution is not None and distribution.dim != layout.dim:
        leaves = ", ".join(f"{name}: {shape}" for name, shape in zip(layout.names, layout.shapes, strict=True))
        raise ValueError(
            f"distribution has {distribution.dim} coordinates, but the model's position has {layout.dim} ({leaves}); "
            "pass a distribution of flat positions, in which the leaves lie one after another"
        )


class FlatModel(AbstractModel):
    """A target of flat positions as a model."""

    name = "Target"

    def __init__(self, target: Target):
        self._target, self.layout = target, target.layout

    @property
    def target(self):
        return self._target


def as_flat(x: Any) -> Any:
    """Returns a flat position unchanged, for models whose position is the vector itself."""
    return x


def unraveller(model: AbstractModel) -> Callable[[Any], PyTree]:
    """The function from flat positions (..., n) to the user's form.

    That form is the log density's argument; or the variables by name, if the model has a `constrain` of its own.
    """
    if type(model).constrain is not AbstractModel.constrain:
        return model.constrain
    return as_flat if model.layout is None else model.layout.unravel


def flat_start(
    model: AbstractModel, init: PyTree | Callable[[Any], PyTree], key: Key[Array, ""]
) -> tuple[AbstractModel, Float[Array, " n"]]:
    """The model with the layout of `init`, a position or a function of a key, and the flat position from `init`.

    Raises TypeError or ValueError as `sample` does.
    """
    layout = starts_of(init, None, model, 1, discrete=False).layout
    position = model.start(key) if init is None else model.given(init(key) if callable(init) else init)
    model = model.laid_out(layout)
    check_density(model.target, layout.dim)
    return model, layout.ravel(position)
