"""Codes: a few bytes for each row, and the FAISS indexes that search them."""
