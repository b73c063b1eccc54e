"""Codes: a few bytes for each row, and the FAISS indexes that search them.

Files import only what is above them: kinds, score_aware, vector_index, faiss_calls, faiss_index.
"""
