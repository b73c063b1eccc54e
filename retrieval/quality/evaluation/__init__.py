"""Evaluation: an index against labels and exact search, and what each step loses.

Files import only what is above them: deep_search, exact_search, measures,
ablation.
"""
