"""Search: a request, the ways to its nearest rows, and what is shown of them.

Files import only what is above them: reranking, request, searchable, document_search, dense, fused,
excerpts.
"""
