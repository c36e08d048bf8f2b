"""The laboratory: the paper's experiments, comparisons with other samplers, and the verification suite."""
