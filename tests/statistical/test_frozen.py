"""A log density that falls to -1e120 outside a stable region: of 40 single chains every frozen one is reported."""

import numpy as np
import pytest

import gadabout as gad
from gadabout.targets import wild


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("sampler", [gad.gad_mala(), gad.rwm(), gad.nuts()], ids=lambda sampler: sampler.name)
def test_every_frozen_chain_is_reported(sampler):
    """Starts are uniform on (-2, 2), as Stan's are; draws alone tell which chains are frozen."""
    model, random, frozen = wild.load("arma11"), np.random.default_rng(2019), []
    for seed in range(40):
        start = {name: random.uniform(-2, 2, size=(1, *shape)) for name, shape in shapes(model)}
        settings = {"sampler": sampler, "num_chains": 1, "num_warmup": 100, "num_draws": 60, "seed": seed}
        tree = gad.sample(model, init_per_chain=start, progress=False, **settings)
        still = all(np.ptp(x.values, 1).max() == 0 for x in tree["posterior"].data_vars.values())
        told = {finding["kind"] for finding in tree.attrs["findings"]}
        assert ("frozen" in told) == still, (seed, told)
        frozen.append(still)
    assert sum(frozen) < 40
    if sampler.name == "rwm":
        assert sum(frozen) > 0


def shapes(model):
    return zip(model.layout.names, model.layout.shapes, strict=True)
