"""Where chains start that nobody placed: functions of a key, and of NumPy's generator for all chains at once."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key


@dataclass(frozen=True)
class Uniform:
    """Uniform on (−radius, radius) in every unconstrained coordinate, (−2, 2) as in Stan."""

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
    """N(0, I) in n coordinates."""

    dim: int

    def __call__(self, key: Key[Array, ""]) -> Float[Array, " n"]:
        return jax.random.normal(key, (self.dim,))

    def rows(self, rng: np.random.Generator, chains: int) -> np.ndarray:
        """Positions, shape (chains, n)."""
        return rng.standard_normal((chains, self.dim))
