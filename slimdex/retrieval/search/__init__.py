"""Search: requests, dense, lexical and fused search, and excerpts."""
