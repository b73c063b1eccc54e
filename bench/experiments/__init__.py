"""Experiments, each of which writes rows of results.

Files import only what is above them: measured_methods, contenders, encoding_study,
similarity_study, retrieval_study, peer_study, search_study, cold_study, index_study, tuning_study,
serve_study, hybrid_study.
"""
