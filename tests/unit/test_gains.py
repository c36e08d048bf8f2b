"""Gain sequences and their conditions, at the boundaries too."""

import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad
from gadabout.adaptations.gains import tail_exponent

INFINITE_SUM, SQUARES, WEIGHTED = "Σ γ_k = ∞", "Σ (γ_k² + k^(-1/2) γ_k) < ∞", "Σ γ_k / k < ∞"


def test_a_power_gain_is_its_formula():
    gain = gad.adaptations.PowerGain(0.7, 0.6, 3.0)
    k = jnp.arange(1, 9)
    np.testing.assert_allclose(gain(k), 0.7 * (k + 3.0) ** -0.6, rtol=1e-14)


@pytest.mark.parametrize(("c", "a", "k0"), [(0, 0.6, 1), (-1, 0.6, 1), (np.inf, 0.6, 1), (1, np.nan, 1), (1, 0.6, -1)])
def test_settings_out_of_range_raise(c, a, k0):
    with pytest.raises(ValueError, match=r"coefficient|exponent|offset"):
        gad.adaptations.PowerGain(c, a, k0)


EXPONENTS = [
    (1.0, []),
    (0.501, []),
    (0.75, []),
    (0.5, [SQUARES]),
    (0.3, [SQUARES]),
    (0.0, [SQUARES, WEIGHTED]),
    (-0.5, [SQUARES, WEIGHTED]),
    (1.001, [INFINITE_SUM]),
    (2.0, [INFINITE_SUM]),
]


@pytest.mark.parametrize(("exponent", "violated"), EXPONENTS)
def test_power_laws_are_judged_exactly(exponent, violated):
    check(gad.adaptations.PowerGain(0.5, exponent, 10.0), violated, "its exponent is")


CALLABLES = [
    (lambda k: 1 / (k + 1), []),
    (lambda k: 0.3 * (k + 100) ** -0.6, []),
    (lambda k: 1 / jnp.sqrt(k), [SQUARES]),
    (lambda k: 0.01 + 0 * k, [SQUARES, WEIGHTED]),
    (lambda k: (k + 3.0) ** -1.5, [INFINITE_SUM]),
    (lambda k: 0.5 * 0.99**k, [INFINITE_SUM]),
]


@pytest.mark.parametrize(("gain", "violated"), CALLABLES)
def test_callables_are_judged_by_a_fitted_exponent(gain, violated):
    check(gain, violated, "fitted")


def check(gain, violated, how):
    if not violated:
        assert gad.adaptations.check_gains(gain) == []  # a warning would be an error here
        return
    with pytest.warns(UserWarning, match="gain: ") as caught:
        assert gad.adaptations.check_gains(gain) == violated
    assert len(caught) == len(violated)
    for warning, condition in zip(caught, violated, strict=True):
        assert condition in str(warning.message)
        assert how in str(warning.message)


def test_the_fitted_exponent():
    np.testing.assert_allclose(tail_exponent(lambda k: 3.0 * (k + 50.0) ** -0.7), 0.7, atol=1e-5)
    assert tail_exponent(lambda k: 0.9**k) == np.inf


@pytest.mark.parametrize("gain", [lambda k: -1.0 / k, lambda k: k * np.nan])
def test_a_gain_that_is_none_raises(gain):
    with pytest.raises(ValueError, match="finite numbers of at least 0"):
        gad.adaptations.check_gains(gain)


@pytest.mark.parametrize("recipe", [gad.haario, gad.haario_scaled, gad.ram])
def test_recipes_warn_when_they_are_built(recipe):
    with pytest.warns(UserWarning, match="violated"):
        recipe(gain=gad.adaptations.PowerGain(0.5, 0.4, 1.0))


@pytest.mark.parametrize("recipe", [gad.haario, gad.haario_scaled])
def test_a_covariance_needs_gains_of_at_most_one(recipe):
    with pytest.raises(ValueError, match="at k = 1"):
        recipe(gain=gad.adaptations.PowerGain(2.0, 0.6))


def test_adapting_for_ever_is_a_choice_that_needs_diminishing_gains():
    for sampler in (gad.haario, gad.haario_scaled, gad.ram, lambda **kw: gad.am("as-written", **kw)):
        assert sampler().adaptation_ends == "stops after warm-up"
        assert sampler(adapt_for_ever=True).adaptation_ends == "continues for ever, with diminishing gains"
    with pytest.raises(ValueError, match="do not diminish"):
        gad.am("as-run", adapt_for_ever=True)
