"""Experiments, each of which writes rows of results."""
