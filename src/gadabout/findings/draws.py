"""Diagnostics of the draws of a run: R-hat and ESS against their limits.

The figures of each coordinate are computed (`gadabout.diagnostics.judged`) from at most 100,000 evenly spaced draws of
each chain, block by block of coordinates, so that they need no more memory than the run.

The limit of R-hat is max(1.01, 1 + 3 · chains / ESS), with the smaller of the coordinate's bulk and tail ESS: if C
chains agree, R-hat² − 1 is about χ²/(2C − 1) · 2C/ESS with 2C − 1 degrees of freedom. Chains that lie apart have a
small ESS for that very reason. R-hat is therefore also reported above the same limit with 6 in place of 3 and the ESS
within chains, and above 1.1 in any case. The limit of ESS is 100 for each chain (Vehtari et al. 2021, section 4), and
400 if there are more than four.
"""

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gadabout.diagnostics import judged, spacing_of
from gadabout.findings.records import MOST_NAMED, Finding

if TYPE_CHECKING:
    import xarray as xr

ESS_PER_CHAIN, ESS_ENOUGH = 100, 400
RHAT_LEAST, RHAT_MOST = 1.01, 1.1
MOST_COMPARED = 32
"""largest number of chains among which those that stand apart are searched for"""

TOLD = 3
"""largest number of coordinates that a message names with their figures"""

KINDS = ("ess_bulk", "ess_tail", "rhat", "ess_within")


class Verdict(NamedTuple):
    """The names of all coordinates and their figures, each of shape (n,), from every `spacing`-th draw.

    For a coordinate that never moves in any chain ESS is 1, R-hat NaN. R-hat of a single chain is that of its halves.
    `ess_within` is the ESS of chains by themselves, however far apart they lie. All figures are NaN for fewer than 4
    draws, and if a draw is not finite.
    """

    names: list[str]
    ess_bulk: np.ndarray
    ess_tail: np.ndarray
    ess_within: np.ndarray
    rhat: np.ndarray
    spacing: int

    @property
    def ess(self) -> np.ndarray:
        """The smaller of bulk and tail ESS; NaN if a coordinate never moves or cannot be judged."""
        return np.where(np.isnan(self.rhat), np.nan, np.minimum(self.ess_bulk, self.ess_tail))


def judge(posterior: "xr.Dataset") -> Verdict:
    """The figures of all variables, which have dimensions (chain, draw, ...) and numbers of any kind."""
    chains, draws = posterior.sizes["chain"], posterior.sizes["draw"]
    spacing = spacing_of(chains, draws)
    parts = [judged(draws_of(values, spacing)) for values in posterior.data_vars.values()]
    bulk, tail, within, rhat = (np.concatenate(each) for each in zip(*parts, strict=True))
    return Verdict(names_of(posterior), bulk, tail, within, rhat, spacing)


def draws_of(variable: "xr.DataArray", spacing: int = 1) -> np.ndarray:
    """Every `spacing`-th draw of a variable, shape (chain, draw, coordinate)."""
    values = variable[:, ::spacing].values
    return values.reshape(*values.shape[:2], int(np.prod(values.shape[2:])))


def names_of(posterior: "xr.Dataset") -> list[str]:
    """The names of all coordinates, by the labels along their dimensions: `mu`, `x[0,1]`, `weights[age]`."""
    names = []
    for name, variable in posterior.data_vars.items():
        labels = [map(str, variable[dim].values.tolist()) for dim in variable.dims[2:]]
        names += [f"{name}[{','.join(index)}]" if index else str(name) for index in product(*labels)]
    return names


def as_tree(verdict: Verdict, posterior: "xr.Dataset") -> "xr.DataTree":
    """The figures as groups named by `KINDS`, each with the variables and dimensions of the draws."""
    import xarray as xr

    one = posterior.isel(chain=0, draw=0, drop=True)
    groups, ends = {}, np.cumsum([variable.size for variable in one.data_vars.values()])
    for kind in KINDS:
        parts = np.split(getattr(verdict, kind), ends[:-1])
        parts = zip(one.data_vars.items(), parts, strict=True)
        groups[kind] = xr.Dataset(
            {name: variable.copy(data=x.reshape(variable.shape)) for (name, variable), x in parts}
        )
    tree = xr.DataTree.from_dict(groups)
    tree.attrs = {"every": verdict.spacing}
    return tree


def found_in_draws(posterior: "xr.Dataset", verdict: Verdict) -> list[Finding]:
    """The findings from R-hat and ESS of the draws, of which there is at least one."""
    chains, draws = posterior.sizes["chain"], posterior.sizes["draw"]
    apart = disagreement(posterior, verdict)
    few = [] if apart and draws < ESS_PER_CHAIN else too_few(verdict, chains, draws, bool(apart))
    return apart + few


def disagreement(posterior: "xr.Dataset", verdict: Verdict) -> list[Finding]:
    """A finding if R-hat is above its limit, with the chains that stand apart; at most one."""
    chains = posterior.sizes["chain"]
    limit = rhat_limit(verdict.ess, verdict.ess_within, chains)
    worst = _worst(-verdict.rhat, verdict.rhat > limit)
    if not len(worst):
        return []
    told = _told(verdict, verdict.rhat, worst, ".3f")
    common = _common(verdict, worst, verdict.rhat, limit)
    if chains == 1:
        problem = f"the first half of the chain does not agree with the second, by their R-hat: {told}"
        return [Finding("halves", problem, "it has not arrived yet; use more num_warmup and num_draws", **common)]
    out = _apart(_coordinate(posterior, worst[0], verdict.spacing))
    which = f"; without chains {out} the others agree on {verdict.names[worst[0]]}" if out else ""
    remedy = "do not rely on these draws; try more num_warmup and num_draws, other starts, or another sampler"
    return [Finding("rhat", f"the chains do not agree, by R-hat: {told}{which}", remedy, chains=out, **common)]


def rhat_limit(ess: np.ndarray, within: np.ndarray, chains: int) -> np.ndarray:
    """The R-hat that chance alone explains; larger for a single chain, whose halves have one degree of freedom."""
    room = 3 * chains if chains > 1 else 15
    return np.clip(np.minimum(1 + room / ess, 1 + 2 * room / within), RHAT_LEAST, RHAT_MOST)


def ess_needed(chains: int) -> int:
    """The smallest ESS, of all chains together, that causes no warning."""
    return min(ESS_PER_CHAIN * chains, ESS_ENOUGH)


def too_few(verdict: Verdict, chains: int, draws: int, apart: bool = False) -> list[Finding]:
    """A finding if an ESS is too small for quantiles and R-hat, or "few-draws" if chains are short; at most one."""
    if draws < 4:
        return [Finding("few-draws", f"{draws} draws of each chain cannot be judged", "use more num_draws")]
    needed = ess_needed(chains)
    worst = _worst(verdict.ess, verdict.ess < needed)
    if not len(worst):
        return []
    smallest = float(verdict.ess[worst[0]])
    told = f"the ESS is below {needed}: {_told(verdict, verdict.ess, worst, ',.0f')}"
    remedy = f"use num_draws={rounded(draws * min(100.0, max(2.0, 2 * needed / smallest)))}"
    remedy = "more draws help once the chains agree" if apart else remedy
    common = _common(verdict, worst, verdict.ess, np.full(len(verdict.ess), float(needed)))
    if draws < ESS_PER_CHAIN:
        return [Finding("few-draws", f"{draws} draws of each chain are few, {told}", remedy, **common)]
    return [Finding("ess", f"the draws are too few for quantiles and R-hat, {told}", remedy, **common)]


def _worst(figures: np.ndarray, bad: np.ndarray) -> np.ndarray:
    """The indices of the bad coordinates, the smallest figure first."""
    return np.flatnonzero(bad)[np.argsort(figures[bad], kind="stable")]


def _told(verdict: Verdict, figures: np.ndarray, worst: np.ndarray, form: str) -> str:
    """The worst coordinates with their figures and the number of the others, in words."""
    told = ", ".join(f"{verdict.names[i]} {figures[i]:{form}}" for i in worst[:TOLD])
    rest = f" and {len(worst) - TOLD:,} more of {len(verdict.names):,} coordinates" if len(worst) > TOLD else ""
    return told + rest + (f" (one draw in {verdict.spacing} was judged)" if verdict.spacing > 1 else "")


def _common(verdict: Verdict, worst: np.ndarray, figures: np.ndarray, limits: np.ndarray) -> dict:
    """The fields of a record on some coordinates: names, worst figure, limit."""
    names = [verdict.names[i] for i in worst[:MOST_NAMED]]
    return {"variables": names, "figure": float(figures[worst[0]]), "limit": float(limits[worst[0]])}


def _coordinate(posterior: "xr.Dataset", index: int, spacing: int) -> np.ndarray:
    """The draws of the coordinate with this index among all, shape (chain, draw)."""
    for variable in posterior.data_vars.values():
        size = int(np.prod(variable.shape[2:]))
        if index < size:
            return draws_of(variable, spacing)[:, :, index]
        index -= size
    raise IndexError(index)


def _apart(draws: np.ndarray) -> Sequence[int]:
    """The chains, fewer than half, without which the others agree on one coordinate; empty if there are none."""
    left = list(range(len(draws)))
    for _ in range((len(draws) - 1) // 2 if len(draws) <= MOST_COMPARED else 0):
        without = [judged(draws[[c for c in left if c != out], :, None]) for out in left]
        best = int(np.argmin([np.nan_to_num(found.rhat[0], nan=1) for found in without]))
        left.pop(best)
        found = without[best]
        if not found.rhat[0] > rhat_limit(np.minimum(found.bulk, found.tail), found.within, len(left))[0]:
            return sorted(set(range(len(draws))) - set(left))
    return []


def rounded(number: float) -> int:
    """The number rounded up to one significant digit."""
    step = 10 ** int(np.log10(number))
    return int(np.ceil(number / step)) * step
