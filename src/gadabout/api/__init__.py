"""The public entry points: sampling, resuming, predictions, and conversion from and to BlackJAX."""

from gadabout.api.blackjax import from_blackjax, to_blackjax
from gadabout.api.predictive import posterior_predictive, predictive
from gadabout.api.result import RunStopped
from gadabout.api.resume import resume
from gadabout.api.sample import sample

__all__ = ["RunStopped", "from_blackjax", "posterior_predictive", "predictive", "resume", "sample", "to_blackjax"]
