"""Stan programs by stanli, beside its own sampler, by a stand-in for BridgeStan, and without an engine."""

import ctypes
import sys
import threading
import types
from importlib.util import find_spec

import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad
from gadabout import executables
from gadabout.models import stan_engines
from gadabout.models.stan_engines import ENGINES, stan_to_mir
from tests.refusals import refused

MEAN, DEVIATION = 300.0, 20.0


class Stand:
    """What `bridgestan.StanModel` has that is used here: x ~ N(300, 20²) and y = log x, x > 0."""

    threads = "STAN_THREADS=true"

    def __init__(self, file, data, make_args=(), warn=True):
        self.info = self.threads if "STAN_THREADS=True" in make_args else ""
        self.called_in = set()
        Stand.last = self

    def model_info(self):
        return f"Stan version: 2\n{self.info}\n"

    def param_unc_num(self):
        return 1

    def param_names(self, include_tp=False, include_gq=False):
        return ["x", "y"] if include_tp else ["x"]

    def log_density_gradient(self, x):
        assert x.flags["C_CONTIGUOUS"]  # as BridgeStan wants them
        self.called_in.add(threading.get_ident())
        with np.errstate(over="ignore"):
            value = np.exp(x[0])
            z = (value - MEAN) / DEVIATION
            return -0.5 * z**2 + x[0], np.array([-z * value / DEVIATION + 1])

    def new_rng(self, seed):
        return None

    def param_constrain(self, x, include_tp, include_gq, rng):
        return np.array([np.exp(x[0]), x[0]])


@pytest.fixture(params=[True, False], ids=["threads", "one thread"])
def stand(monkeypatch, request, tmp_path):
    """Whether the stand-in is compiled for threads."""
    module, compiled = types.ModuleType("bridgestan"), types.ModuleType("bridgestan.compile")
    module.StanModel = Stand  # pyright: ignore[reportAttributeAccessIssue]
    (tmp_path / "Makefile").touch()
    compiled.get_bridgestan_path = lambda download: str(tmp_path)  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "bridgestan", module)
    monkeypatch.setitem(sys.modules, "bridgestan.compile", compiled)
    monkeypatch.setattr("gadabout.models.stan_engines.is_there", lambda name: name == "bridgestan")
    monkeypatch.setattr(Stand, "threads", "STAN_THREADS=true" if request.param else "STAN_THREADS=false")
    return request.param


def test_the_default_samples_a_program_without_a_compiler(stand):
    model, before = gad.models.stan("parameters { real<lower=0> x; }"), executables.count()
    tree = gad.sample(model, num_draws=2_000, progress=False)
    x = tree["posterior"]["x"].values
    assert abs(x.mean() - MEAN) < 1.0
    assert abs(x.std() - DEVIATION) < 1.0
    np.testing.assert_allclose(tree["posterior"]["y"], np.log(x))
    assert executables.count() == before
    assert (len(Stand.last.called_in) > 1) == stand


needs_stanli = pytest.mark.skipif(
    find_spec("stanli") is None or find_spec("bridgestan") is None, reason="stanli is not installed"
)
MIXED = """
data { int<lower=0> J; vector[J] y; }
parameters { real mu; real<lower=0> sd; simplex[3] p; }
transformed parameters { vector[J] z = (y - mu) / sd; }
model {
  mu ~ normal(0, 5);
  sd ~ exponential(1);
  p ~ dirichlet([2, 3, 4]');
  target += -0.5 * sum(square(z)) - J * log(sd);
}
generated quantities { vector[J] log_lik = -0.5 * square(z) - log(sd); real more = normal_rng(0, 1); }
"""
Y = [1.0, 2.5, -0.5, 3.0]


@pytest.fixture(scope="module")
def mixed():
    """Made after a product of matrices, with which JAX asks for AMX where there is one: OCaml's runtime then aborts."""
    (jnp.eye(8, dtype="float32") @ jnp.eye(8, dtype="float32")).block_until_ready()
    return gad.models.stan(MIXED, {"J": 4, "y": Y}, observed=["y"], dims={"y": ["row"], "log_lik": ["row"]})


@needs_stanli
def test_the_density_of_a_program_is_that_of_its_text(mixed):
    """Differences of log π, by hand, and gradients, by central differences, at 20 positions that are not contiguous."""
    x = np.asfortranarray(np.random.default_rng(0).normal(size=(20, 4)))
    value, gradient = mixed.density.rows(x)
    values = {name: np.asarray(draws) for name, draws in mixed.constrain(x).items()}
    mu, sd, p = values["mu"], values["sd"], values["p"]
    z = (np.array(Y) - mu[:, None]) / sd[:, None]
    exact = (
        -0.5 * (mu / 5) ** 2 - sd + np.sum(np.array([1, 2, 3]) * np.log(p), 1) - 0.5 * (z**2).sum(1) - 4 * np.log(sd)
    )
    jacobian = np.log(sd) + np.log(p).sum(1)  # of the exponential, and of the isometric log-ratios that Stan 2.37 has
    difference = value - exact - jacobian
    np.testing.assert_allclose(difference, difference[0], atol=1e-5 if p.dtype == "float32" else 1e-9)
    h = 1e-5
    for i in range(4):
        step = h * np.eye(4)[i]
        slope = (mixed.density.rows(x + step)[0] - mixed.density.rows(x - step)[0]) / (2 * h)
        np.testing.assert_allclose(gradient[:, i], slope, rtol=1e-5, atol=1e-7)


@needs_stanli
def test_the_posterior_is_that_of_stans_own_sampler(mixed):
    """Means of 5 numbers and of their squares within 4 standard errors: outside once in 1,600 seeds; fixed.

    Standard errors are below 4 % of standard deviations, so that a bias of 0.25 of these is detected.
    """
    import stanli
    from arviz_stats.base.array import array_stats

    tree = gad.sample(mixed, progress=False)
    theirs = stanli.Model(mir=stan_to_mir(MIXED), data={"J": 4, "y": Y}).sample(chains=4, seed=1, refresh=0)
    for name in ("mu", "sd", "p[1]", "p[2]", "p[3]"):
        stem, _, place = name.partition("[")
        ours = tree["posterior"][stem].values
        ours = ours[..., int(place[0]) - 1] if place else ours
        for power in (1, 2):
            found = [np.asarray(draws, float) ** power for draws in (ours, theirs.draws(name))]
            errors = [array_stats.mcse(draws, chain_axis=0, draw_axis=1, method="mean") for draws in found]
            assert abs(found[0].mean() - found[1].mean()) < 4 * np.hypot(*errors)
            assert np.hypot(*errors) < 0.04 * found[1].std()
    assert tree["log_likelihood"]["log_lik"].dims == ("chain", "draw", "row")
    np.testing.assert_allclose(tree["log_likelihood"]["log_lik"][0, :9], _log_likelihood(tree, 9), rtol=1e-4)
    assert abs(tree["posterior"]["more"].values.std() - 1) < 0.05
    assert set(tree["posterior"].data_vars) == {"mu", "sd", "p", "z", "more"}


def _log_likelihood(tree, draws):
    mu, sd = (tree["posterior"][name].values[0, :draws, None] for name in ("mu", "sd"))
    return -0.5 * ((np.array(Y) - mu) / sd) ** 2 - np.log(sd)


@needs_stanli
@pytest.mark.parametrize(
    ("program", "data", "words"),
    [
        ("parameters { real x }", {}, ["program", "Syntax error", "line 1", 'Expected ";"']),
        (MIXED, {"J": 4, "y": [1.0]}, ["program", "given: J, y", "variable name=y"]),
        (MIXED, {"J": 4}, ["program", "given: J"]),
        (MIXED, {"J": 4, "y": [1.0, np.nan, 2.0, 3.0]}, ["data['y']", "1 values that are NaN", "remove or impute"]),
        ("model {}", {}, ["program", "no parameters"]),
    ],
)
def test_what_a_program_lacks_is_said(program, data, words):
    refused(lambda: gad.models.stan(program, data), *words, kinds=(ValueError,))


@needs_stanli
def test_an_observation_that_is_impossible_is_looked_for():
    program = "data { int y; } parameters { real<lower=0> r; } model { r ~ exponential(1); y ~ poisson(r); }"
    refused(lambda: gad.sample(gad.models.stan(program, {"y": -1})), "y", "Stan rejects", kinds=(ValueError,))


def test_without_an_engine_one_line_says_what_each_lacks(monkeypatch):
    monkeypatch.setattr(stan_engines, "is_there", lambda name: False)
    message = refused(
        lambda: gad.models.stan(MIXED, {"J": 4, "y": Y}), "stanli and bridgestan not installed",
        "BridgeStan: not installed", "PyStan: not installed", "pip install 'gadabout[stan]'", kinds=(ImportError,),
    )  # fmt: skip
    assert "\n" not in message
    for library in ENGINES:
        refused(lambda name=library: gad.models.stan(MIXED, library=name), "not installed", kinds=(ImportError,))


def test_bridgestan_without_sources_or_compiler_downloads_and_compiles_nothing(monkeypatch, tmp_path):
    """The stand-in for BridgeStan has neither a way to download nor to compile."""
    compiled, path = types.ModuleType("bridgestan.compile"), tmp_path / "sources"
    compiled.get_bridgestan_path = lambda download: "" if download else str(path)  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "bridgestan", types.ModuleType("bridgestan"))
    monkeypatch.setitem(sys.modules, "bridgestan.compile", compiled)
    monkeypatch.setattr(stan_engines, "is_there", lambda name: name == "bridgestan")
    stan = lambda: gad.models.stan(MIXED, {"J": 4, "y": Y})
    refused(stan, f"no C++ sources in {path}", "get_bridgestan_path() downloads them", kinds=(ImportError,))
    path.mkdir()
    (path / "Makefile").touch()
    monkeypatch.setenv("PATH", "")
    refused(stan, "BridgeStan: no make", kinds=(ImportError,))
    monkeypatch.setenv("MAKE", sys.executable)
    refused(stan, "BridgeStan: no C++ compiler", kinds=(ImportError,))


@pytest.mark.parametrize("old", [True, False])
def test_pystan_that_this_python_cannot_load_is_named_before_it_compiles(monkeypatch, tmp_path, old):
    """Services that call a function which Python 3.13 removed; others are taken, and these have no `models`."""
    services = types.ModuleType("httpstan")
    services.__spec__ = types.SimpleNamespace(origin=str(tmp_path / "__init__.py"))  # pyright: ignore[reportAttributeAccessIssue]
    (tmp_path / "stan_services.o").write_bytes(b"\0" + stan_engines.REMOVED.encode() * old + b"\0")
    monkeypatch.setitem(sys.modules, "httpstan", services)
    monkeypatch.setattr(stan_engines, "is_there", lambda name: name == "httpstan")
    monkeypatch.setenv("CXX", sys.executable)
    gone = not hasattr(ctypes.pythonapi, stan_engines.REMOVED)
    reason = "cannot be loaded by Python 3." if old and gone else "cannot import name 'models'"
    with pytest.raises(ImportError, match=reason):
        gad.models.stan(MIXED, {"J": 4, "y": Y})


def test_a_program_that_stanli_does_not_know_goes_to_the_next_engine(monkeypatch):
    class Refusing(ENGINES["stanli"]):
        why = "stanli compile: complex numbers"

        def __init__(self, code, data):
            raise RuntimeError(self.why)

        missing = staticmethod(lambda: "")

    class Taking(ENGINES["bridgestan"]):
        missing = staticmethod(lambda: "")

        def __init__(self, code, data):
            self.got = code

    monkeypatch.setattr(stan_engines, "StanLI", Refusing)  # by which the engine is known
    monkeypatch.setattr(stan_engines, "ENGINES", {"stanli": Refusing, "bridgestan": Taking})
    assert stan_engines.engine("code", {}, None).got == "code"  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(RuntimeError, match="complex numbers"):
        stan_engines.engine("code", {}, "stanli")
    monkeypatch.setattr(Refusing, "why", "Syntax error in 'string'")
    with pytest.raises(RuntimeError, match="Syntax error"):
        stan_engines.engine("code", {}, None)
