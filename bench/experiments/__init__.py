"""Experiments: each measures something and leaves rows of results.

Files import only what is above them: paired_measures, measured_methods, encoding_study,
similarity_study, entailment_study, reduction_study, traffic, update_study, retrieval_study,
filter_study, milvus_study, stored_study, rate_distortion, product_codes, codes_study, peer_study,
search_study, cold_study, index_study, tuning_subject, growth_study, tuning_study, passages_study,
chance_study, ray_study, serve_study, hybrid_study.
"""
