"""Haystack's document store and retriever over an index of slimdex's."""

from .retrieval.integrations.haystack_store import SlimdexDocumentStore, SlimdexRetriever

__all__ = ["SlimdexDocumentStore", "SlimdexRetriever"]
