"""Choice of an encoder: well-known models, and the languages of texts."""
