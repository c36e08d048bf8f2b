"""Small matrices are worked on by one thread while a run lasts, and by as many as before after it."""

from contextlib import ExitStack

import jax.numpy as jnp
import pytest
import scipy.linalg  # noqa: F401  (its library of linear algebra is what XLA calls)
from threadpoolctl import ThreadpoolController

import gadabout as gad
from gadabout.driver.devices import one_thread

LIBRARIES = ThreadpoolController()


def threads():
    return {library["num_threads"] for library in LIBRARIES.info() if library["user_api"] == "blas"}


@pytest.fixture
def two_threads():
    """Two, whatever the machine has."""
    with LIBRARIES.limit(limits=2, user_api="blas"):
        if threads() != {2}:
            pytest.skip("the library of linear algebra has one thread")
        yield


def seen_in_a_run(sampler):
    seen = []
    gad.sample(
        lambda x: -0.5 * jnp.sum(x**2),
        sampler=sampler,
        init_per_chain=jnp.zeros((1, 2)),
        num_chains=1,
        num_warmup=10,
        num_draws=10,
        progress=False,
        callback=lambda progress: seen.append(threads()),
    )
    return seen


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("sampler", [gad.rwm(), gad.default()], ids=["compiled", "host"])
def test_a_run_works_on_one_thread_and_puts_the_number_back(sampler):
    seen = seen_in_a_run(sampler)
    assert seen
    assert all(each == {1} for each in seen)
    assert threads() == {2}


@pytest.mark.usefixtures("two_threads")
def test_the_number_is_put_back_when_the_last_of_several_runs_ends():
    first = ExitStack()
    first.enter_context(one_thread())
    second = ExitStack()
    second.enter_context(one_thread())
    first.close()
    assert threads() == {1}
    second.close()
    assert threads() == {2}
