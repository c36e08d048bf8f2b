"""Recipes: one short file per algorithm of the literature, and the table of their names."""

from collections.abc import Callable

from gadabout.algorithms.am import am
from gadabout.algorithms.gad import gad
from gadabout.algorithms.gad_mala import gad_mala
from gadabout.algorithms.gad_rwm import gad_rwm
from gadabout.algorithms.hmc import hmc
from gadabout.algorithms.mala import mala
from gadabout.algorithms.rwm import rwm
from gadabout.driver import Sampler

RECIPES: dict[str, Callable[..., Sampler]] = {
    "gad-mala": gad_mala,
    "gad-rwm": gad_rwm,
    "am": am,
    "mala": mala,
    "rwm": rwm,
    "hmc": hmc,
}
"""The recipes that need no proposal from the user, by the names that the command line knows them by."""

__all__ = ["RECIPES", "am", "gad", "gad_mala", "gad_rwm", "hmc", "mala", "rwm"]
