"""Pooling: what it gains (less noise, less bias), and what it can hide.

On N(0, I) in two dimensions gadRWM's θ wanders about its fixed point. The signal of C pooled chains is a mean of C
terms, so θ_t's variance falls as 1/C, and the bias that the noise leaves (the update is not linear in θ) as well,
towards the limit of infinitely many chains, where θ_t is deterministic.
"""

import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad
from gadabout.algorithms import PAPER

NARROW, WIDE = 0.05, 2.0


def normal(x):
    return -0.5 * x @ x


def entropy_and_log_beta(chains):
    """Both traces of one run after 5,000 iterations, shape (2, 15,000)."""
    sampler = gad.gad_rwm("diagonal", learning_rate=2e-2, scale=1.0, **PAPER)
    arguments = {"num_chains": chains, "num_warmup": 20_000, "num_draws": 1, "progress": False, "seed": 1}
    stats = gad.sample(normal, jnp.zeros(2), sampler=sampler, record=["entropy", "beta"], **arguments)
    trace = stats["warmup_sample_stats"]
    return np.stack([trace["entropy"].values[0], np.log(trace["beta"].values[0])])[:, 5_000:]


@pytest.fixture(scope="module")
def traces():
    return {chains: entropy_and_log_beta(chains) for chains in (1, 16, 256)}


def test_noise_falls_with_the_number_of_chains(traces):
    """Sixteen times the chains, a quarter of the standard deviation, asserted within a factor of two."""
    sd = {chains: trace.std(1) for chains, trace in traces.items()}
    for few, many in ((1, 16), (16, 256)):
        ratio = sd[few] / sd[many]
        assert (ratio > 2.2).all()
        assert (ratio < 8).all()


def test_bias_falls_with_the_number_of_chains(traces):
    """log β of one chain lies below that of 256 by many standard errors; that of sixteen by a fifth of it at most."""
    limit = traces[256][1].mean()
    bias = {chains: abs(traces[chains][1].mean() - limit) for chains in (1, 16)}
    batches = traces[1][1].reshape(30, -1).mean(1)
    assert bias[1] > 5 * batches.std(ddof=1) / np.sqrt(30)
    assert bias[16] < 0.2 * bias[1]


def two_scales(x):
    """Two modes far apart, of standard deviations 0.05 and 2: no one θ suits both."""
    narrow = -0.5 * ((x + 50) / NARROW) ** 2 - jnp.log(NARROW)
    wide = -0.5 * ((x - 50) / WIDE) ** 2 - jnp.log(WIDE)
    return jnp.logaddexp(narrow, wide).sum()


def scales(adapt):
    start = jnp.asarray([[-50.0], [-50.0], [50.0], [50.0]])
    arguments = {"num_warmup": 20_000, "num_draws": 2_000, "adapt": adapt, "progress": False}
    tree = gad.sample(two_scales, init_per_chain=start, sampler=gad.gad_rwm(learning_rate=1e-3, **PAPER), **arguments)
    learned = tree["learned"]["proposal.factor.matrix"].values[..., 0, 0]
    return np.atleast_1d(learned), tree["sample_stats"]["acceptance_rate"].values.mean(1)


@pytest.mark.filterwarnings("ignore:chains:UserWarning")
def test_modes_that_want_different_parameters():
    """Each chain alone learns its own mode's scale; the pool's one scale serves the chains very unequally."""
    learned, acceptance = scales("per-chain")
    assert (learned[2:] > 10 * learned[:2].max()).all()
    own = acceptance.reshape(2, 2).mean(1)
    (shared,), acceptance = scales("pooled")
    assert learned[:2].max() < shared < learned[2:].max()
    common = acceptance.reshape(2, 2).mean(1)
    assert common[1] / common[0] > 5 * max(own[0] / own[1], own[1] / own[0])


def trap(x):
    """A normal law, and a needle at 30 of width 1e-4 from which what suits the normal law never leaves."""
    return jnp.logaddexp(-0.5 * x @ x, 60 - 0.5 * (x - 30) @ (x - 30) / 1e-8)


def test_a_stuck_chain_that_pooling_hides_is_flagged():
    start = jnp.concatenate([jnp.zeros((7, 2)), jnp.full((1, 2), 30.0)])
    arguments = {"num_chains": 8, "num_warmup": 5_000, "num_draws": 500, "progress": False}
    with pytest.warns(UserWarning, match=r"chains \[7\]"):
        tree = gad.sample(trap, init_per_chain=start, sampler=gad.gad_mala(learning_rate=1e-3, **PAPER), **arguments)
    assert 0.3 < float(tree["sample_stats"]["acceptance_rate"].mean()) < 0.7  # the pool's figure looks well
    assert tree.attrs["warnings"]
