"""Stan programs by a stand-in for BridgeStan: a Gaussian whose C++ is Python, with a transformed parameter."""

import sys
import threading
import types

import numpy as np
import pytest

import gadabout as gad
from gadabout import executables

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
def stand(monkeypatch, request):
    """Whether the stand-in is compiled for threads."""
    module, compiled = types.ModuleType("bridgestan"), types.ModuleType("bridgestan.compile")
    module.StanModel = Stand  # pyright: ignore[reportAttributeAccessIssue]
    compiled.get_bridgestan_path = lambda: "there"  # pyright: ignore[reportAttributeAccessIssue]
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
