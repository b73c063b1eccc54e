"""Vectors on disk: rows as float16 or int8, appended and read at random.

Files import only what is above them: half_precision, int8_rows, vector_file.
"""
