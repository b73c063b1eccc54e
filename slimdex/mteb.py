"""slimdex in mteb's evaluations: a search of texts, and a backend for vectors."""

from .retrieval.integrations.mteb_search import (
    Sizes,
    SlimdexIndex,
    SlimdexSearch,
    SlimdexSearchWrapper,
)
from .retrieval.integrations.mteb_tasks import folder_task

__all__ = ["Sizes", "SlimdexIndex", "SlimdexSearch", "SlimdexSearchWrapper", "folder_task"]
