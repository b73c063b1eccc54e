"""Search of what was pushed: candidates of Milvus, rescored, and fused with its BM25."""
