"""Vega-Lite charts, the same in the page and as PNG."""
