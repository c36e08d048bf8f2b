"""Bayesian logistic regressions: the paper's data sets, and one that needs no download."""

import csv
import gzip
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gadabout.targets.data import fetch, optional_import
from gadabout.targets.log_sigmoid import log_sigmoid
from gadabout.targets.problem import Problem

Home = str | Path | None
Rows = tuple[np.ndarray, np.ndarray]  # inputs (rows, columns) in float64 and labels (rows,), 0 or 1


def logistic_log_density(w: Float[Array, " n"], signed: Float[Array, "rows n"]) -> Float[Array, ""]:
    r"""Posterior of the weights w, $-\frac12 w^\top w + \sum_i \log\sigma((2 t_i - 1)\, x_i^\top w)$.

    The prior is N(0, I) on all weights, the intercept included. `signed`, of shape (rows, n), holds the design matrix
    with row i multiplied by 2 t_i − 1, that is by 1 or −1.
    """
    return -0.5 * w @ w + jnp.sum(log_sigmoid(signed @ w))


def load(name: str, data_home: Home = None) -> Problem:
    """The regression called `name`, a key of DESCRIPTIONS: prepared inputs, then a column of ones at the end."""
    regression = _REGRESSIONS[name]
    inputs, labels = regression.read(data_home)
    inputs = standardise(inputs) if regression.standardised else inputs
    signed = np.column_stack([inputs, np.ones(len(inputs))]) * (2.0 * labels - 1.0)[:, None]
    columns = None if regression.columns is None else [*regression.columns(data_home), "intercept"]
    return Problem(
        name, regression.description, signed.shape[1], logistic_log_density, jax.device_put(signed), columns=columns
    )


def standardise(inputs: np.ndarray) -> np.ndarray:
    """Columns of mean 0 and unbiased variance 1; a constant column becomes zero."""
    scale = inputs.std(axis=0, ddof=1)
    return (inputs - inputs.mean(axis=0)) / np.where(np.ptp(inputs, axis=0) > 0, scale, 1.0)


def _table(filename: str, data_home: Home, header_lines: int = 0, smallest_label: int = 0) -> Rows:
    """A file of numbers separated by blanks, labels in the last column: `smallest_label` and the next integer."""
    table = np.loadtxt(fetch(filename, data_home), skiprows=header_lines, ndmin=2)
    return table[:, :-1], table[:, -1] - smallest_label


def _pima(data_home: Home) -> Rows:
    """The 332 rows of Pima.te, then the 200 of Pima.tr: seven inputs, then No or Yes."""
    rows = []
    for filename in ("Pima.te.csv", "Pima.tr.csv"):
        with fetch(filename, data_home).open(newline="") as lines:
            rows += [row[1:] for row in csv.reader(lines) if row and row[0] != "rownames"]
    return np.array([row[:-1] for row in rows], float), np.array([row[-1] == "Yes" for row in rows], float)


def _mnist(zero: int, one: int, data_home: Home) -> Rows:
    """All training images of two digits in file order, pixels divided by 255; label 1 for the digit `one`."""
    inputs, digits = _mnist_images((zero, one), data_home)
    return inputs, (digits == one).astype(float)


def _mnist_as_published(data_home: Home) -> Rows:
    """The 5,421 fives before the 5,918 sixes, and the first 5,918 rows labelled 1: 497 sixes are mislabelled."""
    inputs, digits = _mnist_images((5, 6), data_home)
    stacked = np.argsort(digits, kind="stable")
    return inputs[stacked], (np.arange(len(digits)) < np.sum(digits == 6)).astype(float)


def _mnist_images(chosen: tuple[int, ...], data_home: Home) -> Rows:
    """All training images of some digits in file order, pixels divided by 255, and the digits."""
    with gzip.open(fetch("train-labels-idx1-ubyte.gz", data_home)) as file:
        digits = np.frombuffer(file.read(), np.uint8, offset=8)
    with gzip.open(fetch("train-images-idx3-ubyte.gz", data_home)) as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(len(digits), -1)
    rows = np.isin(digits, chosen)
    return images[rows] / 255.0, digits[rows]


def _breast_cancer(data_home: Home) -> Rows:
    """The copy in scikit-learn; nothing is read from `data_home`."""
    inputs, labels = optional_import("sklearn.datasets").load_breast_cancer(return_X_y=True)
    return inputs, labels.astype(float)


def _breast_cancer_columns(data_home: Home) -> Sequence[str]:
    return optional_import("sklearn.datasets").load_breast_cancer().feature_names.tolist()


def _pima_columns(data_home: Home) -> Sequence[str]:
    """The header of Pima.te between the row number and the label."""
    with fetch("Pima.te.csv", data_home).open(newline="") as lines:
        return next(csv.reader(lines))[1:-1]


class _Regression(NamedTuple):
    """Description and reader of a data set, whether its inputs are standardised, and the reader of their names."""

    description: str
    read: Callable[[Home], Rows]
    standardised: bool = True
    columns: Callable[[Home], Sequence[str]] | None = None
    """Reader of the names of the inputs; None if the data have no names."""


_REGRESSIONS = {
    "breast-cancer": _Regression(
        "logistic regression, Wisconsin breast cancer: 569 rows, 31 weights; no download",
        _breast_cancer,
        columns=_breast_cancer_columns,
    ),
    "ripley": _Regression(
        "logistic regression, Ripley's synthetic data: 250 rows, 3 weights",
        partial(_table, "synth.tr", header_lines=1),
    ),
    "pima": _Regression("logistic regression, Pima Indian diabetes: 532 rows, 8 weights", _pima, columns=_pima_columns),
    "heart": _Regression(
        "logistic regression, Statlog heart disease: 270 rows, 14 weights",
        partial(_table, "heart.dat", smallest_label=1),
    ),
    "australian": _Regression(
        "logistic regression, Australian credit: 690 rows, 15 weights", partial(_table, "australian.dat")
    ),
    "german": _Regression(
        "logistic regression, German credit: 1000 rows, 25 weights",
        partial(_table, "german.data-numeric", smallest_label=1),
    ),
    "caravan": _Regression(
        "logistic regression, caravan insurance: 5822 rows, 86 weights", partial(_table, "ticdata2000.txt")
    ),
    "mnist-56": _Regression(
        "logistic regression, MNIST digits 5 and 6: 11339 rows, 785 weights", partial(_mnist, 5, 6), standardised=False
    ),
    "mnist-56-as-published": _Regression(
        "the same with the paper's labels, 497 sixes among the fives", _mnist_as_published, standardised=False
    ),
}

DESCRIPTIONS = {name: regression.description for name, regression in _REGRESSIONS.items()}
