r"""Learned coordinates z of positions x, in which a target is nearer to a standard Gaussian: $x = M(m + L z)$.

M unfolds shapes that a Gaussian cannot follow. It is a composition of `Noncentring` layers; without layers x is affine
in z. The density of z is $\pi(x(z))\,|\partial x/\partial z|$.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

if TYPE_CHECKING:
    from gadabout.density.base import AbstractDensity

OTHER_VERSION = "the stored layers of coordinates are another version's: go on with that version, or start a new run"


@dataclass(frozen=True)
class Noncentring:
    r"""Children C whose locations and scales depend on ancestors A: $x_j = m_j(a) + s_j(a)\,y_j$ with $a = y_A - a_0$.

    The scale is log-linear, $s_j = e^{K_j a}$ and $m_j = c_j + B_j a$; or precisions add, as those of prior and data,
    $$s_j^{-2} = p_j e^{-2K_j a} + q_j,\quad m_j = w_j(c_j + B_j a) + (1 - w_j)\,d_j,\quad
    w_j = p_j e^{-2K_j a} s_j^2.$$
    The first is the case p = 1, q = 0. With bends Q, $a^\top Q_j a$ is added to $c_j + B_j a$: children lie along a
    parabola. With location scales P, $e^{P_j a}(c_j + B_j a)$ takes the place of $c_j + B_j a$. All other coordinates
    are unchanged, x = y.

    In a hierarchical model written centred, the children are θ, their ancestor is the logarithm of their scale, and
    K = 1. Then y is the model written non-centred (Papaspiliopoulos, Roberts & Sköld 2007, "A general framework for the
    parametrization of hierarchical models"). K = P = −1 centres a model written non-centred, and values in between
    non-centre partly. With data of precision q about d, y is θ standardised by its distribution given the data and all
    scales. This is partial pooling: non-centred where the scale is small, centred where it is large. In a model written
    non-centred, p and q are the precisions of data and prior. If children depend on each other given the ancestors, as
    the states of a random walk, all formulas are for $V^{-1} x_C$: the precisions of model and data are both diagonal
    in the basis V.

    Args:
        ancestors: A, indices of shape (p,).
        children: C, of shape (q,), none of them an ancestor.
        centre: a₀, of shape (p,).
        location: c, of shape (q,).
        slopes: B, of shape (q, p).
        log_scales: K, of shape (q, p).
        precision: p, of shape (q,); 1 where it is not given.
        data_precision: q, of shape (q,); 0 where it is not given.
        data_location: d, of shape (q,); 0 where it is not given.
        basis: V, of shape (q, q), with determinant 1 or −1; the unit matrix where it is not given.
        bends: Q, symmetric, of shape (q, p, p); 0 where it is not given.
        axes: W, of shape (n, n), with determinant 1 or −1. Where it is given, all of this holds for $W^{-1} x$.
        location_scales: P, of shape (q, p); 0 where it is not given.
    """

    ancestors: np.ndarray
    children: np.ndarray
    centre: np.ndarray
    location: np.ndarray
    slopes: np.ndarray
    log_scales: np.ndarray
    precision: np.ndarray | None = None
    data_precision: np.ndarray | None = None
    data_location: np.ndarray | None = None
    basis: np.ndarray | None = None
    bends: np.ndarray | None = None
    axes: np.ndarray | None = None
    location_scales: np.ndarray | None = None

    @property
    def pools(self) -> bool:
        """Whether the precisions of prior and data add."""
        return self.data_precision is not None

    def x(self, y: np.ndarray, of: "OfAncestors | None" = None) -> np.ndarray:
        """The positions x, of shape (m, n), of y of that shape; `of_ancestors(y)` is computed if it is not given."""
        x, of = y.copy(), of or self.of_ancestors(y)
        along = of.place + np.exp(of.log_scale) * y[:, self.children]
        x[:, self.children] = along if self.basis is None else along @ self.basis.T
        return x if self.axes is None else x @ self.axes.T

    def y(self, x: np.ndarray) -> np.ndarray:
        """The coordinates y, of shape (m, n), of x of that shape."""
        x = x if self.axes is None else np.linalg.solve(self.axes, x.T).T
        y, of = x.copy(), self.of_ancestors(x)
        along = x[:, self.children] if self.basis is None else np.linalg.solve(self.basis, x[:, self.children].T).T
        y[:, self.children] = (along - of.place) * np.exp(-of.log_scale)
        return y

    def log_det(self, y: np.ndarray, of: "OfAncestors | None" = None) -> np.ndarray:
        """log |∂x/∂y|, of shape (m,)."""
        return (of or self.of_ancestors(y)).log_scale.sum(1)

    def pull(self, y: np.ndarray, grad: np.ndarray, of: "OfAncestors | None" = None) -> np.ndarray:
        """Gradients with respect to y of log π(x(y)) + log |∂x/∂y|, from those of log π at x(y), of shape (m, n)."""
        grad = grad if self.axes is None else grad @ self.axes
        pulled, of = grad.copy(), of or self.of_ancestors(y)
        g = grad[:, self.children] if self.basis is None else grad[:, self.children] @ self.basis
        pulled[:, self.children] = stretched = np.exp(of.log_scale) * g
        of_scale = of.share * (stretched * y[:, self.children] + 1 - 2 * (1 - of.share) * of.apart * g)
        of_own = of.share * g  # derivatives with respect to children's own locations, without those of data
        of_place = of_own * of.stretch
        pulled[:, self.ancestors] += of_place @ self.slopes + of_scale @ self.log_scales
        if self.bends is not None:
            a = y[:, self.ancestors] - self.centre
            pulled[:, self.ancestors] += 2 * np.einsum("mq,qab,mb->ma", of_place, self.bends, a)
        if self.location_scales is not None:
            pulled[:, self.ancestors] += (of_own * of.own) @ self.location_scales
        return pulled

    def of_ancestors(self, y: np.ndarray) -> "OfAncestors":
        """The locations and log scales of children, given their ancestors, at y of shape (m, n)."""
        a = y[:, self.ancestors] - self.centre
        place, log_scale = self.location + a @ self.slopes.T, a @ self.log_scales.T
        if self.bends is not None:
            place += np.einsum("ma,qab,mb->mq", a, self.bends, a)
        stretch = 1.0
        if self.location_scales is not None:
            stretch = np.exp(a @ self.location_scales.T)
            place *= stretch
        if self.precision is None or self.data_precision is None or self.data_location is None:
            return OfAncestors(place, log_scale, place, stretch)
        with np.errstate(divide="ignore"):
            own = np.log(self.precision) - 2 * log_scale
            log_precision = np.logaddexp(own, np.log(self.data_precision))
        share, apart = np.exp(own - log_precision), place - self.data_location
        return OfAncestors(self.data_location + share * apart, -0.5 * log_precision, place, stretch, share, apart)


class OfAncestors(NamedTuple):
    """m, log s, o = e^(Pa) (c + B a + aᵀQ a), e^(Pa), w and o − d of children, each of shape (m, q).

    The last two are 1 and 0 unless precisions add.
    """

    place: np.ndarray
    log_scale: np.ndarray
    own: np.ndarray
    stretch: np.ndarray | float = 1.0
    share: np.ndarray | float = 1.0
    apart: np.ndarray | float = 0.0


@dataclass(frozen=True)
class Placed:
    """Positions x = M(y), of shape (m, n), log |∂x/∂y|, of shape (m,), and each layer with its y and `OfAncestors`."""

    x: np.ndarray
    log_det: np.ndarray
    passed: list[tuple[Noncentring, np.ndarray, OfAncestors]]

    def pull(self, grad: np.ndarray) -> np.ndarray:
        """Gradients with respect to y of log π(x) + `log_det`, from those of log π at x, both of shape (m, n)."""
        for layer, y, of in reversed(self.passed):
            grad = layer.pull(y, grad, of)
        return grad


def placed(layers: Sequence[Noncentring], y: np.ndarray) -> Placed:
    """The positions x = M(y) of y (m, n), through the layers from the last to the first."""
    log_det, passed = np.zeros(len(y)), []
    for layer in reversed(layers):
        of = layer.of_ancestors(y)
        passed.append((layer, y, of))
        log_det, y = log_det + layer.log_det(y, of), layer.x(y, of)
    return Placed(y, log_det, passed)


def unfolded(layers: Sequence[Noncentring], x: np.ndarray) -> np.ndarray:
    """The coordinates y = M⁻¹(x), of shape (m, n)."""
    for layer in layers:
        x = layer.y(x)
    return x


@dataclass(frozen=True)
class Coordinates:
    """The map x = M(m + L z), with L diagonal or lower-triangular.

    Args:
        mean: m, of shape (n,).
        factor: L, of shape (n,) where it is diagonal, else (n, n).
        layers: the layers of M, in the order x = M₁(M₂(… (m + L z))).
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

    def at(self, z: np.ndarray) -> Placed:
        """The positions of coordinates z (m, n), with `pull` for gradients with respect to y = m + L z."""
        return placed(self.layers, self.affine(z))

    def x(self, z: np.ndarray) -> np.ndarray:
        """The positions, of shape (m, n), of coordinates of that shape."""
        return self.at(z).x

    def z(self, x: np.ndarray) -> np.ndarray:
        """The coordinates, of shape (m, n), of positions of that shape."""
        y = unfolded(self.layers, x) - self.mean
        if not self.dense:
            return y / self.factor
        return solve_triangular(self.factor, y.T, lower=True, check_finite=False).T

    def affine(self, z: np.ndarray) -> np.ndarray:
        """y = m + L z, of shape (m, n)."""
        return self.mean + (z @ self.factor.T if self.dense else z * self.factor)

    def through_factor(self, grad: np.ndarray) -> np.ndarray:
        """Gradients with respect to z, Lᵀ g, from those with respect to y, both of shape (m, n)."""
        return grad @ self.factor if self.dense else grad * self.factor

    def log_det(self, z: np.ndarray) -> np.ndarray:
        """log |∂x/∂z| without the constant log |L|, of shape (m,)."""
        return self.at(z).log_det

    def log_volume(self) -> float:
        """The logarithm of the determinant, log |L|."""
        return float(np.sum(np.log(np.abs(np.diagonal(self.factor) if self.dense else self.factor))))

    def deviations(self) -> np.ndarray:
        """The standard deviations of y where z is a standard Gaussian, of shape (n,)."""
        return np.sqrt(np.sum(self.factor**2, 1)) if self.dense else np.abs(self.factor)

    def diagonal(self) -> "Coordinates":
        """The coordinates with the same standard deviations and no correlations in L."""
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
        here = self.at(z)
        value, grad = density.value_and_grad(here.x)
        return value + here.log_det, self.through_factor(here.pull(grad))

    def arrays(self) -> dict[str, np.ndarray]:
        """The coordinates as arrays, for a state; `of` is the inverse."""
        return {"mean": self.mean, "factor": self.factor} | ({"layers": packed(self.layers)} if self.layers else {})

    @staticmethod
    def of(arrays: dict[str, np.ndarray]) -> "Coordinates":
        """The coordinates that a state holds."""
        return Coordinates(arrays["mean"], arrays["factor"], unpacked(arrays.get("layers")))


def packed(layers: Sequence[Noncentring]) -> np.ndarray:
    """Layers as one vector: their number, then of each p, q, n where it has axes, which arrays it has, and these."""
    parts = [[len(layers)]]
    for layer in layers:
        arrays = [getattr(layer, field.name) for field in fields(layer)]
        sizes = len(layer.ancestors), len(layer.children), 0 if layer.axes is None else len(layer.axes)
        parts.append([*sizes, *(array is not None for array in arrays)])
        parts += [np.ravel(array) for array in arrays if array is not None]
    return np.concatenate(parts).astype(float)


def unpacked(vector: np.ndarray | None) -> tuple[Noncentring, ...]:
    """The layers of a vector from `packed`. Raises ValueError for one that an earlier version packed otherwise."""
    if vector is None:
        return ()
    layers, at = [], 1
    for _ in range(int(vector[0])):
        p, q, n = (int(size) for size in vector[at : at + 3])
        shapes = (p,), (q,), (p,), (q,), (q, p), (q, p), (q,), (q,), (q,), (q, q), (q, p, p), (n, n), (q, p)
        there, at = vector[at + 3 : at + 3 + len(shapes)], at + 3 + len(shapes)
        sizes = [int(known * np.prod(shape)) for known, shape in zip(there, shapes, strict=False)]
        if len(sizes) < len(shapes) or not there[:6].all() or at + sum(sizes) > len(vector):
            raise ValueError(OTHER_VERSION)
        parts = np.split(vector[at : at + sum(sizes)], np.cumsum(sizes)[:-1])
        arrays: list[Any] = [
            part.reshape(s) if known else None for part, s, known in zip(parts, shapes, there, strict=True)
        ]
        layers.append(Noncentring(parts[0].astype(int), parts[1].astype(int), *arrays[2:]))
        at += sum(sizes)
    if at != len(vector):
        raise ValueError(OTHER_VERSION)
    return tuple(layers)


def in_words(layers: Sequence[Noncentring], names: Sequence[str]) -> list[str]:
    """Lines on the children of layers, one for each variable and layer: "theta is scaled by exp(log_tau), about mu".

    Children in a common basis are named together. Where precisions of data and model add, lines say that this holds
    where data say little, or much, if locations are scaled too.
    """
    lines = []
    for layer in layers:
        ancestors = [names[int(a)] for a in layer.ancestors]
        children = np.array([names[int(j)].split("[")[0] for j in layer.children])
        if layer.axes is not None:
            variables = list(dict.fromkeys(name.split("[")[0] for name in names))
            verb, own = ("lie", "their") if len(variables) > 1 else ("lies", "its")
            lines.append(f"{_listed(variables)} {verb} about a parabola in axes of {own} own")
            continue
        based = np.zeros(len(children), bool)
        if layer.basis is not None:
            based = (layer.basis != np.eye(len(children))).any(1)
            together = list(dict.fromkeys(children[based].tolist()))
            scales = _terms(layer.log_scales[based], ancestors)
            lines.append(f"{_listed(together)} {_are(together)} scaled by exp({scales})")
            lines[-1] += f", in a basis of their own{_where(layer, based)}"
        for variable in dict.fromkeys(children[~based].tolist()):
            rows = np.flatnonzero((children == variable) & ~based)
            own = names[int(layer.children[rows[0]])] if len(rows) == 1 else variable
            K, B = layer.log_scales[rows], layer.slopes[rows]
            scales = _terms(K, ancestors)
            about = [name for name, slopes in zip(ancestors, B.T, strict=True) if 0.7 < np.median(slopes) < 1.3]
            place = f", about {' + '.join(about)}" if 0 < len(about) <= 2 else ""
            curve = _curve(layer, rows, ancestors)
            if scales:
                place = f", about a parabola of {curve}" if curve else place
                lines.append(f"{own} is scaled by exp({scales}){place}{_where(layer, rows)}")
            elif curve:
                lines.append(f"{own} lies about a parabola of {curve}")
    return lines


def _where(layer: Noncentring, rows: np.ndarray) -> str:
    """Where some children are scaled: everywhere if no precisions add."""
    if layer.data_precision is None or not layer.data_precision[rows].any():
        return ""
    scaled_too = layer.location_scales is not None and layer.location_scales[rows].any()
    return f", where data say {'much' if scaled_too else 'little'}"


def _curve(layer: Noncentring, rows: np.ndarray, ancestors: Sequence[str]) -> str:
    """The ancestors along which some children bend, by name; the variables of more than two; "" if there are none."""
    if layer.bends is None:
        return ""
    names = [name for name, bends in zip(ancestors, layer.bends[rows].any((0, 1)), strict=True) if bends]
    return _listed(names if len(names) <= 2 else list(dict.fromkeys(name.split("[")[0] for name in names)))


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _are(names: Sequence[str]) -> str:
    return "are" if len(names) > 1 else "is"


def _terms(K: np.ndarray, ancestors: Sequence[str]) -> str:
    """The sum of K a in readable form: `0.9 log_tau − 0.5 x[2]`; `log_lambda` where each child has its own ancestor."""
    signed: dict[str, list[float]] = {}
    for name, column in zip(ancestors, K.T, strict=True):
        if column.any():
            alone = np.count_nonzero(column) == 1 and len(column) > 1
            signed.setdefault(name.split("[")[0] if alone else name, []).append(float(column[column != 0].mean()))
    terms = []
    for name, values in signed.items():
        k = float(np.mean(values))
        size = "" if abs(abs(k) - 1) < 0.05 else f"{abs(k):.1f} " if abs(k) >= 0.05 else f"{abs(k):.1g} "
        terms.append(f"{'−' if k < 0 else '+'} {size}{name}")
    joined = " ".join(terms).removeprefix("+ ")
    return f"−{joined[2:]}" if joined.startswith("− ") else joined
