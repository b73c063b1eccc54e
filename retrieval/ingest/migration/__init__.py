"""Migration: queries mapped into an index's space, or all documents encoded again.

Files import only what is above them: mapping, replacing.
"""
