"""Bad chains raise findings, and good ones do not."""

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from gadabout import algorithms
from gadabout.adaptations import NoAdaptation
from gadabout.factors import Diagonal
from gadabout.findings.draws import found_in_draws, judge
from gadabout.kernels import Metropolis
from gadabout.lab.verify.exact import SKEW
from gadabout.lab.verify.frame import Figure, Found, Item, Parts
from gadabout.lab.verify.runs import GOOD, many
from gadabout.lab.verify.sampling import sample
from gadabout.proposals import RandomWalk
from gadabout.sampler import Sampler

MOST_FALSE = 0.01
CHAINS, DRAWS = 4, 1_000


def normal(x):
    """N(0, I)."""
    return -0.5 * jnp.sum(x**2)


def _spike(x):
    return jnp.where(jnp.all(x == 9.0), 0.0, jnp.where(jnp.all(jnp.abs(x) < 8), normal(x), -1e120))


def _two_modes(x):
    return jnp.logaddexp(normal(x - 10), normal(x + 10))


def _partly_nan(x):
    return jnp.where(x[0] > 2.0, jnp.nan, normal(x))


def told(log_density: Callable, seed: int, **arguments: Any) -> set[str]:
    """The kinds of findings of a run."""
    arguments = {"num_chains": CHAINS, "num_warmup": 0, "num_draws": DRAWS} | arguments
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        tree = sample(log_density, seed=seed, progress=False, **arguments)
    return {finding["kind"] for finding in tree.attrs["findings"]}


class Still(RandomWalk):
    """A proposal that is never accepted."""

    def move(self, noise, here, target):
        return here, -jnp.inf


def _never_moving(n, learned):
    return Metropolis(Still(Diagonal(jnp.ones(n))))


NEVER_MOVING = Sampler("never-moving", _never_moving, NoAdaptation())


def never_moving(seed):
    """Findings of a run whose kernel never moves."""
    return told(normal, seed, init=jnp.zeros(3), sampler=NEVER_MOVING)


def frozen_start(seed):
    """Findings of a run with one chain at an isolated point, beside which the log density falls to −10¹²⁰."""
    start = jnp.zeros((CHAINS, 3)).at[1].set(9.0)
    return told(_spike, seed, init_per_chain=start, sampler=algorithms.rwm(step_size=0.9))


def far_modes(seed):
    """Findings for two modes, 20 standard deviations apart in each coordinate, with two chains in each."""
    start = 10 * jnp.repeat(jnp.array([-1.0, 1.0]), 2)[:, None] * jnp.ones((CHAINS, 3))
    return told(_two_modes, seed, init_per_chain=start, sampler=algorithms.mala(step_size=0.9))


def far_modes_default(seed):
    """Findings of the default for such modes in 60 coordinates, too many for a mixture, with eight chains in each."""
    start = 10 * jnp.repeat(jnp.array([-1.0, 1.0]), 8)[:, None] * jnp.ones((16, 60))
    return told(_two_modes, seed, init_per_chain=start, num_chains=16, num_warmup=200, num_draws=200)


def tiny_steps(seed):
    """Findings of a run with steps of a thousandth of the target's width: chains stay near their start."""
    return told(normal, seed, init=jnp.zeros(3), sampler=algorithms.rwm(step_size=1e-3))


def far_start(seed):
    """Findings of a run without warm-up that starts 1,000 standard deviations away in each coordinate."""
    return told(normal, seed, init=jnp.full(3, 1e3), sampler=algorithms.mala(step_size=0.3), num_draws=200)


def coarse_steps(seed):
    """Findings of a run whose warm-up ends long before the step size suits the target."""
    sampler = algorithms.hmc(10, step_size=1e-4)
    return told(normal, seed, init=jnp.zeros(3), sampler=sampler, num_warmup=10, num_draws=200)


def no_number(seed):
    """Findings of a run whose log density is NaN in a part of space."""
    return told(_partly_nan, seed, init_per_chain=jnp.zeros((CHAINS, 3)), sampler=algorithms.rwm(step_size=0.9))


def _judged(x: np.ndarray) -> set[str]:
    """The kinds of findings on draws, shape (chain, draw, n)."""
    data = xr.Dataset({"x": (("chain", "draw", "i"), x)}, {"i": np.arange(x.shape[2])})
    return {finding.kind for finding in found_in_draws(data, judge(data))}


def _spoilt(spoil: Callable[[np.ndarray, np.random.Generator], object], chains: int = CHAINS) -> Callable:
    """Function of a seed that returns the findings on exact draws, spoilt in place by `spoil`."""

    def told(seed):
        x = np.array(SKEW.standardised(SKEW.draws(jax.random.key(seed), chains * DRAWS)))
        x = x.reshape(chains, DRAWS, -1)
        spoil(x, np.random.default_rng(seed))
        return _judged(x)

    return told


def _stuck(x, random):
    x[2] = x[2, :1]


def _stuck_half_way(x, random):
    x[1, DRAWS // 2 :] = x[1, DRAWS // 2]


def _shifted(x, random):
    x[3, :, 0] += 0.5


def _wider(x, random):
    x[0, :, 1] *= 2.0


def _modes(x, random):
    x[:2, :, 2] += 4.0


def _drift(x, random):
    x[..., 0] += np.linspace(-1.0, 1.0, DRAWS)


def _wandering(x, random):
    x[3] = np.cumsum(0.1 * random.standard_normal(x[3].shape), 0)


def _late(x, random):
    x[:, : DRAWS // 5] += 3.0


BAD: dict[str, tuple[Callable[[int], set[str]], set[str]]] = {
    "a kernel that never moves": (never_moving, {"frozen"}),
    "a chain frozen where it began": (frozen_start, {"frozen"}),
    "chains in two modes": (far_modes, {"rhat"}),
    "chains of the default in two modes": (far_modes_default, {"rhat", "modes", "frozen"}),
    "steps a thousand times too small": (tiny_steps, {"rhat"}),
    "a start far away and no warm-up": (far_start, {"rhat"}),
    "a warm-up that ended too early": (coarse_steps, {"acceptance"}),
    "a log density that is no number somewhere": (no_number, {"nonfinite"}),
    "draws: a stuck chain": (_spoilt(_stuck), {"rhat"}),
    "draws: a chain stuck half-way": (_spoilt(_stuck_half_way), {"rhat"}),
    "draws: a chain shifted by half an sd": (_spoilt(_shifted), {"rhat"}),
    "draws: a chain twice as wide": (_spoilt(_wider), {"rhat"}),
    "draws: chains in two modes": (_spoilt(_modes), {"rhat"}),
    "draws: all chains drift by two sd": (_spoilt(_drift), {"rhat"}),
    "draws: a single chain drifts by two sd": (_spoilt(_drift, 1), {"halves"}),
    "draws: a chain that wanders": (_spoilt(_wandering), {"rhat"}),
    "draws: chains that arrive late, by three sd": (_spoilt(_late), {"rhat", "ess"}),
}
"""by defect: function of a seed that returns kinds of findings, and the kinds of which at least one must occur"""


def caught(name: str, seeds: int) -> int:
    """Number of seeds, out of `seeds`, with which bad chains are flagged."""
    found, wanted = BAD[name]
    return sum(bool(found(seed) & wanted) for seed in range(seeds))


def run(full: bool, store: Parts) -> Found:
    """20 seeds of every defect and 4,000 runs that should be good, or 5 of bad draws and a still kernel and 30 runs."""
    seeds = 20 if full else 5
    names = [name for i, name in enumerate(BAD) if full or name.startswith("draws") or i == 0]
    bad = {}
    for name in names:
        part = "".join(c if c.isalnum() else "-" for c in name)
        bad[name] = store.part(f"bad-{part}", {"seeds": seeds}, lambda name=name: caught(name, seeds))
    figures = [
        Figure(f"{name}: flagged", f"{count} of {seeds}", f"{seeds} of {seeds}", count == seeds)
        for name, count in bad.items()
    ]
    flagged, expected = sum(bad.values()), seeds * len(bad)
    good, wrongly = 0, 0
    for target, parts in many(full, store).items():
        runs, wrong = (sum(part[key] for part in parts) for key in ("good", "wrongly"))
        kinds = ", ".join(sorted({kind for part in parts for kind in part["flagged"]}))
        good, wrongly = good + runs, wrongly + wrong
        what = f"{target}: false flags on good runs (bulk ESS of {GOOD:,})" + (f": {kinds}" if kinds else "")
        wanted = f"at most {MOST_FALSE:.0%}"
        figures.append(Figure(what, f"{wrong} of {runs:,}", wanted, runs > 0 and wrong <= MOST_FALSE * runs))
    line = f"{flagged} of {expected} bad runs flagged, {wrongly} of {good:,} good ones"
    return Found(figures, line)


ALARMS = Item(
    "alarms",
    "Bad chains are spoken of, good ones are not",
    "a diagnostic that is not computed, not told or computed wrongly; a kernel that never moves",
    run,
)
