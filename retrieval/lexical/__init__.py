"""Lexical search: BM25 over the words of documents, and its fusion with semantic search.

Files import only what is above them: tokens, segment_folder, word_index, weighting,
fusion.
"""
