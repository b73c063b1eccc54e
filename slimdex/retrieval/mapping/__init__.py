"""A map of the documents: a page with a point for each, placed by meaning, in named clusters."""
