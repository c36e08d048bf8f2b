"""Posteriors over more rows than one gradient should touch: batches, where they come from, and sizes of steps."""

from gadabout.minibatch.density import Batch, Batches, Control, EstimatedDensity
from gadabout.minibatch.feed import AbstractFeed, IteratorFeed, RowFeed
from gadabout.minibatch.posterior import Minibatches
from gadabout.minibatch.step_sizes import StepSizes, check_step_sizes, constant, polynomial

__all__ = [
    "AbstractFeed",
    "Batch",
    "Batches",
    "Control",
    "EstimatedDensity",
    "IteratorFeed",
    "Minibatches",
    "RowFeed",
    "StepSizes",
    "check_step_sizes",
    "constant",
    "polynomial",
]
