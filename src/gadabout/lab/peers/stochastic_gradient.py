"""Chains on minibatches: bias on a conjugate regression, predictive log loss on caravan, and memory."""

import multiprocessing
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from arviz_stats.base.array import array_stats

from gadabout import targets
from gadabout.algorithms import gad_mala, psgld, sghmc, sgld, sgnht, ula
from gadabout.api import predictive, sample
from gadabout.minibatch import Minibatches, polynomial
from gadabout.model import AbstractModel, Model
from gadabout.sampler import Sampler
from gadabout.targets.log_sigmoid import log_sigmoid

ROWS, BATCH = 200, 20
METHODS: dict[str, tuple[Callable[[float], Sampler], float]] = {
    "ula": (ula, 4e-3),
    "sgld": (sgld, 1e-3),
    "psgld": (psgld, 2e-4),
    "psgld, moving": (lambda step_size: psgld(step_size, freeze=False), 2e-4),
    "psgld, moving, with drift": (lambda step_size: psgld(step_size, freeze=False, drift=True), 2e-4),
    "sghmc": (sghmc, 2e-5),
    "sgnht": (sgnht, 2e-4),
}
"""The recipes by name, and the largest of the step sizes at which the bias is measured."""


def log_prior(w):
    """N(0, I)."""
    return -0.5 * w @ w


def gaussian_log_likelihood(w, rows):
    """log N(y | xᵀw, 1) of each row, up to a constant."""
    return -0.5 * (rows["y"] - rows["x"] @ w) ** 2


def logistic_log_likelihood(w, signed):
    """log σ((2 t − 1) xᵀw) of each row."""
    return log_sigmoid(signed @ w)


def regression() -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Rows of a regression with two correlated inputs of different scale; posterior mean and covariance."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(ROWS, 2)) @ np.array([[1.0, 0.3], [0.0, 0.5]])
    y = x @ [0.5, -1.0] + rng.normal(size=ROWS)
    covariance = np.linalg.inv(np.eye(2) + x.T @ x)
    return {"x": x, "y": y}, covariance @ x.T @ y, covariance


def bias(method: str, step_size: float, *, num_chains: int, num_draws: int, seed: int = 0) -> dict[str, Any]:
    """One run on the regression: means in posterior standard deviations, variances as shares of the posterior's.

    Chains start from exact draws. `_error` is the MCSE of averages over chains, since these share their batches.
    """
    rows, mean, covariance = regression()
    posterior = Minibatches(log_prior, gaussian_log_likelihood, rows, batch_size=BATCH)
    start = np.random.default_rng(seed).multivariate_normal(mean, covariance, num_chains)
    arguments: dict[str, Any] = {"seed": seed, "num_chains": num_chains, "num_draws": num_draws, "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the table is about constant steps
        sampler = METHODS[method][0](step_size)
    model = Model(posterior.log_density, data=rows) if method == "ula" else posterior
    tree = sample(model, init_per_chain=start, sampler=sampler, thinning=10, record=["posterior"], **arguments)
    deviation = (tree["posterior"]["x"].values - mean) / np.sqrt(np.diag(covariance))
    series = np.moveaxis(np.stack([deviation, deviation**2]).mean(1), -1, 1)  # (moment, coordinate, draw)
    first, second = series.mean(-1)
    errors = array_stats.mcse(series[:, :, None], method="mean")
    return {
        "method": method,
        "step_size": step_size,
        "mean": first.tolist(),
        "mean_error": errors[0].tolist(),
        "variance": (second - first**2).tolist(),
        "variance_error": errors[1].tolist(),
    }


def bias_table(num_chains: int = 100, num_draws: int = 4_000) -> Iterator[dict[str, Any]]:
    """Yields the bias of every method at three step sizes, each a quarter of the one before."""
    for method, (_, largest) in METHODS.items():
        for divisor in (1, 4, 16):
            yield bias(method, largest / divisor, num_chains=num_chains, num_draws=num_draws)


def held_out(
    num_draws: int, seed: int = 0, data_home: str | Path | None = None, name: str = "caravan"
) -> Iterator[dict[str, Any]]:
    """Yields the predictive log loss of gadMALA, SGLD and pSGLD on every fifth row of a regression.

    They sample given the other rows; SGLD and pSGLD use batches. Each of four chains keeps `num_draws` draws, every
    25th. The log loss of a row is −log of the predictive probability of its label. `log_loss_of_mean` is that of the
    posterior mean of the weights, to show the gain of averaging.
    """
    signed = np.asarray(targets.load(name, data_home).data)
    test = np.arange(len(signed)) % 5 == 0
    posterior = Minibatches(log_prior, logistic_log_likelihood, signed[~test], batch_size=100)
    runs: dict[str, tuple[AbstractModel, Sampler]] = {
        "gad-mala": (Model(posterior.log_density, data=signed[~test]), gad_mala()),
        "sgld": (posterior, sgld(polynomial(SGLD_STEP, 10_000, 0.51))),
        "psgld": (posterior, psgld(polynomial(PSGLD_STEP, 10_000, 0.51))),
    }
    reference = None
    for label, (model, sampler) in runs.items():
        tree = sample(
            model,
            jnp.zeros(signed.shape[1]),
            sampler=sampler,
            seed=seed,
            num_warmup=20_000,
            num_draws=num_draws,
            thinning=25,
            record=["posterior"],
            progress=False,
        )
        loss = -float(predictive(logistic_log_likelihood, tree, signed[test]).mean())
        draws = np.asarray(tree["posterior"]["x"].values)
        mean = draws.mean((0, 1))
        reference = loss if reference is None else reference
        yield {
            "sampler": label,
            "log_loss": loss,
            "ratio": loss / reference,
            "log_loss_of_mean": -float(np.mean(logistic_log_likelihood(mean, signed[test]))),
            "mean_sd": float(draws.std((0, 1)).mean()),
            "seconds": tree.attrs["seconds_warmup"] + tree.attrs["seconds_sampling"],
            "iterations": 20_000 + 25 * num_draws,
            "rows_per_gradient": tree.attrs.get("batch_size", int((~test).sum())),
        }


SGLD_STEP, PSGLD_STEP = 5e-5 * 10_000**0.51, 1e-5 * 10_000**0.51
"""a in the step size ε_t = a (10,000 + t)^-0.51, so that ε_0 is the first factor"""


def memory(num_rows: int) -> dict[str, Any]:
    """Private memory of one run of SGLD on a memory-mapped file of `num_rows` rows, in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_memory, (num_rows,))


def _memory(num_rows: int) -> dict[str, Any]:
    """Runs SGLD and reports the largest RssAnon between chunks: private memory, without pages of mapped files."""
    columns, largest = 10, 0

    def look(_=None):
        nonlocal largest
        largest = max(largest, private_bytes())

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "rows.float32"
        _write(path, num_rows, columns)
        rows = np.memmap(path, np.float32, "r", shape=(num_rows, columns))
        before = private_bytes()
        posterior = Minibatches(log_prior, _file_log_likelihood, rows, batch_size=100)
        controlled = posterior.with_control(posterior.mode(jnp.zeros(columns), num_iterations=500))
        look()
        arguments: dict[str, Any] = {"num_warmup": 1_000, "num_draws": 2_000, "progress": False, "callback": look}
        tree = sample(controlled, jnp.zeros(columns), sampler=sgld(0.1 / num_rows), **arguments)
        look()
        size = path.stat().st_size
        del rows, posterior, controlled
    return {
        "rows": num_rows,
        "file_bytes": size,
        "private_bytes_before": before,
        "private_bytes": largest,
        "seconds": tree.attrs["seconds_total"],
        "mean": np.asarray(tree["posterior"]["x"].values).mean((0, 1)).tolist(),
    }


def _file_log_likelihood(w, rows):
    """log N(last column | (other columns, 1) · w, 1), up to a constant."""
    x, y = rows[:, :-1], rows[:, -1]
    return -0.5 * (y - x @ w[:-1] - w[-1]) ** 2


def _write(path: Path, num_rows: int, columns: int, block: int = 100_000) -> None:
    """Writes rows of a regression, block by block; its weights and its intercept are all 1."""
    rng = np.random.default_rng(0)
    with path.open("wb") as file:
        for start in range(0, num_rows, block):
            rows = rng.standard_normal((min(block, num_rows - start), columns), np.float32)
            rows[:, -1] += rows[:, :-1].sum(1) + 1
            rows.tofile(file)


def private_bytes() -> int:
    """RssAnon of this process (Linux): resident memory that no file backs."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return 1024 * int(line.split()[1])
    raise RuntimeError("this system does not tell RssAnon; the command needs Linux")
