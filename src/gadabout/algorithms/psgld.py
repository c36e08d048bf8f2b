r"""Preconditioned SGLD (Li, Chen, Carlson & Carin 2016, algorithm 1).

for t = 1, 2, …
    ĝ = ∇log p(θ) + (N/|B|) Σ_B ∇log p(y_i | θ), ḡ = ĝ/N            EstimatedDensity, RowFeed
    V ← α V + (1 − α) ḡ²,  P = 1/(λ + √V)                           PreconditionedLangevin.move
    θ ← θ + ½ ε_t (P ĝ + Γ) + N(0, ε_t P)                           PreconditionedLangevin.move
once draws are made: V ← its mean over chains, for good             PreconditionedLangevin.settled

Deviations from the source:

- **V is fixed after warm-up**, unless `freeze` is off. The source's V follows θ for ever, which biases draws even as
  ε → 0: V is then a function of θ, the stationary law is π(θ)/P(θ) in one dimension, and variances have a relative
  error of about |B|/N.
- **Γ is dropped by default**, as in the source's experiments. With `drift` it is kept while V changes, at the cost of
  one Hessian-vector product. Γ covers only the last gradient's share 1 − α of V, so that the bias above remains. Once V
  is fixed, Γ is zero and dropping it is exact.
- ḡ includes the prior's gradient, divided by N. V starts at ḡ²; a start at 0 would make the first moves ten times as
  wide.
"""

import jax.numpy as jnp
from jax.tree_util import Partial

from gadabout.algorithms.recipe import recipe
from gadabout.algorithms.settings import positive, probability, unadjusted
from gadabout.checks import check_truth
from gadabout.kernels import PreconditionedLangevin
from gadabout.minibatch.step_sizes import StepSizes, bias_of, step_sizes
from gadabout.sampler import Sampler


@recipe
def psgld(
    step_size: float | StepSizes,
    *,
    decay: float = 0.99,
    damping: float = 1e-5,
    freeze: bool = True,
    drift: bool = False,
) -> Sampler:
    """Preconditioned SGLD: each coordinate's step size follows its gradients, as RMSprop's does.

    Args:
        step_size: ε_t; coordinate i moves with variance ε_t / (λ + √V_i), V_i a mean squared gradient per row.
        decay: α, the weight of the past in V.
        damping: λ, which bounds the steps of coordinates whose gradients vanish.
        freeze: whether V is fixed after warm-up, as the limit ε → 0 requires.
        drift: whether Γ is kept while V changes.

    Raises:
        ValueError: if a setting is out of range.
    """
    epsilon = step_sizes(step_size)
    kernel = Partial(
        _kernel,
        check_truth("drift", drift),
        check_truth("freeze", freeze),
        step_size=epsilon,
        decay=probability("decay", decay),
        damping=positive("damping", damping),
    )
    bias = bias_of("Langevin moves", epsilon)
    if not freeze:
        bias += "; the preconditioner moves with the draws, which biases them however small the step size"
    return unadjusted("psgld", kernel, bias)


def _kernel(drift, freeze, n, learned, *, step_size, decay, damping):
    return PreconditionedLangevin(step_size, decay, damping, jnp.zeros(n), jnp.asarray(False), drift, freeze)
