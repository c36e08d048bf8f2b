"""Checks of arguments: what passes, as what type; what does not, by which error; and what the message says."""

import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad
from gadabout.algorithms import hmc
from gadabout.checks import (
    LARGEST,
    check_finite,
    check_function,
    check_one_of,
    check_positive,
    check_probability,
    check_whole,
)
from gadabout.cli.errors import CliError
from gadabout.cli.options import whole

NAN, INF = float("nan"), float("inf")
NOT_NUMBERS = ["3", b"3", None, True, False, np.bool_(True), [3], (3,), np.array([3]), {}, 3j, ...]


@pytest.mark.parametrize("value", [2, 7, np.int8(3), np.int64(5), np.uint16(7)])
def test_whole_numbers_pass_as_ints(value):
    checked = check_whole("count", value, 2, 7)
    assert checked == value
    assert type(checked) is int


@pytest.mark.parametrize("value", [1, 8, -3, np.int64(0), 2.5, 3.0, NAN, INF, np.float32(3), 10**30])
def test_numbers_out_of_range_are_value_errors(value):
    with pytest.raises(ValueError, match="count must be a whole number of at least 2 and below 8, got ") as error:
        check_whole("count", value, 2, 7)
    assert repr(value) in str(error.value)


@pytest.mark.parametrize("value", NOT_NUMBERS, ids=repr)
@pytest.mark.parametrize("check", [check_whole, check_finite, check_positive, check_probability])
def test_what_is_no_number_is_a_type_error(check, value):
    with pytest.raises(TypeError, match=r"argument must .*, got "):
        check("argument", value)


def test_the_range_of_a_whole_number_in_words():
    with pytest.raises(ValueError, match=r"a must be a whole number of at least 1, got 0$"):
        check_whole("a", 0)
    with pytest.raises(ValueError, match=rf"of at least 1 and below {LARGEST + 1}, got {LARGEST + 1}$"):
        check_whole("a", LARGEST + 1)
    with pytest.raises(ValueError, match=r"a must be a whole number from 0 to 9, got 10$"):
        check_whole("a", 10, 0, 9, wanted="from 0 to 9")
    assert check_whole("a", LARGEST) == LARGEST


@pytest.mark.parametrize("value", [1, 0.5, 5e-324, np.float32(0.5), np.int64(2), np.array(0.5), jnp.asarray(0.5)])
def test_positive_numbers_pass_as_floats(value):
    checked = check_positive("rate", value)
    assert checked == value
    assert type(checked) is float


@pytest.mark.parametrize("value", [0, -0.0, -1, INF, -INF, NAN, np.float64(NAN), jnp.asarray(INF), 10**400])
def test_numbers_that_are_not_finite_and_positive(value):
    with pytest.raises(ValueError, match="rate must be a finite number above 0, got "):
        check_positive("rate", value)


@pytest.mark.parametrize("value", [0, -1.5, np.float32(0.5), jnp.asarray(3)])
def test_finite_numbers_pass_as_floats(value):
    assert check_finite("level", value) == value
    assert type(check_finite("level", value)) is float


@pytest.mark.parametrize("value", [INF, -INF, NAN, jnp.asarray(NAN), 10**400])
def test_numbers_that_are_not_finite(value):
    with pytest.raises(ValueError, match="level must be a finite number, got "):
        check_finite("level", value)


@pytest.mark.parametrize("value", [0.25, np.float32(0.5), jnp.asarray(0.75), 1 - 2**-53])
def test_probabilities_pass_as_floats(value):
    assert check_probability("share", value) == value
    assert type(check_probability("share", value)) is float


@pytest.mark.parametrize("value", [0, 1, 0.0, 1.0, -0.1, 1.5, NAN, INF])
def test_what_lies_outside_the_unit_interval(value):
    with pytest.raises(ValueError, match=r"share must lie strictly between 0 and 1, got [^;]*$"):
        check_probability("share", value)
    with pytest.raises(ValueError, match=r"share must lie .*; 0\.5 is usual$"):
        check_probability("share", value, "0.5 is usual")


def test_choices():
    assert check_one_of("factor", "dense", ("dense", "diagonal")) == "dense"
    with pytest.raises(ValueError, match=r"factor must be one of 'dense', 'diagonal', got 'full'"):
        check_one_of("factor", "full", ("dense", "diagonal"))


@pytest.mark.parametrize("value", [None, 3, NAN, np.array(["dense"]), ["dense"]], ids=repr)
def test_a_choice_is_a_string(value):
    with pytest.raises(TypeError, match="factor must be one of 'dense', 'diagonal', got "):
        check_one_of("factor", value, ("dense", "diagonal"))


def test_functions():
    assert check_function("f", len) is len
    with pytest.raises(TypeError, match="f must be a function of a position, got 5"):
        check_function("f", 5)
    with pytest.raises(TypeError, match=r"f must be a function \(key, position\), got None"):
        check_function("f", None, "(key, position)")


def test_whole_numbers_of_numpy_are_taken_as_pythons():
    assert hmc(np.int64(3), steps_jitter=np.int32(2)).name == "hmc"
    target = gad.Target(lambda x: -0.5 * x @ x)
    q = gad.proposals.Gaussian(jnp.zeros(2), gad.factors.Diagonal(jnp.ones(2)))
    numpys, pythons = (gad.monte_carlo.importance(target, q, num_draws=kind(40)) for kind in (np.int64, int))
    np.testing.assert_array_equal(numpys.draws, pythons.draws)
    posterior = gad.Minibatches(lambda x: x * 0, lambda x, rows: rows * x, np.ones(9), batch_size=np.int64(4))
    assert type(posterior.batch_size) is int


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0", "--draws must be a whole number of at least 1, got 0"),
        ("9", "--draws must be a whole number of at most 8, got 9"),
        ("many", "--draws must be a whole number, got 'many'"),
    ],
)
def test_options_that_are_out_of_range(text, message):
    with pytest.raises(CliError) as error:
        whole("--draws", 1, 8)(text)
    assert str(error.value) == message
