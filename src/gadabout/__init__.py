"""gadabout: Bayesian sampling by gradient-based adaptive Markov chain Monte Carlo.

The file `__init__.pyi` lists the public names. Each is imported at its first use, and JAX with it. The packages
`adaptations`, `algorithms`, `kernels` and `proposals` work in the same way.
"""

from importlib.metadata import version

import lazy_loader

__version__ = version("gadabout")
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
