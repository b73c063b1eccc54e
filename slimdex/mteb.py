"""slimdex in mteb's evaluations: a search of texts, and a folder as a task."""

from .retrieval.integrations.mteb_search import SlimdexSearch, folder_task

__all__ = ["SlimdexSearch", "folder_task"]
