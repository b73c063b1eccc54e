"""Experiments on `indexes` and `retrieval`; neither imports this package."""
