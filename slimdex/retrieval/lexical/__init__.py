"""Lexical search: BM25 over the words of documents, and its fusion with semantic search."""
