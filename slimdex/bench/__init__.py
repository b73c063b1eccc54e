"""Experiments on both packages, imported by neither."""
