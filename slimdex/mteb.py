"""slimdex in mteb's evaluations: a search of texts, and a backend for vectors."""

from .retrieval.integrations.mteb_search import Sizes as Sizes
from .retrieval.integrations.mteb_search import SlimdexIndex as SlimdexIndex
from .retrieval.integrations.mteb_search import SlimdexSearch as SlimdexSearch
from .retrieval.integrations.mteb_search import SlimdexSearchWrapper as SlimdexSearchWrapper
from .retrieval.integrations.mteb_tasks import folder_task as folder_task

__all__ = ["Sizes", "SlimdexIndex", "SlimdexSearch", "SlimdexSearchWrapper", "folder_task"]
