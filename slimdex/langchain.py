"""LangChain's vector store over an index of slimdex's."""

from .retrieval.integrations.langchain_store import SlimdexVectorStore

__all__ = ["SlimdexVectorStore"]
