r"""Gibbs sampling from conditional draws that the user gives (lectures, "Composing kernels: Gibbs sampling").

for every block b, in the order given or a random one
    x_b ~ π(x_b | the rest).                                       Gibbs.step
"""

from collections.abc import Callable

from jax.tree_util import Partial
from jaxtyping import PyTree

from gadabout.adaptations import NoAdaptation
from gadabout.algorithms.recipe import recipe
from gadabout.checks import check_function, check_truth
from gadabout.kernels import Gibbs
from gadabout.sampler import Sampler


@recipe
def gibbs(*conditionals: Callable[..., PyTree], random_order: bool = False) -> Sampler:
    """Gibbs sampling: functions of the user draw each block of the position from its law given the rest.

    Args:
        conditionals: functions (key, position), or (key, position, data) where `sample` is given data. Each returns the
            position with its block drawn anew or, where positions are dicts, a dict of the new entries alone.
            Positions may hold whole numbers.
        random_order: whether the blocks have a new random order in every iteration; by default the order given.

    Raises:
        ValueError: if there is no conditional.
        TypeError: if one is not a function.
    """
    if not conditionals:
        raise ValueError("give at least one conditional: a function (key, position) that draws a block anew")
    for conditional in conditionals:
        check_function("a conditional", conditional, "(key, position)")
    kernel = Gibbs(conditionals, check_truth("random_order", random_order))
    return Sampler("gibbs", Partial(_kernel, kernel), NoAdaptation(), num_warmup=1_000, takes_discrete=True)


def _kernel(kernel, n, learned):
    return kernel
