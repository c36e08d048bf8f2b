"""Measurements beside other programs, made in one run on one machine and told as ratios."""

OURS = "gadabout"
"""the peer that is this package's default, and how the names of its other samplers begin"""
