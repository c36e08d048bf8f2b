"""Measurements beside other programs, made in one run on one machine and told as ratios."""
