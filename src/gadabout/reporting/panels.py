"""Pictures of the page, with alternative texts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gadabout.plotting import Figure, data_uri
from gadabout.reporting import pictures
from gadabout.reporting.reading import Draws, every, statistic

if TYPE_CHECKING:
    import xarray as xr

MOST_PICTURED = 6
"""Largest number of coordinates with a trace and ranks."""
MOST_TRACED = 10
LARGEST_MATRIX = 400
MOST_MATRICES, MOST_VECTORS = 2, 6

NOT_LEARNED = {"lp", "acceptance_rate", "gradient_evaluations", "n_steps", "tree_depth", "energy"}
"""Statistics of single transitions, not of the adaptation."""
MEANINGS = {
    "beta": "β, the weight of the entropy in the speed measure: steered until the acceptance rate is what it should be",
    "entropy": "the entropy of the proposal: how far its moves reach",
    "lower_bound": "the stochastic lower bound of the speed measure, which is climbed",
    "objective": "the objective in place of that bound, which is climbed: of single moves",
    "step_size": "the size of a step",
    "resets": "how often learning began anew",
}


@dataclass(frozen=True)
class Picture:
    """An image as a data URI, with an alternative text and a caption."""

    uri: str
    alt: str
    caption: str = ""


def picture(figure: Figure, alt: str, caption: str = "") -> Picture:
    """A figure as an image."""
    return Picture(data_uri(figure), alt, caption)


def coordinates(draws: Draws) -> list[tuple[str, list[Picture]]]:
    """Trace and ranks of the coordinates with the smallest ESS, by name."""
    made = []
    for i in draws.worst(MOST_PICTURED):
        name = draws.names[draws.shown[i]]
        both = [picture(pictures.coordinate(draws, i), f"trace of {name}")]
        if draws.num_chains > 1 and draws.values.shape[1] > 3:
            both.append(picture(pictures.ranks(draws, i), f"ranks of the draws of each chain of {name}"))
        made.append((name, both))
    return made


def growth(draws: Draws) -> Picture:
    """ESS against the number of draws."""
    return picture(pictures.ess_by_draws(draws, draws.worst(MOST_PICTURED)), "ESS against the number of draws")


def log_density(tree: "xr.DataTree", facts: Mapping[str, Any]) -> list[Picture]:
    """Traces of the log density in warm-up and in sampling."""
    made = []
    for group, stage in (("warmup_sample_stats", "warm-up"), ("sample_stats", "sampling")):
        values = statistic(tree, group, "lp")
        if values.size:
            values = values if stage == "sampling" else _without_the_fall(values)
            figure = pictures.trace(values, f"iteration of {stage}", "log density", _iterations(tree, group, facts))
            made.append(picture(figure, f"log density in {stage}", stage))
    return made


def adaptation(tree: "xr.DataTree", facts: Mapping[str, Any]) -> list[Picture]:
    """Traces of warm-up: the acceptance rate, then each statistic of the adaptation."""
    group = "warmup_sample_stats"
    if group not in tree.children:
        return []
    recorded = [str(name) for name, values in tree[group].data_vars.items() if values.dtype.kind in "fi"]
    names = [name for name in MEANINGS if name in recorded]
    names += [name for name in recorded if name not in MEANINGS and name not in NOT_LEARNED]
    made = []
    for name in [*(["acceptance_rate"] if "acceptance_rate" in recorded else []), *names][:MOST_TRACED]:
        values = statistic(tree, group, name)
        if values.size:
            caption = MEANINGS.get(name, "")
            if name == "acceptance_rate":
                values, caption = _smoothed(values), "of all chains, averaged over iterations near by"
            figure = pictures.trace(values, "iteration of warm-up", name, _iterations(tree, group, facts))
            made.append(picture(figure, f"{name} in warm-up", caption))
    return made


def learned(tree: "xr.DataTree", draws: Draws | None) -> dict[str, Any] | None:
    """Learned values: numbers as a table, vectors and matrices as images; those of the first chain if per chain."""
    if "learned" not in tree.children or not tree["learned"].data_vars:
        return None
    by_rank: dict[int, dict[str, np.ndarray]] = {0: {}, 1: {}, 2: {}}
    per_chain = False
    for name, variable in tree["learned"].data_vars.items():
        per_chain |= "chain" in variable.dims
        values = np.asarray((variable.isel(chain=0) if "chain" in variable.dims else variable).values, np.float64)
        by_rank.setdefault(values.ndim, {})[str(name)] = values
    numbers, vectors, matrices = (by_rank[rank] for rank in range(3))
    images = [
        one
        for name, x in list(matrices.items())[:MOST_MATRICES]
        for one in _matrix(name, x, _labels(tree, draws, len(x)))
    ]
    images += [picture(pictures.vector(x, name), name, name) for name, x in list(vectors.items())[:MOST_VECTORS]]
    left_out = [*list(matrices)[MOST_MATRICES:], *list(vectors)[MOST_VECTORS:]]
    return {
        "numbers": [(name, f"{float(x):.4g}") for name, x in numbers.items()],
        "images": images,
        "per_chain": per_chain,
        "left_out": left_out,
    }


def _matrix(name: str, values: np.ndarray, labels: list[str] | None) -> list[Picture]:
    """Picture of a matrix; for a lower triangle L also of the correlations of L Lᵀ, as a proposal uses it."""
    step = every(max(values.shape), LARGEST_MATRIX)
    note = f", one row and column in {step}" if step > 1 else ""
    labels = labels if step == 1 and values.shape[0] == values.shape[1] else None
    made = [picture(pictures.matrix(values[::step, ::step], labels), f"{name} as an image", f"{name}{note}")]
    if values.shape[0] == values.shape[1] > 1 and np.isfinite(values).all() and not np.triu(values, 1).any():
        rows = values[::step] / np.maximum(np.linalg.norm(values[::step], axis=1, keepdims=True), np.finfo(float).tiny)
        text = f"correlations of L Lᵀ, with L = {name}{note}"
        made.append(picture(pictures.matrix(rows @ rows.T, labels), text, text))
    return made


def _iterations(tree: "xr.DataTree", group: str, facts: Mapping[str, Any]) -> int:
    return int(tree[group].sizes["draw"]) * int(facts.get("thinning", 1))


def _smoothed(values: np.ndarray) -> np.ndarray:
    """Mean over all chains in each of about 100 windows, shape (1, windows)."""
    window = max(1, values.shape[1] // 100)
    return values[:, : values.shape[1] // window * window].reshape(len(values), -1, window).mean((0, 2))[None]


def _without_the_fall(values: np.ndarray) -> np.ndarray:
    """Values clipped from below, so that the far lower start of warm-up does not hide the rest."""
    later = values[:, values.shape[1] // 2 :]
    low, high = np.nanmin(later, initial=np.inf), np.nanmax(later, initial=-np.inf)
    return np.maximum(values, low - 3 * (high - low)) if np.isfinite(low) and high > low else values


def _labels(tree: "xr.DataTree", draws: Draws | None, n: int) -> list[str] | None:
    """Coordinate names of a learned array of length n; None if they are not those of the draws."""
    if draws is None or "unconstrained_posterior" in tree.children or len(draws.names) != n:
        return None
    return draws.names
