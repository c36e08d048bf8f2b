"""The default for PyMC's planned `pm.sample(sampler=...)`, for users: `gadabout.models.PyMCSampler`."""

# pyright: reportMissingImports=false

import secrets
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from gadabout.api.sample import sample
from gadabout.checks import shown
from gadabout.findings import DiagnosticWarning
from gadabout.models.from_pymc import pymc

IGNORED = {"cores": None, "idata_kwargs": None, "keep_warning_stat": False, "compile_kwargs": None}
"""PyMC's arguments that have no meaning here, with the values that cause no warning"""


class PyMCSampler:
    """The default sampler for `pm.sample(sampler=PyMCSampler())`, by the draft of PyMC's interface.

    The draft is pull request 8358 of PyMC. PyMC 6.4 does not have this argument yet; until it does,
    `gad.sample(gad.models.pymc(model))` is the equivalent.

    Args:
        settings: other arguments of `gadabout.sample`, such as `sampler`, `until` and `out`.
    """

    def __init__(self, **settings: Any):
        self.settings = settings

    def sample_from_init(
        self,
        *,
        model: Any = None,
        draws: int = 1000,
        tune: int | None = 1000,
        chains: int | None = None,
        cores: int | None = None,
        initvals: Any = None,
        random_seed: Any = None,
        progressbar: bool = True,
        quiet: bool = False,
        discard_tuned_samples: bool = True,
        keep_warning_stat: bool = False,
        var_names: Any = None,
        idata_kwargs: dict[str, Any] | None = None,
        compute_convergence_checks: bool = True,
        compile_kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """The result of `gadabout.sample` for PyMC's arguments; warns of those that have no meaning here.

        `tune` is the largest number of warm-up iterations. `initvals` is a dict of all variables.

        Raises:
            TypeError, ValueError: as in `gadabout.models.pymc` and `gadabout.sample`, or if `initvals` is no dict.
        """
        import pymc as pm

        given = {"cores": cores, "idata_kwargs": idata_kwargs, "keep_warning_stat": keep_warning_stat}
        for name, value in (given | {"compile_kwargs": compile_kwargs}).items():
            if value != IGNORED[name]:
                warnings.warn(f"{name}={shown(value)} has no meaning for gadabout, and is ignored", stacklevel=2)
        if initvals is not None and not isinstance(initvals, Mapping):
            raise TypeError(
                f"initvals must be one dict of all variables, got {shown(initvals)}; leave it out, or call "
                "gadabout.sample(gadabout.models.pymc(model), init_per_chain=...)"
            )
        with warnings.catch_warnings():
            if not compute_convergence_checks:
                warnings.simplefilter("ignore", DiagnosticWarning)
            tree = sample(
                pymc(pm.modelcontext(model)),
                initvals,
                num_draws=draws,
                num_warmup=tune,
                num_chains=chains,
                seed=_seed(random_seed),
                progress=progressbar and not quiet,
                **self.settings,
            )
        if discard_tuned_samples:
            tree = tree.filter(lambda node: not str(node.name).startswith("warmup_"))
        if var_names is not None:
            tree["posterior"] = tree["posterior"].to_dataset()[list(var_names)]
        return tree


def _seed(random_seed: Any) -> int:
    """A seed of ours from one of PyMC's: an integer, several integers, a NumPy generator, or None for a random one."""
    if random_seed is None:
        return secrets.randbits(32)
    if isinstance(random_seed, int | np.integer):
        return int(random_seed)
    if isinstance(random_seed, np.random.Generator):
        return int(random_seed.integers(2**32))
    return int(np.random.SeedSequence(list(random_seed)).generate_state(1)[0])
