"""Commands of `slimdex bench`, by what they run over, and `slimdex plan`.

Files import only what is above them: shared, over_sets, over_models, over_indexes,
over_clusters, results, planning.
"""
