"""Commands about an index: its cost, its quality, its settings and its integrity.

Files import only what is above them: info, health, tune, models, migrate, distill, evaluate,
reduce, words, verify, repair, doctor.
"""
