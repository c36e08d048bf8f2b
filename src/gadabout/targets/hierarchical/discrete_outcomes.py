"""Group effects on counts, binary outcomes and ordered categories, and item response."""

import jax.numpy as jnp
import numpy as np

from gadabout.model import Model
from gadabout.targets.hierarchical.parts import scales
from gadabout.targets.log_sigmoid import log_sigmoid
from gadabout.targets.wild.build import build
from gadabout.targets.wild.densities import bernoulli_logit, half_normal, normal, poisson_log


def poisson_groups() -> Model:
    """Poisson regression with 40 centred group effects and a covariate, 4 counts each, n = 43.

    count_gk ~ Poisson(exp(a_g + b x_gk)), a ~ N(μ, τ), μ ~ N(0, 2), b ~ N(0, 1), τ ~ half-N(1).
    """
    rng = np.random.default_rng(108)
    x = rng.normal(0, 1, (40, 4)).round(3)
    count = rng.poisson(np.exp(rng.normal(0.3, 0.4, 40)[:, None] + 0.4 * x))
    shapes = {"mu": (), "b": (), "log_tau": (), "a": (40,)}
    return build(_poisson_groups, shapes, {"count": count, "x": x}, scales, "count")


def _poisson_groups(p, data):
    prior = normal(p["mu"], 0.0, 2.0) + normal(p["b"]) + half_normal(p["log_tau"], 1.0)
    prior += normal(p["a"], p["mu"], jnp.exp(p["log_tau"]))
    return prior + poisson_log(data["count"], p["a"][:, None] + p["b"] * data["x"])


def bernoulli_groups() -> Model:
    """Logistic regression with 50 centred group effects, 6 sparse outcomes each, n = 52.

    y_gk ~ Bernoulli(σ(a_g)), a ~ N(μ, τ), μ ~ N(0, 2), τ ~ half-N(1.5); one outcome in seven is 1.
    """
    rng = np.random.default_rng(109)
    y = rng.random((50, 6)) < 1 / (1 + np.exp(-rng.normal(-2, 0.8, 50)[:, None]))
    return build(_bernoulli_groups, {"mu": (), "log_tau": (), "a": (50,)}, {"y": y}, scales, "y")


def _bernoulli_groups(p, data):
    prior = normal(p["mu"], 0.0, 2.0) + half_normal(p["log_tau"], 1.5)
    return prior + normal(p["a"], p["mu"], jnp.exp(p["log_tau"])) + bernoulli_logit(data["y"], p["a"][:, None])


def ordinal_groups() -> Model:
    """Ordered logit of 4 categories with 30 centred group effects and a covariate, 5 outcomes each, n = 35.

    P(y_gk ≤ j) = σ(c_j − a_g − b x_gk), a ~ N(0, τ), b ~ N(0, 1), τ ~ half-N(1), c₁ ~ N(−1, 2), log(c_{j+1} − c_j) ~
    N(0, 1).
    """
    rng = np.random.default_rng(110)
    x = rng.normal(0, 1, (30, 5)).round(3)
    latent = rng.normal(0, 0.6, 30)[:, None] + 0.7 * x + rng.logistic(0, 1, (30, 5))
    y = 1 + np.sum(latent[..., None] > np.array([-1.2, 0.2, 1.6]), -1)
    shapes = {"b": (), "log_tau": (), "c_1": (), "log_gaps": (2,), "a": (30,)}
    return build(_ordinal_groups, shapes, {"y": y, "x": x}, _cuts, "y")


def _ordinal_groups(p, data):
    prior = normal(p["b"]) + half_normal(p["log_tau"], 1.0) + normal(p["c_1"], -1.0, 2.0) + normal(p["log_gaps"])
    prior += normal(p["a"], 0.0, jnp.exp(p["log_tau"]))
    eta = p["a"][:, None] + p["b"] * data["x"]
    below = log_sigmoid(_cuts(p, data)["c"] - eta[..., None])  # log P(y ≤ j), for j = 1, 2, 3
    above = log_sigmoid(eta[..., None] - _cuts(p, data)["c"])
    # σ(u) − σ(v) = σ(u) σ(−v) (1 − exp(v − u))
    between = below[..., 1:] + above[..., :-1] + jnp.log(-jnp.expm1(-jnp.exp(p["log_gaps"])))
    each = jnp.concatenate([below[..., :1], between, above[..., -1:]], -1)
    return prior + jnp.sum(jnp.where(data["y"][..., None] == jnp.arange(1, 5), each, 0.0))


def _cuts(p, data):
    gaps = jnp.concatenate([p["c_1"][None], jnp.exp(p["log_gaps"])])
    return {"tau": jnp.exp(p["log_tau"]), "c": jnp.cumsum(gaps)}


def item_response_centred() -> Model:
    """Item response, 2PL: 100 persons and 12 items, n = 128, slopes and difficulties around their means.

    y_ji ~ Bernoulli(σ(a_i (θ_j − b_i))), θ ~ N(0, 1), log a ~ N(μ_a, σ_a), b ~ N(μ_b, σ_b), μ_a ~ N(0, 1), μ_b ~ N(0,
    2), σ_a ~ half-N(0.5), σ_b ~ half-N(2).
    """
    rng = np.random.default_rng(111)
    theta, a, b = rng.normal(0, 1, 100), rng.lognormal(0.1, 0.3, 12), rng.normal(-0.3, 1, 12)
    y = rng.random((100, 12)) < 1 / (1 + np.exp(-a * (theta[:, None] - b)))
    shapes = {"mu_a": (), "mu_b": (), "log_sigma_a": (), "log_sigma_b": (), "log_a": (12,), "b": (12,), "theta": (100,)}
    return build(_item_response_centred, shapes, {"y": y}, scales, "y")


def _item_response_centred(p, data):
    prior = normal(p["mu_a"]) + normal(p["mu_b"], 0.0, 2.0) + normal(p["theta"])
    prior += half_normal(p["log_sigma_a"], 0.5) + half_normal(p["log_sigma_b"], 2.0)
    prior += normal(p["log_a"], p["mu_a"], jnp.exp(p["log_sigma_a"]))
    prior += normal(p["b"], p["mu_b"], jnp.exp(p["log_sigma_b"]))
    return prior + bernoulli_logit(data["y"], jnp.exp(p["log_a"]) * (p["theta"][:, None] - p["b"]))
