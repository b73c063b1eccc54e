"""Haystack's document store and retriever over an index of slimdex's."""

from .retrieval.integrations.haystack_store import SlimdexDocumentStore as SlimdexDocumentStore
from .retrieval.integrations.haystack_store import SlimdexRetriever as SlimdexRetriever

__all__ = ["SlimdexDocumentStore", "SlimdexRetriever"]
