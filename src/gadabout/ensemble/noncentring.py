r"""Layers: maps x(y) that unfold shapes which a Gaussian cannot follow, as children that are scaled by ancestors."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

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
