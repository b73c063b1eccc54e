"""Conditions on documents: allowed SQL expressions and their time limit.

Files import only what is above them: allowed, checks, conditions, parsing.
"""
