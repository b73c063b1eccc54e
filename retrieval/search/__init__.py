"""Search: requests, dense, lexical and fused search, and excerpts.

Files import only what is above them: reranking, request, searchable, document_search, dense, fused,
excerpts, snapshot_reader, random_baseline, related, narrowing.
"""
