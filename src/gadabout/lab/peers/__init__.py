"""Comparisons with other programs, made in one run on one machine and reported as ratios."""

OURS = "gadabout"
"""name of the peer that is this package's default, and prefix of the names of its other samplers"""
