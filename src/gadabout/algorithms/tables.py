"""Recipes by name."""

from collections.abc import Callable

from gadabout.algorithms.am import am
from gadabout.algorithms.barker import barker
from gadabout.algorithms.compose import block, cycle, mix
from gadabout.algorithms.fisher_mala import fisher_mala
from gadabout.algorithms.gad import gad
from gadabout.algorithms.gad_mala import gad_mala
from gadabout.algorithms.gad_rwm import gad_rwm
from gadabout.algorithms.gibbs import gibbs
from gadabout.algorithms.haario import haario, haario_scaled
from gadabout.algorithms.hmc import hmc
from gadabout.algorithms.independence import independence
from gadabout.algorithms.mala import mala
from gadabout.algorithms.metropolis_hastings import metropolis_hastings
from gadabout.algorithms.mixture import mixture_independence, mixture_walk
from gadabout.algorithms.nuts import nuts
from gadabout.algorithms.psgld import psgld
from gadabout.algorithms.ram import ram
from gadabout.algorithms.reprojected import reprojected
from gadabout.algorithms.rwm import rwm
from gadabout.algorithms.sghmc import sghmc
from gadabout.algorithms.sgld import sgld
from gadabout.algorithms.sgnht import sgnht
from gadabout.algorithms.ula import ula
from gadabout.sampler import Sampler

RECIPES: dict[str, Callable[..., Sampler]] = {
    "gad-mala": gad_mala,
    "gad-rwm": gad_rwm,
    "am": am,
    "mala": mala,
    "rwm": rwm,
    "hmc": hmc,
    "barker": barker,
    "fisher-mala": fisher_mala,
    "haario": haario,
    "haario-scaled": haario_scaled,
    "ram": ram,
    "reprojected": reprojected,
    "independence": independence,
    "mixture-independence": mixture_independence,
    "mixture-walk": mixture_walk,
    "nuts": nuts,
}
"""The recipes that need no object of the user's, by their names on the command line."""

PYTHON_RECIPES: dict[str, Callable[..., Sampler]] = {
    "gad": gad,
    "metropolis-hastings": metropolis_hastings,
    "gibbs": gibbs,
    "cycle": cycle,
    "mix": mix,
    "block": block,
    "ula": ula,
    "sgld": sgld,
    "psgld": psgld,
    "sghmc": sghmc,
    "sgnht": sgnht,
}
"""The recipes that take the user's own proposals, functions, samplers or step sizes."""
