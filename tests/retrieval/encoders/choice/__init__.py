"""Well-known models, and languages of texts."""
