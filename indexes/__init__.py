"""Vector search: reduce rows, compress each to a few bytes, find the nearest.

Knows nothing of text, DuckDB or encoders.
Files import only what is above them: errors, bounds, progress, workers, forks, json_text, choices,
kinds, locks, arrays, half_precision, int8_rows, tensors, ranking, search_costs, timing,
vector_file, moments, score_aware, vector_index, faiss_calls, faiss_index, reducer, linear,
training_rows, autoencoder, flow_steps, flow, rescoring, registry, filtered_search, settings,
reduced_index, layers, drift, ablation.
"""

import os

from .forks import use_one_thread

if __name__ != "slimdex.indexes":
    raise ImportError("indexes is a folder of slimdex: import slimdex.indexes")

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=use_one_thread)
