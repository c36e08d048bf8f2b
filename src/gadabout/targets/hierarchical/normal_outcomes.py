"""Normal outcomes: groups, slopes, crossed and nested effects, a meta-analysis, and a horseshoe regression."""

import jax.numpy as jnp
import numpy as np

from gadabout.model import Model
from gadabout.targets.hierarchical.parts import normal_rows, scales
from gadabout.targets.wild.build import build
from gadabout.targets.wild.densities import half_cauchy, half_normal, normal


def groups_few_data() -> Model:
    """Normal groups, centred: 30 groups of 3 observations, n = 33, a funnel in the groups' scale.

    y_gk ~ N(θ_g, σ), θ ~ N(μ, τ), μ ~ N(0, 5), τ, σ ~ half-N(2).
    """
    rng = np.random.default_rng(101)
    theta = rng.normal(1, 0.4, 30)
    y = (theta[:, None] + rng.normal(0, 1, (30, 3))).round(3)
    return build(_groups_few_data, {"mu": (), "log_tau": (), "log_sigma": (), "theta": (30,)}, {"y": y}, scales, "y")


def _groups_few_data(p, data):
    prior = normal(p["mu"], 0.0, 5.0) + half_normal(p["log_tau"], 2.0) + half_normal(p["log_sigma"], 2.0)
    prior += normal(p["theta"], p["mu"], jnp.exp(p["log_tau"]))
    return prior + normal_rows(data["y"], p["theta"][:, None], p["log_sigma"])


def groups_much_data() -> Model:
    """Normal groups, non-centred: 40 groups of 50 observations, n = 43, where the centred form would be mild.

    y_gk ~ N(μ + τ η_g, σ), η ~ N(0, 1), μ ~ N(0, 5), τ, σ ~ half-N(2).
    """
    rng = np.random.default_rng(102)
    theta = rng.normal(-1, 1, 40)
    y = (theta[:, None] + rng.normal(0, 1, (40, 50))).round(3)
    shapes = {"mu": (), "log_tau": (), "log_sigma": (), "eta": (40,)}
    return build(_groups_much_data, shapes, {"y": y}, _scales_and_theta, "y")


def _groups_much_data(p, data):
    prior = normal(p["mu"], 0.0, 5.0) + half_normal(p["log_tau"], 2.0) + half_normal(p["log_sigma"], 2.0)
    theta = _scales_and_theta(p, data)["theta"]
    return prior + normal(p["eta"]) + normal_rows(data["y"], theta[:, None], p["log_sigma"])


def _scales_and_theta(p, data):
    return scales(p, data) | {"theta": p["mu"] + jnp.exp(p["log_tau"]) * p["eta"]}


def varying_slopes() -> Model:
    """Varying intercepts and slopes, centred: 25 groups of 5 observations, n = 55, two funnels.

    y_gk ~ N(a_g + b_g x_gk, σ), a ~ N(a₀, σ_a), b ~ N(b₀, σ_b), a₀, b₀ ~ N(0, 5), scales half-N(2).
    """
    rng = np.random.default_rng(103)
    x = rng.normal(0, 1, (25, 5)).round(3)
    a, b = rng.normal(2, 0.8, 25), rng.normal(-0.5, 0.3, 25)
    y = (a[:, None] + b[:, None] * x + rng.normal(0, 1, (25, 5))).round(3)
    shapes = {"a_0": (), "b_0": (), "log_sigma_a": (), "log_sigma_b": (), "log_sigma": (), "a": (25,), "b": (25,)}
    return build(_varying_slopes, shapes, {"y": y, "x": x}, scales, "y")


def _varying_slopes(p, data):
    prior = normal(p["a_0"], 0.0, 5.0) + normal(p["b_0"], 0.0, 5.0)
    prior += sum(half_normal(p[name], 2.0) for name in ("log_sigma_a", "log_sigma_b", "log_sigma"))
    prior += normal(p["a"], p["a_0"], jnp.exp(p["log_sigma_a"])) + normal(p["b"], p["b_0"], jnp.exp(p["log_sigma_b"]))
    return prior + normal_rows(data["y"], p["a"][:, None] + p["b"][:, None] * data["x"], p["log_sigma"])


def crossed_effects() -> Model:
    """Crossed effects, centred: 20 subjects by 15 items, a third of them missing, n = 39.

    y_si ~ N(μ + s_s + t_i, σ) if observed, s ~ N(0, σ_s), t ~ N(0, σ_t), μ ~ N(0, 5), scales half-N(2).
    """
    rng = np.random.default_rng(104)
    effects = rng.normal(0, 0.7, 20)[:, None] + rng.normal(0, 0.3, 15)
    present = rng.random((20, 15)) < 0.65
    y = np.where(present, (3 + effects + rng.normal(0, 1, (20, 15))).round(3), 0.0)
    shapes = {"mu": (), "log_sigma_s": (), "log_sigma_t": (), "log_sigma": (), "s": (20,), "t": (15,)}
    return build(_crossed_effects, shapes, {"y": y, "present": present}, scales, "y")


def _crossed_effects(p, data):
    prior = normal(p["mu"], 0.0, 5.0)
    prior += sum(half_normal(p[name], 2.0) for name in ("log_sigma_s", "log_sigma_t", "log_sigma"))
    prior += normal(p["s"], 0.0, jnp.exp(p["log_sigma_s"])) + normal(p["t"], 0.0, jnp.exp(p["log_sigma_t"]))
    residuals = (data["y"] - p["mu"] - p["s"][:, None] - p["t"]) * jnp.exp(-p["log_sigma"])
    return prior - jnp.sum(data["present"] * (0.5 * residuals**2 + p["log_sigma"]))


def nested_effects() -> Model:
    """Nested effects, centred: 8 districts of 5 schools of 6 pupils, n = 52, schools around their district.

    y_dsk ~ N(b_ds, σ), b_ds ~ N(a_d, σ_b), a ~ N(μ, σ_a), μ ~ N(0, 5), scales half-N(2).
    """
    rng = np.random.default_rng(105)
    a = rng.normal(0.5, 0.5, 8)
    b = a[:, None] + rng.normal(0, 0.3, (8, 5))
    y = (b[:, :, None] + rng.normal(0, 1, (8, 5, 6))).round(3)
    shapes = {"mu": (), "log_sigma_a": (), "log_sigma_b": (), "log_sigma": (), "a": (8,), "b": (8, 5)}
    return build(_nested_effects, shapes, {"y": y}, scales, "y")


def _nested_effects(p, data):
    prior = normal(p["mu"], 0.0, 5.0)
    prior += sum(half_normal(p[name], 2.0) for name in ("log_sigma_a", "log_sigma_b", "log_sigma"))
    prior += normal(p["a"], p["mu"], jnp.exp(p["log_sigma_a"]))
    prior += normal_rows(p["b"], p["a"][:, None], p["log_sigma_b"])
    return prior + normal_rows(data["y"], p["b"][:, :, None], p["log_sigma"])


def meta_analysis() -> Model:
    """Meta-analysis, centred: 12 studies with standard errors from 0.03 to 2, n = 14, half a funnel.

    y_j ~ N(θ_j, se_j), θ ~ N(μ, τ), μ ~ N(0, 2), τ ~ half-Cauchy(0.5).
    """
    rng = np.random.default_rng(106)
    se = np.geomspace(0.03, 2, 12).round(3)
    y = (rng.normal(0.3, 0.15, 12) + se * rng.normal(size=12)).round(3)
    return build(_meta_analysis, {"mu": (), "log_tau": (), "theta": (12,)}, {"y": y, "se": se}, scales, "y")


def _meta_analysis(p, data):
    prior = normal(p["mu"], 0.0, 2.0) + half_cauchy(p["log_tau"], 0.5)
    prior += normal(p["theta"], p["mu"], jnp.exp(p["log_tau"]))
    return prior + normal(data["y"], p["theta"], data["se"])


def horseshoe_centred() -> Model:
    """Horseshoe regression, centred: 60 rows, 15 inputs of which 3 matter, n = 33, a funnel for each coefficient.

    y ~ N(b₀ + X b, σ), b_j ~ N(0, τ λ_j), λ ~ half-Cauchy(1), τ ~ half-Cauchy(0.2), b₀ ~ N(0, 5), σ ~ half-N(2)
    (Carvalho, Polson & Scott 2010).
    """
    rng = np.random.default_rng(107)
    X = rng.normal(size=(60, 15)).round(3)
    y = (0.5 + X[:, :3] @ np.array([1.5, -1.0, 0.5]) + rng.normal(0, 1, 60)).round(3)
    shapes = {"b_0": (), "log_tau": (), "log_sigma": (), "log_lambda": (15,), "b": (15,)}
    return build(_horseshoe_centred, shapes, {"y": y, "X": X}, scales, "y")


def _horseshoe_centred(p, data):
    prior = normal(p["b_0"], 0.0, 5.0) + half_normal(p["log_sigma"], 2.0)
    prior += half_cauchy(p["log_tau"], 0.2) + half_cauchy(p["log_lambda"], 1.0)
    prior += normal(p["b"], 0.0, jnp.exp(p["log_tau"] + p["log_lambda"]))
    return prior + normal_rows(data["y"], p["b_0"] + data["X"] @ p["b"], p["log_sigma"])
