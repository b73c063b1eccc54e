"""Numbers: reduce rows, keep them in a few bytes each, find the nearest.

This package has never heard of text, DuckDB or a model. Files import only files above them:
errors, forks, json_text, progress, locks, arrays, ranking, tensors, moments, reducer, linear,
autoencoder, kinds, vector_index, vector_file, rescorer, metric, costs, filtered, reduced_index,
catalog, settings.
"""

import os

from .forks import use_one_thread

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=use_one_thread)
