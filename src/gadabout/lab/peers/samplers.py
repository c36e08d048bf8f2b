"""All exact samplers on the same targets: q (see `quality`) per second and per gradient evaluation."""

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gadabout import targets
from gadabout.algorithms import RECIPES, default
from gadabout.api import sample
from gadabout.diagnostics import ess_table, rhat
from gadabout.sampler import Sampler
from gadabout.schedule import Plan

VARIANTS: dict[str, Callable[[], Sampler | Plan]] = {
    "default": default,
    "gad-mala, exact": lambda: RECIPES["gad-mala"](variant="exact"),
    "gad-mala, diagonal": lambda: RECIPES["gad-mala"](factor="diagonal"),
    "gad-rwm, diagonal": lambda: RECIPES["gad-rwm"](factor="diagonal"),
    "am, as written": lambda: RECIPES["am"](variant="as-written"),
    "am, diagonal": lambda: RECIPES["am"](factor="diagonal"),
}
"""The default plan, and recipes with other settings, which run in addition to every recipe with its defaults."""


def measure(
    problem: targets.Problem,
    sampler: Sampler | Plan,
    num_chains: int,
    num_draws: int,
    seed: int,
    num_warmup: int | None,
) -> dict[str, Any]:
    """The cost and the `quality` of one run."""
    tree = sample(
        problem,
        sampler=sampler,
        seed=seed,
        num_chains=num_chains,
        num_warmup=num_warmup,
        num_draws=num_draws,
        record=["posterior", "acceptance_rate"],
        progress=False,
    )
    q, rhat_max = quality(np.asarray(tree["posterior"]["x"].values))
    seconds = tree.attrs["seconds_warmup"] + tree.attrs["seconds_sampling"]
    gradients = tree.attrs["gradient_evaluations"]
    return {
        "acceptance_rate": float(np.mean(tree["sample_stats"]["acceptance_rate"].values)),  # pyright: ignore
        "q": q,
        "seconds": seconds,
        "compile_seconds": tree.attrs["seconds_compile"],
        "q_per_second": q / seconds,
        "gradient_evaluations": gradients,
        "q_per_gradient": q / gradients if gradients else None,
        "rhat_max": rhat_max,
        "warnings": tree.attrs["warnings"],
    }


def quality(draws: np.ndarray) -> tuple[float, float | None]:
    """q, the smallest over coordinates of min(bulk ESS of x, ESS of (x − mean)²), and the largest R-hat.

    `draws` has the shape (chain, draw, n). R-hat is None for a single chain.
    """
    ess = ess_table(draws)
    q = float(np.min(np.minimum(ess["bulk"], ess["square"])))
    return q, float(np.max(rhat(draws))) if len(draws) > 1 else None


def samplers(
    names: list[str],
    num_chains: int,
    num_draws: int,
    seed: int,
    data_home: str | Path | None = None,
    chosen: list[str] | None = None,
    num_warmup: int | None = None,
) -> Iterator[dict[str, Any]]:
    """Yields a row for each target and sampler. Times include warm-up, whose length is the sampler's own unless given.

    `chosen` are names of `RECIPES` and `VARIANTS`; all if none are given. Raises ValueError for another name.
    """
    made = {**RECIPES, **VARIANTS}
    for label in chosen or made:
        if label not in made:
            raise ValueError(f"there is no sampler {label!r}, only {', '.join(made)}")
    for name in names:
        problem = targets.load(name, data_home)
        for label in chosen or made:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the row has the warnings
                row = measure(problem, made[label](), num_chains, num_draws, seed, num_warmup)
            yield {"target": name, "sampler": label, **row}
