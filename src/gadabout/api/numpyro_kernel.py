"""The default as a kernel of NumPyro's `MCMC`, for users: `gadabout.models.NumPyroKernel`."""

import hashlib
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, PyTree
from numpyro.handlers import seed
from numpyro.infer.mcmc import MCMCKernel
from numpyro.infer.util import constrain_fn
from numpyro.util import is_prng_key

from gadabout.api.flat import FREE
from gadabout.api.sample import sample
from gadabout.checks import check_function, check_whole
from gadabout.models.from_numpyro import NumPyroModel

TOGETHER = 16
"""smallest number of chains in a run of the default; they learn jointly"""


class NumPyroState(NamedTuple):
    """The state that `MCMC` carries; with `chain_method="vectorized"` every leaf has a leading axis of chains.

    Args:
        i: the number of kept iterations, negative during warm-up: it starts at −`num_warmup`.
        z: unconstrained values by site.
        potential_energy: −log π of `z`.
        diverging, accept_prob, num_steps: statistics of the iteration that ended at `z`.
        made: these five fields for all iterations, by name, with an axis of iterations.
        rng_key: the key of `MCMC.run`.
        data: two checksums of the model arguments that the draws were made for; they reveal other arguments.
    """

    i: Array
    z: dict[str, Array]
    potential_energy: Array
    diverging: Array
    accept_prob: Array
    num_steps: Array
    made: dict[str, PyTree]
    rng_key: Array
    data: Array


class NumPyroKernel(MCMCKernel):
    """The default sampler as a kernel: `MCMC(NumPyroKernel(model), num_warmup=1_000, num_samples=1_000).run(key, ...)`.

    `init` makes all draws with `gadabout.sample`, and `sample` returns them one after another. The default learns from
    16 chains jointly. If `MCMC` has fewer, each of its chains consists of several chains of the default, one after
    another. With `chain_method="vectorized"` all chains are one run; with "sequential" each is a run of its own.
    "parallel" is refused on several devices. Warm-up iterations stay at the first draw: `init` has already learned.

    `extra_fields` of `MCMC.run` may name the fields of `NumPyroState`, such as `potential_energy`, `accept_prob` and
    `num_steps`. The attribute `tree` is the result of the last run of `gadabout.sample`, with its findings.

    Args:
        model: a function with `numpyro.sample` sites; `MCMC.run` takes its arguments.
        num_draws: draws made for each chain, at least `num_samples` of `MCMC`. A run that continues from `last_state`
            continues within these draws.

    Raises:
        TypeError, ValueError: in `MCMC.run`, as in `gadabout.models.numpyro` and `gadabout.sample`.
        RuntimeError, ValueError: in `MCMC.run`, from JAX, if it needs more than `num_draws` draws, or continues with
            other model arguments than the draws were made for.
    """

    def __init__(self, model: Callable[..., Any], *, num_draws: int = 4_000):
        self.model = check_function("model", model, "with numpyro.sample sites")
        self.num_draws = check_whole("num_draws", num_draws)
        self.tree: Any = None
        self._sums = False
        self._sample_fn = self.sample  # without it, MCMC would call `init` to continue a run

    @property
    def sample_field(self):
        return "z"

    @property
    def default_fields(self) -> Any:
        return ("z", "diverging")

    def init(self, rng_key, num_warmup, init_params, model_args, model_kwargs):
        if isinstance(rng_key, Tracer):
            raise TypeError('chain_method: the default runs on the host; pass MCMC(..., chain_method="vectorized")')
        single = is_prng_key(rng_key)
        keys, starts = (rng_key, init_params) if not single else jax.tree.map(lambda a: a[None], (rng_key, init_params))
        chains, model = len(keys), NumPyroModel(self.model, model_args, model_kwargs or {}, None, None)
        several = -(-TOGETHER // chains)
        self._sums = model.density.plates is not None
        self.tree = sample(
            model,
            init_per_chain=None if starts is None else _constrained(starts, model, several),
            seed=int(jax.random.bits(keys[0], dtype="uint32")),
            num_chains=chains * several,
            num_warmup=num_warmup,
            num_draws=-(-self.num_draws // several),
            progress=False,
        )
        if self.tree.attrs["interrupted"]:
            raise KeyboardInterrupt
        made = jax.tree.map(partial(_dealt, chains), _fields(self.tree, model))
        begin, data = jnp.full(chains, -num_warmup), jnp.tile(_digested(model_args, model_kwargs), (chains, 1))
        state = NumPyroState(begin, **jax.tree.map(lambda leaf: leaf[:, 0], made), made=made, rng_key=keys, data=data)
        return jax.tree.map(lambda leaf: leaf[0], state) if single else state

    def sample(self, state, model_args, model_kwargs):
        made, axis = state.made["potential_energy"].shape[-1], state.i.ndim
        i = eqx.error_if(
            state.i + 1,
            jnp.any(state.data != _digested(model_args, model_kwargs)),
            "MCMC.run: goes on with other arguments of the model than its draws were made for; set "
            "post_warmup_state to None, so that they are made anew",
        )
        i = eqx.error_if(
            i,
            state.i >= made,
            f"num_draws: MCMC asks for more than the {made:,} draws of each chain that were made; pass "
            "NumPyroKernel(model, num_draws=...), at least num_samples of MCMC",
        )
        at = jnp.maximum(i.reshape(-1)[0] - 1, 0)
        now = jax.tree.map(lambda leaf: jax.lax.dynamic_index_in_dim(leaf, at, axis, keepdims=False), state.made)
        return state._replace(i=i, **now)

    def postprocess_fn(self, model_args, model_kwargs) -> Any:
        model = seed(self.model, 0) if self._sums else self.model
        return partial(constrain_fn, model, model_args, model_kwargs, return_deterministic=not self._sums)


def _digested(args: tuple, kwargs: dict[str, Any] | None) -> Array:
    """Two checksums of all bits of a model's arguments. They differ for other arguments, except with probability 2⁻⁶⁴.

    The structure of the arguments counts, and so do shapes and types. Arguments that are neither arrays nor numbers
    enter by their `repr`. Traced arguments give the same checksums.
    """
    leaves, structure = jax.tree.flatten((args, kwargs or {}))
    traced = any(isinstance(leaf, Tracer) for leaf in leaves)
    with nullcontext() if traced else jax.ensure_compile_time_eval():
        words = jnp.concatenate([_words(leaf) for leaf in (str(structure), *leaves)])
        places = jnp.arange(len(words), dtype=jnp.uint32)
        return jnp.stack([jnp.sum(_mixed(words ^ _mixed(places * 2 + i)), dtype=jnp.uint32) for i in (0, 1)])


def _words(leaf: Any) -> Array:
    """Type, shape and bits of an array or a number as 32-bit words; for any other leaf the SHA-256 of its `repr`."""
    if not isinstance(leaf, jax.Array | np.ndarray | np.generic | int | float | complex):
        return jnp.asarray(np.frombuffer(hashlib.sha256(repr(leaf).encode()).digest(), np.uint32))
    x = jnp.asarray(leaf)
    head = jnp.concatenate([_words(x.dtype.name), jnp.asarray([x.ndim, *x.shape], jnp.uint32)])
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        x = jnp.stack([x.real, x.imag])
    if x.dtype.itemsize < 4 and jnp.issubdtype(x.dtype, jnp.floating):
        x = x.astype(jnp.float32)
    bits = jax.lax.bitcast_convert_type(x, jnp.uint32) if x.dtype.itemsize >= 4 else x.astype(jnp.uint32)
    return jnp.concatenate([head, bits.ravel()])


def _mixed(h: Array) -> Array:
    """The last steps of MurmurHash3: a bijection of 32-bit words in which each input bit affects all output bits."""
    for factor in (0x85EBCA6B, 0xC2B2AE35):
        h = (h ^ (h >> 16)) * jnp.uint32(factor)
    return h ^ (h >> 16)


def _constrained(starts: dict[str, Array], model: NumPyroModel, several: int) -> dict[str, Array]:
    """Constrained starts by site, each repeated `several` times, from unconstrained ones with an axis of chains."""
    assert model.layout is not None
    if not isinstance(starts, dict) or set(starts) != set(model.layout.names):
        raise ValueError(f"init_params must be a dict of unconstrained values of the sites {model.layout.names}")
    flat = jax.vmap(model.layout.ravel)({name: starts[name] for name in model.layout.names})
    return {name: jnp.repeat(values, several, 0) for name, values in model.constrain(flat).items()}


def _fields(tree: Any, model: NumPyroModel) -> dict[str, PyTree]:
    """The fields of `NumPyroState.made`, arrays (chain, draw, ...), from a result."""
    assert model.layout is not None
    free, stats = tree[FREE], tree["sample_stats"]
    names = zip(model.layout.names, model.layout.free_names, strict=True)
    return {
        "z": {name: free[own].values for name, own in names},
        "potential_energy": -stats["lp"].values,
        "diverging": stats["diverging"].values,
        "accept_prob": stats["acceptance_rate"].values,
        "num_steps": stats["n_steps"].values,
    }


def _dealt(chains: int, values: Any) -> Array:
    """Arrays (chain, draw, ...) regrouped into fewer chains, each made of several given ones, one after another."""
    return jnp.reshape(jnp.asarray(values), (chains, -1, *values.shape[2:]))
