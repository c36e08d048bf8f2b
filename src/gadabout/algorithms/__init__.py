"""Recipes: one short file per algorithm of the literature, and the table of their names."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
