"""Tables: declared columns over the rows of experiments.

Files import only what is above them: table, retrieval, lists, studies, code, migration, similarity,
settled, papers.
"""
