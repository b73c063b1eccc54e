"""Data of experiments: data sets, cached vectors, and measures of answers.

Files import only what is above them: local_encoder, cached_vectors, mixed_folder, datasets, pairs,
paired_measures.
"""
