"""Seconds of the gallery's models: the default as its pages call it, compared with NumPyro's NUTS with its defaults.

The default can also be run as a kernel of NumPyro's `MCMC`, with NUTS's number of chains.

The first cell of a page defines `model`. Each run is a process of its own, which runs that cell; the clock starts after
the cell and stops when the result is complete. As in `from_call`, the q of a first run of `FIRST` draws per chain gives
the number of draws for q = 1,000. Processes are stopped after `LIMIT` seconds. q is the smallest ESS of one of the
user's variables or its square.
"""

import hashlib
import json
import re
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Key, PyTree

from gadabout.api import sample
from gadabout.lab.peers import OURS
from gadabout.lab.peers.from_call import FIRST, GIVEN_UP, TUNING_SEED, may_be_used, process, to_wanted
from gadabout.lab.peers.peer_cold import enough
from gadabout.lab.peers.peer_samplers import PEERS
from gadabout.lab.peers.samplers import quality
from gadabout.lab.peers.truth import differences, of_chains
from gadabout.lab.rows import Rows
from gadabout.model import AbstractModel

THEIRS, KERNEL = "numpyro", "numpyro-kernel"
LIMIT = 300.0
"""seconds after which a process is stopped"""
CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)


def cells(page: Path) -> list[str]:
    """The code of a page's cells."""
    return CELL.findall(page.read_text(encoding="utf-8"))


def pages(folder: Path, names: Sequence[str] = ()) -> list[Path]:
    """The pages of a folder that have cells, or those called `names`; raises ValueError if one or all are missing."""
    found = {page.stem: page for page in sorted(folder.glob("*.md")) if cells(page)}
    missing = [name for name in names if name not in found]
    if missing or not found:
        name = missing[0] if missing else "with cells"
        raise ValueError(f"{folder} has no page {name}; there are: {', '.join(found) or 'none'}; see --folder")
    return [found[name] for name in names or found]


def model_of(page: Path) -> AbstractModel:
    """The `model` that the first cell of a page defines; raises ValueError if it defines none."""
    namespace: dict[str, Any] = {"__name__": page.stem}
    exec(compile(cells(page)[0], page.name, "exec"), namespace)
    if not isinstance(namespace.get("model"), AbstractModel):
        raise ValueError(f"the first cell of {page} must make `model`, one of gadabout's")
    return namespace["model"]


def compare(
    page: Path,
    seeds: Sequence[int],
    file: Path | None = None,
    run: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None,
    *,
    kernel: bool = False,
) -> list[dict[str, Any]]:
    """A row for the default and one for NumPyro: the first run, median seconds to q = 1,000, and number of good runs.

    With `kernel`, pages with a NumPyro model have a third row, for the default inside of NumPyro's `MCMC`. `apart` is
    the largest difference of the first two rows' first runs in a mean or a variance, in combined standard errors; None
    if one was stopped. Runs that `file` holds are not made again, unless the cell that defines the model has changed.
    Raises RuntimeError if a process fails.
    """
    cell = hashlib.sha256(cells(page)[0].encode()).hexdigest()
    stored, rows, run = Rows(file), [], run or (lambda known: process(known, __name__, LIMIT))
    made_once = lambda known: stored.row({**known, "start": "call"}, lambda: run(known))
    for peer in (OURS, THEIRS, KERNEL) if kernel and "models.numpyro(" in cells(page)[0] else (OURS, THEIRS):
        chains = PEERS[THEIRS if peer == KERNEL else peer].usual
        known = {"target": page.stem, "page": str(page), "cell": cell, "peer": peer, "chains": chains}
        first = made_once(known | {"draws": FIRST, "seed": TUNING_SEED})
        draws = enough(first)
        lost = GIVEN_UP | {"seconds": LIMIT}
        runs = [lost if draws is None else made_once(known | {"draws": draws, "seed": seed}) for seed in seeds]
        wanted = median(to_wanted(each, LIMIT) for each in runs)
        rows.append(first | {"wanted": wanted, "good": sum(each["good"] for each in runs), "runs": runs})
    apart = _apart(*(row.get("figures") for row in rows[:2]))
    return [row | {"apart": apart} for row in rows]


def _apart(ours: Mapping[str, Any] | None, theirs: Mapping[str, Any] | None) -> float | None:
    if ours is None or theirs is None:
        return None
    arrays = ({key: np.array(values) for key, values in each.items()} for each in (ours, theirs))
    return float(differences(*arrays, keys=("mean", "variance")).max())


def main(known: dict[str, Any]) -> None:
    """Entry point of a process: samples, and prints a line of JSON with seconds, findings, and figures of the draws."""
    warnings.simplefilter("ignore")  # the row has the findings
    model, asked = model_of(Path(known["page"])), (known["chains"], known["draws"])
    assert model.layout is not None
    if known["peer"] == THEIRS and not model.starts_itself:
        model.start = partial(_uniform, model)
    prepare = _kernel if known["peer"] == KERNEL else PEERS[known["peer"]].prepare
    theirs: Callable[[int], Any] = prepare(model, *asked)  # imports the peer's program
    began, findings = time.perf_counter(), []
    if known["peer"] == OURS:
        tree = sample(model, num_draws=known["draws"], seed=known["seed"], progress=False)
        seconds, findings = time.perf_counter() - began, sorted({each["kind"] for each in tree.attrs["findings"]})
        by_name: dict[str, Any] = {name: tree["posterior"][name].values for name in model.layout.names}
    else:
        drawn = theirs(known["seed"])
        seconds = time.perf_counter() - began
        by_name = drawn if known["peer"] == KERNEL else model.constrain(drawn[0])
    x = np.concatenate([np.reshape(values, (*asked, -1)) for values in by_name.values()], -1)
    print(json.dumps({"seconds": seconds, "n": x.shape[-1], "findings": findings} | _judged(x)))


def _kernel(model: Any, chains: int, draws: int) -> Callable[[int], dict[str, np.ndarray]]:
    """A function of a seed: draws (chain, draw, …) by variable, by the default as a kernel of NumPyro's `MCMC`."""
    from numpyro.infer import MCMC  # pyright: ignore[reportMissingImports]

    from gadabout.api.numpyro_kernel import NumPyroKernel

    function, args, kwargs, *_ = model.made_of
    asked: dict[str, Any] = {"num_warmup": FIRST, "num_samples": draws, "num_chains": chains}

    def run(seed: int) -> dict[str, np.ndarray]:
        kernel = NumPyroKernel(function, num_draws=draws)
        mcmc = MCMC(kernel, **asked, chain_method="vectorized", progress_bar=False)
        mcmc.run(jax.random.key(seed), *args, **kwargs)
        drawn = mcmc.get_samples(group_by_chain=True)
        return {name: np.asarray(drawn[name]) for name in model.layout.names}

    return run


def _uniform(model: AbstractModel, key: Key[Array, ""]) -> PyTree:
    """A start as NumPyro's: uniform on (−2, 2) in free coordinates."""
    assert model.layout is not None
    return model.layout.unravel(jax.random.uniform(key, (model.layout.dim,), minval=-2, maxval=2))


def _judged(x: np.ndarray) -> dict[str, Any]:
    """q, R-hat, whether these allow the use of draws (chain, draw, n), and means and variances with their errors."""
    q, rhat_max = quality(x)
    q = float(np.nan_to_num(q))
    good = may_be_used(q, rhat_max, None, len(x))
    figures = {key: values.tolist() for key, values in of_chains(x, quantiles=False).items()}
    return {"q": q, "rhat": rhat_max, "good": good, "figures": figures}


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
