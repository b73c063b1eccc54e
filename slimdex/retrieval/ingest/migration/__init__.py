"""Migration: queries mapped into an index's space, or all documents encoded again."""
