r"""Learned coordinates z of positions x, in which a target is nearer to a standard Gaussian: $x = M(m + L z)$.

M unfolds what a Gaussian cannot follow. It is the composition of layers of `Noncentring`, none of them where x is
affine in z. π becomes the density $\pi(x(z))\,|\partial x/\partial z|$ of z.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from gadabout.density.base import AbstractDensity


@dataclass(frozen=True)
class Noncentring:
    r"""Children C whose scales are log-linear in ancestors A: $x_j = c_j + B_j a + e^{K_j a} y_j$ with $a = y_A - a_0$.

    All other coordinates are as they were, x = y. A hierarchical model written centred has children θ and the logarithm
    of their scale for an ancestor, with K = 1: y is the model written non-centred (Papaspiliopoulos, Roberts & Sköld
    2007, "A general framework for the parametrization of hierarchical models"). K = −1 undoes what was written
    non-centred, and what lies between partly non-centres.

    Args:
        ancestors: A, indices of shape (p,).
        children: C, of shape (q,), none of them an ancestor.
        centre: a₀, of shape (p,).
        location: c, of shape (q,).
        slopes: B, of shape (q, p).
        log_scales: K, of shape (q, p).
    """

    ancestors: np.ndarray
    children: np.ndarray
    centre: np.ndarray
    location: np.ndarray
    slopes: np.ndarray
    log_scales: np.ndarray

    def x(self, y: np.ndarray) -> np.ndarray:
        """x, of shape (m, n), of y of that shape."""
        x, (shift, log_scale) = y.copy(), self._of_ancestors(y)
        x[:, self.children] = shift + np.exp(log_scale) * y[:, self.children]
        return x

    def y(self, x: np.ndarray) -> np.ndarray:
        """y, of shape (m, n), of x of that shape."""
        y, (shift, log_scale) = x.copy(), self._of_ancestors(x)
        y[:, self.children] = (x[:, self.children] - shift) * np.exp(-log_scale)
        return y

    def log_det(self, y: np.ndarray) -> np.ndarray:
        """log |∂x/∂y|, of shape (m,)."""
        return (y[:, self.ancestors] - self.centre) @ self.log_scales.sum(0)

    def pull(self, y: np.ndarray, grad: np.ndarray) -> np.ndarray:
        """Gradients with respect to y of log π(x(y)) + log |∂x/∂y|, from those of log π at x(y), of shape (m, n)."""
        pulled, (_, log_scale) = grad.copy(), self._of_ancestors(y)
        g = grad[:, self.children]
        pulled[:, self.children] = stretched = np.exp(log_scale) * g
        pulled[:, self.ancestors] += g @ self.slopes + (stretched * y[:, self.children] + 1) @ self.log_scales
        return pulled

    def _of_ancestors(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """c + B a and K a, of shape (m, q)."""
        a = y[:, self.ancestors] - self.centre
        return self.location + a @ self.slopes.T, a @ self.log_scales.T


@dataclass(frozen=True)
class Coordinates:
    """x = M(m + L z), with L a diagonal or lower-triangular.

    Args:
        mean: m, of shape (n,).
        factor: L, of shape (n,) where it is diagonal, else (n, n).
        layers: those of M, the one that makes x first: x = M₁(M₂(… (m + L z))).
    """

    mean: np.ndarray
    factor: np.ndarray
    layers: tuple[Noncentring, ...] = ()

    @property
    def dense(self) -> bool:
        """Whether L is a matrix."""
        return self.factor.ndim == 2

    @property
    def dim(self) -> int:
        """The number of coordinates, n."""
        return len(self.mean)

    def x(self, z: np.ndarray) -> np.ndarray:
        """The positions, of shape (m, n), of coordinates of that shape."""
        return folded(self.layers, self.affine(z))

    def z(self, x: np.ndarray) -> np.ndarray:
        """The coordinates, of shape (m, n), of positions of that shape."""
        y = unfolded(self.layers, x) - self.mean
        return np.linalg.solve(self.factor, y.T).T if self.dense else y / self.factor

    def affine(self, z: np.ndarray) -> np.ndarray:
        """y = m + L z, of shape (m, n)."""
        return self.mean + (z @ self.factor.T if self.dense else z * self.factor)

    def through_factor(self, grad: np.ndarray) -> np.ndarray:
        """Gradients with respect to z, Lᵀ g, from those with respect to y, both of shape (m, n)."""
        return grad @ self.factor if self.dense else grad * self.factor

    def pull(self, z: np.ndarray, grad: np.ndarray) -> np.ndarray:
        """Gradients of log π(x(z)) + `log_det(z)`, from those of log π at x(z), all of shape (m, n)."""
        return self.through_factor(pulled(self.layers, self.affine(z), grad) if self.layers else grad)

    def log_det(self, z: np.ndarray) -> np.ndarray | float:
        """log |∂x/∂z| less log |L|, which does not depend on z: of shape (m,), or 0 without layers."""
        return log_det(self.layers, self.affine(z)) if self.layers else 0.0

    def log_volume(self) -> float:
        """log |L|."""
        return float(np.sum(np.log(np.abs(np.diagonal(self.factor) if self.dense else self.factor))))

    def deviations(self) -> np.ndarray:
        """The standard deviations of y where z is a standard Gaussian, of shape (n,)."""
        return np.sqrt(np.sum(self.factor**2, 1)) if self.dense else np.abs(self.factor)

    def diagonal(self) -> "Coordinates":
        """The coordinates with these standard deviations alone."""
        return replace(self, factor=self.deviations())

    def then(self, mean: np.ndarray, factor: np.ndarray) -> "Coordinates":
        """The coordinates z' of z = m' + L' z', with m' of shape (n,) and L' of shape (n,) or (n, n)."""
        if self.dense and factor.ndim == 2:
            product = self.factor @ factor
        elif factor.ndim == 2:
            product = self.factor[:, None] * factor
        else:
            product = self.factor * factor
        return replace(self, mean=self.affine(mean[None])[0], factor=product)

    def value_and_grad(self, density: "AbstractDensity", z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log π(x) + `log_det`, of shape (m,), and its gradients with respect to z, of shape (m, n)."""
        if not self.layers:
            value, grad = density.value_and_grad(self.affine(z))
            return value, self.through_factor(grad)
        value, grad = density.value_and_grad(self.x(z))
        return value + self.log_det(z), self.pull(z, grad)

    def arrays(self) -> dict[str, np.ndarray]:
        """All of it as arrays, for a state; see `of`."""
        return {"mean": self.mean, "factor": self.factor} | ({"layers": packed(self.layers)} if self.layers else {})

    @staticmethod
    def of(arrays: dict[str, np.ndarray]) -> "Coordinates":
        """The coordinates that a state holds."""
        return Coordinates(arrays["mean"], arrays["factor"], unpacked(arrays.get("layers")))


def folded(layers: Sequence[Noncentring], y: np.ndarray) -> np.ndarray:
    """x = M(y), of shape (m, n)."""
    for layer in reversed(layers):
        y = layer.x(y)
    return y


def unfolded(layers: Sequence[Noncentring], x: np.ndarray) -> np.ndarray:
    """y = M⁻¹(x), of shape (m, n)."""
    for layer in layers:
        x = layer.y(x)
    return x


def log_det(layers: Sequence[Noncentring], y: np.ndarray) -> np.ndarray:
    """log |∂x/∂y|, of shape (m,)."""
    total = np.zeros(len(y))
    for layer in reversed(layers):
        total, y = total + layer.log_det(y), layer.x(y)
    return total


def pulled(layers: Sequence[Noncentring], y: np.ndarray, grad: np.ndarray) -> np.ndarray:
    """Gradients with respect to y of log π(M(y)) + log |∂x/∂y|, from those of log π at M(y), all of shape (m, n)."""
    between = [y]
    for layer in reversed(layers[1:]):
        between.append(layer.x(between[-1]))
    for layer, here in zip(layers, reversed(between), strict=True):
        grad = layer.pull(here, grad)
    return grad


def packed(layers: Sequence[Noncentring]) -> np.ndarray:
    """Layers as one vector: of each the numbers p and q, then its arrays in the order of its fields."""
    parts = [[len(layers)]]
    for layer in layers:
        parts.append([len(layer.ancestors), len(layer.children)])
        parts += [layer.ancestors, layer.children, layer.centre, layer.location]
        parts += [layer.slopes.ravel(), layer.log_scales.ravel()]
    return np.concatenate(parts).astype(float)


def unpacked(vector: np.ndarray | None) -> tuple[Noncentring, ...]:
    """The layers of such a vector."""
    if vector is None:
        return ()
    layers, at = [], 1
    for _ in range(int(vector[0])):
        p, q = (int(size) for size in vector[at : at + 2])
        ends = np.cumsum([at + 2, p, q, p, q, q * p, q * p])
        A, C, centre, location, B, K = (vector[a:b] for a, b in pairwise(ends))
        layers.append(Noncentring(A.astype(int), C.astype(int), centre, location, B.reshape(q, p), K.reshape(q, p)))
        at = int(ends[-1])
    return tuple(layers)


def in_words(layers: Sequence[Noncentring], names: Sequence[str]) -> list[str]:
    """What scales what, a line for each variable and layer, such as "theta is scaled by exp(log_tau), about mu"."""
    lines = []
    for layer in layers:
        ancestors = [names[int(a)] for a in layer.ancestors]
        children = np.array([names[int(j)].split("[")[0] for j in layer.children])
        for variable in dict.fromkeys(children.tolist()):
            rows = np.flatnonzero(children == variable)
            own = names[int(layer.children[rows[0]])] if len(rows) == 1 else variable
            K, B = layer.log_scales[rows], layer.slopes[rows]
            scales = _terms(K, ancestors)
            about = [name for name, slopes in zip(ancestors, B.T, strict=True) if 0.7 < np.median(slopes) < 1.3]
            place = f", about {' + '.join(about)}" if 0 < len(about) <= 2 else ""
            if scales:
                lines.append(f"{own} is scaled by exp({scales}){place}")
    return lines


def _terms(K: np.ndarray, ancestors: Sequence[str]) -> str:
    """The sum of K a as people read it: `0.9 log_tau − 0.5 x[2]`; `log_lambda` of an own ancestor each."""
    signed: dict[str, list[float]] = {}
    for name, column in zip(ancestors, K.T, strict=True):
        if column.any():
            alone = np.count_nonzero(column) == 1 and len(column) > 1
            signed.setdefault(name.split("[")[0] if alone else name, []).append(float(column[column != 0].mean()))
    terms = []
    for name, values in signed.items():
        k = float(np.mean(values))
        size = "" if abs(abs(k) - 1) < 0.05 else f"{abs(k):.1f} "
        terms.append(f"{'−' if k < 0 else '+'} {size}{name}")
    joined = " ".join(terms).removeprefix("+ ")
    return f"−{joined[2:]}" if joined.startswith("− ") else joined
