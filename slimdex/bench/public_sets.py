"""Public sets with labels: retrieval tasks of mteb, which downloads them.

None of slimdex's defaults was chosen on NFCorpus, FiQA2018, SCIDOCS or TRECCOVID, sets of BEIR.
"""

from __future__ import annotations

from typing import Any

from slimdex.errors import InputError
from slimdex.retrieval.documents import Document
from slimdex.retrieval.quality.labels import Qrels
from slimdex.system.extras import install_command

Parts = tuple[str, list[Document], list[tuple[str, str]], Qrels]
"""Name, documents, queries (id, text) and labels of a set."""
SPLIT, SUBSET = "test", "default"
"""mteb's names for the part of BEIR's sets that has labels."""


def public_set(name: str) -> Parts:
    """Load the parts of a public set from the hub or its cache.

    Raises `InputError` if mteb or the network is missing, or the name is not a retrieval task.
    """
    try:
        import mteb
    except ModuleNotFoundError as error:
        raise InputError(f"{name}: a public set needs mteb; {install_command('mteb')}") from error
    try:
        task: Any = mteb.get_task(name)
    except KeyError as error:
        raise InputError(
            f"{name}: no task of mteb; expected one such as NFCorpus, FiQA2018, SCIDOCS, "
            "TRECCOVID, or --data with a folder in BEIR's layout"
        ) from error
    return set_of_task(task)


def set_of_task(task: Any) -> Parts:
    """Load the test split of a retrieval task of mteb."""
    name = task.metadata.name
    if not hasattr(task, "ignore_identical_ids") or task.metadata.is_multilingual:
        raise InputError(f"{name}: {task.metadata.type} in mteb; expected retrieval in a language")
    try:
        task.load_data()
    except (OSError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"{name}: mteb can't load it ({reason}); expected a network, or its folder in BEIR's "
            "layout in --data"
        ) from error
    data = task.dataset[SUBSET][SPLIT]
    documents = [
        Document(row["id"], row["text"], title=row.get("title") or "") for row in data["corpus"]
    ]
    queries = [(row["id"], row["text"]) for row in data["queries"]]
    return name, documents, queries, data["relevant_docs"]
