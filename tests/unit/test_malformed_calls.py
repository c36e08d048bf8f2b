"""Malformed calls of the library, each refused in one line that names the argument, the value and the remedy."""

import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import gadabout as gad
from tests.refusals import nothing_is_written, refused

pytestmark = pytest.mark.usefixtures(nothing_is_written.__name__)

ZEROS = np.zeros(2)
ROWS = {"x": np.ones((6, 2)), "y": np.ones(6)}


def normal(x):
    return -0.5 * jnp.sum(x**2)


def run(model=normal, init=ZEROS, **arguments):
    arguments = {"sampler": gad.rwm(), "num_warmup": 0, "num_draws": 10, "num_chains": 2, "progress": False} | arguments
    return gad.sample(model, init, **arguments)


def raising(x):
    raise RuntimeError("no density\nat all")


class Nameless(gad.kernels.Info):
    """An info whose record leaves the acceptance rate out."""

    @property
    def record(self):
        return {"lp": self.lp}


class Forgetful(gad.kernels.Metropolis):
    def step(self, key, state, target):
        return state, Nameless(state.logp, jnp.ones(()), jnp.asarray(True), jnp.asarray(True))


class Tuples(gad.kernels.Metropolis):
    def step(self, key, state, target):
        return state, {"acceptance_rate": 1.0}


class Alone(gad.kernels.Metropolis):
    def step(self, key, state, target):
        return state


class Drifting(gad.AbstractProposal):
    """A proposal that forgets the log-ratio."""

    def noise(self, key, here):
        return jax.random.normal(key, here.x.shape)

    def move(self, noise, here, target):
        return target.at(here.x + noise)


class Far(Drifting):
    def move(self, noise, here, target):
        return target.at(jnp.append(here.x, 0.0)), 0.0


class Flat(Drifting):
    def move(self, noise, here, target):
        return here.x + noise, 0.0


class Ratios(Drifting):
    def move(self, noise, here, target):
        return target.at(here.x + noise), noise


class Short(Drifting):
    def move(self, noise, here):
        return here, 0.0


def of_kernel(kind):
    kernel = kind(gad.proposals.RandomWalk(gad.factors.Diagonal(jnp.ones(2))))
    return gad.Sampler("own", lambda n, learned: kernel, gad.adaptations.NoAdaptation())


def own(proposal, log_density=None):
    return gad.metropolis_hastings(proposal, log_density)


WALK = gad.proposals.RandomWalk(gad.factors.Diagonal(jnp.ones(2)))
Q = gad.proposals.Gaussian(jnp.zeros(2), gad.factors.Diagonal(jnp.ones(2)))
WIDE = gad.proposals.Gaussian(jnp.zeros(3), gad.factors.Diagonal(jnp.ones(3)))
TREE = xr.DataTree.from_dict({"posterior": xr.Dataset({"x": (("chain", "draw", "i"), np.ones((2, 10, 2)))})})

ARGUMENTS = [
    ({"seed": "x"}, ["seed", "'x'"]),
    ({"seed": -1}, ["seed", "-1"]),
    ({"seed": 2**32}, ["seed", str(2**32)]),
    ({"seed": 1.5}, ["seed", "1.5"]),
    ({"seed": None}, ["seed", "None"]),
    ({"seed": jax.random.key(1)}, ["seed", "whole number"]),
    ({"num_chains": 0}, ["num_chains", "at least 1", "0"]),
    ({"num_chains": 2.0}, ["num_chains", "2.0"]),
    ({"num_chains": True}, ["num_chains", "True"]),
    ({"num_chains": "4"}, ["num_chains", "'4'"]),
    ({"num_draws": 0}, ["num_draws", "at least 1"]),
    ({"num_draws": None}, ["num_draws", "None"]),
    ({"num_draws": -5}, ["num_draws", "-5"]),
    ({"num_draws": math.nan}, ["num_draws", "nan"]),
    ({"num_draws": math.inf}, ["num_draws", "inf"]),
    ({"num_draws": [10]}, ["num_draws", "[10]"]),
    ({"num_draws": 10**30}, ["num_draws", "below"]),
    ({"num_warmup": -1}, ["num_warmup", "at least 0"]),
    ({"num_warmup": 0.5}, ["num_warmup", "0.5"]),
    ({"num_warmup": "auto"}, ["num_warmup", "'auto'"]),
    ({"thinning": 0}, ["thinning", "at least 1"]),
    ({"thinning": None}, ["thinning", "None"]),
    ({"thinning": 10**30}, ["thinning", "below"]),
    ({"adapt": "both"}, ["adapt", "'pooled'", "'per-chain'", "'both'"]),
    ({"adapt": True}, ["adapt", "True"]),
    ({"record": 3}, ["record", "3", "['posterior'"]),
    ({"record": "lp"}, ["record", "['lp']"]),
    ({"record": [3]}, ["record", "3"]),
    ({"record": ["lp", "lq"]}, ["record", "'lq'", "'lp'"]),
    ({"record": {"lq"}}, ["record", "'lq'", "acceptance_rate"]),
    ({"record": []}, ["record", "empty", "['posterior']"]),
    ({"record": ()}, ["record", "empty"]),
    ({"record": set()}, ["record", "empty"]),
    ({"until": 400}, ["until", "400", "Until(ess=1_000)"]),
    ({"until": gad.Until}, ["until", "Until(ess=1_000)"]),
    ({"until": {"ess": 3}}, ["until", "{'ess': 3}"]),
    ({"out": 3}, ["out", "3", "run.zarr"]),
    ({"out": "run.nc"}, ["out", "'run.nc'", "run.zarr"]),
    ({"out": ""}, ["out", "''", "run.zarr"]),
    ({"out": b"run.zarr"}, ["out", "b'run.zarr'"]),
    ({"out": ["run.zarr"]}, ["out", "['run.zarr']"]),
    ({"warm_start": 3}, ["warm_start", "int"]),
    ({"warm_start": {"posterior": 1}}, ["warm_start", "dict"]),
    ({"warm_start": TREE}, ["warm_start", "sample"]),
    ({"warm_start": "run.zarr"}, ["warm_start", "str"]),
    ({"callback": 3}, ["callback", "function", "3"]),
    ({"callback": "print"}, ["callback", "'print'"]),
    ({"progress": "yes"}, ["progress", "'yes'", "True"]),
    ({"progress": 1}, ["progress", "1"]),
    ({"sampler": "nuts"}, ["sampler", "'nuts'", "gad_mala()"]),
    ({"sampler": gad.nuts}, ["sampler", "nuts()"]),
    ({"sampler": gad.Sampler}, ["sampler", "gad_mala()"]),
    ({"sampler": [gad.rwm()]}, ["sampler", "gad_mala()"]),
    ({"sampler": 3}, ["sampler", "3"]),
    ({"dims": 3}, ["dims", "3"]),
    ({"dims": "i"}, ["dims", "'i'"]),
    ({"dims": {"x": 3}}, ["dims", "3"]),
    ({"dims": {"x": "i"}}, ["dims", "'i'", "['i']"]),
    ({"dims": {"x": ["i", "j"]}}, ["dims", "'x'", "(2,)", "'j'"]),
    ({"dims": {"y": ["i"]}}, ["dims", "'y'", "'x'"]),
    ({"dims": {"x": ["chain"]}}, ["dims", "'chain'"]),
    ({"dims": {"x": [3]}}, ["dims", "3"]),
    ({"coords": 3}, ["coords", "3"]),
    ({"coords": {"i": ["a", "b", "c"]}, "dims": {"x": ["i"]}}, ["coords", "'i'", "3", "2"]),
    ({"coords": {"i": 3}, "dims": {"x": ["i"]}}, ["coords", "'i'", "3"]),
    ({"coords": {"chain": [0, 1]}}, ["coords", "'chain'"]),
    ({"coords": {"i": ["a", "b"]}}, ["coords", "'i'", "'x_dim_0'", "dims={'x': ['i']}"]),
    ({"coords": {"i": ["a", "b"], "j": ["a", "b"]}, "dims": {"x": ["i"]}}, ["coords", "'j'", "'i'"]),
    ({"coords": {"i": ["a"]}, "init": {"mu": 0.0}, "model": lambda x: -(x["mu"] ** 2)}, ["coords", "they have none"]),
    ({"data": "x"}, ["data", "numbers"]),
    ({"data": {"y": ["a"]}}, ["data['y']", "numbers"]),
    ({"data": {"y": np.array([1.0, math.nan])}}, ["data['y']", "NaN"]),
    ({"data": [np.ones(2), object()]}, ["data[1]", "numbers"]),
    ({"data": normal}, ["data", "numbers"]),
    ({"init": None}, ["init", "function of a key"]),
    ({"init": "x"}, ["init", "'x'", "numbers"]),
    ({"init": []}, ["init", "[]"]),
    ({"init": {}}, ["init", "{}"]),
    ({"init": np.zeros(0)}, ["init", "at least one"]),
    ({"init": np.zeros(2, int)}, ["init", "int", "float"]),
    ({"init": np.zeros(2, bool)}, ["init", "bool", "float"]),
    ({"init": np.zeros(2, complex)}, ["init", "complex", "real"]),
    ({"init": 0}, ["init", "int", "float"]),
    ({"init": {"a": 1.0, "b": "x"}}, ["init", "str"]),
    ({"init": {"a": None, "b": None}}, ["init", "None"]),
    ({"init": np.array(["a"])}, ["init", "numbers"]),
    ({"init": np.array([object()])}, ["init", "numbers"]),
    ({"init": np.array([0.0, math.nan])}, ["init", "NaN"]),
    ({"init": np.array([0.0, math.inf])}, ["init", "infinite"]),
    ({"init": normal}, ["init", "key"]),
    ({"init": lambda: ZEROS}, ["init", "key"]),
    ({"init": lambda key: "x"}, ["init", "str"]),
    ({"init": lambda key: None}, ["init", "None"]),
    ({"init": lambda key: jnp.zeros(2, int)}, ["init", "int"]),
    ({"init": raising}, ["init", "RuntimeError: no density"]),
    ({"init": {"a/b": ZEROS}}, ["init", "'a/b'", "slash"]),
    ({"init": {"chain": ZEROS}}, ["init", "'chain'"]),
    ({"init": {1: 0.0, "1": 0.0}}, ["init"]),
    ({"init": gad.rwm()}, ["init", "Sampler"]),
    ({"init": None, "init_per_chain": np.zeros((3, 2))}, ["init_per_chain", "num_chains = 2", "(3, 2)"]),
    ({"init": None, "init_per_chain": 1.0}, ["init_per_chain", "num_chains = 2", "()"]),
    ({"init": None, "init_per_chain": "x"}, ["init_per_chain", "'x'"]),
    ({"init": None, "init_per_chain": []}, ["init_per_chain", "at least one"]),
    ({"init": None, "init_per_chain": np.zeros((2, 2), int)}, ["init_per_chain", "int"]),
    ({"init": None, "init_per_chain": np.full((2, 2), math.nan)}, ["init_per_chain", "NaN"]),
    ({"init": None, "init_per_chain": lambda key: ZEROS}, ["init_per_chain", "init"]),
    ({"init_per_chain": np.zeros((2, 2))}, ["init_per_chain", "not both"]),
    ({"model": 3}, ["logdensity", "3"]),
    ({"model": "normal"}, ["logdensity", "'normal'"]),
    ({"model": None}, ["logdensity", "None"]),
    ({"model": gad.Model}, ["logdensity", "Model"]),
    ({"model": [normal]}, ["logdensity", "function"]),
    ({"model": gad.Model(normal), "data": ZEROS}, ["data", "Model"]),
    ({"model": gad.Model(normal), "dims": {}}, ["dims", "Model"]),
    ({"model": gad.Model(normal, {"a": ZEROS})}, ["init", "a: (2,)"]),
    ({"sampler": own(WALK), "init": np.zeros(3)}, ["proposal", "2 coordinates", "3"]),
    ({"sampler": gad.gad(WALK), "init": np.zeros(3)}, ["proposal", "2 coordinates", "3"]),
    ({"sampler": gad.independence(WIDE)}, ["distribution", "3 coordinates", "2"]),
    ({"sampler": gad.hmc(inverse_mass_matrix=np.ones(3))}, ["inverse_mass_matrix", "3 coordinates", "2"]),
    ({"sampler": gad.mixture_walk(2, means=np.zeros((2, 3)))}, ["means", "3 coordinates", "2"]),
    ({"sampler": gad.block(gad.rwm(), [2])}, ["indices", "2 coordinates", "(2,)"]),
    ({"sampler": own(lambda x: x)}, ["sample", "(key, x)"]),
    ({"sampler": own(lambda key, x: jnp.zeros(3))}, ["sample", "(3,)", "(2,)"]),
    ({"sampler": own(lambda key, x: "x")}, ["sample", "(2,)", "'x'"]),
    ({"sampler": own(lambda key, x: None)}, ["sample", "None"]),
    ({"sampler": own(lambda key, x: raising(x))}, ["sample", "RuntimeError: no density"]),
    ({"sampler": own(lambda key, x: x, lambda y: 0.0)}, ["log_density", "(y, x)"]),
    ({"sampler": own(lambda key, x: x, lambda y, x: y)}, ["log_density", "(2,)"]),
    ({"sampler": own(lambda key, x: x, lambda y, x: None)}, ["log_density", "None"]),
    ({"sampler": own(Drifting())}, ["Drifting.move", "log-ratio"]),
    ({"sampler": own(Far())}, ["Far.move", "(3,)", "(2,)"]),
    ({"sampler": own(Flat())}, ["Flat.move", "target.at"]),
    ({"sampler": own(Ratios())}, ["Ratios.move", "(2,)"]),
    ({"sampler": own(Short())}, ["Short.move", "argument"]),
    ({"sampler": gad.gibbs(lambda key: key)}, ["conditional", "argument"]),
    ({"sampler": gad.gibbs(lambda key, x: x[0])}, ["conditional", "(2,)", "()"]),
    ({"sampler": gad.gibbs(lambda key, x: None)}, ["conditional", "None"]),
    ({"sampler": gad.gibbs(lambda key, x: raising(x))}, ["conditional", "RuntimeError: no density"]),
    ({"sampler": of_kernel(Forgetful)}, ["Forgetful.step", "acceptance_rate"]),
    ({"sampler": of_kernel(Tuples)}, ["Tuples.step", "info", "acceptance_rate"]),
    ({"sampler": of_kernel(Alone)}, ["Alone.step", "info", "acceptance_rate"]),
    ({"sampler": gad.Sampler("own", lambda n: None, gad.adaptations.NoAdaptation())}, ["make_kernel", "(n, learned)"]),
    ({"sampler": gad.Sampler("own", lambda n, learned: 3, gad.adaptations.NoAdaptation())}, ["make_kernel", "3"]),
    ({"sampler": gad.sghmc(gad.minibatch.polynomial(0.1)), "init": np.zeros(2, int)}, ["init", "int"]),
    ({"model": gad.Model(normal, outputs=lambda x: x)}, ["outputs", "dict"]),
    ({"model": gad.Model(normal, outputs=lambda: None)}, ["outputs", "argument"]),
    ({"model": gad.Model(normal, outputs=lambda x: {"x": 100 + x})}, ["outputs", "'x'", "a variable"]),
    (
        {"model": gad.Model(lambda p: normal(p["a"]), outputs=lambda p: {"b": 1.0, "a": p["a"]}), "init": {"a": ZEROS}},
        ["outputs", "'a'", "call it something else"],
    ),
    ({"model": gad.Model(normal, outputs=lambda x: {"draw": x[0]})}, ["outputs", "'draw'", "dimension"]),
    ({"model": gad.Model(normal, log_likelihood=raising)}, ["log_likelihood", "RuntimeError: no density"]),
    ({"model": gad.Model(normal, dims={"z": ["i"]})}, ["dims", "'z'", "'x'"]),
]


def told(case):
    """The test's name, without addresses: workers must agree on it."""
    shown = (re.sub(r" at 0x\w+", "", f"{name}={value!r}") for name, value in case[0].items())
    return " ".join(each.split("\n")[0][:40] for each in shown)


@pytest.mark.parametrize(("arguments", "words"), ARGUMENTS, ids=map(told, ARGUMENTS))
def test_arguments_of_sample(arguments, words):
    refused(lambda: run(**arguments), *words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"num_chains": 10**9}, ["num_chains", "GiB"]),
        ({"num_draws": 10**12}, ["num_draws", "GiB"]),
        ({"num_warmup": 10**12}, ["num_warmup", "GiB"]),
        (
            {"init": np.zeros(10**6), "sampler": gad.gad_mala()},
            ["gad-mala", "1,000,000 coordinates", "GiB", "diagonal"],
        ),
        ({"init": np.zeros(10**6), "sampler": gad.nuts("dense")}, ["nuts", "1,000,000 coordinates", "GiB"]),
        ({"init": np.zeros(10**6), "sampler": gad.fisher_mala()}, ["fisher-mala", "1,000,000 coordinates", "GiB"]),
        ({"init": np.zeros(2), "sampler": gad.mixture_walk(10**12)}, ["mixture-walk", "GiB", "fewer components"]),
    ],
)
def test_sizes_that_cannot_fit_are_refused_with_an_estimate(arguments, words):
    refused(lambda: run(**arguments), *words, kinds=(MemoryError,))


def test_an_info_that_misses_what_every_info_says_names_it():
    class Silent(gad.kernels.Metropolis):
        def step(self, key, state, target):
            return state, gad.kernels.Info(state.logp, jnp.ones(()))

    with pytest.raises(TypeError, match=r"Info.* missing 2 required .* 'accepted' and 'finite'"):
        run(sampler=of_kernel(Silent))


DENSITIES = [
    (lambda x: (normal(x), 0), ["a tuple", "return the value alone"]),
    (lambda x: [normal(x)], ["a list"]),
    (lambda x: {"value": normal(x)}, ["a dict"]),
    (lambda x: "x", ["a str"]),
    (lambda x: None, ["None"]),
    (lambda x: normal, ["a function"]),
    (lambda x: normal(x) + 1j, ["complex"]),
    (lambda x: normal(x) > 0, ["bool", "truth value"]),
    (lambda x: True, ["bool"]),
    (lambda x: -(x**2), ["(2,)", "sum"]),
    (lambda x: normal(x)[None], ["(1,)", "sum"]),
    (lambda x: np.zeros(3), ["(3,)", "sum"]),
    (lambda x: normal(x) * jnp.nan, ["nan", "init inside the support"]),
    (lambda x: normal(x) - jnp.inf, ["-inf", "init inside the support"]),
    (lambda x: math.nan, ["nan"]),
    (lambda: 0.0, ["argument", "init"]),
    (lambda x, data: 0.0, ["argument", "data"]),
    (lambda x, y, z: 0.0, ["argument", "'y' and 'z'"]),
    (raising, ["RuntimeError: no density", "test_malformed_calls.py, line"]),
    (lambda x: undefined, ["NameError", "'undefined'"]),
    (lambda x: x["a"], ["init"]),
    (lambda x: x @ jnp.ones(3), ["(2,)", "init"]),
    (lambda x: normal(x) + x[5], ["index 5", "length 2", "init and data"]),
    (lambda x: normal(x) + x[-3], ["index -3", "length 2"]),
    (lambda x: normal(x[jnp.array([0, 1, 2])]), ["index 2", "length 2"]),
    (lambda x: jnp.outer(x, x)[1, 4], ["index 4", "length 2"]),
    (lambda x: float(x[0]), ["jax.numpy"]),
    (lambda x: normal(x) if x[0] > 0 else 0.0, ["branches in Python", "jnp.where"]),
    (lambda x: math.log(x[0]), ["jax.numpy"]),
    (lambda x: np.linalg.norm(np.asarray(x)), ["jax.numpy"]),
]


@pytest.mark.parametrize(("density", "words"), DENSITIES, ids=[" ".join(words)[:40] for _, words in DENSITIES])
@pytest.mark.parametrize("sampler", [gad.rwm(), gad.mala(), gad.gad_mala("exact")], ids=lambda sampler: sampler.name)
def test_log_densities(density, words, sampler):
    refused(lambda: run(density, sampler=sampler), "logdensity", *words)


def test_groups_that_count_from_one_are_refused():
    """The last group would be read in place of one that is not there."""
    grouped = lambda x, data: normal(x[data["group"]] - data["y"])
    data = {"group": np.array([0, 1, 1]), "y": np.ones(3)}
    run(grouped, data=data)
    refused(
        lambda: run(grouped, data=data | {"group": data["group"] + 1}), "logdensity", "index 2", "length 2", "from 0"
    )


def test_indices_within_and_those_clipped_on_purpose_are_taken():
    def density(x):
        many = x[jnp.array([-1, -2, 0])].sum() + x[::-1][1] + x[5:].sum() + jnp.take(x, 7, mode="clip")
        return normal(x) + 0.0 * (many + x.at[9].get(mode="fill", fill_value=0.0) + x[0] + x[-2] + jnp.roll(x, 1)[0])

    assert run(density)["posterior"]["x"].shape == (2, 10, 2)


def test_coordinates_of_dimensions_without_a_name_are_taken():
    tree = run(coords={"x_dim_0": ["a", "b"]})
    assert tree["posterior"]["x_dim_0"].values.tolist() == ["a", "b"]


def test_a_log_density_of_data_takes_two_arguments():
    refused(lambda: run(data=ROWS), "logdensity", "argument", "data")
    refused(lambda: run(gad.Model(normal, data=ROWS)), "logdensity", "argument", "data")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((3,), ["logdensity", "3"]),
        ((normal, "x"), ["position", "numbers"]),
        ((normal, {}), ["position", "{}"]),
        ((normal, np.zeros(2, complex)), ["position", "complex"]),
        ((normal, None, {"data": "x"}), ["data", "numbers"]),
        ((normal, None, {"data": [normal]}), ["data[0]", "numbers"]),
        ((normal, None, {"start": 3}), ["start", "3"]),
        ((normal, None, {"start": lambda: ZEROS}), ["start", "key"]),
        ((normal, None, {"start": raising}), ["start", "RuntimeError: no density"]),
        ((normal, None, {"start": lambda key: "x"}), ["start", "str"]),
        ((normal, None, {"log_likelihood": 3}), ["log_likelihood", "3"]),
        ((normal, None, {"outputs": "x"}), ["outputs", "'x'"]),
        ((normal, None, {"dims": 3}), ["dims", "3"]),
        ((normal, None, {"dims": {"x": "i"}}), ["dims['x']", "['i']"]),
        ((normal, None, {"coords": [1]}), ["coords", "[1]"]),
        ((normal, None, {"observed": 3}), ["observed", "3"]),
        ((normal, None, {"observed": {1: 2}}), ["observed", "{1: 2}"]),
        ((normal, None, {"observed": {"y": "three"}}), ["observed['y']", "'three'", "numbers"]),
        ((normal, None, {"observed": {"y": ["a", "b"]}}), ["observed['y']", "['a', 'b']"]),
        ((normal, None, {"observed": {"y": None}}), ["observed['y']", "None"]),
    ],
)
def test_models(arguments, words):
    *positional, named = arguments if isinstance(arguments[-1], dict) and len(arguments) == 3 else (*arguments, {})
    refused(lambda: gad.Model(*positional, **named), *words)
