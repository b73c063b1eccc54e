"""Cluster: building on Ray and serving from Milvus, if one machine is not enough.

Files import only what is above them: ray_workers, milvus_server, milvus_columns, milvus_words,
milvus_filter, milvus_schema, milvus_settings, milvus_lease, milvus_rows, milvus_push,
milvus_fusion, milvus_search, milvus_verification.
"""
