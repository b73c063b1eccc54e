"""Data: what experiments are made on, encoded once and kept, and the judge of answers.

Files import only what is above them: cached_vectors, datasets, pairs, paired_measures.
"""
