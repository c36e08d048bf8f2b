"""Hierarchical models, the horseshoe, and a mixture."""

import jax
import jax.numpy as jnp
import numpy as np

from gadabout.model import Model
from gadabout.targets.wild.build import build
from gadabout.targets.wild.densities import (
    bernoulli_logit,
    beta,
    half_cauchy,
    half_normal,
    inverse_gamma,
    normal,
)

SCHOOLS = {"y": np.array([28.0, 8, -3, 7, -1, 1, 18, 12]), "sd": np.array([15.0, 10, 16, 11, 9, 11, 10, 18])}
"""Effects of coaching and their standard errors (Rubin 1981)."""


def eight_schools_centred() -> Model:
    """Eight schools, θ ~ N(μ, τ) sampled directly: a funnel in τ.

    y ~ N(θ, sd), μ ~ N(0, 5), τ ~ half-Cauchy(5) (Rubin 1981; posteriordb eight_schools-eight_schools_centered).
    """
    return build(_eight_schools_centred, {"mu": (), "log_tau": (), "theta": (8,)}, SCHOOLS, _tau, "y")


def _eight_schools_centred(p, data):
    prior = (
        normal(p["mu"], 0.0, 5.0) + half_cauchy(p["log_tau"], 5.0) + normal(p["theta"], p["mu"], jnp.exp(p["log_tau"]))
    )
    return prior + normal(data["y"], p["theta"], data["sd"])


def _tau(p, data):
    return {"tau": jnp.exp(p["log_tau"])}


def eight_schools_noncentred() -> Model:
    """Eight schools, θ = μ + τ η with η ~ N(0, 1): mild.

    As `eight_schools_centred` in other coordinates (posteriordb eight_schools-eight_schools_noncentered).
    """
    shapes = {"mu": (), "log_tau": (), "eta": (8,)}
    return build(_eight_schools_noncentred, shapes, SCHOOLS, _tau_and_theta, "y")


def _eight_schools_noncentred(p, data):
    prior = normal(p["mu"], 0.0, 5.0) + half_cauchy(p["log_tau"], 5.0) + normal(p["eta"])
    return prior + normal(data["y"], _tau_and_theta(p, data)["theta"], data["sd"])


def _tau_and_theta(p, data):
    tau = jnp.exp(p["log_tau"])
    return {"tau": tau, "theta": p["mu"] + tau * p["eta"]}


def sleep_study() -> Model:
    """Reaction times in milliseconds of 18 subjects on ten days: intercepts and slopes by subject, scales 0.1 to 250.

    time ~ N(a_s + b_s day, σ), a ~ N(a₀, σ_a), b ~ N(b₀, σ_b), all scales half-Cauchy(100), a₀, b₀ ~ N(0, 1000)
    (Belenky et al. 2003 as in lme4's sleepstudy, without the correlation), simulated.
    """
    rng = np.random.default_rng(6)
    a, b = rng.normal(251, 25, 18), rng.normal(10.5, 6, 18)
    time = (a[:, None] + b[:, None] * np.arange(10) + rng.normal(0, 25, (18, 10))).round(1)
    shapes = {"a": (18,), "b": (18,), "a_0": (), "b_0": (), "log_sigma_a": (), "log_sigma_b": (), "log_sigma": ()}
    return build(_sleep_study, shapes, {"time": time, "day": np.arange(10)}, _sleep_scales, "time")


def _sleep_study(p, data):
    sigma = _sleep_scales(p, data)
    priors = normal(p["a_0"], 0.0, 1000.0) + normal(p["b_0"], 0.0, 1000.0)
    priors += sum(half_cauchy(p[f"log_{name}"], 100.0) for name in sigma)
    subjects = normal(p["a"], p["a_0"], sigma["sigma_a"]) + normal(p["b"], p["b_0"], sigma["sigma_b"])
    return priors + subjects + normal(data["time"], p["a"][:, None] + p["b"][:, None] * data["day"], sigma["sigma"])


def _sleep_scales(p, data):
    return {name: jnp.exp(p[f"log_{name}"]) for name in ("sigma_a", "sigma_b", "sigma")}


def item_response() -> Model:
    """Item response, 2PL: 500 persons and 20 items, n = 544; the scales of ability and slope trade off.

    y_ji ~ Bernoulli(σ(a_i (θ_j − b_i))), θ ~ N(0, σ_θ), log a ~ N(0, σ_a), b ~ N(μ_b, σ_b), μ_b ~ N(0, 5), scales
    half-Cauchy(2) (posteriordb irt_2pl-irt_2pl, with five times its persons), simulated.
    """
    rng = np.random.default_rng(7)
    theta, a, b = rng.normal(0, 1.2, 500), rng.lognormal(0, 0.4, 20), rng.normal(0.3, 1, 20)
    y = rng.random((500, 20)) < 1 / (1 + np.exp(-a * (theta[:, None] - b)))
    shapes = {"theta": (500,), "log_a": (20,), "b": (20,), "mu_b": ()}
    shapes |= {"log_sigma_theta": (), "log_sigma_a": (), "log_sigma_b": ()}
    return build(_item_response, shapes, {"y": y}, _item_scales, "y")


def _item_response(p, data):
    sigma = _item_scales(p, data)
    prior = normal(p["mu_b"], 0.0, 5.0) + sum(half_cauchy(p[f"log_{name}"], 2.0) for name in sigma)
    prior += normal(p["theta"], 0.0, sigma["sigma_theta"]) + normal(p["log_a"], 0.0, sigma["sigma_a"])
    prior += normal(p["b"], p["mu_b"], sigma["sigma_b"])
    return prior + bernoulli_logit(data["y"], jnp.exp(p["log_a"]) * (p["theta"][:, None] - p["b"]))


def _item_scales(p, data):
    return {name: jnp.exp(p[f"log_{name}"]) for name in ("sigma_theta", "sigma_a", "sigma_b")}


def horseshoe() -> Model:
    """Regularised horseshoe regression: 100 rows, 50 inputs, five of them active; n = 104, funnels and several modes.

    y ~ N(b₀ + X b, σ), b_j = z_j τ λ̃_j, λ̃² = c² λ²/(c² + τ² λ²), z ~ N(0, 1), λ ~ half-Cauchy(1), τ = τ₀ σ t with
    t ~ half-Cauchy(1) and τ₀ = 5/45/√100, c² = 4 c₂ with c₂ ~ Inv-Gamma(2, 2), b₀ ~ N(0, 10), log σ ~ N(0, 2) (Piironen
    & Vehtari 2017, appendix C.2), simulated.
    """
    rng = np.random.default_rng(8)
    X = rng.normal(size=(100, 50)).round(3)
    y = (1 + X[:, :5] @ np.array([3.0, -2, 1.5, 1, 0.5]) + rng.normal(0, 1.5, 100)).round(3)
    shapes = {"b_0": (), "z": (50,), "log_lambda": (50,), "log_t": (), "log_c2": (), "log_sigma": ()}
    return build(_horseshoe, shapes, {"y": y, "inputs": X}, _coefficients, "y")


def _horseshoe(p, data):
    prior = normal(p["b_0"], 0.0, 10.0) + normal(p["log_sigma"], 0.0, 2.0) + normal(p["z"])
    prior += half_cauchy(p["log_lambda"]) + half_cauchy(p["log_t"]) + inverse_gamma(p["log_c2"], 2.0, 2.0)
    mean = p["b_0"] + data["inputs"] @ _coefficients(p, data)["b"]
    return prior + normal(data["y"], mean, jnp.exp(p["log_sigma"]))


def _coefficients(p, data):
    log_tau = jnp.log(5 / 45 / 10) + p["log_sigma"] + p["log_t"]
    log_c = jnp.log(2.0) + 0.5 * p["log_c2"]
    shrunk = p["log_lambda"] + log_c - 0.5 * jnp.logaddexp(2 * log_c, 2 * (log_tau + p["log_lambda"]))  # log λ̃
    return {"b": p["z"] * jnp.exp(log_tau + shrunk)}


def mixture() -> Model:
    """Two overlapping, ordered normal components: a curved posterior, with a minor mode where one is empty.

    y ~ q N(μ₁, σ₁) + (1 − q) N(μ₂, σ₂), μ₁ < μ₂ both N(0, 2), σ half-N(2), q ~ Beta(5, 5) (posteriordb
    low_dim_gauss_mix-low_dim_gauss_mix; Betancourt 2017), on 500 simulated rows.
    """
    rng = np.random.default_rng(9)
    first = rng.random(500) < 0.4
    y = np.where(first, rng.normal(-1, 1, 500), rng.normal(2, 0.7, 500)).round(3)
    return build(_mixture, {"mu_1": (), "log_gap": (), "log_sigma": (2,), "logit_q": ()}, {"y": y}, _components, "y")


def _mixture(p, data):
    mu, sigma = _components(p, data)["mu"], jnp.exp(p["log_sigma"])
    prior = normal(mu, 0.0, 2.0) + p["log_gap"]  # the Jacobian of μ₂ = μ₁ + exp(log_gap)
    prior += half_normal(p["log_sigma"], 2.0) + beta(p["logit_q"], 5.0, 5.0)
    log_q = -jnp.logaddexp(0.0, jnp.array([-1.0, 1.0]) * p["logit_q"])
    each = log_q - p["log_sigma"] - 0.5 * ((data["y"][:, None] - mu) / sigma) ** 2
    return prior + jnp.sum(jnp.logaddexp(each[:, 0], each[:, 1]))


def _components(p, data):
    mu = jnp.stack([p["mu_1"], p["mu_1"] + jnp.exp(p["log_gap"])])
    return {"mu": mu, "sigma": jnp.exp(p["log_sigma"]), "q": jax.nn.sigmoid(p["logit_q"])}
