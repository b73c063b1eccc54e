"""Figures: every number in README and docs, linked to a row, a published source, code or a test.

`python -m tests.figures` lists the numbers that nothing supports.
"""
