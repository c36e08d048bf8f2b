"""True means, variances and quantiles of the built-in sets, with their standard errors, stored as JSON.

They come from exact draws if available, else from two runs of `nuts()` in sturdy coordinates, with two target
acceptance probabilities and two seeds. The runs must agree within 4 combined standard errors in every mean and variance
(5 with more than 100 coordinates); the figures are those of both runs together. For a symmetric density, runs explore
one copy, and draws are spread over all copies after the comparison of the runs.
"""

import json
import warnings
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gadabout.algorithms import nuts
from gadabout.api import sample
from gadabout.diagnostics import rhat
from gadabout.files import json_value, write_text
from gadabout.lab.peers.sturdy import STURDY
from gadabout.model import Model
from gadabout.targets import sets
from gadabout.targets.curved import parabolas, saturation
from gadabout.targets.modes import islands, period
from gadabout.targets.wild import geometry, regressions

EXACT = {
    "linear-raw": regressions.linear_raw_draws,
    "funnel": geometry.funnel_draws,
    "banana": geometry.banana_draws,
    "rotated-gaussian": geometry.rotated_gaussian_draws,
    "two-modes": geometry.two_modes_draws,
    "two-islands-2": islands.two_islands_2_draws,
    "two-islands-5": islands.two_islands_5_draws,
    "two-islands-20": islands.two_islands_20_draws,
    "ring-of-eight": islands.ring_of_eight_draws,
    "period": period.period_draws,
    "twisted-gaussian": parabolas.twisted_gaussian_draws,
    "rosenbrock": parabolas.rosenbrock_draws,
    "hybrid-rosenbrock": parabolas.hybrid_rosenbrock_draws,
    "six-parabolas": parabolas.six_parabolas_draws,
    "products": parabolas.products_draws,
    "rotated-parabola": parabolas.rotated_parabola_draws,
    "bent-funnel": parabolas.bent_funnel_draws,
    "saturation": saturation.saturation_draws,
}
HEAVY = ("funnel", "varying-slopes", "nested-effects")
"""targets judged by quantiles: rare, distant draws make an estimated variance useless, even that of a log scale"""

PROBABILITIES = (0.05, 0.25, 0.5, 0.75, 0.95)
CHAINS = 8
NUMBERS = 20_000_000
"""number of exact draws times number of coordinates; two million draws at most"""

Figures = dict[str, np.ndarray]


def truth(name: str, seed: int, draws: int | None = None) -> dict[str, Any]:
    """The document of a target that `write` stores; `draws` per chain and run replaces the target's own number.

    Raises ValueError for an unknown name, RuntimeError if chains or runs disagree.
    """
    model = sets.load(name)
    assert model.layout is not None
    document = {
        "target": name,
        "seed": seed,
        "date": str(date.today()),
        "judge": "quantiles" if name in HEAVY else "moments",
    }
    document |= {"command": f"gadabout bench truth {name} --seed {seed}" + (f" --draws {draws}" if draws else "")}
    few = model.layout.dim <= 200
    if name in EXACT:
        size = draws or min(2_000_000, NUMBERS // model.layout.dim)
        drawn = EXACT[name](np.random.default_rng(seed), size)
        x = np.concatenate([drawn[each].reshape(size, -1) for each in model.layout.names], 1)
        figures, how = of_independent(x), {"method": "exact draws", "num_draws": size}
    else:
        figures, how = _by_nuts(model, seed, draws or STURDY[name].draws, few)
    variables = {key: model.layout.split(values) for key, values in figures.items()}
    by_name = {each: {key: parts[each] for key, parts in variables.items()} for each in model.layout.names}
    for parts in by_name.values():
        parts |= {key: np.moveaxis(parts[key], 0, -1) for key in ("quantiles", "quantiles_error") if key in parts}
    return document | how | {"log_density": fingerprint(model), "variables": by_name}


def fingerprint(model: Model) -> float:
    """log π(0.1, …, 0.1) − log π(0, …, 0), which reveals a change of the model or its data."""
    assert model.layout is not None
    value = model.target.log_density
    return float(value(jnp.full(model.layout.dim, 0.1)) - value(jnp.zeros(model.layout.dim)))


def _by_nuts(model: Model, seed: int, draws: int, quantiles: bool) -> tuple[Figures, dict[str, Any]]:
    """Figures of two runs together, and their settings; raises RuntimeError if the runs disagree."""
    sturdy = STURDY[model.name]
    sampled = sturdy.model(model)  # once: the two runs share compiled programs
    each = [draws_of(model, sampled, acceptance, seed + i, draws) for i, acceptance in enumerate(sturdy.acceptance)]
    apart = largest_difference(*(of_chains(x, quantiles=False) for x in each))
    x = np.concatenate(each)
    worst = float(rhat(x).max())
    bound = 4 if x.shape[-1] <= 100 else 5
    if not (apart <= bound and worst <= 1.01):
        raise RuntimeError(
            f"{model.name}: runs are {apart:.1f} standard errors apart (at most {bound}), R-hat {worst:.4f} (at most "
            "1.01); make more draws, or find sturdier coordinates"
        )
    method = f"nuts({sturdy.metric!r}) in sturdy coordinates"
    if sturdy.copies is not None:
        x, method = sturdy.copies(np.random.default_rng(seed), x), f"{method}, spread over symmetric copies"
    how = {"method": method, "target_acceptances": sturdy.acceptance}
    how |= {"num_chains": 2 * CHAINS, "num_draws": draws, "rhat_max": worst, "largest_difference": apart}
    return of_chains(x, quantiles), how


def draws_of(model: Model, sampled: Model, acceptance: float, seed: int, draws: int) -> np.ndarray:
    """Draws (chain, draw, n) of the model's own flat coordinates."""
    sturdy = STURDY[model.name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the comparison of the two runs is a stronger check
        tree = sample(
            sampled,
            sampler=nuts(sturdy.metric, target_acceptance=acceptance),  # pyright: ignore[reportArgumentType]
            seed=seed,
            num_chains=CHAINS,
            num_draws=draws,
            record=["posterior"],
            progress=False,
        )
    assert model.layout is not None
    z = {each: np.asarray(tree["posterior"][each].values) for each in model.layout.names}
    go, layout = sturdy.to(model), model.layout
    one_chain = jax.jit(jax.vmap(lambda position: layout.ravel(go(position)[0])))
    return np.stack([one_chain({each: values[chain] for each, values in z.items()}) for chain in range(CHAINS)])


def of_chains(x: np.ndarray, quantiles: bool) -> Figures:
    """Mean and variance of draws (chain, draw, n), their errors, and quantiles: arrays (n,) and (5, n)."""
    from arviz_stats.base.array import array_stats

    axes: dict[str, Any] = {"chain_axis": 0, "draw_axis": 1}
    mean = x.mean((0, 1))
    squares = (x - mean) ** 2
    figures = {"mean": mean, "mean_error": array_stats.mcse(x, method="mean", **axes)}
    figures |= {"variance": squares.mean((0, 1)), "variance_error": array_stats.mcse(squares, method="mean", **axes)}
    if quantiles:
        errors = [array_stats.mcse(x, method="quantile", prob=p, **axes) for p in PROBABILITIES]
        figures |= {"quantiles": np.quantile(x, PROBABILITIES, (0, 1)), "quantiles_error": np.stack(errors)}
    return figures


def of_independent(x: np.ndarray) -> Figures:
    """The figures of `of_chains` for independent draws (draw, n); errors of quantiles use the binomial law of ranks."""
    N, mean = len(x), x.mean(0)
    squares = (x - mean) ** 2
    figures = {"mean": mean, "mean_error": x.std(0) / np.sqrt(N)}
    figures |= {"variance": squares.mean(0), "variance_error": squares.std(0) / np.sqrt(N)}
    p = np.array(PROBABILITIES)
    by_rank = np.sqrt(p * (1 - p) / N)
    low, middle, high = np.split(np.quantile(x, np.concatenate([p - by_rank, p, p + by_rank]), 0), 3)
    return figures | {"quantiles": middle, "quantiles_error": (high - low) / 2}


def largest_difference(a: Mapping[str, Any], b: Mapping[str, Any]) -> float:
    """The largest difference of means or variances, in combined standard errors."""
    return float(np.max(differences(a, b, ("mean", "variance"))))


def differences(a: Mapping[str, Any], b: Mapping[str, Any], keys: Sequence[str]) -> np.ndarray:
    """The largest difference of each coordinate's figures in combined standard errors, (n,); inf if these are 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = [np.abs(a[key] - b[key]) / np.hypot(a[f"{key}_error"], b[f"{key}_error"]) for key in keys]
    return np.max(np.nan_to_num(np.vstack(apart), nan=np.inf, posinf=np.inf), 0)


def flat(document: Mapping[str, Any], names: Sequence[str], keys: Sequence[str]) -> Figures:
    """Concatenated figures of a truth's variables, with their errors: shape (n,), or (5, n) for quantiles."""
    figures = [document["variables"][name] for name in names]
    both = [each for key in keys for each in (key, f"{key}_error")]
    one = lambda key, values: np.reshape(values, (-1, 5)).T if key.startswith("quantiles") else np.ravel(values)
    return {key: np.concatenate([one(key, figure[key]) for figure in figures], -1) for key in both}


def write(document: Mapping[str, Any], folder: Path | None = None) -> Path:
    """Writes a truth as a small JSON file: eight digits, six beyond 200 coordinates, two for errors."""
    path = (sets.set_of(document["target"]).folder if folder is None else folder) / f"{document['target']}.json"
    many = sum(np.size(figures["mean"]) for figures in document["variables"].values()) > 200
    rounded = {
        name: {
            key: _digits(values, 2 if key.endswith("error") else 6 if many else 8) for key, values in figures.items()
        }
        for name, figures in document["variables"].items()
    }
    head = json.dumps(json_value({key: value for key, value in document.items() if key != "variables"}), indent=1)
    lines = [f"  {json.dumps(name)}: {json.dumps(figures, separators=(',', ':'))}" for name, figures in rounded.items()]
    path.parent.mkdir(exist_ok=True)
    write_text(path, head.removesuffix("\n}") + ',\n "variables": {\n' + ",\n".join(lines) + "\n }\n}\n")
    return path


def _digits(values: Any, digits: int) -> Any:
    """Numbers rounded to `digits` significant digits, as nested lists."""
    if np.ndim(values):
        return [_digits(each, digits) for each in values]
    return float(f"{float(values):.{digits}g}")
