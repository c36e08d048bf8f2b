"""The front door."""

from gadabout.api.sample import sample

__all__ = ["sample"]
