"""A run as one page of HTML."""

from gadabout.reporting.page import report

__all__ = ["report"]
