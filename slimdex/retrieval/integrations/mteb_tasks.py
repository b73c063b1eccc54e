"""A folder with labels, in BEIR's layout, as a retrieval task of mteb."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

from datasets import Dataset
from mteb.abstasks import AbsTaskRetrieval
from mteb.abstasks.task_metadata import TaskMetadata

from slimdex.errors import InputError

from ..quality.labels import read_qrels
from ..sources.source import open_source, read_pairs

SUBSET = "default"
"""mteb's name of the only subset of a task."""


class FolderTask(AbsTaskRetrieval):
    """Base of the classes that `folder_task` creates, from which mteb reads a task's metadata."""

    source: Path
    dataset: Any
    data_loaded: bool

    def load_data(self, num_proc: int | None = None, *, timer: Any = None) -> None:
        """Read documents, queries and labels; mteb's arguments have no effect."""
        if self.data_loaded:
            return
        corpus = []
        for document in chain.from_iterable(open_source(str(self.source)).batches()):
            corpus.append({"id": document.id, "title": document.title, "text": document.text})
        queries = [{"id": id, "text": text} for id, text in read_pairs(str(self.source))]

        # mteb keeps documents and queries with each split.
        self.dataset = {SUBSET: {}}
        for split in self.metadata.eval_splits:
            self.dataset[SUBSET][split] = {
                "corpus": Dataset.from_list(corpus),
                "queries": Dataset.from_list(queries),
                "relevant_docs": read_qrels(self.source / "qrels" / f"{split}.tsv"),
                "top_ranked": None,
            }
        self.data_loaded = True


def folder_task(
    folder: str | Path,
    name: str | None = None,
    *,
    split: str = "test",
    drop_self: bool = False,
    language: str = "eng-Latn",
) -> FolderTask:
    """Create a task from a folder with corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv, offline.

    Parameters
    ----------
    name : of the task in results; by default the folder's.
    drop_self : remove a document with the query's own id from its answers.
    language : of the texts, in mteb's notation.

    Raises `InputError` if the folder does not exist or, on loading, if a file is invalid.
    """
    source = Path(folder)
    if not (source / "corpus.jsonl").is_file():
        raise InputError(f"{folder}: no corpus.jsonl there; expected a folder in BEIR's layout")
    metadata = TaskMetadata(
        name=name or source.resolve().name,
        description=f"Retrieval in the folder {source.resolve().name}",
        dataset={"path": str(source), "revision": "local"},
        type="Retrieval",
        category="t2t",
        eval_splits=[split],
        eval_langs=[language],
        main_score="ndcg_at_10",
    )
    attributes = {"metadata": metadata, "source": source, "ignore_identical_ids": drop_self}
    task: FolderTask = type("FolderTask", (FolderTask,), attributes)()
    return task
