"""Figure 1: covariances learned on a correlated Gaussian in 2 dimensions, and on a Gaussian process in 51."""

from typing import Any

import numpy as np

from gadabout import plotting
from gadabout.algorithms import gad_mala, gad_rwm
from gadabout.lab.paper import likeness
from gadabout.lab.paper.methods import Method
from gadabout.lab.paper.published import FIGURE_1_BETA, FIGURE_1_EIGENVALUES
from gadabout.lab.paper.repeats import Repeat
from gadabout.lab.paper.session import Session
from gadabout.lab.paper.table import Outcome, markdown_table, section
from gadabout.plotting import MUTED, OURS, SECOND, TRUTH, Axes, Figure

SEEDS = 24
FLAT, SMOOTH = "correlated-2d", "gp-51d"


def run(session: Session) -> Outcome:
    """Makes the figure: gadRWM at two target acceptance rates over 24 seeds, and one long run of gadMALAf."""
    rates = {rate: session.shortened(_flat(rate)) for rate in FIGURE_1_BETA}
    smooth = session.shortened(_smooth())
    seeds = session.repeats or SEEDS
    session.complete("figure1", [*((FLAT, method) for method in rates.values()), (SMOOTH, smooth)], seeds)
    repeats = {rate: session.found(FLAT, method, seeds) for rate, method in rates.items()}
    learned = _covariance(session.found(SMOOTH, smooth, 1)[0])
    truths = {name: np.asarray(session.problem(name).covariance) for name in (FLAT, SMOOTH)}

    measures = {
        "beta": {str(rate): _betas(found) | {"published": FIGURE_1_BETA[rate]} for rate, found in repeats.items()},
        SMOOTH: _likeness(learned, truths[SMOOTH]),
    }
    figure = _draw(repeats, truths, learned, measures)
    picture = plotting.save(figure, session.out / "figure1.png")
    return Outcome("figure1", measures=measures, markdown=_markdown(measures, picture), pictures=[picture])


def _flat(rate: float) -> Method:
    recipe = lambda: gad_rwm(target_acceptance=rate, learning_rate=5e-4, form="paper")
    label = f"gadRWM, target acceptance {rate}"
    return Method(label, recipe, num_draws=1_000, together=True, start_at_zero=True, keep_factor=True)


def _smooth() -> Method:
    recipe = lambda: gad_mala(learning_rate=1e-3, form="paper")
    return Method("gadMALAf", recipe, 200_000, 1_000, num_repeats=1, keep_factor=True)


def _covariance(repeat: Repeat) -> np.ndarray:
    factor = likeness.factor(repeat)
    return factor @ factor.T


def _betas(repeats: list[Repeat]) -> dict[str, Any]:
    last = [repeat.account["beta"] for repeat in repeats]
    return {
        "last": last,
        "median": float(np.median(last)),
        "mean": float(np.mean(last)),
        "sd": float(np.std(last, ddof=1)) if len(last) > 1 else None,
        "acceptance_rate": float(np.mean([repeat.account["acceptance_rate"] for repeat in repeats])),
        "drawn": int(np.argmin(np.abs(last - np.median(last)))),
    }


def _likeness(learned: np.ndarray, truth: np.ndarray) -> dict[str, Any]:
    scale = likeness.multiple(learned, truth)
    return {
        "eigenvalues": np.linalg.eigvalsh(truth)[[0, -1]].tolist(),
        "learned_eigenvalues": (np.linalg.eigvalsh(learned)[[0, -1]] / scale).tolist(),
        "multiple": scale,
        "relative_frobenius_distance": likeness.distance(learned, truth),
        "correlation": likeness.correlation(learned, truth),
    }


def _draw(repeats: dict[float, list[Repeat]], truths: dict, learned: np.ndarray, measures: dict[str, Any]) -> Figure:
    figure = plotting.canvas(11, 7)
    panels = figure.subplots(2, 3)
    for axes, (rate, found) in zip(panels[0], repeats.items(), strict=False):
        measure = measures["beta"][str(rate)]
        _contours(axes, truths[FLAT], TRUTH, "target")
        _contours(axes, _covariance(found[measure["drawn"]]), OURS, "learned LLᵀ")
        axes.legend(fontsize=7.5, frameon=False, loc="upper left")
        shown = measure["last"][measure["drawn"]]
        plotting.note(axes, f"β = {shown:.1f}  (published {measure['published']})", 0.98, ha="right")
        plotting.heading(axes, f"gadRWM, target acceptance {rate}")
    reach = max(np.abs(axes.dataLim.get_points()).max() for axes in panels[0, :2]) * 1.06
    for axes in panels[0, :2]:
        axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    _seeds(panels[0, 2], measures["beta"])
    scale = measures[SMOOTH]["multiple"]
    _images(figure, list(panels[1, :2]), truths[SMOOTH], learned / scale, measures[SMOOTH])
    _eigenvalues(panels[1, 2], truths[SMOOTH], learned / scale)
    plotting.tidy(*panels.flat)
    panels[0, 2].set_xticks(range(len(repeats)), [str(rate) for rate in repeats])
    return figure


def _contours(axes: Axes, covariance: np.ndarray, colour: str, label: str) -> None:
    """Draws contours at 1, 2 and 3 standard deviations of a Gaussian in 2 dimensions, with mean zero."""
    angle = np.linspace(0, 2 * np.pi, 400)
    circle = np.linalg.cholesky(covariance) @ np.stack([np.cos(angle), np.sin(angle)])
    for deviations in (1, 2, 3):
        axes.plot(*(deviations * circle), color=colour, linewidth=1.1, label=label if deviations == 1 else None)


def _seeds(axes: Axes, betas: dict[str, Any]) -> None:
    for i, measure in enumerate(betas.values()):
        last = np.sort(measure["last"])
        x = i + 0.3 * (np.arange(len(last)) % 5 - 2) / 4
        axes.plot(x, last, "o", color=OURS, markersize=3.5, alpha=0.7, label=None if i else "one seed")
        for value, style, colour in (("median", "-", OURS), ("published", "--", SECOND)):
            label = "" if i else value
            axes.hlines(measure[value], i - 0.4, i + 0.4, color=colour, linestyle=style, linewidth=1.4, label=label)
    axes.set(xlim=(-0.6, len(betas) - 0.4), yscale="log")
    axes.set_xlabel("target acceptance", fontsize=8)
    axes.set_ylabel("last β", fontsize=8)
    axes.set_yticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
    axes.tick_params(axis="y", which="minor", labelleft=False)
    axes.legend(fontsize=7.5, frameon=False)
    plotting.heading(axes, "β at the end of adaptation")


def _images(figure: Figure, row: list[Axes], truth: np.ndarray, scaled: np.ndarray, measure: dict[str, Any]) -> None:
    low, high = min(truth.min(), scaled.min()), max(truth.max(), scaled.max())
    titles = ("Gaussian process, n = 51: exact covariance", "learned LLᵀ (gadMALAf), scaled to the exact one")
    images = [axes.imshow(values, vmin=low, vmax=high) for axes, values in zip(row, (truth, scaled), strict=True)]
    for axes, title in zip(row, titles, strict=True):
        plotting.heading(axes, title)
    plotting.note(row[1], f"relative distance {measure['relative_frobenius_distance']:.3f}")
    figure.colorbar(images[0], ax=row, shrink=0.8, pad=0.01).ax.tick_params(labelsize=7)


def _eigenvalues(axes: Axes, truth: np.ndarray, scaled: np.ndarray) -> None:
    for values, colour, label in ((truth, TRUTH, "exact"), (scaled, OURS, "learned, scaled")):
        axes.plot(np.arange(1, len(values) + 1), np.linalg.eigvalsh(values)[::-1], ".-", color=colour, label=label)
    axes.axhline(FIGURE_1_EIGENVALUES[0], color=MUTED, linewidth=0.8, linestyle="--")
    axes.axhline(FIGURE_1_EIGENVALUES[1], color=MUTED, linewidth=0.8, linestyle="--", label="published range")
    axes.set_yscale("log")
    axes.set_xlabel("rank", fontsize=8)
    axes.legend(fontsize=7.5, frameon=False)
    plotting.heading(axes, "Eigenvalues")


def _markdown(measures: dict[str, Any], picture) -> str:
    headings = ("Last β, by target acceptance", "published", "median", "mean", "sd", "seeds", "acceptance, then frozen")
    lines = [
        (
            rate,
            f"*{m['published']}*",
            f"{m['median']:.2f}",
            f"{m['mean']:.2f}",
            "" if m["sd"] is None else f"{m['sd']:.2f}",
            str(len(m["last"])),
            f"{m['acceptance_rate']:.3f}",
        )
        for rate, m in measures["beta"].items()
    ]
    smooth = measures[SMOOTH]
    low, high = smooth["eigenvalues"]
    text = (
        f"Gaussian process in 51 dimensions: eigenvalues {low:.2f} to {high:.2f} "
        f"(published {FIGURE_1_EIGENVALUES[0]} to {FIGURE_1_EIGENVALUES[1]}). What gadMALAf learned is "
        f"{smooth['multiple']:.3f} times the exact covariance up to a relative Frobenius distance of "
        f"{smooth['relative_frobenius_distance']:.3f} (correlation of the entries {smooth['correlation']:.4f}); its "
        f"eigenvalues, scaled, run from {smooth['learned_eigenvalues'][0]:.4f} to "
        f"{smooth['learned_eigenvalues'][1]:.2f}. The contours are those of the seed with the median β."
    )
    return section("Figure 1", [markdown_table(headings, lines), text], picture)
