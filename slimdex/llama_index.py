"""LlamaIndex's vector store over an index of slimdex's."""

from .retrieval.integrations.llama_index_store import SlimdexVectorStore as SlimdexVectorStore

__all__ = ["SlimdexVectorStore"]
