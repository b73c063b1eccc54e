"""Migration: compare an index's encoder with another one, and change it.

Files import only what is above them: options, samples, migrator.
"""
