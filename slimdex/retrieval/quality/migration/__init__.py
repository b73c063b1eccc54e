"""Migration: compare an index's encoder with another one, and change it."""
