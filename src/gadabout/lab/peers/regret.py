"""Cost of the default's choice of a move: the chosen move compared with each move forced on each posterior.

A run is judged by q, the smallest ESS of a coordinate or its square, divided by the cost of its draws: a gradient
evaluation counts 1, a value alone 0.5. Warm-up is left out, as it is the same for all moves but NUTS. The regret of a
choice is its share of the best move's q per gradient evaluation. A forced move with an R-hat above 1.1 has not drawn
from the posterior and is left out of the comparison.
"""

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gadabout.algorithms import default
from gadabout.api import sample
from gadabout.ensemble.choose import VALUE
from gadabout.ensemble.trial import LARGEST_RHAT
from gadabout.lab.peers.samplers import quality
from gadabout.lab.rows import Rows
from gadabout.model import AbstractModel

MOVES = ("auto", "split-hmc", "independence", "nuts")


def rows(
    models: Mapping[str, AbstractModel], seeds: Sequence[int], num_draws: int = 1000, file: Path | None = None
) -> Iterator[dict[str, Any]]:
    """Yields a row for each model, seed and move. Rows that `file` holds are reused, and new ones are added to it."""
    stored = Rows(file)
    for name, model in models.items():
        for seed in seeds:
            for move in MOVES:
                known = {"target": name, "seed": seed, "forced": move, "num_draws": num_draws}
                yield stored.row(known, lambda model=model, known=known: run(model, known))


def run(model: AbstractModel, known: Mapping[str, Any]) -> dict[str, Any]:
    """The move of the draws, q, R-hat, the cost of a draw, seconds of the call, and `worth`, q per draw and cost."""
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # only the figures count here
        sampler = default(move=known["forced"])
        tree = sample(model, sampler=sampler, seed=known["seed"], num_draws=known["num_draws"], progress=False)
    seconds = time.perf_counter() - began
    assert model.layout is not None
    own = (np.asarray(tree["posterior"][name].values, float) for name in model.layout.names)
    draws = np.concatenate([each.reshape(*each.shape[:2], -1) for each in own], 2)
    q, rhat_max = quality(draws)
    made = np.asarray(tree["sample_stats"]["gradient_evaluations"].values)
    cost = float(np.mean(np.where(made > 0, made, VALUE)))
    found = {"move": tree.attrs["choice"]["move"], "q": q, "rhat_max": rhat_max, "cost": cost, "seconds": seconds}
    return found | {"worth": q / (draws.shape[0] * draws.shape[1] * cost)}


def regrets(made: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """For each target and seed: the chosen move, the best move, and the worth of the choice as a share of the best.

    The share is at most 1: if the choice exceeds all forced moves, by chance or because its move was not forced, it
    counts as the best.
    """
    found = []
    for key in dict.fromkeys((row["target"], row["seed"]) for row in made):
        own = {row["forced"]: row for row in made if (row["target"], row["seed"]) == key}
        chosen = own.pop("auto")
        good = [row for row in own.values() if row["rhat_max"] <= LARGEST_RHAT]
        best = max(good, key=lambda row: row["worth"], default=chosen)
        share = chosen["worth"] / max(best["worth"], chosen["worth"])
        row = {"target": key[0], "seed": key[1], "chosen": chosen["move"], "worth": chosen["worth"]}
        found.append(row | {"best": best["move"] if share < 1 else chosen["move"], "share": share})
    return found
