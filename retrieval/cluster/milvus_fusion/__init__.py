"""Search of what was pushed: candidates of Milvus, rescored, and fused with its BM25.

Files import only what is above them: pushed_rows, rescoring.
"""
