"""Ensembles: chains in one batch of rows, moved and adapted together in double precision by NumPy alone."""
