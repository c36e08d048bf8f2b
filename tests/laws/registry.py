"""Every sampler, one line each: a new one adds a line and inherits all laws.

The settings make moves as large as a well-adapted sampler's on the laws' target, so that a wrong acceptance ratio
shows in the moments. They are made anew for every precision, as a user would make them.
"""

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
import pytest

import gadabout as gad
from gadabout.adaptations import JumpDistance, LogRatio
from gadabout.factors import Cholesky
from gadabout.proposals import (
    CouplingFlow,
    MultiscaleWalk,
    NoncentredLangevin,
    ReparametrisedIndependent,
    Trajectory,
    coupling_flow,
)
from gadabout.schedule import Draw, Learn, Plan, Search


class StudentWalk(gad.AbstractReparametrised):
    """A user's proposal: a random walk with Student-t steps and one learned scale per coordinate."""

    log_scale: jax.Array

    def noise(self, key, here):
        return jax.random.t(key, 5.0, here.x.shape)

    def move(self, noise, here, target):
        return target.at(here.x + jnp.exp(self.log_scale) * noise), 0.0

    def entropy(self, here):
        return self.log_scale.sum()


class Shrinking(gad.AbstractReparametrised):
    """An asymmetric, nonlinear user's proposal: y = x + s ε exp(−a tanh(x₀)), whose log-ratio is not zero."""

    a: jax.Array
    log_scale: jax.Array
    factor: Cholesky = eqx.field(default_factory=lambda: Cholesky(jnp.eye(3)))

    def width(self, x):
        return jnp.exp(self.log_scale - self.a * jnp.tanh(x[0]))

    def noise(self, key, here):
        return jax.random.normal(key, here.x.shape, here.x.dtype)

    def move(self, noise, here, target):
        there = target.at(here.x + self.width(here.x) * self.factor.mul(noise))
        ratio = self.width(here.x) / self.width(there.x)
        n = noise.size
        return there, n * jnp.log(ratio) - 0.5 * (ratio**2 - 1) * noise @ noise

    def entropy(self, here):
        return noise_entropy(self, here)


def noise_entropy(proposal, here):
    return here.x.size * jnp.log(proposal.width(here.x)) + proposal.factor.log_det()


def uneven_walk_log_density(y, x):
    """log q(y|x) of `uneven_walk`."""
    width = 0.4 + 0.4 * jax.nn.sigmoid(x[0])
    return -0.5 * jnp.sum(((y - x) / width) ** 2) - x.size * jnp.log(width)


def uneven_walk(key, x):
    """A user's asymmetric walk, wider to the right."""
    return x + (0.4 + 0.4 * jax.nn.sigmoid(x[0])) * jax.random.normal(key, x.shape)


def two_coordinates(key, x, data=None):
    """An exact conditional draw of x₀ and x₁ given x₂, of which they are independent."""
    k0, k1 = jax.random.split(key)
    x0 = jax.random.normal(k0)
    return x.at[0].set(x0).at[1].set(0.5 * x0**2 - x0 + 0.6 * jax.random.normal(k1))


CENTRE = jnp.array([0.0, 0.5, 0.6])
WIDTH = gad.factors.Diagonal(jnp.array([1.2, 1.6, 1.5]))
MEANS = jnp.array([[-0.7, 1.0, 0.5], [0.8, -0.2, 0.6]])


def noncentred():
    """Langevin moves where x₁ and x₂ are scaled and placed by x₀."""
    log_scales, slopes = jnp.asarray([[0.4], [-0.2]]), jnp.asarray([[-0.5], [0.2]])
    return NoncentredLangevin(Cholesky(0.8 * jnp.eye(3)), log_scales, slopes, jnp.zeros(2), (0,), (1, 2))


def bent_flow(mean, factor):
    """A flow that is no Gaussian from the start."""
    flow = coupling_flow(jax.random.key(1), mean, factor, num_couplings=2, width=4)
    networks = jax.tree.map(lambda leaf: leaf + 0.1, flow.networks)
    return CouplingFlow(flow.mean, flow.factor, networks)


def samplers():
    """The samplers that are exact."""
    centre, width, means = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), (CENTRE, WIDTH, MEANS))
    return {
        "rwm": gad.rwm(step_size=0.9),
        "mala": gad.mala(step_size=0.9),
        "hmc": gad.hmc(5, step_size=0.35),
        "hmc-1": gad.hmc(1, step_size=0.7),
        "am": gad.am(scale=2.0),
        "am-diagonal": gad.am(factor="diagonal", scale=2.0),
        "am-as-written": gad.am("as-written", scale=0.8),
        "gad-rwm": gad.gad_rwm(scale=0.8),
        "gad-rwm-diagonal": gad.gad_rwm("diagonal", scale=0.8),
        "gad-mala": gad.gad_mala(scale=0.8),
        "gad-mala-exact": gad.gad_mala("exact", scale=0.8),
        "gad-mala-diagonal": gad.gad_mala(factor="diagonal", scale=0.8),
        "gad-mala-low-rank": gad.gad_mala(factor="low-rank", scale=0.8),
        "gad-mala-adam": gad.gad_mala(scale=0.8, optimiser=optax.adam(1e-3)),
        "gad-user": gad.gad(StudentWalk(jnp.full(3, -0.3))),
        "gad-user-asymmetric": gad.gad(Shrinking(jnp.asarray(0.4), jnp.asarray(-0.3))),
        # other objectives and estimators, trajectories, flows
        "gad-trajectory": gad.gad(Trajectory(Cholesky(0.5 * jnp.eye(3))), objective=JumpDistance(reciprocal=True)),
        "gad-multiscale": gad.gad(MultiscaleWalk(Cholesky(0.7 * jnp.eye(3)), jnp.zeros(3), (0.5, 1.0, 2.0))),
        "gad-noncentred": gad.gad(noncentred()),
        "gad-independence-flow": gad.gad(ReparametrisedIndependent(bent_flow(centre, width)), objective=LogRatio()),
        # Hamiltonian basics, Barker, Fisher
        "hmc-jittered": gad.hmc(4, step_size=0.35, step_jitter=0.3, steps_jitter=3),
        "hmc-dual-averaging": gad.hmc(
            5, step_size=0.35, step_size_rule="dual-averaging", inverse_mass_matrix=[1, 1.5, 1]
        ),
        "hmc-proportional": gad.hmc(5, step_size=0.35, step_size_rule="proportional", step_jitter=0.5),
        "barker": gad.barker(step_size=1.0),
        "fisher-mala": gad.fisher_mala(step_size=0.9, plain_iterations=10),
        # the adaptive Metropolis family, reprojection
        "haario": gad.haario(),
        "haario-for-ever": gad.haario(adapt_for_ever=True),
        "haario-scaled": gad.haario_scaled(),
        "ram": gad.ram(),
        "reprojected-haario": gad.reprojected(gad.haario()),
        "reprojected-gad-mala": gad.reprojected(gad.gad_mala(scale=0.8)),
        # Metropolis–Hastings for any proposal, independence, mixtures, Gibbs and composition
        "metropolis-hastings": gad.metropolis_hastings(uneven_walk, uneven_walk_log_density),
        "independence": gad.independence(gad.proposals.Gaussian(centre, width)),
        "independence-student": gad.independence(gad.proposals.StudentT(centre, width, jnp.asarray(5.0))),
        "mixture-independence": gad.mixture_independence(2, scale=1.3, means=means),
        "mixture-independence-for-ever": gad.mixture_independence(2, scale=1.3, adapt_for_ever=True),
        "mixture-walk": gad.mixture_walk(2, step_size=0.9, scale=0.9, means=means),
        "cycle": gad.cycle(gad.mala(step_size=0.84), gad.hmc(2, step_size=0.5)),
        "cycle-random": gad.cycle(gad.rwm(step_size=0.9), gad.mala(step_size=0.84), random_order=True),
        "mix": gad.mix(gad.rwm(step_size=0.9), gad.rwm(step_size=0.45), weights=[2.0, 1.0]),
        "block": gad.cycle(gad.block(gad.rwm(step_size=0.9), [0, 1]), gad.block(gad.rwm(step_size=1.0), [2])),
        "gibbs": gad.mix(gad.gibbs(two_coordinates), gad.rwm(step_size=0.9)),
        # the No-U-Turn sampler, alone and as a part
        "nuts": gad.nuts("dense", step_size=0.9, max_depth=2, warmup_max_depth=3),
        "nuts-with-gradients": gad.nuts("dense", step_size=1.0, max_depth=2, with_gradients=True),
        "cycle-nuts": gad.cycle(
            gad.haario(adapt_for_ever=True), gad.nuts(step_size=0.9, max_depth=2, warmup_max_depth=3)
        ),
    }


def unadjusted():
    """Samplers that never reject and are not exact: all laws are theirs but invariance and repeated states.

    Two for all: ULA, SGLD and SGHMC share their step with these.
    """
    return {
        "psgld": gad.psgld(gad.minibatch.polynomial(0.5, 10.0, 0.6)),
        "sgnht": gad.sgnht(gad.minibatch.polynomial(0.1, 10.0, 0.6)),
    }


def plans():
    """Plans that are not a sampler's own, with their stages."""
    hmc = gad.hmc(3, step_size=0.35, step_size_rule="dual-averaging")
    walk, mala = gad.rwm(step_size=0.9), gad.mala(step_size=0.9)
    return {
        "two-stages": Plan((Search(), Learn(hmc, 0.6), Learn(hmc, 0.4), Draw(hmc))),
        "two-samplers": Plan((Search(), Learn(walk, 0.5), Learn(mala, 0.5), Draw(mala))),
    }


def on_host():
    """The default, whose stages are NumPy, and by each kind of move."""
    moves = ("nuts", "split-hmc", "independence")
    return {"default": gad.default()} | {f"default-{move}": gad.default(move=move) for move in moves}


SAMPLERS, UNADJUSTED, PLANS, ON_HOST = samplers(), unadjusted(), plans(), on_host()
"""in double precision"""

IN_FLOAT32 = ("gad-mala", "nuts")
"""those whose laws the checks run in single precision too, where a law names no others; the rest have the marker"""

SINGLE = ("gad-mala",)
"""the same for laws of runs and of the driver; NUTS runs in single precision in laws of devices and of compositions"""

VARIANTS = (
    "am-as-written",
    "am-diagonal",
    "cycle-nuts",
    "gad-independence-flow",
    "gad-mala-adam",
    "gad-mala-diagonal",
    "gad-mala-exact",
    "gad-mala-low-rank",
    "gad-multiscale",
    "gad-noncentred",
    "gad-rwm-diagonal",
    "gad-trajectory",
    "gad-user",
    "haario-scaled",
    "hmc-1",
    "hmc-jittered",
    "hmc-proportional",
    "independence-student",
    "nuts-with-gradients",
    "reprojected-haario",
)
"""those whose kernel is of a kind that another has: laws of kernels are run for them under the marker"""

ADAPTATIONS = (
    "am",
    "block",
    "cycle",
    "fisher-mala",
    "gad-mala",
    "haario-for-ever",
    "hmc-dual-averaging",
    "hmc-proportional",
    "mixture-independence-for-ever",
    "nuts",
    "psgld",
    "ram",
    "reprojected-gad-mala",
    "rwm",
)
"""one of each kind of adaptation, for laws of what is learned and pooled; all others have the marker"""

CAPABILITIES = (
    "gad-mala",  # pooled
    "nuts",  # windowed, and settles when warm-up ends
    "block",  # blocked
    "cycle",  # composite
    "gibbs",  # its state is more than a point
    "psgld",  # noisy
    "haario-for-ever",  # for ever
    "reprojected-gad-mala",  # moves chains
    *PLANS,
    *ON_HOST,
)
"""one of each capability, for laws of the driver; all others have the marker"""


def entry(name):
    """The sampler, or plan, of that name in the precision of the moment."""
    return _made(jnp.zeros(0).dtype)[name]


@cache
def _made(precision):
    return samplers() | unadjusted() | plans() | on_host()


def every(*groups, marked=(), only=None, single=IN_FLOAT32):
    """A law's parameters: every name in both precisions.

    The checks run those in `only`, or all, less those that are `marked`, and of them those in `single` in single
    precision too; the others have the marker.
    """
    names = [name for group in groups for name in group]
    quick = set(names if only is None else only) - set(marked)
    quick_single = quick & set(single)
    marks = lambda name, checked: () if name in checked else pytest.mark.long
    return pytest.mark.parametrize(
        ("name", "precision"),
        [pytest.param(name, "float64", id=name, marks=marks(name, quick)) for name in names]
        + [pytest.param(name, "float32", id=f"{name}-float32", marks=marks(name, quick_single)) for name in names],
        indirect=["precision"],
        scope="module",  # laws of one sampler run one after another, and find its programs compiled
    )
