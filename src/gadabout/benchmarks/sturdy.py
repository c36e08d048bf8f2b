"""Other coordinates for the wild set, in which NUTS is sturdy: how its truth is made where draws cannot be exact."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gadabout.model import Model
from gadabout.targets.wild import processes

Position = Mapping[str, Any]
Way = Callable[[Position], tuple[dict[str, Any], Any]]


class Sturdy(NamedTuple):
    """A way to run NUTS on a model of the wild set.

    Args:
        way: makes of the model's data a function from sturdy coordinates z, of the same names and shapes as the
            model's own, to its position x and log |det dx/dz|, up to a constant.
        centre: where chains start in sturdy coordinates, by variable, each coordinate within 0.2; the model's own
            start if None.
        acceptance: the target acceptances of the two runs that have to agree.
        metric: that of `nuts`.
        draws: of each chain and run.
    """

    way: Callable[[Mapping[str, Any]], Way] | None = None
    centre: Mapping[str, Any] | None = None
    acceptance: tuple[float, float] = (0.8, 0.95)
    metric: str = "dense"
    draws: int = 5_000

    def model(self, model: Model) -> Model:
        """The model in sturdy coordinates."""
        go = self.to(model)

        def log_density(z, data):
            position, log_jacobian = go(z)
            return model.log_density(position, data) + log_jacobian

        return Model(log_density, data=model.data, start=self._start(model))

    def to(self, model: Model) -> Way:
        """From sturdy coordinates to the model's own."""
        return (lambda z: (dict(z), 0.0)) if self.way is None else self.way(model.data)

    def _start(self, model: Model) -> Callable[[Any], Any]:
        if self.centre is None:
            return model.start
        centre = self.centre
        return lambda key: {
            name: jnp.asarray(centre.get(name, 0.0)) + 0.1 * values for name, values in model.start(key).items()
        }


def _centred_schools(data) -> Way:
    def go(z):
        return dict(z) | {"theta": z["mu"] + jnp.exp(z["log_tau"]) * z["theta"]}, 8 * z["log_tau"]

    return go


def _sleep_study(data) -> Way:
    """Subjects in units of their spread, and milliseconds where they are."""

    def go(z):
        x = {"a_0": 250 + 10 * z["a_0"], "b_0": 10 + 2 * z["b_0"]}
        x |= {"log_sigma": 3 + z["log_sigma"], "log_sigma_a": 3 + z["log_sigma_a"], "log_sigma_b": 2 + z["log_sigma_b"]}
        x |= {name: x[f"{name}_0"] + jnp.exp(x[f"log_sigma_{name}"]) * z[name] for name in ("a", "b")}
        return x, 18 * (x["log_sigma_a"] + x["log_sigma_b"])

    return go


def _orthogonal(data, unit: float = 1.0, log_sigma: float = 0.0) -> Way:
    """Inputs made orthonormal (the QR reparametrisation of the Stan user's guide), and the outcome in a unit."""
    inputs = np.asarray(data["inputs"], float)
    root = jnp.asarray(unit * np.linalg.inv(np.linalg.qr(inputs / np.sqrt(len(inputs)))[1]))

    def go(z):
        x = dict(z) | {"b": root @ z["b"]}
        return x | ({"log_sigma": log_sigma + z["log_sigma"]} if "log_sigma" in z else {}), 0.0

    return go


def _latencies(data) -> Way:
    return _orthogonal(data, 25.0, float(np.log(25.0)))


def _abilities(data) -> Way:
    """Abilities, difficulties and inverse slopes in units of the abilities' scale, which the outcomes do not tell."""

    def go(z):
        scale = z["log_sigma_theta"]
        x = {name: jnp.exp(scale) * z[name] for name in ("theta", "b", "mu_b")}
        x |= {"log_a": z["log_a"] - scale, "log_sigma_b": z["log_sigma_b"] + scale}
        return dict(z) | x, (z["theta"].size + z["b"].size + 1) * scale

    return go


def _noncentred_volatility(data) -> Way:
    """h by its innovations: h_t = μ + φ (h_{t−1} − μ) + σ z_t, and h₁ from its stationary law."""

    def go(z):
        phi, sigma = jnp.tanh(z["logit_phi"] / 2), jnp.exp(z["log_sigma"])
        stationary = 1 / jnp.sqrt(1 - phi**2)

        def step(away, innovation):
            away = phi * away + innovation
            return away, away

        innovations = z["h"].at[0].multiply(stationary)
        _, away = jax.lax.scan(step, jnp.zeros_like(phi), innovations)
        return dict(z) | {"h": z["mu"] + sigma * away}, len(z["h"]) * z["log_sigma"] + jnp.log(stationary)

    return go


def _white_field(data) -> Way:
    mean, covariance = processes.cox_prior()
    root = jnp.asarray(np.linalg.cholesky(covariance))
    return lambda z: ({"x": mean + root @ z["x"]}, 0.0)


STURDY = {
    "eight-schools-centred": Sturdy(_centred_schools, acceptance=(0.9, 0.98)),
    "eight-schools-noncentred": Sturdy(acceptance=(0.9, 0.98)),
    "sleep-study": Sturdy(_sleep_study, {}, draws=4_000),
    "item-response": Sturdy(_abilities, {"log_sigma_a": -1.0}, metric="diagonal", draws=1_000),
    "horseshoe": Sturdy(centre={}, acceptance=(0.95, 0.99), metric="diagonal", draws=2_500),
    "mixture": Sturdy(),
    "logistic-raw": Sturdy(_orthogonal, {}),
    "poisson-raw": Sturdy(_orthogonal, {}),
    "negative-binomial-raw": Sturdy(_orthogonal, {}),
    "student-t-raw": Sturdy(_latencies, {"b": [8.0, 0.0]}),
    "ark": Sturdy(),
    "arma11": Sturdy(centre={"log_sigma": -1.0}),
    "garch11": Sturdy(centre={"mu": 5.0}),
    "hidden-markov": Sturdy(centre={"mu_1": 3.0, "log_gap": 1.0, "logit_stay": 1.0}),
    "stochastic-volatility": Sturdy(
        _noncentred_volatility, {"logit_phi": 2.0, "log_sigma": -1.0}, metric="diagonal", draws=1_500
    ),
    "lotka-volterra": Sturdy(
        centre={"log_rates": np.log([0.55, 0.028, 0.8, 0.024]), "log_start": np.log([34, 6]), "log_sigma": -1.4}
    ),
    "gp-hyperparameters": Sturdy(draws=2_000),
    "gp-poisson": Sturdy(acceptance=(0.95, 0.99)),
    "log-gaussian-cox": Sturdy(_white_field, {}, metric="diagonal", draws=750),
}
"""By the name of a target; those that are not here have exact draws."""
