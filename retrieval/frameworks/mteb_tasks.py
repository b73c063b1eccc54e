"""A folder with labels, as BEIR lays them out, as a retrieval task of mteb's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from datasets import Dataset
from mteb.abstasks import AbsTaskRetrieval
from mteb.abstasks.task_metadata import TaskMetadata

from slimdex.indexes.errors import InputError

from ..evaluation import read_qrels
from ..sources.source import open_source, read_pairs

SUBSET = "default"
"""What mteb calls the only subset of a task."""


class FolderTask(AbsTaskRetrieval):
    """What `folder_task` makes a class of its own of: mteb takes a task's metadata from there."""

    source: Path
    dataset: Any
    data_loaded: bool

    def load_data(self, num_proc: int | None = None, **kwargs: Any) -> None:
        """Read documents, queries and labels."""
        if self.data_loaded:
            return
        corpus = [
            {"id": document.id, "title": document.title, "text": document.text}
            for batch in open_source(str(self.source)).batches()
            for document in batch
        ]
        queries = [{"id": id, "text": text} for id, text in read_pairs(str(self.source))]
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
    """A task of a folder with corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv; no hub is asked.

    Parameters
    ----------
    name : of the task in results; by default the folder's.
    drop_self : drop a document with the query's own id from its answers.
    language : of the texts, as mteb writes it.

    Raises
    ------
    InputError
        If there is no such folder; when it is loaded, if a file is not as it should be.
    """
    source = Path(folder)
    if not (source / "corpus.jsonl").is_file():
        raise InputError(f"{folder}: no corpus.jsonl there; expected a folder as BEIR has it")
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
    own = {"metadata": metadata, "source": source, "ignore_identical_ids": drop_self}
    task: FolderTask = type("FolderTask", (FolderTask,), own)()
    return task
