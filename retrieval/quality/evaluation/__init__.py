"""Evaluation: an index against labels and exact search, and what each step loses.

Files import only what is above them: labels, exact_search, deep_search, measures, ablation.
"""
