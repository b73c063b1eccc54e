"""Search: candidates by codes, rescored by full vectors, with or without a filter.

Files import only what is above them: rescoring, filtered_search, reduced_index, ablation.
"""
