"""Posteriors with gradients estimated from batches of rows: densities, sources of batches, and step sizes."""

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
