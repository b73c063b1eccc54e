"""Trials: queries made of the documents, and how many of their nearest rows an index finds."""
