"""Current samplers, each run on a model as its own documentation shows, with the warm-up that its users get.

All start from the same law, the target's own start, drawn again where the log density or its gradient is not finite.
BlackJAX and NumPyro advance their chains together in one compiled program of warm-up and draws (a second `MCMC.run` of
NumPyro alone would compile again). nutpie runs its chains in threads, one per core, which call a compiled gradient as
its own JAX backend does. ChEES-HMC and MEADS learn from many chains and run 64. NumPyro has no default warm-up; it runs
the 1,000 iterations of BlackJAX. So does adjusted MCLMC, whose tuning is defined as a share of a run, with an
acceptance rate of 0.9 and trajectories of random length. Stan runs its own program of the target, with chains in
threads; its compiler takes a minute, once per machine, before the clock starts, and no figure includes that minute.
"""

import time
from collections.abc import Callable, Iterable
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from gadabout.model import AbstractModel

TRIES = 100
"""largest number of draws of a start until it is finite"""

Run = Callable[[int], tuple[Float[np.ndarray, "chains draws n"], float]]
"""Function of a seed that returns draws, and the seconds from the call until they are in memory.

It compiles in its first call only.
"""


class Peer(NamedTuple):
    """A sampler to compare.

    Args:
        prepare: returns a `Run` for a model, a number of chains, and a number of draws per chain.
        chains: numbers of chains that its users may choose; the first is usual.
        package: the package that it needs; None if it comes with gadabout.
        on_request: whether it runs only if it is requested by name.
    """

    prepare: Callable[[AbstractModel, int, int], Run]
    chains: tuple[int, ...] = (4, 64)
    package: str | None = None
    on_request: bool = False

    @property
    def usual(self) -> int:
        """The number of chains if none is chosen."""
        return self.chains[0]


def start(model: AbstractModel, key: Key[Array, ""]) -> Float[Array, " n"]:
    """The start of a chain, as in `sample`: the model's own start, drawn until it is finite, 100 times at most."""

    def drawn(tries):
        return model.target.ravel(model.start(jax.random.fold_in(key, tries)))

    def bad(tries):
        return (tries < TRIES - 1) & ~model.target.at(drawn(tries), order=1).finite

    return drawn(jax.lax.while_loop(bad, lambda tries: tries + 1, 0))


def _gadabout(model: AbstractModel, chains: int, draws: int, *, recipe: str) -> Run:
    from gadabout import algorithms
    from gadabout.api import sample

    plan, layout = getattr(algorithms, recipe)(), model.layout
    assert layout is not None
    settings: dict[str, Any] = {"num_chains": chains, "num_draws": draws, "record": ["posterior"], "progress": False}

    def run(seed):
        tree = sample(model, sampler=plan, seed=seed, **settings)
        values = [np.asarray(tree["posterior"][name].values) for name in layout.names]
        return np.concatenate([value.reshape(chains, draws, -1) for value in values], -1), tree.attrs["seconds_total"]

    return run


def _blackjax(model: AbstractModel, chains: int, draws: int, *, dense: bool) -> Run:
    import blackjax

    log_density = model.target.log_density
    warmup: Any = blackjax.window_adaptation(blackjax.nuts, log_density, is_mass_matrix_diagonal=not dense)

    def chain(key):
        start_key, warmup_key, draw_key = jax.random.split(key, 3)
        (state, parameters), _ = warmup.run(warmup_key, start(model, start_key))
        step: Any = blackjax.nuts(log_density, **parameters).step

        def one(state, key):
            state, _ = step(key, state)
            return state, state.position

        return jax.lax.scan(one, state, jax.random.split(draw_key, draws))[1]

    return _compiled(lambda key: jax.vmap(chain)(jax.random.split(key, chains)))


def _blackjax_together(model: AbstractModel, chains: int, draws: int, *, method: str) -> Run:
    """Samplers whose chains learn from one another; ChEES with its paper's rate of Adam (Hoffman et al. 2021)."""
    import blackjax
    import optax  # comes with BlackJAX

    log_density = model.target.log_density

    def whole(key):
        start_key, warmup_key, draw_key = jax.random.split(key, 3)
        positions = jax.vmap(partial(start, model))(jax.random.split(start_key, chains))
        if method == "chees":
            warmup: Any = blackjax.chees_adaptation(log_density, chains)
            (states, parameters), _ = warmup.run(warmup_key, positions, 0.1, optax.adam(0.025), 1_000)
            step: Any = blackjax.dynamic_hmc(log_density, **parameters).step
        else:
            warmup = blackjax.meads_adaptation(log_density, chains)
            (states, parameters), _ = warmup.run(warmup_key, positions, 1_000)
            step = blackjax.ghmc(log_density, **parameters).step

        def one(states, key):
            states, _ = jax.vmap(step)(jax.random.split(key, chains), states)
            return states, states.position

        return jnp.swapaxes(jax.lax.scan(one, states, jax.random.split(draw_key, draws))[1], 0, 1)

    return _compiled(whole)


def _blackjax_mclmc(model: AbstractModel, chains: int, draws: int) -> Run:
    """Adjusted MCLMC with trajectories of random length (Robnik, De Luca, Silverstein & Seljak 2023)."""
    import blackjax
    from blackjax.mcmc import adjusted_mclmc_dynamic

    log_density = model.target.log_density
    bare = adjusted_mclmc_dynamic.build_kernel(adjusted_mclmc_dynamic.make_random_trajectory_length_fn(True))

    def kernel(rng_key, state, logdensity_fn, step_size, inverse_mass_matrix, integration_steps_params):
        return bare(
            rng_key, state, logdensity_fn, step_size,
            inverse_mass_matrix=inverse_mass_matrix, integration_steps_params=integration_steps_params,
        )  # fmt: skip

    def chain(key):
        start_key, init_key, warmup_key, draw_key = jax.random.split(key, 4)
        state = adjusted_mclmc_dynamic.init(start(model, start_key), log_density, init_key)
        shares: Any = {"num_steps": 5_000, "frac_tune1": 0.1, "frac_tune2": 0.1, "frac_tune3": 0.0}
        state, found, *_ = blackjax.adjusted_mclmc_find_L_and_step_size(
            kernel, log_density, state=state, rng_key=warmup_key, target=0.9, **shares
        )
        steps = (found.L / found.step_size,)

        def one(state, key):
            state, _ = kernel(key, state, log_density, found.step_size, found.inverse_mass_matrix, steps)
            return state, state.position

        return jax.lax.scan(one, state, jax.random.split(draw_key, draws))[1]

    return _compiled(lambda key: jax.vmap(chain)(jax.random.split(key, chains)))


def _numpyro(model: AbstractModel, chains: int, draws: int, *, dense: bool, method: str = "vectorized") -> Run:
    from numpyro.infer import MCMC, NUTS  # pyright: ignore[reportMissingImports]

    def potential(x):
        return -model.target.log_density(x)

    def whole(key):
        start_key, run_key = jax.random.split(key)
        positions = jax.vmap(partial(start, model))(jax.random.split(start_key, chains))
        kernel = NUTS(potential_fn=potential, dense_mass=dense)
        mcmc = MCMC(
            kernel,
            num_warmup=1_000,
            num_samples=draws,
            num_chains=chains,
            chain_method=method,
            progress_bar=False,
        )
        mcmc.run(run_key, init_params=positions)
        return mcmc.get_samples(group_by_chain=True)

    return _compiled(whole)


def _nutpie(model: AbstractModel, chains: int, draws: int, *, adaptation: str) -> Run:
    import nutpie  # pyright: ignore[reportMissingImports]
    from nutpie.compiled_pyfunc import from_pyfunc  # pyright: ignore[reportMissingImports]

    assert model.layout is not None
    n, value_and_grad = model.layout.dim, jax.jit(jax.value_and_grad(model.target.log_density))
    drawn = jax.jit(lambda seed: start(model, jax.random.key(seed)))

    def log_density(x):
        value, gradient = value_and_grad(x)
        return float(value), np.asarray(gradient, np.float64)

    made = from_pyfunc(
        n,
        make_logp_fn=lambda: log_density,
        make_expand_fn=lambda *_: lambda x: {"x": np.array(x)},
        expanded_dtypes=[np.dtype("float64")],
        expanded_shapes=[(n,)],
        expanded_names=["x"],
        make_initial_point_fn=lambda seed: np.asarray(drawn(jnp.uint32(seed % 2**32)), np.float64),
    )
    settings = {"draws": draws, "chains": chains, "adaptation": adaptation, "progress_bar": False, "save_warmup": False}
    return _clocked(lambda seed: nutpie.sample(made, seed=seed, **settings).posterior["x"].values)


def _stan(model: AbstractModel, chains: int, draws: int) -> Run:
    from gadabout.lab.peers import stan

    assert model.layout is not None
    layout, executable, data = model.layout, stan.compiled(stan.program(model)), stan.data_of(model)
    drawn = jax.jit(jax.vmap(partial(start, model)))

    def run(seed):
        starts = np.asarray(drawn(jax.random.split(jax.random.key(seed), chains)))
        parts = [{name: part.tolist() for name, part in layout.split(each).items()} for each in starts]
        return stan.run(executable, data, parts, draws, seed + 1)

    return run


def _compiled(whole: Callable[[Any], Any]) -> Run:
    """A `Run` that compiles `whole`, a function of a key that returns an array of draws, as one program."""
    program = jax.jit(whole)
    return _clocked(lambda seed: np.asarray(program(jax.random.key(seed))))


def _clocked(draw: Callable[[int], np.ndarray]) -> Run:
    """A `Run` that times `draw`, a function of a seed that returns once its draws are in memory."""

    def run(seed):
        began = time.perf_counter()
        drawn = draw(seed)
        return drawn, time.perf_counter() - began

    return run


PEERS: dict[str, Peer] = {
    "gadabout": Peer(partial(_gadabout, recipe="default"), chains=(16, 64)),
    "gadabout-nuts": Peer(partial(_gadabout, recipe="nuts"), chains=(16, 64), on_request=True),
    "blackjax": Peer(partial(_blackjax, dense=False), package="blackjax"),
    "blackjax-dense": Peer(partial(_blackjax, dense=True), package="blackjax"),
    "blackjax-chees": Peer(partial(_blackjax_together, method="chees"), chains=(64,), package="blackjax"),
    "blackjax-meads": Peer(partial(_blackjax_together, method="meads"), chains=(64,), package="blackjax"),
    "blackjax-mclmc": Peer(_blackjax_mclmc, package="blackjax"),
    "numpyro": Peer(partial(_numpyro, dense=False), package="numpyro"),
    "numpyro-dense": Peer(partial(_numpyro, dense=True), package="numpyro"),
    "numpyro-sequential": Peer(partial(_numpyro, dense=False, method="sequential"), (4,), package="numpyro"),
    "nutpie": Peer(partial(_nutpie, adaptation="diag"), package="nutpie"),
    "nutpie-low-rank": Peer(partial(_nutpie, adaptation="low_rank"), package="nutpie"),
    "stan": Peer(_stan, (4,), package="httpstan", on_request=True),
}
"""Peers by name. The name of a program stands for its NUTS with a diagonal metric; `gadabout` is its default plan."""


def choose(asked: Iterable[str]) -> tuple[list[str], list[str]]:
    """The peers to run, those of `asked` or else all usual ones, and the missing packages of those left out.

    Raises ValueError for an unknown name, ImportError if the package of a requested peer is not installed.
    """
    asked = list(dict.fromkeys(asked))
    unknown = [name for name in asked if name not in PEERS]
    if unknown:
        raise ValueError(f"--peer: no peer is called {unknown[0]!r}; choose one of {', '.join(PEERS)}")
    lacking = {name: peer.package for name, peer in PEERS.items() if peer.package and not find_spec(peer.package)}
    for name in asked:
        if name in lacking:
            raise ImportError(
                f'--peer {name} needs {lacking[name]}, which is not installed: pip install "gadabout[peers]"'
            )
    names = asked or [name for name, peer in PEERS.items() if not peer.on_request and name not in lacking]
    return names, [] if asked else sorted({package for name, package in lacking.items() if not PEERS[name].on_request})
