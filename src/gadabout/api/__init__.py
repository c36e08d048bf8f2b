"""The front door."""

from gadabout.api.predictive import predictive
from gadabout.api.result import RunStopped
from gadabout.api.resume import resume
from gadabout.api.sample import sample

__all__ = ["RunStopped", "predictive", "resume", "sample"]
