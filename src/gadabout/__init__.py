"""gadabout: Bayesian sampling by gradient-based adaptive Markov chain Monte Carlo.

The public names are those of the file `__init__.pyi`. Each is imported, and JAX with it, at its first use. The packages
`adaptations`, `algorithms`, `kernels` and `proposals` do so too.
"""

from importlib.metadata import version

import lazy_loader

__version__ = version("gadabout")
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
