"""Trials: queries made of the documents, and how many of their nearest rows an index finds.

Files import only what is above them: recall_trials, query_pools.
"""
