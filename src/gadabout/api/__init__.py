"""The front door."""

from gadabout.api.minibatches import Minibatches
from gadabout.api.predictive import predictive
from gadabout.api.result import RunStopped
from gadabout.api.sample import sample

__all__ = ["Minibatches", "RunStopped", "predictive", "sample"]
