"""Whatever is edited between two calls, the second samples the density as it is then; in one process and across two.

The density of each case is normal with standard deviation 1 around LOW before the edit, and around HIGH after it. Means
of draws lie within 1.5 of that: with 30 effective draws or more of two coordinates, a false alarm has a probability
below 1e-30.
"""

import functools
import importlib
import io
import json
import os
import subprocess
import sys
import types
import weakref
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad
from gadabout import executables
from gadabout.api.positions import starts_of
from gadabout.density import density_of
from gadabout.programs import own

LOW, HIGH, CLOSE = -3.0, 3.0, 1.5
START = {"x": jnp.zeros(2)}
DEFAULT = {"num_chains": 16, "num_warmup": 60, "num_draws": 32}
RECIPE = {"num_chains": 4, "num_warmup": 200, "num_draws": 64}
centre = LOW


def normal(x, mean):
    return -0.5 * jnp.sum((x - mean) ** 2)


def at_global(p, *data):
    return normal(p["x"], centre)


def drawn(model, sampler=None, **settings):
    settings = (DEFAULT if sampler is None else RECIPE) | settings
    init = None if "start" in getattr(model, "__dict__", {}) else START
    return gad.sample(model, init, sampler=sampler, progress=False, **settings)


def means(case, sampler=None, **settings):
    """Means before and after the edit that a case makes between its two models; `read` takes another number."""
    found = []
    for model, *more in case():
        read = more[0] if more else lambda tree: tree["posterior"]["x"]
        found.append(float(np.mean(read(drawn(model, sampler, **settings)))))
    return found


@pytest.fixture(autouse=True)
def _centre_is_low():
    yield
    globals()["centre"] = LOW


CASES = {}


def case(function):
    """A generator of the model before an edit, and of that after it: the same object, where it can be."""
    CASES[function.__name__] = function
    return function


def with_global(model):
    """The case of a model that reads the global."""
    for value in (LOW, HIGH):
        globals()["centre"] = value
        yield (model,)


# what a function finds where it looks


@case
def rebound_global():
    yield from with_global(at_global)


@case
def rebound_nonlocal():
    mean = LOW

    def move():
        nonlocal mean
        mean = HIGH

    density = lambda p: normal(p["x"], mean)
    yield (density,)
    move()
    yield (density,)


@case
def cell_contents():
    mean = LOW
    density = lambda p: normal(p["x"], mean)
    yield (density,)
    density.__closure__[0].cell_contents = HIGH
    yield (density,)


@case
def array_in_place():
    mean = np.full(2, LOW)
    density = lambda p: normal(p["x"], mean)
    yield (density,)
    mean[:] = HIGH
    yield (density,)


@case
def large_array_in_place():
    rows = np.full((3_000, 2), LOW)
    density = lambda p: normal(p["x"], jnp.mean(jnp.asarray(rows), 0))
    yield (density,)
    rows[:] = HIGH
    yield (density,)


@case
def dict_in_place():
    known = {"mean": [LOW]}
    density = lambda p: normal(p["x"], known["mean"][0])
    yield (density,)
    known["mean"][0] = HIGH
    yield (density,)


@case
def default_argument():
    def density(p, mean=LOW):
        return normal(p["x"], mean)

    yield (density,)
    density.__defaults__ = (HIGH,)
    yield (density,)


@case
def default_argument_in_place():
    def density(p, *, mean=[LOW]):  # noqa: B006
        return normal(p["x"], mean[0])

    yield (density,)
    density.__kwdefaults__["mean"][0] = HIGH
    yield (density,)


@case
def attribute_of_a_function():
    def density(p):
        return normal(p["x"], density.mean)

    density.mean = LOW
    yield (density,)
    density.mean = HIGH
    yield (density,)


@case
def code_of_a_function():
    def density(p):
        return normal(p["x"], LOW)

    yield (density,)
    density.__code__ = (lambda p: normal(p["x"], HIGH)).__code__
    yield (density,)


@case
def environment_variable():
    density = lambda p: normal(p["x"], float(os.environ["GADABOUT_TEST_MEAN"]))
    for value in (LOW, HIGH):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("GADABOUT_TEST_MEAN", str(value))
            yield (density,)


@case
def file_that_is_read():
    file = io.BytesIO()

    def density(p):
        file.seek(0)
        return normal(p["x"], jnp.asarray(np.load(file)))

    for value in (LOW, HIGH):
        file.seek(0)
        np.save(file, np.full(2, value))
        yield (density,)


@case
def weak_reference():
    class Holder:
        mean = LOW

    holder = Holder()
    reference = weakref.ref(holder)
    density = lambda p: normal(p["x"], reference().mean)
    yield (density,)
    holder.mean = HIGH
    yield (density,)


# objects that are called


class Called:
    kind = LOW

    def __init__(self, mean=None):
        self.mean = mean

    def __call__(self, p):
        return normal(p["x"], self.kind if self.mean is None else self.mean)

    def method(self, p):
        return self(p)


@case
def attribute_of_a_callable():
    density = Called(LOW)
    yield (density,)
    density.mean = HIGH
    yield (density,)


@case
def attribute_of_a_class():
    for value in (LOW, HIGH):
        Called.kind = value
        yield (Called(),)
    Called.kind = LOW


@case
def bound_method():
    it = Called(LOW)
    yield (it.method,)
    it.mean = HIGH
    yield (it.method,)


@case
def method_of_a_class():
    class Own(Called):
        pass

    it = Own()
    Own.method = lambda self, p: normal(p["x"], LOW)
    yield (it.method,)
    Own.method = lambda self, p: normal(p["x"], HIGH)
    yield (it.method,)


@dataclass(eq=False)
class AllAlike:
    """Every one is equal to any other."""

    mean: float

    def __eq__(self, other):
        return isinstance(other, AllAlike)

    def __hash__(self):
        return 1

    def __call__(self, p):
        return normal(p["x"], self.mean)


@case
def objects_that_are_equal():
    yield (AllAlike(LOW),)
    yield (AllAlike(HIGH),)


@case
def partial_with_an_array_in_place():
    mean = np.full(2, LOW)
    density = functools.partial(lambda mean, p: normal(p["x"], mean), mean)
    yield (density,)
    mean[:] = HIGH
    yield (density,)


@case
def partial_with_another_keyword():
    density = functools.partial(lambda p, mean: normal(p["x"], mean), mean=LOW)
    yield (density,)
    density.keywords["mean"] = HIGH
    yield (density,)


class Parted(eqx.Module):
    mean: jax.Array
    scale: list = eqx.field(static=True)

    def __call__(self, p):
        return normal(p["x"], self.mean * self.scale[0])


@case
def static_field_in_place():
    scale = Unhashed([LOW])
    density = Parted(jnp.ones(2), scale)
    yield (density,)
    scale[0] = HIGH
    yield (density,)


class Unhashed(list):
    __hash__ = object.__hash__


@case
def array_of_a_module():
    yield (Parted(jnp.full(2, LOW), Unhashed([1.0])),)
    yield (Parted(jnp.full(2, HIGH), Unhashed([1.0])),)


# code that is changed


def module_of(name, source):
    module = types.ModuleType(name)
    exec(source, vars(module))
    return module


@case
def helper_redefined():
    module = module_of("helping", "def mean(): return -3.0")
    density = lambda p: normal(p["x"], module.mean())
    yield (density,)
    exec("def mean(): return 3.0", vars(module))
    yield (density,)


@case
def cell_executed_again():
    for mean in (LOW, HIGH):
        exec(f"def density(p): return normal(p['x'], {mean})", space := dict(globals()))
        yield (space["density"],)


@case
def modules_of_one_name():
    source = "import jax.numpy as jnp\ndef density(p): return -0.5 * jnp.sum((p['x'] - MEAN) ** 2)\nMEAN = {}"
    for mean in (LOW, HIGH):
        yield (module_of("twin", source.format(mean)).density,)


@pytest.fixture
def reloaded(tmp_path, monkeypatch):
    """A case of a module that is reloaded."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def each():
        for mean in (LOW, HIGH):
            (tmp_path / "gadabout_reloaded.py").write_text(f"def mean(): return {mean}\n")
            importlib.invalidate_caches()
            module = sys.modules.get("gadabout_reloaded")
            module = importlib.import_module("gadabout_reloaded") if module is None else importlib.reload(module)
            yield (density,)

    def density(p):
        return normal(p["x"], sys.modules["gadabout_reloaded"].mean())

    yield each
    sys.modules.pop("gadabout_reloaded", None)


# functions that JAX knows by identity

inner = jax.jit(lambda x: normal(x, centre))
once_only = jax.checkpoint(lambda x: normal(x, centre))
filtered = eqx.filter_jit(lambda x: normal(x, centre))
by_rows = jax.jit(jax.vmap(lambda x: -0.5 * (x - centre) ** 2))
as_body = lambda total, x: (total - 0.5 * (x - centre) ** 2, None)
as_branch = lambda x: normal(x, centre)


@jax.custom_vjp
def with_vjp(x):
    return normal(x, centre)


with_vjp.defvjp(lambda x: (normal(x, centre), x), lambda x, g: (g * (centre - x),))


@jax.custom_jvp
def with_jvp(x):
    return normal(x, centre)


with_jvp.defjvp(lambda x, dx: (normal(x[0], centre), (centre - x[0]) @ dx[0]))
KNOWN_BY_IDENTITY = {
    "jitted": inner,
    "jitted_within_a_jitted": jax.jit(lambda x: inner(x) + 0.0),
    "checkpoint": once_only,
    "filter_jit": filtered,
    "vmap_jitted": lambda x: jnp.sum(by_rows(x)),
    "scan": lambda x: jax.lax.scan(as_body, 0.0, x)[0],
    "map": lambda x: jnp.sum(jax.lax.map(as_branch, x)),
    "cond": lambda x: jax.lax.cond(x[0] > 1e9, jnp.sum, as_branch, x),
    "switch": lambda x: jax.lax.switch(1, [jnp.sum, as_branch], x),
    "custom_vjp": with_vjp,
    "custom_jvp": with_jvp,
    "constant_of_a_jitted": jax.jit(lambda x: normal(x, jnp.full(2, centre))),
    "key_of_a_generator": lambda x: normal(x, centre + 0 * jax.random.normal(jax.random.key(int(centre) + 9))),
}
for name, function in KNOWN_BY_IDENTITY.items():
    CASES[name] = functools.partial(with_global, lambda p, function=function: function(p["x"]))
CASES["jitted_whole"] = functools.partial(with_global, jax.jit(at_global))


# models with more than a log density


@case
def leaf_of_the_data():
    """Another leaf of the same data is read."""
    data = {"y1": np.full(2, LOW), "y2": np.full(2, HIGH)}
    which = ["y1"]
    model = gad.Model(lambda p, data: normal(p["x"], data[which[0]]), data=data)
    yield (model,)
    which[0] = "y2"
    yield (model,)


@case
def data_beside_an_array():
    """What the data say, and what a closure holds, change together."""
    shift = np.zeros(2)
    density = lambda p, data: normal(p["x"], data + shift)
    yield (gad.Model(density, data=np.full(2, LOW)),)
    shift[:] = 2 * HIGH
    yield (gad.Model(density, data=np.full(2, LOW)),)


@case
def data_of_the_same_shape():
    for value in (LOW, HIGH):
        yield (gad.Model(lambda p, data: normal(p["x"], data), data=np.full(2, value)),)


read = lambda group, name: lambda tree: tree[group][name]


def standard(p):
    return normal(p["x"], 0.0)


def flat(p):
    return 0.0 * jnp.sum(p["x"])


@case
def outputs():
    model = gad.Model(standard, outputs=lambda p: {"y": jnp.zeros(3) + centre})
    for one in with_global(model):
        yield *one, read("posterior", "y")


@case
def outputs_by_a_jitted_function():
    value = jax.jit(lambda x: x + centre)
    model = gad.Model(standard, outputs=lambda p: {"y": value(p["x"])})
    for one in with_global(model):
        yield *one, read("posterior", "y")


@case
def log_likelihood():
    model = gad.Model(standard, log_likelihood=lambda p: p["x"] + centre)
    for one in with_global(model):
        yield *one, read("log_likelihood", "log_likelihood")


@case
def predict():
    value = jax.jit(lambda key, x: x + centre + 0.1 * jax.random.normal(key))
    model = gad.Model(standard, predict=lambda key, p: value(key, p["x"]))
    for one in with_global(model):
        yield *one, read("posterior_predictive", "y")


@case
def bounds():
    """The same log density within other bounds: uniform."""
    for low in (LOW, HIGH):
        start = lambda key, low=low: {"x": jnp.full(2, low)}
        yield (gad.Model(flat, start=start, transforms={"x": (low - 0.5, low + 0.5)}),)


def shifting():
    """A transform of the user's: positions are shifted by the global."""
    from numpyro.distributions import constraints, transforms

    class Shift(transforms.ParameterFreeTransform):
        domain = codomain = constraints.real

        def __call__(self, x):
            return x + centre

        def _inverse(self, y):
            return y - centre

        def log_abs_det_jacobian(self, x, y, intermediates=None):
            return 0.0 * jnp.sum(x)

    return Shift()


@case
def transform():
    """x itself is free of the global, and y = x + centre has the density of what lies around it."""
    model = gad.Model(at_global, transforms={"x": shifting()})
    yield from with_global(model)


@case
def numpyro_model():
    import numpyro

    def model():
        with numpyro.plate("rows", 2):
            numpyro.sample("x", numpyro.distributions.Normal(centre, 1.0))

    yield from with_global(gad.models.numpyro(model))


@case
def numpyro_argument_that_is_no_array():
    import numpyro

    def model(y, mean):
        numpyro.sample("x", numpyro.distributions.Normal(mean[0], 1.0).expand([2]))
        numpyro.sample("y", numpyro.distributions.Normal(0.0, 1.0), obs=y)

    mean = Unhashed([LOW])
    yield (gad.models.numpyro(model, np.zeros(3), mean=mean),)
    mean[0] = HIGH
    yield (gad.models.numpyro(model, np.zeros(3), mean=mean),)


@case
def numpyro_deterministic():
    import numpyro

    def model():
        x = numpyro.sample("x", numpyro.distributions.Normal(0.0, 1.0))
        numpyro.deterministic("y", x + centre)

    for one in with_global(gad.models.numpyro(model)):
        yield *one, read("posterior", "y")


@case
def pymc_model():
    pymc = pytest.importorskip("pymc")
    with pymc.Model() as model:
        data = pymc.Data("data", np.full(2, LOW))
        pymc.Normal("x", data, 1.0, shape=2)
    yield (gad.models.pymc(model),)
    with model:
        pymc.set_data({"data": np.full(2, HIGH)})
    yield (gad.models.pymc(model),)


def by_numpy(p):
    return -0.5 * np.sum((p["x"] - centre) ** 2, -1), {"x": centre - p["x"]}


@case
def numpy_function():
    yield from with_global(gad.models.python(by_numpy, START))


@case
def vectorised_numpy_function():
    yield from with_global(gad.models.python(by_numpy, START, vectorized=True))


@case
def numpy_function_with_a_transform():
    yield from with_global(gad.models.python(by_numpy, START, vectorized=True, transforms={"x": shifting()}))


@case
def host_callback():
    like = jax.ShapeDtypeStruct((), np.float64)

    @jax.custom_jvp
    def value(x):
        called = lambda x: np.asarray(-0.5 * np.sum((x - centre) ** 2, -1))
        return jax.pure_callback(called, like, x, vmap_method="expand_dims")

    value.defjvp(lambda x, dx: (value(x[0]), (centre - x[0]) @ dx[0]))
    yield from with_global(lambda p: value(p["x"]))


@pytest.mark.parametrize("name", CASES)
def test_the_default_samples_what_the_density_is_now(name):
    assert means(CASES[name]) == pytest.approx([LOW, HIGH], abs=CLOSE)


def test_a_module_that_is_reloaded(reloaded):
    assert means(reloaded) == pytest.approx([LOW, HIGH], abs=CLOSE)


RECIPES = {
    "rebound_global": gad.gad_mala,
    "array_in_place": gad.rwm,
    "helper_redefined": gad.rwm,
    "jitted": gad.rwm,
    "custom_vjp": gad.mala,
    "leaf_of_the_data": gad.rwm,
    "numpyro_model": gad.rwm,
    "numpy_function_with_a_transform": gad.rwm,
}
MORE_RECIPES = {
    "attribute_of_a_callable": gad.hmc,
    "objects_that_are_equal": gad.rwm,
    "scan": gad.nuts,
    "custom_jvp": gad.hmc,
    "static_field_in_place": gad.barker,
    "transform": gad.rwm,
    "numpy_function": gad.rwm,
    "host_callback": gad.rwm,
}
"""for the long tests: their ways to edit are like those above, for the default are all tested"""


@pytest.mark.parametrize("name", [*RECIPES, *(pytest.param(name, marks=pytest.mark.long) for name in MORE_RECIPES)])
def test_recipes_sample_what_the_density_is_now(name):
    sampler = (RECIPES | MORE_RECIPES)[name]()
    assert means(CASES[name], sampler) == pytest.approx([LOW, HIGH], abs=CLOSE)


# functions of the user's own within samplers


def around(key, p):
    """An independent draw around the global; also a conditional."""
    return {"x": centre + jax.random.normal(key, (2,))}


class Around:
    def __call__(self, key, p):
        return around(key, p)

    def method(self, key, p):
        return around(key, p)


class Nearby(gad.proposals.AbstractDistribution):
    """A distribution of the user's, around the global; its density is wrong on purpose, all draws are accepted."""

    @property
    def dim(self):
        return 2

    def noise(self, key):
        return jax.random.normal(key, (2,))

    def draw(self, noise):
        return centre + noise

    def log_normaliser(self):
        return 0.0

    def log_density(self, x):
        return 0.0 * jnp.sum(x)


OWN = {
    "conditional": lambda: gad.gibbs(around),
    "jitted_conditional": lambda: gad.gibbs(jax.jit(around)),
    "bound_conditionals_in_random_order": lambda: gad.gibbs(Around(), Around().method, random_order=True),
    "proposal": lambda: gad.metropolis_hastings(around),
    "mixture_with_a_proposal": lambda: gad.mix(gad.metropolis_hastings(around), gad.rwm(step_size=1e-3)),
    "distribution": lambda: gad.independence(Nearby()),
}


@pytest.mark.parametrize("name", OWN)
def test_functions_within_samplers_are_what_they_are_now(name):
    """Of a flat density, with a proposal that says that it is symmetric, draws are what is proposed."""
    assert means(functools.partial(with_global, flat), OWN[name]()) == pytest.approx([LOW, HIGH], abs=CLOSE)


def test_batches_are_weighed_as_they_are_now():
    rows = np.zeros((40, 2))
    likelihood = lambda p, rows: -0.5 * jnp.sum((p["x"] - centre - rows) ** 2, -1) / 40
    model = gad.Minibatches(lambda p: 0.0 * jnp.sum(p["x"]), likelihood, rows, batch_size=20)
    case = functools.partial(with_global, model)
    found = means(case, gad.sgld(gad.minibatch.polynomial(0.5, 10.0, 0.6)), num_warmup=400, num_draws=200)
    assert found == pytest.approx([LOW, HIGH], abs=CLOSE)


def test_only_samplers_with_functions_of_the_users_are_traced_anew():
    plain = [gad.gad_mala(), gad.nuts(), gad.hmc(), gad.mixture_walk(), gad.cycle(gad.rwm(), gad.mala())]
    assert not any(map(own, plain))
    assert all(own(make()) for make in OWN.values())
    assert own("".join)  # built-in methods have no module


# what is not the posterior


def test_chains_start_where_the_start_is_now(monkeypatch):
    start = jax.jit(lambda key: {"x": jnp.full(2, centre)})
    found = []
    for value in (LOW, HIGH):
        monkeypatch.setitem(globals(), "centre", value)
        rows = starts_of(start, None, gad.Model(standard), 3, False).rows(np.random.default_rng(0), 3)
        tree = gad.sample(
            standard, start, sampler=gad.rwm(step_size=1e-6), num_chains=2, num_warmup=0, num_draws=1, progress=False
        )
        found.append((rows.mean(), float(tree["posterior"]["x"].mean())))
    assert np.array(found) == pytest.approx(np.array([[LOW, LOW], [HIGH, HIGH]]), abs=1e-3)


def test_a_start_is_free_of_the_bounds_of_now():
    import numpyro

    low = jax.jit(lambda: centre - 0.5)
    model = lambda: numpyro.sample("x", numpyro.distributions.Uniform(low(), low() + 1.0).expand([2]))
    for value in (LOW, HIGH):
        globals()["centre"] = value
        tree = gad.sample(gad.models.numpyro(model), {"x": jnp.full(2, value)}, progress=False, **DEFAULT)
        assert float(tree["posterior"]["x"].mean()) == pytest.approx(value, abs=CLOSE)


@jax.custom_vjp
def odd_vjp(x):
    return normal(x, 0.0)


@jax.custom_jvp
def odd_jvp(x):
    return normal(x, 0.0)


odd_vjp.defvjp(lambda x: (normal(x, 0.0), x), lambda x, g: (g * (centre - x),))
odd_jvp.defjvp(lambda x, dx: (normal(x[0], 0.0), (centre - x[0]) @ dx[0]))


@pytest.mark.parametrize("function", [odd_vjp, odd_jvp])
def test_rules_of_gradients_are_what_they_are_now(function, monkeypatch):
    """Also where only the rule reads what changed."""
    found = []
    for value in (LOW, HIGH):
        monkeypatch.setitem(globals(), "centre", value)
        density = density_of(gad.target.Target(function), 2, chains=1, block=4)
        found.append(density.value_and_grad(np.zeros((1, 2)))[1][0, 0])
    assert found == [LOW, HIGH]


def tools():
    model = gad.Model(lambda p: normal(p["x"], centre), START)
    gaussian = gad.proposals.Gaussian(jnp.zeros(2), gad.factors.Cholesky(3 * jnp.eye(2)))
    rows, tree = np.zeros(3), drawn(standard)
    added, jitted = lambda p, rows: rows + centre, jax.jit(lambda p, rows: rows + centre)
    shifted, noise = jax.jit(lambda x: jnp.ravel(x)[0] + centre), lambda key: jax.random.normal(key)
    mc, smooth = gad.monte_carlo, lambda x: 0.0 * jnp.sum(x)
    return {
        "importance": lambda: mc.importance(model, gaussian).expectation(lambda p: p["x"], normalised=False).value,
        "importance_function": lambda: mc.importance(lambda x: normal(x, 0.0), gaussian).expectation(shifted).value,
        "importance_distribution": lambda: mc.importance(smooth, Nearby()).draws,
        "rejection": lambda: mc.rejection(model, gaussian, log_envelope=6.0).draws["x"],
        "smc": lambda: mc.smc(model, gaussian, num_particles=64, num_adapt=5, num_moves=5).draws["x"],
        "smc_distribution": lambda: mc.smc(smooth, Nearby(), num_particles=64, num_adapt=0, num_moves=1).draws,
        "fit_gaussian": lambda: mc.fit_gaussian(model, START, num_steps=300).distribution.mean,
        "plain": lambda: mc.plain(shifted, noise, num_draws=100).value,
        "plain_distribution": lambda: mc.plain(lambda x: x, jax.jit(lambda key: centre + noise(key))).value,
        "predictive": lambda: gad.predictive(added, tree, rows, log=False),
        "predictive_of_a_jitted": lambda: gad.predictive(jitted, tree, rows, log=False),
        "diagnose": lambda: gad.diagnose(tree, jax.jit(lambda p: p + centre))["mean"],
    }


def test_what_else_calls_functions_of_the_users(monkeypatch):
    made, found = tools(), {}
    for value in (LOW, HIGH):
        monkeypatch.setitem(globals(), "centre", value)
        for name, make in made.items():
            found.setdefault(name, []).append(float(np.mean(np.asarray(make()))))
    assert {name: pytest.approx([LOW, HIGH], abs=CLOSE) for name in made} == found


# data


SAMPLERS = [None, gad.hmc()]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_other_data_of_the_same_shape_compile_nothing(sampler, compilations):
    density = lambda p, data: normal(p["x"], data["y"]) + 0.0 * jnp.sum(data["more"])
    found = []
    for value in (LOW, HIGH):
        began, before = len(compilations), executables.count()
        data = {"more": np.full(3, value), "y": np.full(2, value)}
        tree = gad.sample(
            density, START, data=data, sampler=sampler, progress=False, **(RECIPE if sampler else DEFAULT)
        )
        found.append(float(tree["posterior"]["x"].mean()))
    assert found == pytest.approx([LOW, HIGH], abs=CLOSE)
    assert executables.count() == before
    assert len(compilations) == began


# across processes

HEAD = """
import functools
import jax, jax.numpy as jnp, numpy as np, gadabout as gad
normal = lambda x, mean: -0.5 * jnp.sum((x - mean) ** 2)
"""
FILES = {
    "constant": "MEAN = -3.0\ndef density(x): return normal(x, MEAN)",
    "literal": "def density(x): return normal(x, -3.0)",
    "large_array": "rows = np.full((3_000, 2), -3.0)\ndef density(x): return normal(x, jnp.asarray(rows).mean(0))",
    "leaf": "def density(x, data): return normal(x, data['y1'])",
    "leaf_jitted": "density = jax.jit(lambda x, data: normal(x, data['y1']))",
    "leaf_hmc": "def density(x, data): return normal(x, data['y1'])",
    "values_of_the_data": "def density(x, data): return normal(x, data['y'])",
    "imported": "from gadabout_imported import mean\ndef density(x): return normal(x, mean())",
    "scan": "def density(x): return jax.lax.scan(lambda t, y: (t - 0.5 * (y - -3.0) ** 2, None), 0.0, x)[0]",
    "rule": """
@jax.custom_vjp
def density(x): return normal(x, -3.0)
density.defvjp(lambda x: (density(x), x), lambda x, g: (g * (-3.0 - x),))
""",
    "bound_method": """
class Own:
    mean = -3.0
    def at(self, x): return normal(x, self.mean)
density = Own().at
""",
    "partial": "density = functools.partial(lambda mean, x: normal(x, mean), -3.0)",
    "name": "def file_name(x): return normal(x, -3.0)",
    "mala": "def density(x): return normal(x, -3.0)",
    "outputs": """
density = gad.Model(lambda x: normal(x, 0.0), start=lambda key: jnp.zeros(2), outputs=lambda x: {"y": x + -3.0})
""",
    "bounds": """
mean = -3.0
start = lambda key: jnp.full(2, mean)
density = gad.Model(lambda x: 0.0 * jnp.sum(x), start=start, transforms={"x": (mean - 0.5, mean + 0.5)})
""",
    "numpyro": """
import numpyro
def model(): numpyro.sample("x", numpyro.distributions.Normal(-3.0, 1.0).expand([2]))
density = gad.models.numpyro(model)
""",
    "python": """
one = lambda x: (-0.5 * np.sum((x - -3.0) ** 2), -3.0 - x)
density = gad.models.python(one, np.zeros(2), start=lambda key: jnp.zeros(2))
""",
    "python_rwm": """
one = lambda x: (-0.5 * np.sum((x - -3.0) ** 2), -3.0 - x)
density = gad.models.python(one, np.zeros(2), start=lambda key: jnp.zeros(2))
""",
    "library_leaf": """
data = {"y1": np.full(2, -3.0), "y2": np.full(2, 3.0)}
run = lambda: sample(lambda x, data: normal(x, data["y1"]), data=data)
""",
    "library_proposal": """
around = lambda key, x: -3.0 + jax.random.normal(key, (2,))
run = lambda: sample(lambda x: 0.0 * jnp.sum(x), sampler=gad.metropolis_hastings(around))
""",
    "library_conditional": """
around = lambda key, x, data: data["y1"] + jax.random.normal(key, (2,))
data = {"y1": np.full(2, -3.0), "y2": np.full(2, 3.0)}
run = lambda: sample(lambda x, data: 0.0 * jnp.sum(x), data=data, sampler=gad.gibbs(around))
""",
    "unchanged": "def density(x): return normal(x, 0.625)  # -3.0",
}
"""Python files; `sed` makes 3.0 of all −3.0, and y2 of y1. The command samples `density`, the library calls `run`."""
RECIPES_BY_NAME = {"leaf_hmc": "hmc", "mala": "mala", "python_rwm": "rwm"}
SESSION = """
import json, sys, warnings
from pathlib import Path
import jax
import numpy as np
import gadabout as gad
from gadabout import cache
from gadabout.cli.app import app
from gadabout.cli.targets import _module

warnings.simplefilter("ignore")
cache.LEAST_SECONDS = 0.0
trees, events, found, original = [], [], {}, gad.sample
jax.monitoring.register_event_listener(lambda name, **more: events.append(name))
def kept(*arguments, **settings):
    trees.append(original(*arguments, **settings))
    return trees[-1]
gad.sample = kept
recipe = {"num_chains": 4, "num_warmup": 200, "num_draws": 64, "progress": False}
sample = lambda f, **more: gad.sample(f, jax.numpy.zeros(2), **({} if "sampler" not in more else recipe), **more)
for name, arguments in json.loads(sys.argv[1]).items():
    began = len(events)
    if arguments:
        app(arguments, standalone_mode=False)
    else:
        module = _module(Path(f"file_{name}.py"))
        module.sample = sample
        module.run()
    posterior = trees[-1]["posterior"]
    mean = float(np.mean(posterior["y" if "y" in posterior else "x"]))
    found[name] = mean, events[began:].count("/jax/compilation_cache/cache_misses")
print(json.dumps(found))
"""


def command(name):
    """The arguments of `gadabout` for a file; none where the library is called."""
    if name.startswith("library"):
        return []
    function, sampler = "file_name" if name == "name" else "density", RECIPES_BY_NAME.get(name)
    arguments = ["sample", f"file_{name}.py:{function}", "--quiet", "--draws", "64"]
    arguments += [] if sampler is None else ["--sampler", sampler]
    arguments += ["--chains", "16", "--warmup", "60"] if sampler is None else ["--chains", "4", "--warmup", "200"]
    arguments += ["--data", f"{name}.npz"] if "data" in FILES[name] else []
    return arguments + ([] if "density = gad." in FILES[name] else ["--dim", "2"])


def session(folder):
    """Means, and programs that JAX's cache did not have, by file: of a process that samples all of them."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    variables |= {"XDG_CACHE_HOME": str(folder / "cache"), "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    run = [sys.executable, "-B", "-c", SESSION, json.dumps({name: command(name) for name in FILES})]
    done = subprocess.run(run, cwd=folder, env=variables, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_after_an_edit_another_process_samples_what_the_file_says(tmp_path):
    """With JAX's cache of programs in a folder of the user's, which both processes have; an unchanged file is read."""
    (tmp_path / "gadabout_imported.py").write_text("import jax\nmean = jax.jit(lambda: -3.0)\n")
    for name, source in FILES.items():
        (tmp_path / f"file_{name}.py").write_text(HEAD + source)
        np.savez(tmp_path / f"{name}.npz", y1=np.full(2, LOW), y2=np.full(2, HIGH))
    np.savez(tmp_path / "values_of_the_data.npz", y=np.full(2, LOW))
    before = session(tmp_path)
    for file in tmp_path.glob("*.py"):
        file.write_text(file.read_text().replace("-3.0", "3.0").replace("y1", "y2"))
    np.savez(tmp_path / "values_of_the_data.npz", y=np.full(2, HIGH))
    after = session(tmp_path)
    found = {name: (before[name][0], after[name][0]) for name in FILES if name != "unchanged"}
    assert found == {name: pytest.approx((LOW, HIGH), abs=CLOSE) for name in found}
    assert (before["unchanged"][1] > 0, after["unchanged"][1]) == (True, 0)
    assert after["values_of_the_data"][1] == 0
    assert any((tmp_path / "cache" / "gadabout" / "jax").iterdir())
