"""Tuning: measure settings and choose those that reach a target."""
