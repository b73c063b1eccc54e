"""Vectors on disk: rows as int8 or float16, appended and read at random."""
