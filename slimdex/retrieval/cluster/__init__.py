"""Cluster: building on Ray and serving from Milvus, if one machine is not enough."""
