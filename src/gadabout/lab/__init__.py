"""The laboratory: the paper's experiments, measurements beside other samplers, and the evidence."""
