"""Proposals: where to go next, and the log-ratio that makes it a Metropolis move."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
