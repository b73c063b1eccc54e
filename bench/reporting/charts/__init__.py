"""Vega-Lite charts, the same in the page and as PNG.

Files import only what is above them: panels, search, similarity.
"""
