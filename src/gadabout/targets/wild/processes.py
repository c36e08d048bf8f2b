"""An ODE, Gaussian processes, and a point process."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from gadabout.model import Model
from gadabout.targets.wild.build import build
from gadabout.targets.wild.densities import gamma, half_normal, inverse_gamma, normal, poisson_log

STEPS = 20
"""Runge-Kutta steps a year. Near the posterior the solution is accurate to six digits."""

# Pelts in thousands, hares and lynxes, 1900 to 1920 (Hewitt 1921, as in Howard 2009 and Stan's case study).
HARES = "30 47.2 70.2 77.4 36.3 20.6 18.1 21.4 22 25.4 27.1 40.3 57 76.6 52.3 19.5 11.2 7.6 14.6 16.2 24.7"
LYNXES = "4 6.1 9.8 35.2 59.4 41.7 19 13 8.3 9.1 7.4 8 12.3 19.5 45.7 51.1 29.7 15.8 9.7 10.1 8.6"


def lotka_volterra() -> Model:
    """Lotka-Volterra equations of hares and lynxes: spurious modes hundreds lower in log density, stiff at some starts.

    u′ = (α − β v) u, v′ = (−γ + δ u) v, pelts ~ LogN(log(u, v), σ), α, γ ~ N(1, 0.5), β, δ ~ N(0.05, 0.05), all
    positive, u₀, v₀ ~ LogN(log 10, 1), σ ~ LogN(−1, 1) (posteriordb hudson_lynx_hare-lotka_volterra; Carpenter 2018),
    by Runge-Kutta steps of fixed length in log u and log v.
    """
    pelts = np.array([HARES.split(), LYNXES.split()], float).T
    shapes = {"log_rates": (4,), "log_start": (2,), "log_sigma": (2,)}
    return build(_lotka_volterra, shapes, {"pelts": pelts}, _rates, "pelts")


def _lotka_volterra(p, data):
    rates = _rates(p, data)["rates"]
    prior = normal(p["log_start"], jnp.log(10.0)) + normal(p["log_sigma"], -1.0)  # log-normal: no Jacobian
    prior += jnp.sum(p["log_rates"])  # the Jacobian of rates = exp(log_rates)
    prior += normal(rates, jnp.array([1.0, 0.05, 1.0, 0.05]), jnp.array([0.5, 0.05, 0.5, 0.05]))
    path = _solve(rates, p["log_start"], len(data["pelts"]))
    return prior + normal(jnp.log(data["pelts"]), path, jnp.exp(p["log_sigma"]))


def _rates(p, data):
    return {"rates": jnp.exp(p["log_rates"]), "start": jnp.exp(p["log_start"]), "sigma": jnp.exp(p["log_sigma"])}


def _solve(rates, start, years):
    """log u and log v at 0, 1, …, years − 1, shape (years, 2)."""
    grow, eaten, starve, fed = rates
    h = 1 / STEPS

    def slope(z):
        u, v = jnp.exp(z)
        return jnp.stack([grow - eaten * v, fed * u - starve])

    def step(z, _):
        k1 = slope(z)
        k2 = slope(z + h / 2 * k1)
        k3 = slope(z + h / 2 * k2)
        k4 = slope(z + h * k3)
        return z + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), z

    return jax.lax.scan(step, start, length=STEPS * (years - 1) + 1)[1][::STEPS]


def gp_hyperparameters() -> Model:
    """Gaussian process regression on 50 points, the function integrated out: length scale, amplitude and noise.

    y ~ N(0, α² exp(−(s − s′)²/(2ρ²)) + σ² I), ρ ~ Inv-Gamma(5, 5), α, σ ~ half-N(1) (posteriordb gp_pois_regr-gp_regr;
    Stan user's guide, Gaussian processes), simulated.
    """
    rng = np.random.default_rng(22)
    s = np.sort(rng.uniform(-5, 5, 50)).round(3)
    y = (np.sin(1.5 * s) + 0.3 * s + rng.normal(0, 0.4, 50)).round(3)
    data = {"y": y, "squares": (s[:, None] - s) ** 2}
    return build(_gp_hyperparameters, {"log_rho": (), "log_alpha": (), "log_sigma": ()}, data, _hyperparameters, "y")


def _gp_hyperparameters(p, data):
    c = _hyperparameters(p, data)
    prior = inverse_gamma(p["log_rho"], 5.0, 5.0) + half_normal(jnp.stack([p["log_alpha"], p["log_sigma"]]), 1.0)
    noise = c["sigma"] ** 2 * jnp.eye(len(data["y"]))
    root = jnp.linalg.cholesky(_kernel(c["alpha"], c["rho"], data["squares"]) + noise)
    white = solve_triangular(root, data["y"], lower=True)
    return prior - 0.5 * white @ white - jnp.sum(jnp.log(jnp.diagonal(root)))


def _kernel(alpha, rho, squares):
    return alpha**2 * jnp.exp(-0.5 * squares / rho**2)


def _hyperparameters(p, data):
    return {name[4:]: jnp.exp(p[name]) for name in p if name.startswith("log_")}


def gp_poisson() -> Model:
    """Gaussian process with Poisson counts at 11 points, n = 13: a funnel in its amplitude and length scale.

    count ~ Poisson(exp f), f = root(α, ρ) white, white ~ N(0, 1), kernel α² exp(−(s − s′)²/(2ρ²)), ρ ~ Gamma(25, 4),
    α ~ half-N(2) (posteriordb gp_pois_regr-gp_pois_regr), simulated. The diagonal is multiplied by 1 + 1e-5,
    for float32.
    """
    rng = np.random.default_rng(23)
    s = np.linspace(-10, 10, 11)
    count = rng.poisson(np.exp(2.5 + 1.2 * np.sin(s / 3)))
    data = {"count": count, "squares": (s[:, None] - s) ** 2}
    return build(_gp_poisson, {"white": (11,), "log_rho": (), "log_alpha": ()}, data, _function, "count")


def _gp_poisson(p, data):
    prior = normal(p["white"]) + gamma(p["log_rho"], 25.0, 4.0) + half_normal(p["log_alpha"], 2.0)
    return prior + poisson_log(data["count"], _function(p, data)["f"])


def _function(p, data):
    c = _hyperparameters(p, data)
    kernel = _kernel(1.0, c["rho"], data["squares"]) + 1e-5 * jnp.eye(len(p["white"]))
    return c | {"f": c["alpha"] * (jnp.linalg.cholesky(kernel) @ p["white"])}


def log_gaussian_cox() -> Model:
    """Log-Gaussian Cox process on a grid of 32 by 32, n = 1,024: correlated neighbours, skewed in cells without points.

    count_i ~ Poisson(exp(x_i)/1024), x ~ N(μ, K), K_ij = 1.91 exp(−33 d_ij) for distances d in sides of the square,
    μ = log 126 − 1.91/2 (Møller, Syversveen & Waagepetersen 1998; Girolami & Calderhead 2011, section 9), simulated.
    """
    rng = np.random.default_rng(24)
    mean, covariance = cox_prior()
    x = mean + np.linalg.cholesky(covariance) @ rng.standard_normal(1024)
    data = {"count": rng.poisson(np.exp(x) / 1024), "precision": np.linalg.inv(covariance)}
    return build(_log_gaussian_cox, {"x": (1024,)}, data, observed="count")


def cox_prior() -> tuple[float, np.ndarray]:
    """Mean and covariance (1024, 1024) of the log intensity."""
    grid = np.stack(np.meshgrid(np.arange(32), np.arange(32), indexing="ij"), -1).reshape(-1, 2)
    distance = np.linalg.norm(grid[:, None] - grid, axis=-1) / 32
    return np.log(126) - 1.91 / 2, 1.91 * np.exp(-33 * distance)


def _log_gaussian_cox(p, data):
    away = p["x"] - (jnp.log(126.0) - 1.91 / 2)
    return poisson_log(data["count"], p["x"] - jnp.log(1024.0)) - 0.5 * away @ (data["precision"] @ away)
