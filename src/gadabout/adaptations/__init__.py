"""Adaptations: rules that learn a kernel's parameters while it runs."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
