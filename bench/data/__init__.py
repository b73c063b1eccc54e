"""Data: what experiments are made on, encoded once and kept.

Files import only what is above them: cached_vectors, datasets, python_pages, pairs,
layer_vectors.
"""
