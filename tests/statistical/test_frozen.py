"""A log density that falls to -1e120 outside a stable region: of 40 single chains every frozen one is reported.

The checks run 12 of each of three samplers, of which 15 of 36 freeze: a rule that misses one frozen chain in five, or
reports one moving chain in six, is found with 96 %. The marker has all 40.
"""

import numpy as np
import pytest

import gadabout as gad
from gadabout.targets import wild


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("chains", [12, pytest.param(40, marks=pytest.mark.long)])
@pytest.mark.parametrize("sampler", [gad.gad_mala(), gad.rwm(), gad.nuts()], ids=lambda sampler: sampler.name)
def test_every_frozen_chain_is_reported(sampler, chains):
    """Starts are uniform on (-2, 2), as Stan's are; draws alone tell which chains are frozen."""
    model, random, frozen = wild.load("arma11"), np.random.default_rng(2019), []
    for seed in range(chains):
        start = {name: random.uniform(-2, 2, size=(1, *shape)) for name, shape in shapes(model)}
        settings = {"sampler": sampler, "num_chains": 1, "num_warmup": 100, "num_draws": 60, "seed": seed}
        tree = gad.sample(model, init_per_chain=start, progress=False, **settings)
        still = all(np.ptp(x.values, 1).max() == 0 for x in tree["posterior"].data_vars.values())
        told = {finding["kind"] for finding in tree.attrs["findings"]}
        assert ("frozen" in told) == still, (seed, told)
        frozen.append(still)
    assert sum(frozen) < chains
    if sampler.name == "rwm":
        assert sum(frozen) > 0


def shapes(model):
    return zip(model.layout.names, model.layout.shapes, strict=True)
