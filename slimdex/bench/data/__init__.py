"""Data of experiments: data sets, cached vectors, and measures of answers."""
