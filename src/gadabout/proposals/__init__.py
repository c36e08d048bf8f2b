"""Proposals: rules that draw the next point and give the log-ratio of the Metropolis move."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
