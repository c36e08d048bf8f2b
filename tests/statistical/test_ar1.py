"""AR(1) with ρ = 0.9, the lectures' chain, as truth for effective sample sizes: M/19 for θ, M/9.53 for θ².

θ' = ρθ + √(1 − ρ²) ξ is stationary under N(0, 1), with autocorrelations ρᵗ of θ and ρ²ᵗ of θ². Hence the integrated
times (1 + ρ)/(1 − ρ) = 19 and (1 + ρ²)/(1 − ρ²) = 9.53.

The figures checked are means over eight independent chains. In 100 replications of those eight chains (other seeds)
each of the four figures was within 0.5 % of the truth on average and scattered by 1.4 to 1.6 %; the worst of the 400
was 4.5 % off. So 10 % is more than six standard deviations: the false-alarm rate is below 1e-8 for all four together,
and an estimator, or a chain, that is wrong by 16 % is found with a probability above 0.99. A single chain's estimate
scatters by 4.1 %, and would be beyond 10 % in 1.6 to 3.4 % of runs.
"""

import numpy as np
import pytest
from arviz_stats.base.array import array_stats
from scipy.signal import lfilter

from gadabout.diagnostics import initial_monotone_ess

RHO, M, CHAINS = 0.9, 100_000, 8


def autoregressive(rho):
    """Eight stationary chains, shape (draw, chain)."""
    rng = np.random.default_rng(19)
    noise = np.sqrt(1 - rho**2) * rng.standard_normal((M, CHAINS))
    return lfilter([1.0], [1.0, -rho], noise, axis=0, zi=rho * rng.standard_normal((1, CHAINS)))[0]


def ours(draws):
    return initial_monotone_ess(draws[None]).mean()


def arviz(draws):
    return np.mean([array_stats.ess(x[None], method="mean", chain_axis=0, draw_axis=1) for x in draws.T])


def check(estimator, theta, factor=1.0):
    """`factor` is what a faulty estimator is wrong by."""
    assert factor * estimator(theta) == pytest.approx(M * (1 - RHO) / (1 + RHO), rel=0.1)
    assert factor * estimator(theta**2) == pytest.approx(M * (1 - RHO**2) / (1 + RHO**2), rel=0.1)


@pytest.mark.parametrize("estimator", [ours, arviz])
def test_effective_sample_sizes_of_an_autoregression(estimator):
    check(estimator, autoregressive(RHO))


@pytest.mark.parametrize("estimator", [ours, arviz])
def test_errors_of_sixteen_percent_are_found(estimator):
    for factor in (1.16, 0.84):
        with pytest.raises(AssertionError):
            check(estimator, autoregressive(RHO), factor)
    with pytest.raises(AssertionError):  # another chain: its time is 16.1, not 19
        check(estimator, autoregressive(0.883))
