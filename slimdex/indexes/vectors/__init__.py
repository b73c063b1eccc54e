"""Vectors on disk: rows as float16 or int8, appended and read at random."""
