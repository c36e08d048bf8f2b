"""Regressions in raw units, as a user passes them to a sampler without standardising anything."""

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from gadabout.model import Model
from gadabout.targets.wild.build import build
from gadabout.targets.wild.densities import bernoulli_logit, gamma, normal, poisson_log, student_t


def linear_raw() -> Model:
    """Linear regression of earnings in dollars on height in inches: scales 1e4 and 1e-2, correlation −0.998.

    earn ~ N(b₀ + b₁ height, σ), flat priors on b and σ (posteriordb earnings-earn_height; Gelman & Hill 2007), on 1,000
    simulated rows.
    """
    rng = np.random.default_rng(1)
    height = rng.normal(66.6, 3.8, 1_000).round()
    earn = (-61_000 + 1_250 * height + rng.normal(0, 18_000, 1_000)).round(-2)
    data = {"earn": earn, "inputs": np.column_stack([np.ones(1_000), height])}
    return build(_linear, {"b": (2,), "log_sigma": ()}, data, _sigma, "earn")


def _linear(p, data):
    prior = p["log_sigma"]  # the Jacobian; the prior is flat in σ
    return prior + normal(data["earn"], data["inputs"] @ p["b"], jnp.exp(p["log_sigma"]))


def _sigma(p, data):
    return {"sigma": jnp.exp(p["log_sigma"])}


def linear_raw_draws(rng: np.random.Generator, size: int) -> dict[str, np.ndarray]:
    """Exact draws of `linear_raw`: σ² is inverse gamma, b normal given σ (Gelman et al. 2013, section 14.2)."""
    data = linear_raw().data
    X, y = np.asarray(data["inputs"], float), np.asarray(data["earn"], float)
    N, k = X.shape
    b, (rss,), _, _ = np.linalg.lstsq(X, y)
    sigma = np.sqrt(rss / 2 / rng.gamma((N - k - 1) / 2, size=size))  # flat in σ, not in log σ: one degree fewer
    root = np.linalg.inv(np.linalg.cholesky(X.T @ X))  # (Xᵀ X)⁻¹ = rootᵀ root
    return {"b": b + sigma[:, None] * (rng.standard_normal((size, k)) @ root), "log_sigma": np.log(sigma)}


def logistic_raw() -> Model:
    """Logistic regression on year, income in dollars and distance in metres: scales 1e-6 to 10.

    switch ~ Bernoulli(σ(b · (1, year, income, distance))), flat priors (posteriordb wells_data-wells_dist, with more
    inputs), on 1,000 simulated rows. At most of the starts all logits are in the thousands.
    """
    rng = np.random.default_rng(2)
    year, income = rng.integers(1960, 2021, 1_000), rng.lognormal(np.log(40_000), 0.7, 1_000).round(-2)
    distance = rng.gamma(1.5, 32, 1_000).round(1)
    inputs = np.column_stack([np.ones(1_000), year, income, distance])
    switch = rng.random(1_000) < 1 / (1 + np.exp(59.5 - 0.03 * year - 1.5e-5 * income + 0.008 * distance))
    return build(_logistic, {"b": (4,)}, {"switch": switch, "inputs": inputs}, observed="switch")


def _logistic(p, data):
    return bernoulli_logit(data["switch"], data["inputs"] @ p["b"])


def poisson_raw() -> Model:
    """Poisson regression of counts on year and effort in hours, log link: exp overflows at half of the starts.

    count ~ Poisson(exp(b · (1, year, effort))), b₀ ~ N(0, 100), b₁, b₂ ~ N(0, 10) (posteriordb
    GLM_Poisson_Data-GLM_Poisson_model, Kéry & Schaub 2011, without its scaled years), 40 simulated years.
    """
    rng = np.random.default_rng(3)
    year, effort = np.arange(1964, 2004), rng.normal(1_500, 400, 40).round(-1)
    count = rng.poisson(np.exp(-36.8 + 0.02 * year + 4e-4 * effort))
    inputs = np.column_stack([np.ones(40), year, effort])
    return build(_poisson, {"b": (3,)}, {"count": count, "inputs": inputs}, observed="count")


def _poisson(p, data):
    return normal(p["b"], 0.0, jnp.array([100.0, 10.0, 10.0])) + poisson_log(data["count"], data["inputs"] @ p["b"])


def negative_binomial_raw() -> Model:
    """Negative binomial regression of roaches caught on roaches before (0 to 400): heavy over-dispersion.

    count ~ NB(mean exposure · exp(b · (1, before, treated, senior)), dispersion φ), b ~ N(0, 5), φ ~ Gamma(0.1, 0.1)
    (Gelman & Hill 2007, chapter 6; the NB2 of the Stan functions reference), on 260 simulated flats.
    """
    rng = np.random.default_rng(4)
    before, treated, senior = rng.gamma(0.4, 100, 260).round(), rng.random(260) < 0.6, rng.random(260) < 0.3
    exposure = rng.gamma(20, 0.05, 260).round(2)
    mean = exposure * np.exp(2.8 + 0.013 * before - 0.8 * treated - 0.35 * senior)
    count = rng.poisson(mean * rng.gamma(0.3, 1 / 0.3, 260))
    inputs = np.column_stack([np.ones(260), before, treated, senior])
    data = {"count": count, "inputs": inputs, "log_exposure": np.log(exposure)}
    return build(_negative_binomial, {"b": (4,), "log_phi": ()}, data, _phi, "count")


def _negative_binomial(p, data):
    y, log_phi, phi = data["count"], p["log_phi"], jnp.exp(p["log_phi"])
    eta = data["log_exposure"] + data["inputs"] @ p["b"]
    prior = normal(p["b"], 0.0, 5.0) + gamma(log_phi, 0.1, 0.1)
    choose = gammaln(y + phi) - gammaln(phi)
    return prior + jnp.sum(choose + y * eta + phi * log_phi - (y + phi) * jnp.logaddexp(eta, log_phi))


def _phi(p, data):
    return {"phi": jnp.exp(p["log_phi"])}


def student_t_raw() -> Model:
    """Robust regression of latencies in microseconds on bytes: scales 1e-5 to 1, degrees of freedom unknown.

    latency ~ t(ν, b₀ + b₁ bytes, σ), flat priors on b and log σ, ν ~ Gamma(2, 0.1) (Juárez & Steel 2010; the prior of
    the Stan wiki), on 500 simulated requests. The density falls like a power far away: it is not log-concave.
    """
    rng = np.random.default_rng(5)
    size = rng.lognormal(np.log(20_000), 1.2, 500).round()
    latency = (180 + 0.012 * size + 25 * rng.standard_t(3, 500)).round(1)
    data = {"latency": latency, "inputs": np.column_stack([np.ones(500), size])}
    return build(_student_t, {"b": (2,), "log_sigma": (), "log_nu": ()}, data, _sigma_and_nu, "latency")


def _student_t(p, data):
    prior = gamma(p["log_nu"], 2.0, 0.1)
    mean = data["inputs"] @ p["b"]
    return prior + student_t(data["latency"], jnp.exp(p["log_nu"]), mean, jnp.exp(p["log_sigma"]))


def _sigma_and_nu(p, data):
    return {"sigma": jnp.exp(p["log_sigma"]), "nu": jnp.exp(p["log_nu"])}
