"""Time series: recursions by `jax.lax.scan`, so that compilation does not grow with their length."""

import jax
import jax.numpy as jnp
import numpy as np

from gadabout.model import Model
from gadabout.targets.log_sigmoid import log_sigmoid
from gadabout.targets.wild.build import build
from gadabout.targets.wild.densities import beta, cauchy, half_cauchy, normal


def ark() -> Model:
    """Autoregression of order 5, 200 time points: mild.

    y_t ~ N(a + Σ_k b_k y_{t−k}, σ), a, b ~ N(0, 10), σ ~ half-Cauchy(2.5) (posteriordb arK-arK), simulated.
    """
    rng = np.random.default_rng(11)
    y, b = list(rng.normal(0, 0.15, 5)), np.array([0.7, -0.4, 0.3, 0.2, -0.1])
    for noise in rng.normal(0, 0.15, 195):
        y.append(b @ y[:-6:-1] + noise)
    y = np.round(y, 4)
    lags = np.stack([y[5 - k : 200 - k] for k in range(1, 6)], 1)
    return build(_ark, {"a": (), "b": (5,), "log_sigma": ()}, {"y": y[5:], "lags": lags}, _sigma, "y")


def _ark(p, data):
    prior = normal(p["a"], 0.0, 10.0) + normal(p["b"], 0.0, 10.0) + half_cauchy(p["log_sigma"], 2.5)
    return prior + normal(data["y"], p["a"] + data["lags"] @ p["b"], jnp.exp(p["log_sigma"]))


def _sigma(p, data):
    return {"sigma": jnp.exp(p["log_sigma"])}


def arma11() -> Model:
    """ARMA(1, 1), 200 time points: where |θ| > 1 the residuals explode, and the log density falls to −1e120.

    e_t = y_t − μ − φ y_{t−1} − θ e_{t−1} ~ N(0, σ), with y₀ = μ and e₀ = 0, μ ~ N(0, 10), φ, θ ~ N(0, 2), σ ~
    half-Cauchy(2.5) (posteriordb arma-arma11; Stan user's guide, moving average models), simulated.
    """
    rng = np.random.default_rng(12)
    y, last = [0.5], 0.0
    for noise in rng.normal(0, 0.15, 199):
        y.append(0.1 + 0.8 * y[-1] - 0.3 * last + noise)
        last = noise
    shapes = {"mu": (), "phi": (), "theta": (), "log_sigma": ()}
    return build(_arma11, shapes, {"y": np.round(y, 4)}, _sigma, "y")


def _arma11(p, data):
    before = jnp.concatenate([p["mu"][None], data["y"][:-1]])
    innovations = data["y"] - p["mu"] - p["phi"] * before

    def step(error, innovation):
        error = innovation - p["theta"] * error
        return error, error

    _, errors = jax.lax.scan(step, jnp.zeros_like(p["mu"]), innovations)
    prior = normal(p["mu"], 0.0, 10.0) + normal(jnp.stack([p["phi"], p["theta"]]), 0.0, 2.0)
    return prior + half_cauchy(p["log_sigma"], 2.5) + normal(errors, 0.0, jnp.exp(p["log_sigma"]))


def garch11() -> Model:
    """GARCH(1, 1), 200 time points: a ridge of α₀ against β₁.

    y_t ~ N(μ, σ_t), σ²_t = α₀ + α₁ (y_{t−1} − μ)² + β₁ σ²_{t−1}, σ₁ = 0.5, flat priors on μ, α₀ > 0, 0 < α₁ < 1 and
    0 < β₁ < 1 − α₁ (posteriordb garch-garch11; Stan user's guide, volatility models), simulated.
    """
    rng = np.random.default_rng(13)
    y, variance = [], 0.25
    for noise in rng.normal(size=200):
        y.append(5 + np.sqrt(variance) * noise)
        variance = 0.1 + 0.35 * (y[-1] - 5) ** 2 + 0.4 * variance
    shapes = {"mu": (), "log_alpha_0": (), "logit_alpha_1": (), "logit_beta_1": ()}
    return build(_garch11, shapes, {"y": np.round(y, 4)}, _coefficients, "y")


def _garch11(p, data):
    c = _coefficients(p, data)
    squares = (data["y"] - p["mu"]) ** 2

    def step(variance, square):
        return c["alpha_0"] + c["alpha_1"] * square + c["beta_1"] * variance, variance

    _, variances = jax.lax.scan(step, jnp.full_like(p["mu"], 0.25), squares)
    # The Jacobians: α₀ = exp(·), α₁ = σ(·), and β₁ = (1 − α₁) σ(·), whose factor 1 − α₁ = σ(−logit_alpha_1) counts too.
    jacobian = p["log_alpha_0"] + beta(p["logit_alpha_1"], 1.0, 1.0) + beta(p["logit_beta_1"], 1.0, 1.0)
    jacobian += log_sigmoid(-p["logit_alpha_1"])
    return jacobian - 0.5 * jnp.sum(jnp.log(variances) + squares / variances)


def _coefficients(p, data):
    alpha_1 = jax.nn.sigmoid(p["logit_alpha_1"])
    beta_1 = jax.nn.sigmoid(-p["logit_alpha_1"]) * jax.nn.sigmoid(p["logit_beta_1"])
    return {"alpha_0": jnp.exp(p["log_alpha_0"]), "alpha_1": alpha_1, "beta_1": beta_1}


def hidden_markov() -> Model:
    """Hidden Markov chain of two states, 200 normal outcomes, the states summed out by the forward algorithm.

    y_t ~ N(μ_{z_t}, σ), z stays in state k with probability stay_k ~ U(0, 1), z₁ is uniform, μ₁ < μ₂ both N(0, 10), σ ~
    half-Cauchy(2.5) (posteriordb hmm_example-hmm_example; Stan user's guide, hidden Markov models), simulated.
    """
    rng = np.random.default_rng(14)
    states = [0]
    for uniform in rng.random(199):
        states.append(states[-1] if uniform < (0.9, 0.8)[states[-1]] else 1 - states[-1])
    y = (np.array([3.0, 6.0])[states] + rng.normal(0, 1.2, 200)).round(3)
    shapes = {"mu_1": (), "log_gap": (), "logit_stay": (2,), "log_sigma": ()}
    return build(_hidden_markov, shapes, {"y": y}, _states, "y")


def _hidden_markov(p, data):
    mu, sigma = _states(p, data)["mu"], jnp.exp(p["log_sigma"])
    prior = normal(mu, 0.0, 10.0) + p["log_gap"]  # the Jacobian of μ₂ = μ₁ + exp(log_gap)
    prior += beta(p["logit_stay"], 1.0, 1.0) + half_cauchy(p["log_sigma"], 2.5)
    stay, leave = log_sigmoid(p["logit_stay"]), log_sigmoid(-p["logit_stay"])
    outcomes = -p["log_sigma"] - 0.5 * ((data["y"][:, None] - mu) / sigma) ** 2

    def step(forward, outcome):
        return jnp.logaddexp(forward + stay, (forward + leave)[::-1]) + outcome, None

    forward, _ = jax.lax.scan(step, outcomes[0], outcomes[1:])
    return prior + jnp.logaddexp(forward[0], forward[1])


def _states(p, data):
    mu = jnp.stack([p["mu_1"], p["mu_1"] + jnp.exp(p["log_gap"])])
    return {"mu": mu, "stay": jax.nn.sigmoid(p["logit_stay"]), "sigma": jnp.exp(p["log_sigma"])}


def stochastic_volatility() -> Model:
    """Stochastic volatility, 600 time points, n = 603: log variances strongly correlated in time, a funnel in scale.

    y_t ~ N(0, exp(h_t/2)), h_t ~ N(μ + φ (h_{t−1} − μ), σ), h₁ ~ N(μ, σ/√(1 − φ²)), μ ~ Cauchy(10), φ ~ U(−1, 1), σ ~
    half-Cauchy(5) (Kim, Shephard & Chib 1998; Stan user's guide, stochastic volatility models), simulated.
    """
    rng = np.random.default_rng(15)
    h = [-1.0]
    for noise in rng.normal(0, 0.25, 599):
        h.append(-1 + 0.95 * (h[-1] + 1) + noise)
    y = (np.exp(np.array(h) / 2) * rng.normal(size=600)).round(4)
    shapes = {"h": (600,), "mu": (), "logit_phi": (), "log_sigma": ()}
    return build(_stochastic_volatility, shapes, {"y": y}, _persistence, "y")


def _stochastic_volatility(p, data):
    h, mu, (phi, sigma) = p["h"], p["mu"], _persistence(p, data).values()
    log_stationary = p["log_sigma"] - 0.5 * (log_sigmoid(p["logit_phi"]) + log_sigmoid(-p["logit_phi"]) + jnp.log(4.0))
    prior = cauchy(mu, 10.0) + beta(p["logit_phi"], 1.0, 1.0) + half_cauchy(p["log_sigma"], 5.0)
    prior += normal(h[0], mu, jnp.exp(log_stationary)) + normal(h[1:], mu + phi * (h[:-1] - mu), sigma)
    return prior - 0.5 * jnp.sum(h + data["y"] ** 2 * jnp.exp(-h))


def _persistence(p, data):
    """φ = 2 σ(logit_phi) − 1, so that √(1 − φ²) = 2 √(σ(logit_phi) σ(−logit_phi))."""
    return {"phi": jnp.tanh(p["logit_phi"] / 2), "sigma": jnp.exp(p["log_sigma"])}
