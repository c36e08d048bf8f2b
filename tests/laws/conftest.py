"""Laws whose programs run for milliseconds and are compiled for every sampler."""

import jax
import pytest

QUICK_MODULES = ("test_run_laws", "test_device_laws", "test_composition_laws")
QUICK_TESTS = (
    "test_pooled_with_one_chain_is_unpooled",
    "test_a_chain_alone_learns_what_it_learns_beside_others",
    "test_no_key_is_used_twice",
    "test_step_jits_vmaps_and_scans",
    "test_every_kernel_jits_vmaps_and_scans",
)


@pytest.fixture(autouse=True)
def quick_to_compile(request):
    """Programs of laws about runs, devices, compositions and transformations are compiled without most optimisations.

    That halves their time. The other laws (chunks, thinning, rejections, noise, traces, invariance), and all tests
    elsewhere, run what users run.
    """
    module, test = request.module.__name__.rpartition(".")[2], request.function.__name__
    jax.config.update("jax_disable_most_optimizations", module in QUICK_MODULES or test in QUICK_TESTS)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
