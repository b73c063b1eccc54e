"""LlamaIndex's vector store over an index of slimdex's."""

from .retrieval.integrations.llama_index_store import SlimdexVectorStore

__all__ = ["SlimdexVectorStore"]
