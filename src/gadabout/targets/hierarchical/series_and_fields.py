"""Effects that depend on their neighbours: a lattice, a random walk, log variances, and two Gaussian processes."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from gadabout.model import Model
from gadabout.targets.hierarchical.parts import normal_rows, scales
from gadabout.targets.log_sigmoid import log_sigmoid
from gadabout.targets.wild.build import build
from gadabout.targets.wild.densities import beta, half_normal, inverse_gamma, normal, poisson_log

SIDE = 7
"""Number of areas along each side of the lattice of `bym2`."""
NUGGET = 1e-4
"""Number added to the unit diagonal of the kernel of `gp_latent`, for float32."""
BASIS, LENGTH = 20, 6.0
"""`BASIS`: number of basis functions of `gp_hilbert`. `LENGTH`: half-width of their interval (−LENGTH, LENGTH)."""
DEGREES = 5.0
"""Degrees of freedom of the returns of `volatility_student`."""


def bym2() -> Model:
    """BYM2 on a lattice of 7 by 7: Poisson counts, a spatial and an unstructured effect of each area, n = 102.

    count ~ Poisson(exposure · exp(b₀ + b x + σ (√(ρ/s) φ + √(1 − ρ) θ))), φ has density exp(−½ Σ_{i~j} (φ_i − φ_j)²)
    and the sum N(0, 0.49), θ ~ N(0, 1), b₀, b ~ N(0, 1), σ ~ half-N(1), ρ ~ Beta(½, ½); s makes the variance of φ/√s
    about 1 (Riebler et al. 2016; Morris et al. 2019).
    """
    rng = np.random.default_rng(112)
    covariance = np.linalg.inv(_lattice() + 1 / SIDE**2)  # of φ, with a term for its sum
    scale = np.exp(np.mean(np.log(np.diag(covariance) - 1 / SIDE**2)))
    phi = np.linalg.cholesky(covariance) @ rng.normal(size=SIDE**2) / np.sqrt(scale)
    phi -= phi.mean()
    field = 0.5 * (np.sqrt(0.6) * phi + np.sqrt(0.4) * rng.normal(size=SIDE**2)).reshape(SIDE, SIDE)
    exposure, x = rng.uniform(1, 10, (SIDE, SIDE)).round(2), rng.normal(size=(SIDE, SIDE)).round(3)
    data = {"count": rng.poisson(exposure * np.exp(0.2 + 0.4 * x + field)), "x": x, "log_exposure": np.log(exposure)}
    shapes = {"b_0": (), "b": (), "log_sigma": (), "logit_rho": (), "phi": (SIDE, SIDE), "theta": (SIDE, SIDE)}
    return build(_bym2, shapes, data | {"scale": scale}, _mixing, "count")


def _lattice() -> np.ndarray:
    """The precision of φ without the term of its sum: neighbours along rows and columns."""
    line = np.diag(np.full(SIDE, 2.0)) - np.eye(SIDE, k=1) - np.eye(SIDE, k=-1)
    line[0, 0] = line[-1, -1] = 1.0
    return np.kron(line, np.eye(SIDE)) + np.kron(np.eye(SIDE), line)


def _bym2(p, data):
    phi, sigma = p["phi"], jnp.exp(p["log_sigma"])
    prior = normal(p["b_0"]) + normal(p["b"]) + half_normal(p["log_sigma"], 1.0) + beta(p["logit_rho"], 0.5, 0.5)
    prior += normal(jnp.diff(phi, axis=0)) + normal(jnp.diff(phi, axis=1)) + normal(jnp.sum(phi), 0.0, 0.49)
    root_rho, root_rest = jnp.exp(0.5 * log_sigmoid(p["logit_rho"])), jnp.exp(0.5 * log_sigmoid(-p["logit_rho"]))
    field = sigma * (root_rho / jnp.sqrt(data["scale"]) * phi + root_rest * p["theta"])
    eta = data["log_exposure"] + p["b_0"] + p["b"] * data["x"] + field
    return prior + normal(p["theta"]) + poisson_log(data["count"], eta)


def _mixing(p, data):
    return {"sigma": jnp.exp(p["log_sigma"]), "rho": jax.nn.sigmoid(p["logit_rho"])}


def local_level() -> Model:
    """Local level, centred: a random walk of small steps in noise, 80 time points, n = 82.

    y_t ~ N(x_t, σ), x_t ~ N(x_{t−1}, σ_x), x₁ ~ N(0, 5), σ ~ half-N(2), σ_x ~ half-N(1).
    """
    rng = np.random.default_rng(113)
    x = 1 + np.cumsum(rng.normal(0, 0.1, 80))
    y = (x + rng.normal(0, 0.8, 80)).round(3)
    return build(_local_level, {"log_sigma_x": (), "log_sigma": (), "x": (80,)}, {"y": y}, scales, "y")


def _local_level(p, data):
    x = p["x"]
    prior = half_normal(p["log_sigma_x"], 1.0) + half_normal(p["log_sigma"], 2.0)
    prior += normal(x[0], 0.0, 5.0) + normal_rows(x[1:], x[:-1], p["log_sigma_x"])
    return prior + normal_rows(data["y"], x, p["log_sigma"])


def volatility_student() -> Model:
    """Stochastic volatility with Student t returns and a mean return, centred, 120 time points, n = 124.

    y_t ~ t₅(m, exp(h_t/2)), h_t ~ N(μ + φ (h_{t−1} − μ), σ), h₁ ~ N(μ, σ/√(1 − φ²)), m ~ N(0, 1), μ ~ N(0, 2), φ ~
    Beta(20, 1.5), σ ~ half-N(0.5).
    """
    rng = np.random.default_rng(114)
    h = [-0.5]
    for noise in rng.normal(0, 0.3, 119):
        h.append(-0.5 + 0.93 * (h[-1] + 0.5) + noise)
    y = (0.1 + np.exp(np.array(h) / 2) * rng.standard_t(DEGREES, 120)).round(4)
    shapes = {"m": (), "mu": (), "logit_phi": (), "log_sigma": (), "h": (120,)}
    return build(_volatility_student, shapes, {"y": y}, _persistence, "y")


def _volatility_student(p, data):
    h, mu, phi = p["h"], p["mu"], jax.nn.sigmoid(p["logit_phi"])
    prior = normal(p["m"]) + normal(mu, 0.0, 2.0) + beta(p["logit_phi"], 20.0, 1.5) + half_normal(p["log_sigma"], 0.5)
    log_shrink = 0.5 * (jnp.log1p(phi) + log_sigmoid(-p["logit_phi"]))  # log √(1 − φ²)
    prior += normal_rows(h[:1], mu, p["log_sigma"] - log_shrink)
    prior += normal_rows(h[1:], mu + phi * (h[:-1] - mu), p["log_sigma"])
    squares = (data["y"] - p["m"]) ** 2 * jnp.exp(-h)
    return prior - 0.5 * jnp.sum(h + (DEGREES + 1) * jnp.log1p(squares / DEGREES))


def _persistence(p, data):
    return {"phi": jax.nn.sigmoid(p["logit_phi"]), "sigma": jnp.exp(p["log_sigma"])}


def gp_latent() -> Model:
    """Gaussian process regression with its 40 latent values sampled directly: strong correlations, n = 44.

    y_i ~ N(f_i, σ), f ~ N(m, α² (K + 1e-4 I)) with the Matérn-3/2 kernel K of length ρ, m ~ N(0, 2), ρ ~
    Inv-Gamma(3, 3), α ~ half-N(1), σ ~ half-N(1).
    """
    rng = np.random.default_rng(115)
    s = (0.25 * np.arange(40) + rng.uniform(0, 0.15, 40)).round(3)
    y = (0.5 + np.sin(1.3 * s) * np.exp(-0.1 * s) + rng.normal(0, 0.4, 40)).round(3)
    data = {"y": y, "apart": np.abs(s[:, None] - s)}
    shapes = {"m": (), "log_rho": (), "log_alpha": (), "log_sigma": (), "f": (40,)}
    return build(_gp_latent, shapes, data, scales, "y")


def _gp_latent(p, data):
    prior = normal(p["m"], 0.0, 2.0) + inverse_gamma(p["log_rho"], 3.0, 3.0)
    prior += half_normal(p["log_alpha"], 1.0) + half_normal(p["log_sigma"], 1.0)
    root = gp_root(p["log_rho"], p["log_alpha"], data["apart"])
    white = solve_triangular(root, p["f"] - p["m"], lower=True)
    prior -= 0.5 * white @ white + jnp.sum(jnp.log(jnp.diagonal(root)))
    return prior + normal_rows(data["y"], p["f"], p["log_sigma"])


def gp_root(log_rho, log_alpha, apart):
    """The Cholesky factor of the covariance of `gp_latent`."""
    scaled = jnp.sqrt(3.0) * apart * jnp.exp(-log_rho)
    kernel = (1 + scaled) * jnp.exp(-scaled) + NUGGET * jnp.eye(len(apart))
    return jnp.exp(log_alpha) * jnp.linalg.cholesky(kernel)


def gp_hilbert() -> Model:
    """Gaussian process with Poisson counts at 40 points, by 20 centred coefficients of a Hilbert space, n = 23.

    count_i ~ Poisson(exp(m + Σ_j b_j ψ_j(s_i))), ψ_j(s) = sin(ω_j (s + 6))/√6, ω_j = π j/12, b_j ~ N(0, √S(ω_j)) with
    the spectral density S of α² times the Matérn-3/2 kernel of length ρ, m ~ N(0, 2), ρ ~ Inv-Gamma(3, 3), α ~
    half-N(1) (Riutort-Mayol et al. 2023).
    """
    rng = np.random.default_rng(116)
    s = np.sort(rng.uniform(-4, 4, 40)).round(3)
    count = rng.poisson(np.exp(1 + 0.8 * np.sin(s) + 0.1 * s))
    omega = np.pi * np.arange(1, BASIS + 1) / (2 * LENGTH)
    data = {"count": count, "basis": np.sin(omega * (s[:, None] + LENGTH)) / np.sqrt(LENGTH), "omega": omega}
    return build(_gp_hilbert, {"m": (), "log_rho": (), "log_alpha": (), "b": (BASIS,)}, data, scales, "count")


def _gp_hilbert(p, data):
    prior = normal(p["m"], 0.0, 2.0) + inverse_gamma(p["log_rho"], 3.0, 3.0) + half_normal(p["log_alpha"], 1.0)
    log_sd = gp_log_spread(p["log_rho"], p["log_alpha"], data["omega"])
    prior -= jnp.sum(0.5 * (p["b"] * jnp.exp(-log_sd)) ** 2 + log_sd)
    return prior + poisson_log(data["count"], p["m"] + data["basis"] @ p["b"])


def gp_log_spread(log_rho, log_alpha, omega):
    """log √S(ω), with S = α² 12 √3 ρ⁻³ (3/ρ² + ω²)⁻²."""
    log_rate = 0.5 * jnp.log(3.0) - log_rho  # S = 4 α² rate³ (rate² + ω²)⁻²
    return log_alpha + jnp.log(2.0) + 1.5 * log_rate - jnp.log(jnp.exp(2 * log_rate) + omega**2)
