"""mteb's retrieval tasks answered by slimdex, and a folder with labels as such a task."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from datasets import Dataset
from mteb.abstasks import AbsTaskRetrieval
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.models import ModelMeta
from mteb.models.model_meta import ScoringFunction

from slimdex.errors import InputError
from slimdex.indexes.settings import Settings
from slimdex.system.atomic_files import temporary_parent

from ..collection import Collection
from ..documents import Document
from ..encoders.adapters import as_encoder
from ..encoders.opening import open_encoder
from ..encoders.transformer import TransformerEncoder
from ..quality.evaluation import DEPTH, merged_ranking, rank_documents
from ..quality.labels import read_qrels
from ..quality.query_pools import encode_with_progress
from ..sources.source import open_source, read_pairs


class SlimdexSearch:
    """slimdex from texts to documents, as mteb's `SearchProtocol`.

    Each corpus becomes an index, as by `slimdex build`. A query gets 100 documents, those that
    `slimdex eval` measures: mteb requests 1,000, for which a search would compare more of them.

    Parameters
    ----------
    encoder : the folder or name of a model, or an encoder; see `Collection.create`.
    settings, lexical : see `Collection.create`.
    folder : where to keep the indexes, one per task, split and subset; by default temporary.
    """

    _temporary: TemporaryDirectory[str] | None = None
    _collection: Collection | None = None

    def __init__(
        self,
        encoder: Any = None,
        settings: Settings | None = None,
        *,
        lexical: bool = True,
        folder: str | Path | None = None,
    ) -> None:
        if isinstance(encoder, str | Path):
            encoder = open_encoder(str(encoder))
        self._encoder = TransformerEncoder() if encoder is None else as_encoder(encoder)
        self._settings = settings or Settings()
        self._lexical = lexical
        self._folder = folder

        # mteb stores results with other settings apart.
        spec = self._encoder.spec()
        model = spec.get("model") or spec.get("name") or spec["type"]
        experiment = {**self._settings.as_dict(), "lexical": lexical}
        experiment["precision"] = spec.get("precision")
        facts = {
            "name": f"slimdex/{Path(model).name}",
            "revision": spec.get("revision") or spec.get("sha256"),
            "embed_dim": self._encoder.dim,
            "similarity_fn_name": ScoringFunction.COSINE,
            "experiment_kwargs": experiment,
        }
        self.mteb_model_meta = ModelMeta.create_empty(facts)

    def index(
        self,
        corpus: Any,
        *,
        task_metadata: Any,
        hf_split: str,
        hf_subset: str,
        encode_kwargs: Any = None,
        num_proc: int | None = None,
    ) -> None:
        """Index a corpus: rows with "id", "text" and optionally "title".

        `encode_kwargs` and `num_proc`, of mteb's protocol, have no effect: slimdex chooses batches.

        Raises `InputError` if a text is missing, or the index's folder exists.
        """
        self.close()
        folder = self._folder
        if folder is None:
            self._temporary = TemporaryDirectory(prefix="slimdex-", dir=temporary_parent())
            folder = self._temporary.name
        self._collection = Collection.create(
            Path(folder) / f"{task_metadata.name}-{hf_split}-{hf_subset}.index",
            self._encoder,
            self._settings,
            lexical=self._lexical,
        )
        documents = (
            Document(str(row["id"]), row.get("text"), row.get("title") or "") for row in corpus
        )
        self._collection.add(documents, refit="never")

    def search(
        self,
        queries: Any,
        *,
        top_k: int,
        top_ranked: Mapping[str, list[str]] | None = None,
        task_metadata: Any = None,
        hf_split: str = "",
        hf_subset: str = "",
        encode_kwargs: Any = None,
        num_proc: int | None = None,
    ) -> dict[str, dict[str, float]]:
        """Find the documents closest to each query, in the corpus that `index` was called with.

        The arguments after `top_ranked`, of mteb's protocol, have no effect.

        Returns query id -> document id -> score. Raises `InputError` for lists of documents to
        rerank, which no index searches.
        """
        if top_ranked is not None:
            raise InputError("top_ranked: lists to rerank; expected a task that searches a corpus")
        assert self._collection is not None
        index = self._collection.index
        texts = []
        for row in queries:
            instruction = row.get("instruction")
            texts.append(f"{row['text']} {instruction}" if instruction else row["text"])
        vectors = encode_with_progress(self._encoder, texts)

        # mteb may drop a document with the query's own id from the answer.
        ids = index.read(lambda snapshot: snapshot.store.ids_by_row())
        more = int(not set(ids).isdisjoint(queries["id"]))
        answers = {}
        for name, text, vector in zip(queries["id"], texts, vectors, strict=True):
            search = partial(rank_documents, index, text, vector[None])
            scores, rows = merged_ranking(search, min(top_k, DEPTH + more), more)
            answers[name] = dict(zip([ids[row] for row in rows], scores, strict=True))
        return answers

    def close(self) -> None:
        """Close the last index, and delete it if it is temporary."""
        if self._collection is not None:
            self._collection.close()
        if self._temporary is not None:
            self._temporary.cleanup()


def folder_task(folder: str | Path) -> AbsTaskRetrieval:
    """Create a task from a folder with corpus.jsonl, queries.jsonl and qrels/test.tsv, offline.

    The task has the folder's name. Loading it raises `InputError` if a file is invalid.
    """
    source = Path(folder).resolve()

    class FolderTask(AbsTaskRetrieval):
        metadata = TaskMetadata(
            name=source.name,
            description=f"Retrieval in the folder {source.name}",
            dataset={"path": str(source), "revision": "local"},
            type="Retrieval",
            category="t2t",
            eval_splits=["test"],
            eval_langs=["eng-Latn"],
            main_score="ndcg_at_10",
        )

        def load_data(self, num_proc: int | None = None, **_: Any) -> None:
            documents = chain.from_iterable(open_source(str(source)).batches())
            corpus = [{"id": d.id, "title": d.title, "text": d.text} for d in documents]
            queries = [{"id": id, "text": text} for id, text in read_pairs(str(source))]
            data = {
                "corpus": Dataset.from_list(corpus),
                "queries": Dataset.from_list(queries),
                "relevant_docs": read_qrels(source / "qrels" / "test.tsv"),
                "top_ranked": None,
            }
            self.dataset = {"default": {"test": data}}
            self.data_loaded = True

    task: AbsTaskRetrieval = FolderTask()
    return task
