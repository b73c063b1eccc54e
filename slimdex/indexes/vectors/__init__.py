"""Vectors on disk: rows of float16, int8 or int4, appended and read at random."""
