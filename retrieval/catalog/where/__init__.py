"""Conditions on documents: which SQL expressions are allowed, and for how long one may run.

Files import only what is above them: vocabulary, condition, parsing.
"""
