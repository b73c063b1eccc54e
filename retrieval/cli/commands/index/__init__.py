"""Commands about an index: its cost, its quality, its settings and its integrity.

Files import only what is above them: info, health, tune, distill, evaluate, reduce, words, verify,
repair.
"""
