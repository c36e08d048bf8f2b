"""Conversion in both directions: BlackJAX's algorithms as samplers, and samplers as BlackJAX algorithms."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.tree_util import Partial
from jaxtyping import Array, PyTree

from gadabout.adaptations import NoAdaptation
from gadabout.api.checks import checked_model
from gadabout.api.flat import flat_draws
from gadabout.api.sample import sample
from gadabout.api.warm import learned_from
from gadabout.calls import called
from gadabout.checks import check_function, check_truth, shown
from gadabout.density import density_of
from gadabout.ensemble.choose import Move
from gadabout.ensemble.handover import Handover
from gadabout.ensemble.made import chosen, made_move
from gadabout.kernels import AbstractKernel
from gadabout.kernels.base import Info
from gadabout.layout import layout_of
from gadabout.model import AbstractModel
from gadabout.models.missing import needs
from gadabout.sampler import Sampler, State
from gadabout.schedule import Plan
from gadabout.target import Point

if TYPE_CHECKING:
    import xarray as xr
    from blackjax.base import SamplingAlgorithm

STATISTICS = {"is_divergent": "diverging", "energy": "energy", "num_integration_steps": "n_steps"}
"""field of a BlackJAX info → name of the statistic, as in ArviZ"""
COUNTS = ("n_steps", "gradient_evaluations")
"""statistics of the default's moves that are summed over a block; of all others the last value is taken"""


class BlackJAX(AbstractKernel):
    """The transition of a BlackJAX algorithm. The algorithm's state must have a `position` and a `logdensity`.

    Args:
        make: function from the log density of a flat position (n,) to an algorithm.
    """

    make: Callable[[Callable], Any]

    @property
    def order(self):
        return 1

    def init(self, x, target):
        return self._of(target).init(x)

    def position(self, state):
        return state.position

    def point(self, state):
        grad = getattr(state, "logdensity_grad", jnp.full_like(state.position, jnp.nan))
        return Point(state.position, state.logdensity, grad)

    def step(self, key, state, target):
        after, info = self._of(target).step(key, state)
        moved = getattr(info, "is_accepted", jnp.any(after.position != state.position))
        told = {name: getattr(info, own) for own, name in STATISTICS.items() if hasattr(info, own)}
        gradients = told.get("n_steps", jnp.asarray(int(hasattr(after, "logdensity_grad"))))
        rate = jnp.asarray(info.acceptance_rate, after.position.dtype)
        finite = jnp.isfinite(after.logdensity)
        return after, Info(after.logdensity, rate, moved, finite, statistics=told, gradient_evaluations=gradients)

    def _of(self, target) -> Any:
        made = called("make", "(log_density)", self.make, target.log_density)
        if not (hasattr(made, "init") and hasattr(made, "step")):
            raise TypeError(f"make must return an algorithm such as blackjax.nuts(log_density, ...), got {shown(made)}")
        return made


def from_blackjax(make: Callable[[Callable], Any]) -> Sampler:
    """A sampler that runs a BlackJAX algorithm with its given settings. It learns nothing.

    `from_blackjax(lambda f: blackjax.nuts(f, step_size=0.5, inverse_mass_matrix=jnp.ones(3)))`

    Args:
        make: function from the log density of a flat position, shape (n,), to an algorithm with `init` and `step`. The
            algorithm's state has `position` and `logdensity`, its info has `acceptance_rate`.

    Raises:
        ImportError: if BlackJAX is not installed.
        TypeError: if `make` is not a function, or does not return an algorithm.
    """
    needs("blackjax", "blackjax", "from_blackjax")
    kernel = BlackJAX(Partial(check_function("make", make, "of a log density")))
    return Sampler("blackjax", Partial(_kernel, kernel), NoAdaptation(), num_warmup=0, state_is_point=False)


def _kernel(kernel, n, learned):
    return kernel


class ChainState(NamedTuple):
    """The state of a chain in a BlackJAX loop: its position, log π there, and the sampler's own state."""

    position: PyTree
    logdensity: Any
    inner: Any


def to_blackjax(
    sampler: Sampler | Plan,
    logdensity: Callable[..., Any],
    position: PyTree,
    *,
    warm_start: "xr.DataTree | None" = None,
    adapt: bool = False,
) -> "SamplingAlgorithm":
    """A sampler as a BlackJAX algorithm `(init, step)` for one chain, to be jitted, mapped over chains and scanned.

    For `default()` it is the move that the pilot run chose, with everything that was learned: in `warm_start`, or else
    in a run from `position`. This move runs in NumPy. Its functions are for a Python loop and cannot be compiled. For
    independence proposals, one step is a block of proposals.

    Args:
        sampler: the result of a recipe, or `default()`.
        logdensity: log π of a position, or a `gadabout.Model`.
        position: an example of a position, a pytree of arrays.
        warm_start: a result of `sample`. The kernel begins with its θ and its fitted Gaussian.
        adapt: whether θ is learned during the steps. The draws are then not those of a Markov chain.

    Returns:
        `init(position)` and `step(key, state)`. A state has `position` and `logdensity`. An info is the dict of the
        iteration's statistics by their ArviZ names.

    Raises:
        ImportError: if BlackJAX is not installed.
        TypeError, ValueError: if an argument has the wrong type or value.
    """
    needs("blackjax", "blackjax", "to_blackjax")
    if not isinstance(sampler, Sampler) and not (isinstance(sampler, Plan) and sampler.on_host):
        raise TypeError(f"sampler must be a recipe's result, such as gadabout.gad_mala(), got {shown(sampler)}")
    check_truth("adapt", adapt)
    model = checked_model(logdensity, None, None, None).laid_out(layout_of(position, "position"))
    if isinstance(sampler, Plan):
        if adapt:
            raise ValueError("adapt: default() has learned by then, and stands still; pass adapt=False")
        return _chosen(sampler, model, position, warm_start)
    target, layout = model.target, model.layout
    assert layout is not None
    learned = None if warm_start is None else learned_from(warm_start, layout)

    def told(state: State, lp: Array) -> ChainState:
        return ChainState(layout.unravel(state.position[0]), lp, state)

    def init(position: PyTree, rng_key: Any = None) -> ChainState:
        x = layout.ravel(position)
        return told(sampler.init(target, x[None], learned), target.log_density(x))

    def step(rng_key: Any, state: ChainState) -> tuple[ChainState, dict[str, Array]]:
        key = rng_key if jnp.issubdtype(rng_key.dtype, jax.dtypes.prng_key) else jax.random.wrap_key_data(rng_key)
        after, record = sampler.step(key[None], state.inner, target, adapt)
        record = {name: values[0] for name, values in record.items()}
        return told(after, record["lp"]), record

    return _algorithm(init, step)


def _algorithm(init: Callable, step: Callable) -> "SamplingAlgorithm":
    from blackjax.base import SamplingAlgorithm  # takes a while to import

    return SamplingAlgorithm(init, step)  # pyright: ignore[reportArgumentType]


def _chosen(
    plan: Plan, model: AbstractModel, position: PyTree, warm_start: "xr.DataTree | None"
) -> "SamplingAlgorithm":
    """The BlackJAX algorithm of the move that a run of `default()` chose, with what that run learned."""
    layout = model.layout
    assert layout is not None
    tree = sample(model, position, sampler=plan, progress=False) if warm_start is None else warm_start
    flat_draws(tree, layout)  # raises if the variables are not those of the model
    choice = tree.attrs.get("choice")
    if not isinstance(choice, Mapping) or "move" not in choice:
        raise ValueError(f"warm_start must be a result of default(), got one of {tree.attrs.get('sampler')!r}")
    learned = {str(name): np.asarray(values.values) for name, values in tree["learned"].data_vars.items()}
    density = density_of(model.target, layout.dim, chains=1, block=32)
    move = made_move(density, chosen(Handover(np.zeros((1, layout.dim)), **learned), Move(choice["move"])))

    def init(position: PyTree, rng_key: Any = None) -> ChainState:
        _refuse_tracers(position)
        x = np.asarray(layout.ravel(position), float)
        return ChainState(position, density.value_and_grad(x[None])[0][0], None)

    def step(rng_key: Any, state: ChainState) -> tuple[ChainState, dict[str, Any]]:
        _refuse_tracers((rng_key, state.position))
        typed = jnp.issubdtype(rng_key.dtype, jax.dtypes.prng_key)
        words = np.asarray(jax.random.key_data(rng_key) if typed else rng_key)
        rng = np.random.Generator(np.random.Philox(np.random.SeedSequence(words.tolist())))
        begun = state.inner or move.init(np.asarray(layout.ravel(state.position), float)[None], rng)
        inner, drawn = move.advance(begun, rng, 1)
        record = {name: rows[:, 0].sum() if name in COUNTS else rows[-1, 0] for name, rows in drawn.items()}
        after = layout.unravel(jnp.asarray(record.pop("position"), float))
        return ChainState(after, record["lp"], inner), record

    return _algorithm(init, step)


def _refuse_tracers(tree: PyTree) -> None:
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(tree)):
        raise TypeError(
            "sampler: default() draws in NumPy, in a loop of Python's, and cannot be compiled; for jit, vmap and scan "
            "pass a recipe, as in to_blackjax(gadabout.nuts(), logdensity, position, warm_start=tree)"
        )
