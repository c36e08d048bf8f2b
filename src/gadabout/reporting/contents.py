"""Contents of the page: the words and numbers for its template."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gadabout.findings.draws import ess_needed, found_in_draws, judge, rhat_limit
from gadabout.reporting import pictures
from gadabout.reporting.panels import adaptation, coordinates, growth, learned, log_density, picture
from gadabout.reporting.pictures import FEWEST
from gadabout.reporting.reading import MOST_CHAINS, MOST_POINTS, Draws, draws_of_run, means, target_acceptance

if TYPE_CHECKING:
    import xarray as xr

MOST_CHAIN_ROWS = 32


def contents(tree: "xr.DataTree", facts: Mapping[str, Any]) -> dict[str, Any]:
    """All values of the template; `facts` are the attributes of the result, or the metadata of its store."""
    draws = draws_of_run(tree)
    return {
        "origin": origin(facts),
        "bias": facts.get("bias", ""),
        "findings": findings(tree, facts, draws),
        "tiles": tiles(tree, facts, draws),
        "rows": [] if draws is None else rows(draws),
        "draws": draws,
        "ess_needed": 0 if draws is None else ess_needed(draws.num_chains),
        "coordinates": [] if draws is None else coordinates(draws),
        "growth": None if draws is None or draws.values.shape[1] < 2 * FEWEST else growth(draws),
        "chains": chains(tree, facts),
        "log_density": log_density(tree, facts),
        "adaptation": adaptation(tree, facts),
        "learned": learned(tree, draws),
        "costs": costs(facts, draws),
        "settings": settings(facts),
        "bounds": {"chains": MOST_CHAINS, "points": MOST_POINTS},
    }


def figures(things: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """The page's figures for programs: those of the table by coordinate, findings, costs and settings."""
    draws = things["draws"]
    known = ("model", "sampler", "ending", "seed", "num_chains", "num_warmup", "num_draws", "gradient_evaluations")
    told = {name: facts.get(name) for name in known} | {"findings": list(things["findings"])}
    told |= {name: value for name, value in facts.items() if name.startswith("seconds_")}
    if draws is None:
        return told | {"draws": 0, "variables": {}}
    columns = {
        "mean": draws.values.mean((0, 1)),
        "sd": draws.values.std((0, 1), ddof=int(draws.values.shape[:2] != (1, 1))),
        "mcse": draws.mcse,
    }
    columns |= {
        "ess_bulk": draws.bulk[draws.shown],
        "ess_tail": draws.tail[draws.shown],
        "rhat": draws.rhat[draws.shown],
    }
    rows = zip(*columns.values(), strict=True)
    variables = {draws.names[i]: dict(zip(columns, row, strict=True)) for i, row in zip(draws.shown, rows, strict=True)}
    return told | {"draws": draws.num_draws, "coordinates": len(draws.names), "variables": variables}


ENDINGS = {
    "completed": "the run is complete",
    "satisfied": "the run ended as soon as its draws were enough",
    "interrupted": "the run was interrupted",
    "failed": "the run stopped early",
    "running": "the run has not ended: it is under way, or was killed",
}


def origin(facts: Mapping[str, Any]) -> list[str]:
    """Date, library version and ending of the run, in words."""
    made, version = facts.get("created_at"), facts.get("inference_library_version")
    library = f"{facts.get('inference_library', 'gadabout')} {version}" if version else ""
    told = [
        f"made {str(made)[:16].replace('T', ' ')} UTC" if made else "",
        library,
        ENDINGS.get(facts.get("ending", ""), ""),
    ]
    return [words for words in told if words]


def findings(tree: "xr.DataTree", facts: Mapping[str, Any], draws: Draws | None) -> list[Mapping[str, Any]]:
    """Findings recorded in the result; those of the draws alone if the run ended before it recorded any."""
    if isinstance(facts.get("findings"), list):
        return facts["findings"]
    if draws is None:
        return []
    posterior = tree["posterior"].to_dataset()
    spaced = posterior.isel(draw=slice(None, None, max(1, draws.judged)))
    return [finding.record() for finding in found_in_draws(spaced, judge(spaced))]


def tiles(tree: "xr.DataTree", facts: Mapping[str, Any], draws: Draws | None) -> list[tuple[str, str]]:
    """Name and value of the key figures at the top of the page."""
    if draws is None:
        return [("draws", "0")]
    accepted = means(tree, "sample_stats", "acceptance_rate")
    shown = {
        "chains × draws": f"{draws.num_chains:,} × {draws.num_draws:,}",
        "largest R-hat": number(_largest(draws.rhat), ".3f"),
        "smallest bulk ESS": number(_smallest(draws.bulk), ",.0f"),
        "smallest tail ESS": number(_smallest(draws.tail), ",.0f"),
        "acceptance": "–" if accepted is None else number(float(accepted.mean()), ".2f"),
    }
    seconds = facts.get("seconds_sampling")
    if seconds:
        shown["bulk ESS a second"] = number(_smallest(draws.bulk) / seconds, ",.0f")
    return list(shown.items())


def rows(draws: Draws) -> list[dict[str, Any]]:
    """Rows of the table, one for each shown coordinate."""
    found = []
    for column, i in enumerate(draws.shown):
        x = draws.values[:, :, column]
        ess = min(draws.bulk[i], draws.tail[i])
        limit = rhat_limit(np.asarray(ess), draws.within[i], draws.num_chains)
        low, high = np.quantile(x, (0.05, 0.95))
        cells = (x.mean(), x.std(ddof=1) if x.size > 1 else np.nan, draws.mcse[column], low, high)
        found.append(
            {
                "name": draws.names[i],
                "figures": [number(float(value), form) for value, form in zip(cells, FORMS, strict=True)],
                "ess": [
                    (number(float(e), ",.0f"), e < ess_needed(draws.num_chains)) for e in (draws.bulk[i], draws.tail[i])
                ],
                "rhat": (number(float(draws.rhat[i]), ".3f"), bool(draws.rhat[i] > limit)),
            }
        )
    return found


FORMS = (".4g", ".4g", ".2g", ".4g", ".4g")


def chains(tree: "xr.DataTree", facts: Mapping[str, Any]) -> dict[str, Any] | None:
    """Acceptance rate and counts of problems of each chain; of many chains, those with the lowest rates."""
    rates = means(tree, "sample_stats", "acceptance_rate")
    if rates is None:
        return None
    draws = tree["sample_stats"].sizes["draw"]
    columns: dict[str, Callable[[float], str]] = {
        "accepted": lambda m: number(m, ".3f"),
        "n_steps": lambda m: number(m, ".1f"),
    }
    columns |= dict.fromkeys(("diverging", "nonfinite"), lambda m: f"{round(m * draws):,}")
    found = {name: means(tree, "sample_stats", name) for name in columns}
    found = {name: values for name, values in found.items() if values is not None}
    least = np.sort(np.argsort(rates, kind="stable")[:MOST_CHAIN_ROWS])
    table = [
        [str(c), number(float(rates[c]), ".3f"), *(columns[name](float(v[c])) for name, v in found.items())]
        for c in least
    ]
    headings = {"accepted": "moved", "n_steps": "steps a draw", "diverging": "divergences", "nonfinite": "not finite"}
    return {
        "picture": picture(pictures.acceptance(rates, target_acceptance(facts)), "acceptance rate of each chain"),
        "headings": ["chain", "acceptance", *(headings[name] for name in found)],
        "rows": table,
        "left_out": len(rates) - len(table),
    }


def costs(facts: Mapping[str, Any], draws: Draws | None) -> list[tuple[str, str]]:
    """Name and value of times and of gradient evaluations."""
    names = {
        "compile": "compiling",
        "search": "searching a start",
        "warmup": "warm-up",
        "sampling": "sampling",
        "total": "in all",
    }
    recorded = [(words, facts.get(f"seconds_{name}")) for name, words in names.items()]
    found = [(words, f"{float(value):,.2f} s") for words, value in recorded if value is not None]
    gradients = facts.get("gradient_evaluations")
    if gradients is not None:
        found.append(("gradient evaluations", f"{int(gradients):,}"))
    if gradients and draws is not None:
        each = 1_000 * _smallest(draws.bulk) / gradients
        found.append(("bulk ESS for 1,000 gradients", number(each, ",.0f" if each > 100 else ".3g")))
    return found


def settings(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name and value of the requested settings and of the sampler's own."""
    chosen = facts.get("choice")
    names = (
        "sampler",
        "adaptation",
        "adapt",
        "seed",
        "num_chains",
        "num_warmup",
        "num_draws",
        "thinning",
        "float_type",
    )
    found = [(name, str(facts[name])) for name in names if facts.get(name) is not None]
    if isinstance(chosen, Mapping) and chosen.get("why"):
        found.append(("draws by", str(chosen["why"])))
    own = facts.get("sampler_settings")
    own = own.items() if isinstance(own, Mapping) else ()
    return found + [(str(name), str(value)) for name, value in own if value is not None]


def number(value: float, form: str) -> str:
    """A number in the format `form`; a dash for NaN."""
    return "–" if np.isnan(value) else f"{value:{form}}"


def _largest(values: np.ndarray) -> float:
    return float("nan") if np.isnan(values).all() else float(np.nanmax(values))


def _smallest(values: np.ndarray) -> float:
    return float("nan") if np.isnan(values).all() else float(np.nanmin(values))
