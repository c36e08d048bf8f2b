from .am import am
from .barker import barker
from .compose import block, cycle, mix
from .default import PLANS, default, split_hmc
from .fisher_mala import fisher_mala
from .gad import gad
from .gad_mala import gad_mala
from .gad_rwm import gad_rwm
from .gibbs import gibbs
from .haario import haario, haario_scaled
from .hmc import hmc
from .independence import independence
from .mala import mala
from .metropolis_hastings import metropolis_hastings
from .mixture import mixture_independence, mixture_walk
from .nuts import nuts
from .psgld import psgld
from .ram import ram
from .reprojected import reprojected
from .rwm import rwm
from .settings import PAPER
from .sghmc import sghmc
from .sgld import sgld
from .sgnht import sgnht
from .tables import PYTHON_RECIPES, RECIPES
from .ula import ula

__all__ = [
    "PAPER",
    "PLANS",
    "PYTHON_RECIPES",
    "RECIPES",
    "am",
    "barker",
    "block",
    "cycle",
    "default",
    "fisher_mala",
    "gad",
    "gad_mala",
    "gad_rwm",
    "gibbs",
    "haario",
    "haario_scaled",
    "hmc",
    "independence",
    "mala",
    "metropolis_hastings",
    "mix",
    "mixture_independence",
    "mixture_walk",
    "nuts",
    "psgld",
    "ram",
    "reprojected",
    "rwm",
    "sghmc",
    "sgld",
    "sgnht",
    "split_hmc",
    "ula",
]
