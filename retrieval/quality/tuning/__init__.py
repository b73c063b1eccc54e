"""Tuning: measure settings and choose those that reach a target.

Files import only what is above them: metric_choice, hybrid_choice, targets, settings_search, tuner.
"""
