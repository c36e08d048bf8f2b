"""Coordinates in which NUTS is reliable, by target, to compute the truth where exact draws are not available."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from gadabout.model import Model
from gadabout.targets.hierarchical import series_and_fields
from gadabout.targets.modes import symmetric
from gadabout.targets.wild import processes

Position = Mapping[str, Any]
Way = Callable[[Position], tuple[dict[str, Any], Any]]


class Sturdy(NamedTuple):
    """A way to run NUTS on a built-in model.

    Args:
        way: function of the model's data that returns a map from sturdy coordinates z, with the names and shapes of
            the model's own, to the model's position x and log |det dx/dz|, up to a constant.
        centre: start of the chains in sturdy coordinates, by variable, each coordinate within 0.2; the model's own
            start if None.
        acceptance: target acceptance probabilities of the two runs that have to agree.
        metric: metric of `nuts`.
        draws: draws per chain and run.
        copies: for a symmetric density, function of (generator, draws (..., n)) that moves each draw to one of its
            symmetric copies at random. NUTS explores one copy of each.
    """

    way: Callable[[Mapping[str, Any]], Way] | None = None
    centre: Mapping[str, Any] | None = None
    acceptance: tuple[float, float] = (0.8, 0.95)
    metric: str = "dense"
    draws: int = 5_000
    copies: Callable[[np.random.Generator, np.ndarray], np.ndarray] | None = None

    def model(self, model: Model) -> Model:
        """The model in sturdy coordinates."""
        go = self.to(model)

        def log_density(z, data):
            position, log_jacobian = go(z)
            return model.log_density(position, data) + log_jacobian

        return Model(log_density, data=model.data, start=self._start(model))

    def to(self, model: Model) -> Way:
        """The map from sturdy coordinates to the model's own."""
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
    """Effects of subjects in units of their spread, other coordinates around typical values for milliseconds."""

    def go(z):
        x = {"a_0": 250 + 10 * z["a_0"], "b_0": 10 + 2 * z["b_0"]}
        x |= {"log_sigma": 3 + z["log_sigma"], "log_sigma_a": 3 + z["log_sigma_a"], "log_sigma_b": 2 + z["log_sigma_b"]}
        x |= {name: x[f"{name}_0"] + jnp.exp(x[f"log_sigma_{name}"]) * z[name] for name in ("a", "b")}
        return x, 18 * (x["log_sigma_a"] + x["log_sigma_b"])

    return go


def _orthogonal(data, unit: float = 1.0, log_sigma: float = 0.0) -> Way:
    """Orthonormal inputs (the QR reparametrisation of the Stan user's guide), and the outcome in units of `unit`."""
    inputs = np.asarray(data["inputs"], float)
    root = jnp.asarray(unit * np.linalg.inv(np.linalg.qr(inputs / np.sqrt(len(inputs)))[1]))

    def go(z):
        x = dict(z) | {"b": root @ z["b"]}
        return x | ({"log_sigma": log_sigma + z["log_sigma"]} if "log_sigma" in z else {}), 0.0

    return go


def _latencies(data) -> Way:
    return _orthogonal(data, 25.0, float(np.log(25.0)))


def _abilities(data) -> Way:
    """Abilities, difficulties and inverse slopes in units of the abilities' scale, which outcomes do not identify."""

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


def _noncentred(**groups: tuple[str | None, str]) -> Callable[[Mapping[str, Any]], Way]:
    """Effects in units of their scale around their mean; `groups` maps each to (mean, log scale), outer ones first."""

    def way(data) -> Way:
        def go(z):
            x, log_jacobian = dict(z), 0.0
            for name, (mean, log_scale) in groups.items():
                centre = 0.0 if mean is None else x[mean]
                centre = jnp.reshape(centre, (*jnp.shape(centre), *[1] * (z[name].ndim - jnp.ndim(centre))))
                x[name] = centre + jnp.exp(z[log_scale]) * z[name]
                log_jacobian += z[name].size * z[log_scale]
            return x, log_jacobian

        return go

    return way


def _centred_groups(data) -> Way:
    def go(z):
        return dict(z) | {"eta": (z["eta"] - z["mu"]) * jnp.exp(-z["log_tau"])}, -z["eta"].size * z["log_tau"]

    return go


def _studies(data) -> Way:
    """Effects of studies, standardised by their mean and standard deviation given μ, τ and the outcome."""

    def go(z):
        precision, prior = 1 / data["se"] ** 2, jnp.exp(-2 * z["log_tau"])
        sd = 1 / jnp.sqrt(precision + prior)
        mean = (precision * data["y"] + prior * z["mu"]) * sd**2
        return dict(z) | {"theta": mean + sd * z["theta"]}, jnp.sum(jnp.log(sd))

    return go


def _local_scales(data) -> Way:
    def go(z):
        log_sd = z["log_tau"] + z["log_lambda"]
        return dict(z) | {"b": jnp.exp(log_sd) * z["b"]}, jnp.sum(log_sd)

    return go


def _smoothed(data) -> Way:
    """States from independent normals, given scales and outcomes: forward filtering, backward sampling."""

    def go(z):
        q, r = jnp.exp(-2 * z["log_sigma_x"]), jnp.exp(-2 * z["log_sigma"])
        diagonal = jnp.full_like(z["x"], r + 2 * q).at[0].set(r + q + 1 / 25).at[-1].set(r + q)

        def forward(last, row):
            precision, shift = row[0] - q**2 / last[0], row[1] + q * last[1] / last[0]
            return (precision, shift), (precision, shift)

        def backward(after, row):
            x = (row[1] + q * after) / row[0] + row[2] / jnp.sqrt(row[0])
            return x, x

        first = (jnp.full_like(q, jnp.inf), jnp.zeros_like(q))
        _, (precisions, shifts) = jax.lax.scan(forward, first, (diagonal, r * data["y"]))
        _, x = jax.lax.scan(backward, jnp.zeros_like(q), (precisions, shifts, z["x"]), reverse=True)
        return dict(z) | {"x": x}, -0.5 * jnp.sum(jnp.log(precisions))

    return go


def _student_volatility(data) -> Way:
    """As `_noncentred_volatility`, with φ in (0, 1)."""

    def go(z):
        phi = jax.nn.sigmoid(z["logit_phi"])
        stationary = 1 / jnp.sqrt(1 - phi**2)

        def step(away, innovation):
            away = phi * away + innovation
            return away, away

        _, away = jax.lax.scan(step, jnp.zeros_like(phi), z["h"].at[0].multiply(stationary))
        log_jacobian = z["h"].size * z["log_sigma"] + jnp.log(stationary)
        return dict(z) | {"h": z["mu"] + jnp.exp(z["log_sigma"]) * away}, log_jacobian

    return go


def _white_values(data) -> Way:
    """Latent values from independent normals, given scales, length scale and outcomes."""

    def go(z):
        root = series_and_fields.gp_root(z["log_rho"], z["log_alpha"], data["apart"])
        precise = jnp.exp(-2 * z["log_sigma"])
        lower = jnp.linalg.cholesky(jnp.eye(len(root)) + precise * root.T @ root)
        half = solve_triangular(lower, precise * root.T @ (data["y"] - z["m"]), lower=True)
        white = solve_triangular(lower, half + z["f"], trans=1, lower=True)
        diagonals = jnp.log(jnp.diagonal(root)) - jnp.log(jnp.diagonal(lower))
        return dict(z) | {"f": z["m"] + root @ white}, jnp.sum(diagonals)

    return go


def _white_coefficients(data) -> Way:
    def go(z):
        log_sd = series_and_fields.gp_log_spread(z["log_rho"], z["log_alpha"], data["omega"])
        return dict(z) | {"b": jnp.exp(log_sd) * z["b"]}, jnp.sum(log_sd)

    return go


def _in_order(data) -> Way:
    """Means in increasing order, from the first mean and the logarithms of the gaps."""

    def go(z):
        gaps = z["mu"][1:]
        return dict(z) | {"mu": jnp.cumsum(jnp.concatenate([z["mu"][:1], jnp.exp(gaps)]))}, jnp.sum(gaps)

    return go


def _first_positive(data) -> Way:
    """Loadings whose first one is positive for each factor, from its logarithm."""

    def go(z):
        first = z["loadings"][:, 0]
        return dict(z) | {"loadings": z["loadings"].at[:, 0].set(jnp.exp(first))}, jnp.sum(first)

    return go


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
    "groups-few-data": Sturdy(_noncentred(theta=("mu", "log_tau")), {}, draws=10_000),
    "groups-much-data": Sturdy(_centred_groups, {}),
    "varying-slopes": Sturdy(_noncentred(a=("a_0", "log_sigma_a"), b=("b_0", "log_sigma_b")), {}, draws=15_000),
    "crossed-effects": Sturdy(_noncentred(s=(None, "log_sigma_s"), t=(None, "log_sigma_t")), {"mu": 3.0}, draws=10_000),
    "nested-effects": Sturdy(_noncentred(a=("mu", "log_sigma_a"), b=("a", "log_sigma_b")), {}, draws=15_000),
    "meta-analysis": Sturdy(_studies, {}, draws=10_000),
    "horseshoe-centred": Sturdy(_local_scales, {"log_tau": -1.0}, acceptance=(0.95, 0.99), draws=10_000),
    "poisson-groups": Sturdy(_noncentred(a=("mu", "log_tau")), {}),
    "bernoulli-groups": Sturdy(_noncentred(a=("mu", "log_tau")), {}, draws=10_000),
    "ordinal-groups": Sturdy(_noncentred(a=(None, "log_tau")), {}),
    "item-response-centred": Sturdy(_noncentred(log_a=("mu_a", "log_sigma_a"), b=("mu_b", "log_sigma_b")), {}),
    "bym2": Sturdy(centre={}, acceptance=(0.9, 0.98), draws=10_000),
    "local-level": Sturdy(_smoothed, {"log_sigma_x": -2.0}),
    "volatility-student": Sturdy(
        _student_volatility, {"logit_phi": 2.0, "log_sigma": -1.0}, (0.95, 0.98), draws=15_000
    ),
    "gp-latent": Sturdy(_white_values, {}, draws=2_500),
    "gp-hilbert": Sturdy(_white_coefficients, {}, (0.95, 0.99), draws=10_000),
    "mixture-labels": Sturdy(_in_order, {"mu": [-1.8, 0.9, 0.8], "log_sigma": -0.5}, copies=symmetric.exchange_labels),
    "sign-flips": Sturdy(
        _first_positive, {"loadings": [[0.0, -0.7, 0.9], [0.0, 1.0, -1.0]]}, copies=symmetric.flip_signs
    ),
}
"""`Sturdy` by the name of a target; other targets have exact draws."""
