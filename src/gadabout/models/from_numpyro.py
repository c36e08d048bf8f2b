"""NumPyro models, with NumPyro's sites, supports, plates and observed data."""

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from gadabout.calls import called
from gadabout.checks import check_function
from gadabout.models.base import AbstractForeign, impossible_values
from gadabout.models.missing import needs
from gadabout.target import Target
from gadabout.transforms import import_numpyro


def numpyro(
    model: Callable[..., Any],
    *args: Any,
    dims: Mapping[str, Sequence[str]] | None = None,
    coords: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> "NumPyroModel":
    """A NumPyro model with its arguments, for `sample`: `gad.sample(gad.models.numpyro(model, x, y))`.

    Arguments that are arrays are data: other data of the same shapes cause no new compilation. If the model reads their
    values in Python (`len(np.unique(group))`), they are held fixed, and `attrs["model_arguments"]` says so. Chains
    start uniformly on (−2, 2) in unconstrained coordinates, as with NumPyro's `init_to_uniform`; `init` of `sample`
    takes values by site. Deterministic sites and log likelihoods of observed sites are computed in batches, with the
    draws. Discrete latent sites are summed over if funsor is installed and NumPyro supports it. The result then has
    neither these sites nor any that depend on them.

    To predict at other x, leave the observations out: `gad.posterior_predictive(tree, gad.models.numpyro(model,
    x_new))` draws the sites of which `tree` has no draws, given those of which it has.

    Args:
        model: a function with `numpyro.sample` sites, or one in handlers such as `numpyro.handlers.reparam`.
        args, kwargs: arguments of the model. One that is called `dims` or `coords` is passed by `functools.partial`.
        dims: names of the dimensions of sites that plates do not give.
        coords: coordinates along these dimensions, and along plates.

    Raises:
        ImportError: if NumPyro is not installed.
        TypeError, ValueError: if the model cannot be run with these arguments, or has sites that cannot be sampled.
    """
    needs("numpyro", "models", "gadabout.models.numpyro")
    import_numpyro()
    check_function("model", model, "with numpyro.sample sites")
    return NumPyroModel(model, args, kwargs, dims, coords)


class NumPyroDensity(eqx.Module):
    """The log density of unconstrained values by site, and other functions of a NumPyro model.

    `known` holds the arguments that are not data, and `DATA` in place of those that are.
    """

    model: Callable = eqx.field(static=True)
    known: tuple = eqx.field(static=True)
    structure: Any = eqx.field(static=True)
    plates: int | None = eqx.field(static=True, default=None)
    """the deepest nesting of plates if discrete sites are summed over, else None"""

    def arguments(self, data: Sequence[Any]) -> tuple[tuple, dict]:
        """The model's args and kwargs, with `data` in their places."""
        arrays = iter(data)
        leaves = [next(arrays) if leaf is DATA else getattr(leaf, "value", leaf) for leaf in self.known]
        return jax.tree.unflatten(self.structure, leaves)

    def __call__(self, position, data):
        from numpyro.infer.util import potential_energy

        args, kwargs = self.arguments(data)
        if self.plates is None:
            return -potential_energy(self.model, args, kwargs, position)
        from numpyro.contrib.funsor import config_enumerate, enum

        summed = enum(config_enumerate(self.model), -self.plates - 1)
        return -potential_energy(summed, args, kwargs, position, enum=True)

    def seeded(self) -> Callable:
        """The model for forward runs; discrete sites that are summed over take an arbitrary value."""
        from numpyro.handlers import seed

        return self.model if self.plates is None else seed(self.model, 0)

    def values(self, position, data):
        """The constrained values of latent sites, and those of deterministic ones unless discrete sites are summed."""
        from numpyro.infer.util import constrain_fn

        args, kwargs = self.arguments(data)
        return constrain_fn(self.seeded(), args, kwargs, position, return_deterministic=self.plates is None)

    def more(self, position, data):
        """The values of deterministic sites, and the log likelihoods of observed sites."""
        from numpyro.infer.util import log_likelihood

        values, (args, kwargs) = self.values(position, data), self.arguments(data)
        latent = {name: values.pop(name) for name in position}
        likelihood = log_likelihood(self.model, latent, *args, batch_ndims=0, **kwargs)
        return values, likelihood

    def latent(self, position, data):
        """The constrained values of latent sites."""
        values = self.values(position, data)
        return {name: values[name] for name in position}

    def unconstrained(self, values, data):
        """The unconstrained values of latent sites, from their constrained `values`."""
        from numpyro.infer.util import unconstrain_fn

        return unconstrain_fn(self.seeded(), *self.arguments(data), values)

    def draw(self, key, position, data):
        """New draws of observed sites, given the latent sites of a position."""
        from numpyro.handlers import seed, substitute, trace, uncondition

        args, kwargs = self.arguments(data)
        free = seed(substitute(uncondition(self.model), data=self.latent(position, data)), key)
        sites = trace(free).get_trace(*args, **kwargs)
        return {name: site["value"] for name, site in sites.items() if site.get("infer", {}).get("was_observed")}


class NumPyroModel(AbstractForeign):
    """The model that `gadabout.models.numpyro` returns."""

    def __init__(self, model: Callable, args: tuple, kwargs: dict, dims: Any, coords: Any):
        from numpyro.distributions import biject_to

        self.made_of: tuple[Any, ...] = model, args, kwargs, dims, coords
        """the function, and the arguments that it was given with"""
        name = getattr(model, "__name__", type(model).__name__)
        sites = called("model", "of its arguments", _sites, model, args, kwargs)
        self._unobserved = {} if any(map(_is_data, sites.values())) else _values(_latent(sites))
        self._refused = _refused(sites)
        if self._refused is not None:
            if not self._unobserved:
                raise self._refused
            model = _given(model, _values(_discrete(sites)))  # usable for predictions only
            sites = _sites(model, args, kwargs)
        discrete = _discrete(sites)
        latent = {n: s for n, s in _latent(sites).items() if n not in discrete}
        if not latent:
            raise self._refused or ValueError(f"model: {name} has no latent site; give it one that is not observed")
        self._seen = [n for n, s in sites.items() if _is_data(s)]
        self._deterministic = [n for n, s in sites.items() if s["type"] == "deterministic" and not discrete]
        free = {n: jnp.shape(biject_to(s["fn"].support).inv(s["value"])) for n, s in latent.items()}
        told = [*latent, *self._deterministic, *self._seen]
        plates = _plate_dims(sites, told)
        super().__init__(
            name, free, {n: jnp.shape(sites[n]["value"]) for n in told}, plates, {},
            {n: np.asarray(sites[n]["value"]) for n in self._seen}, (dims, coords),
        )  # fmt: skip
        self.density, self.data = _density(model, args, kwargs, _nesting(sites), self._at_zero())
        self._summed = bool(discrete)

    def _at_zero(self) -> dict[str, Any]:
        assert self.layout is not None
        return self.layout.unravel(jnp.zeros(self.layout.dim))

    @property
    def target(self):
        return Target(self.density, self.data, self.layout)

    def laid_out(self, layout):
        if self._refused is not None:
            raise self._refused
        return super().laid_out(layout)

    def predicting(self, names):
        missing = {name: value for name, value in self._unobserved.items() if name not in names}
        if not 0 < len(missing) < len(self._unobserved):
            return self
        model, *rest = self.made_of
        return NumPyroModel(_given(model, missing), *rest)

    def unconstrain(self, position):
        return self.density.unconstrained(position, self.data)

    def constrain(self, x):
        assert self.layout is not None
        values = self.each("latent", Partial(NumPyroDensity.latent, self.density), self.data, x)
        return {name: values[name] for name in self.layout.names}

    def outputs(self, x):
        assert self.layout is not None
        groups: dict[str, dict[str, Any]] = {"unconstrained_posterior": self.free(x)}
        if not self._summed:
            more = self.each("more", Partial(NumPyroDensity.more, self.density), self.data, x)
            groups["posterior"] = {name: more[0][name] for name in self._deterministic}
            groups["log_likelihood"] = {name: more[1][name] for name in self._seen}
        return {name: group for name, group in groups.items() if group}

    def impossible(self, x):
        if (said := super().impossible(x)) or self._summed:
            return said
        assert self.layout is not None
        likelihood = self.density.more(self.layout.unravel(jnp.asarray(x, float)), self.data)[1]
        return impossible_values(likelihood)

    def predictions(self, keys, x):
        if self._summed:
            raise TypeError("model has discrete sites that are summed over, and draws no data")
        assert self.layout is not None
        drawn = self.each("draw", Partial(NumPyroDensity.draw, self.density), self.data, x, keys)
        return {name: drawn[name] for name in self._seen}

    def account(self, feed):
        fixed = "fixed, because the model looks at their values: other data compile anew"
        return {"model_arguments": fixed} if any(isinstance(leaf, _Fixed) for leaf in self.density.known) else {}


DATA = "an argument that is data"


class _Fixed:
    """A value that is compared by its identity."""

    def __init__(self, value: Any):
        self.value = value


def _density(model: Callable, args: tuple, kwargs: dict, plates: int | None, position: Any) -> tuple[Any, list]:
    """The density and its data: the arguments that are arrays, or none if the model cannot be traced with them."""
    leaves, structure = jax.tree.flatten((args, kwargs), is_leaf=lambda leaf: leaf is None)
    is_data = lambda leaf: isinstance(leaf, np.ndarray | jax.Array) and leaf.dtype.kind in "biufc"
    data = [jnp.asarray(leaf) for leaf in leaves if is_data(leaf)]
    known = tuple(DATA if is_data(leaf) else _hashable(leaf) for leaf in leaves)
    density = NumPyroDensity(model, known, structure, plates)
    try:
        jax.eval_shape(density, position, data)
    except jax.errors.JAXTypeError:
        return NumPyroDensity(model, tuple(map(_Fixed, leaves)), structure, plates), []
    return density, data


def _hashable(leaf: Any) -> Any:
    try:
        hash(leaf)
    except TypeError:
        return _Fixed(leaf)
    return leaf


def _sites(model: Callable, args: tuple, kwargs: dict) -> dict[str, Any]:
    """The sites of one run of the model from NumPyro's start; raises ValueError for a site that cannot be sampled."""
    from numpyro.handlers import seed, substitute, trace
    from numpyro.infer import init_to_uniform

    sites = trace(substitute(seed(model, 0), substitute_fn=init_to_uniform)).get_trace(*args, **kwargs)
    for name, site in sites.items():
        if site["type"] == "param":
            raise ValueError(f"the site {name!r} is a numpyro.param, which is optimised; use numpyro.sample")
        if site["type"] == "plate" and site["args"][1] not in (None, site["args"][0]):
            size, part = site["args"][:2]
            raise ValueError(
                f"the plate {name!r} takes {part} of {size} rows at a time; use all, or gadabout.Minibatches"
            )
    return sites


def _latent(sites: Mapping[str, Any]) -> dict[str, Any]:
    return {name: site for name, site in sites.items() if site["type"] == "sample" and not site["is_observed"]}


def _discrete(sites: Mapping[str, Any]) -> dict[str, Any]:
    return {name: site for name, site in _latent(sites).items() if site["fn"].support.is_discrete}


def _values(sites: Mapping[str, Any]) -> dict[str, Any]:
    return {name: site["value"] for name, site in sites.items()}


def _given(model: Callable, values: Mapping[str, Any]) -> Callable:
    """The model in which the sites of `values` are observed."""
    from numpyro.handlers import condition

    return condition(model, dict(values))


def _refused(sites: Mapping[str, Any]) -> ValueError | None:
    """The error for the first discrete site that NumPyro cannot sum over; None if there is none."""
    for name, site in _discrete(sites).items():
        why = ""
        if not site["fn"].has_enumerate_support:
            why = "sum over it, or make it continuous"
        elif find_spec("funsor") is None:
            why = "NumPyro sums over it once funsor is installed: pip install funsor"
        if why:
            return ValueError(f"model: the latent site {name!r} is discrete ({type(site['fn']).__name__}); {why}")
    return None


def _nesting(sites: Mapping[str, Any]) -> int | None:
    """The deepest nesting of plates if there are discrete sites to sum over, else None."""
    frames = [frame.dim for site in sites.values() for frame in site.get("cond_indep_stack", ())]
    return -min(frames, default=0) if _discrete(sites) else None


def _is_data(site: Mapping[str, Any]) -> bool:
    from numpyro.distributions import Unit

    return site["type"] == "sample" and site["is_observed"] and not isinstance(site["fn"], Unit)


def _plate_dims(sites: Mapping[str, Any], names: Sequence[str]) -> dict[str, list[str]]:
    """The dimensions of sites in plates; axes without a plate have numbered names."""
    found = {}
    for name in names:
        site, shape = sites[name], jnp.shape(sites[name]["value"])
        axes = [f"{name}_dim_{i}" for i in range(len(shape))]
        batch = len(shape) - (site["fn"].event_dim if site["type"] == "sample" else 0)
        for frame in site.get("cond_indep_stack", ()):
            place = batch + frame.dim
            if 0 <= place < batch and shape[place] == frame.size and frame.name not in (*names, "chain", "draw"):
                axes[place] = frame.name
        if any(axis != f"{name}_dim_{i}" for i, axis in enumerate(axes)):
            found[name] = axes
    return found
