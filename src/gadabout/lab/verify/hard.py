"""Runs with default arguments: none on hard targets is wrong without a finding; on easy ones no finding is false."""

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from gadabout.findings.draws import ess_needed
from gadabout.lab.verify.frame import Figure, Found, Item, Parts
from gadabout.lab.verify.hard_targets import Hard, easy, hard
from gadabout.lab.verify.sampling import sample
from gadabout.target import LogDensityError

RIGHT, FLAGGED, REFUSED, FAILED, WRONG = "right", "flagged", "refused", "failed", "wrong without a word"
MOST_ERRORS = 4.0
"""largest error of a right expectation, in Monte Carlo standard errors; exceeded by chance once in 16,000 cases"""
MOST_FALSE = 0.01
"""largest accepted share of good runs that are flagged"""
SEEDS = (1, 2, 3)
QUICK = ("two far modes", "spike and slab", "−log π", "NaN in gradients")
"""the hard targets of the quick version"""


def judged(target: Hard, seed: int) -> dict[str, Any]:
    """The outcome of a run, the kinds of its findings, and the largest error of an expectation in standard errors."""
    precision = jax.enable_x64(not target.single)
    with warnings.catch_warnings(), precision:
        warnings.simplefilter("ignore")  # findings are counted
        try:
            tree = sample(target.log_density, target.start, seed=seed, progress=False)
        except LogDensityError as error:
            return {"outcome": REFUSED, "kinds": [], "off": None, "ess": None, "why": str(error)}
        except (ArithmeticError, np.linalg.LinAlgError) as error:
            return {"outcome": FAILED, "kinds": [], "off": None, "ess": None, "why": str(error)}
    kinds = sorted({finding["kind"] for finding in tree.attrs["findings"]})
    diagnostics = tree["diagnostics"]
    ess = min(float(diagnostics[f"ess_{kind}"]["x"].values.min()) for kind in ("bulk", "tail"))
    off = None if target.truth is None else errors(target, tree["posterior"]["x"].values)
    right = off is not None and off <= MOST_ERRORS and ess >= ess_needed(tree["posterior"].sizes["chain"])
    outcome = RIGHT if right else FLAGGED if kinds else WRONG
    return {"outcome": outcome, "kinds": kinds, "off": off, "ess": ess, "move": tree.attrs["choice"]["move"]}


def errors(target: Hard, draws: np.ndarray) -> float:
    """The largest error of an expectation over draws (chain, draw, n), in its Monte Carlo standard errors."""
    from arviz_stats.base.array import array_stats

    assert target.truth is not None
    features = target.truth.features(draws.astype(float))
    error = array_stats.mcse(features, method="mean", chain_axis=0, draw_axis=1)
    apart = np.abs(features.mean((0, 1)) - target.truth.values)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.max(np.where(apart > 0, np.nan_to_num(apart / error, nan=np.inf, posinf=np.inf), 0.0)))


def run(full: bool, store: Parts) -> Found:
    """Full: all hard targets with three seeds, 60 easy runs. Quick: four hard targets with one seed, ten easy runs."""
    seeds = SEEDS if full else SEEDS[:1]
    bad = {name: each for name, each in hard().items() if full or name in QUICK}
    good = {name: each for i, (name, each) in enumerate(easy().items()) if full or i % 3 == 0}
    rows = {name: _rows(f"hard-{i}", name, each, seeds, store) for i, (name, each) in enumerate(bad.items())}
    easy_rows = [
        row for i, (name, each) in enumerate(good.items()) for row in _rows(f"easy-{i}", name, each, seeds[:2], store)
    ]
    figures = [_figure(name, made) for name, made in rows.items()]
    false = [row for row in easy_rows if row["outcome"] == RIGHT and row["kinds"]]
    others = [row for row in easy_rows if row["outcome"] != RIGHT]
    figures += [
        Figure("easy targets, in three units: right", f"{len(easy_rows) - len(others)} of {len(easy_rows)}", "all",
               not others),
        Figure("good runs of these: flagged", f"{len(false)} of {len(easy_rows) - len(others)}",
               f"at most {MOST_FALSE:.0%}", len(false) <= MOST_FALSE * len(easy_rows), _kinds(false)),
    ]  # fmt: skip
    outcomes = Counter(row["outcome"] for made in rows.values() for row in made)
    counted = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
    return Found(figures, f"hard targets: {counted}; {len(false)} of {len(easy_rows)} easy runs flagged")


def _rows(part: str, name: str, target: Hard, seeds: tuple[int, ...], store: Parts) -> list[dict[str, Any]]:
    settings = {"target": name, "seeds": seeds}
    return store.part(part, settings, lambda: [judged(target, seed) for seed in seeds])


def _figure(name: str, rows: Sequence[Mapping[str, Any]]) -> Figure:
    counts = Counter(row["outcome"] for row in rows)
    said = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    return Figure(name, said, f"none {WRONG} or {FAILED}", not {WRONG, FAILED} & set(counts), _kinds(rows))


def _kinds(rows: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(sorted({kind for row in rows for kind in row["kinds"]}))


HARD = Item(
    "hard-targets",
    "Hard targets are sampled right or flagged, easy ones are not flagged",
    "draws that are wrong where no finding says so; findings that say something of draws that are right",
    run,
)
