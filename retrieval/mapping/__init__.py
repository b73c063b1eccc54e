"""A map of the documents: a page with a point for each, placed by meaning, in named clusters.

Files import only what is above them: placing, naming, colouring, document_map.
"""
