"""Learned coordinates in words: which variables are scaled by which, as the report tells them."""

from collections.abc import Sequence

import numpy as np

from gadabout.ensemble.noncentring import Noncentring


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
