"""Data sets: documents, queries and labels, and their vectors, kept on disk by their contents.

None of slimdex's defaults was chosen on NFCorpus, FiQA2018, SCIDOCS or TRECCOVID, sets of BEIR.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import InputError
from slimdex.indexes.arrays import Matrix, Rows, batches
from slimdex.indexes.vectors.row_formats import FLOAT32
from slimdex.indexes.vectors.vector_file import VectorFile
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.encoders.base import Encoder, encode_queries, is_address
from slimdex.retrieval.encoders.opening import open_encoder
from slimdex.retrieval.quality.labels import Qrels, per_query, read_qrels
from slimdex.retrieval.sources.source import open_source, read_pairs
from slimdex.system.atomic_files import temporary_parent
from slimdex.system.extras import install_command
from slimdex.system.locks import FileLock
from slimdex.system.progress import progress

from .identifiers import identifier_questions

if TYPE_CHECKING:
    from slimdex.retrieval.encoders.transformer import TransformerEncoder
    from slimdex.retrieval.encoders.word_vectors.static_encoder import StaticEncoder

    LocalEncoder = TransformerEncoder | StaticEncoder
    """An encoder whose speed and precision experiments can state."""

SPLIT = "test"
SUBSET = "default"
"""mteb's names for the part of BEIR's sets that has labels."""
DOCSTRINGS = "docstrings"
"""Set available everywhere: first paragraphs of Python's docstrings are queries for the rest."""
IDENTIFIERS = "-identifiers"
"""End of the name of a set whose queries ask for the identifiers in another set's documents."""
QUICK_DOCUMENTS = 1500
QUICK_QUERIES = 200
SHORTEST_REST = 80
"""Minimum number of characters in the rest of a docstring."""
WRITTEN_AT_ONCE = 1024
"""Texts encoded between two writes: at most this many are encoded again after a crash."""
PerQuery = NDArray[np.float64]
"""A measure of each query (q,)."""


@dataclass(frozen=True)
class Dataset:
    """A collection with judged queries.

    Attributes
    ----------
    ids, texts : of the documents, in the order of their rows.
    query_ids, query_texts : of the queries that have labels.
    self_rows : (queries,) row of the document that is the query itself, which does not count as an
        answer; -1 if there is none.
    """

    name: str
    ids: Sequence[str]
    texts: Sequence[str]
    query_ids: Sequence[str]
    query_texts: Sequence[str]
    qrels: Qrels
    self_rows: Rows

    @classmethod
    def of(
        cls,
        name: str,
        documents: Sequence[Document],
        queries: Sequence[tuple[str, str]],
        qrels: Mapping[str, Mapping[str, int]],
    ) -> Self:
        """Create a data set of the labelled queries, some of which may be documents."""
        judged = [(id, text) for id, text in queries if id in qrels]
        if not judged or not documents:
            raise InputError(
                f"{name}: {len(documents)} documents, {len(judged)} of {len(queries)} queries "
                "with a label; expected some of each"
            )

        # A query is itself a document if both have the same id and text.
        rows = {document.id: row for row, document in enumerate(documents)}
        query_ids = []
        query_texts = []
        self_rows = []
        for id, text in judged:
            row = rows.get(id, -1)
            is_document = row >= 0 and documents[row].text == text
            query_ids.append(id)
            query_texts.append(text)
            self_rows.append(row if is_document else -1)
        return cls(
            name=name,
            ids=[document.id for document in documents],
            texts=[document.content for document in documents],
            query_ids=query_ids,
            query_texts=query_texts,
            qrels={id: dict(qrels[id]) for id in query_ids},
            self_rows=np.array(self_rows, dtype=np.int64),
        )

    def asking(self, queries: int, order: Sequence[int] | None = None) -> Self:
        """Return the same documents with the first `queries` queries.

        `order` lists the numbers of queries in the order to take them; default: unchanged.
        """
        numbers = range(len(self.query_ids)) if order is None else order
        chosen = numbers[:queries]
        return replace(
            self,
            query_ids=[self.query_ids[i] for i in chosen],
            query_texts=[self.query_texts[i] for i in chosen],
            self_rows=self.self_rows[list(chosen)],
        )

    def measures(self, scores: Matrix, rows: Rows) -> dict[str, PerQuery]:
        """Compute `per_query` measures of answers (queries, depth), best first."""
        return per_query(scores, rows, self.query_ids, self.ids, self.qrels)

    def quick(self) -> Self:
        """Return a small part: some queries, their answers, and further documents."""
        # Keep the answers, and the documents that are queries.
        asking = self.asking(QUICK_QUERIES)
        wanted = set[str]()
        for query in asking.query_ids:
            wanted.update(self.qrels[query])
        for row in asking.self_rows[asking.self_rows >= 0]:
            wanted.add(self.ids[row])

        # Fill the set with the first of the other documents.
        others = [id for id in self.ids if id not in wanted]
        chosen = wanted.union(others[: max(QUICK_DOCUMENTS - len(wanted), 0)])
        rows = [row for row, id in enumerate(self.ids) if id in chosen]
        new_rows = {row: i for i, row in enumerate(rows)}
        new_rows[-1] = -1  # for queries that are no documents
        return replace(
            asking,
            name=f"{self.name} (quick)",
            ids=[self.ids[row] for row in rows],
            texts=[self.texts[row] for row in rows],
            self_rows=np.array([new_rows[row] for row in asking.self_rows.tolist()]),
        )


def load_dataset(name: str, data: Path | None) -> Dataset:
    """Load `docstrings`, a folder in BEIR's layout inside `data`, or a task of mteb.

    A task of mteb is loaded only without `data`. With `-identifiers` after the name,
    `identifier_questions` replace the set's queries.

    Raises `InputError` if there is no such set, or a file of it is missing.
    """
    if name.endswith(IDENTIFIERS):
        base = load_dataset(name.removesuffix(IDENTIFIERS), data)
        documents = [*map(Document, base.ids, base.texts)]
        questions = []
        labels = {}
        for id, text, answer in identifier_questions(documents):
            questions.append((id, text))
            labels[id] = {answer: 1}
        return Dataset.of(name, documents, questions, labels)
    if name == DOCSTRINGS:
        return _docstrings()

    # Read a folder if there is one, otherwise a task of mteb.
    folder = (data or Path()) / name
    if data is None and not folder.is_dir():
        return public_set(name)
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; expected a set in BEIR's layout")
    documents = [*chain.from_iterable(open_source(str(folder)).batches())]
    queries = read_pairs(str(folder / "queries.jsonl"))
    return Dataset.of(folder.name, documents, queries, read_qrels(folder / "qrels" / "test.tsv"))


def public_set(name: str) -> Dataset:
    """Load a public set from the hub or its cache.

    Raises `InputError` if mteb or the network is missing, or the name is not a retrieval task.
    """
    try:
        import mteb  # of the extra `mteb`; loads torch
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


def set_of_task(task: Any) -> Dataset:
    """Load the test split of a retrieval task of mteb."""
    name = task.metadata.name
    is_retrieval = hasattr(task, "ignore_identical_ids")  # only such tasks have it
    if not is_retrieval or task.metadata.is_multilingual:
        raise InputError(f"{name}: {task.metadata.type} in mteb; expected retrieval in a language")
    try:
        task.load_data()
    except (OSError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"{name}: mteb can't load it ({reason}); expected a network, or its folder in BEIR's "
            "layout in --data"
        ) from error

    # Convert mteb's rows.
    data = task.dataset[SUBSET][SPLIT]
    documents = []
    for row in data["corpus"]:
        documents.append(Document(row["id"], row["text"], title=row.get("title") or ""))
    queries = [(row["id"], row["text"]) for row in data["queries"]]
    return Dataset.of(name, documents, queries, data["relevant_docs"])


def names_of(sets: str, data: Path | None) -> list[str]:
    """Parse names of sets separated by commas, or `all` in `data`."""
    if sets != "all":
        return sets.split(",")
    names = sorted(path.parent.name for path in (data or Path()).glob("*/corpus.jsonl"))
    if not names:
        raise InputError(f"{data or Path()}: no sets in BEIR's layout; expected */corpus.jsonl")
    return names


def every_docstring(queries: int) -> Dataset:
    """Return all docstrings of `slimdex demo`, with queries for some of them.

    The queries are first paragraphs, `queries` of them drawn at random.
    """
    dataset = _docstrings(every=True)
    order = np.random.default_rng(0).permutation(len(dataset.query_ids))
    return dataset.asking(queries, order.tolist())


def _docstrings(*, every: bool = False) -> Dataset:
    """Return docstrings of two paragraphs or more: the first one is a query for the others.

    With `every` there are also other docstrings, which no query asks for.
    """
    documents = []
    queries = []
    qrels = {}
    for batch in open_source("python:").batches():
        for document in batch:
            summary, _, rest = document.text.partition("\n\n")
            if len(rest) >= SHORTEST_REST:
                documents.append(Document(document.id, rest.strip()))
                queries.append((f"q:{document.id}", " ".join(summary.split())))
                qrels[f"q:{document.id}"] = {document.id: 1}
            elif every:
                documents.append(Document(document.id, document.text))
    return Dataset.of(DOCSTRINGS, documents, queries, qrels)


def open_local(
    model: str,
    *,
    pooling: str | None = None,
    max_length: int | None = None,
    precision: str = "auto",
) -> LocalEncoder:
    """Open a model's encoder like `open_encoder`; raise `InputError` for one in a server."""
    if is_address(model):
        raise InputError(f"{model}: expected a model on this machine to measure")
    encoder = open_encoder(model, pooling=pooling, max_length=max_length, precision=precision)
    return cast("LocalEncoder", encoder)


def encode_texts(
    encoder: Encoder,
    texts: Sequence[str],
    folder: Path,
    stage: str = "encoding",
    *,
    queries: bool = False,
) -> VectorFile:
    """Encode texts to vectors (n, dim), float32, in a file named after encoder and texts.

    Existing vectors are kept; an interrupted run continues at the end of its file. Another process
    that needs the same ones waits for them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    encode = partial(encode_queries, encoder) if queries else encoder.encode
    path = folder / f"{content_key(encoder, texts, queries=queries)}.f32"
    row_bytes = encoder.dim * np.dtype(np.float32).itemsize
    with FileLock(folder, path.stem).hold(inf):
        # Count whole rows only, since a crash may have cut the last one short.
        rows = path.stat().st_size // row_bytes if path.exists() else 0
        file = VectorFile(path, encoder.dim, rows, FLOAT32)
        for part in batches(len(texts), WRITTEN_AT_ONCE, len(file)):
            file.append(encode(texts[part]))
            progress(stage, part.stop, len(texts))
    return file


@contextmanager
def temporary_collection(
    dataset: Dataset, vectors: VectorFile, encoder: Encoder, *, lexical: bool = True
) -> Iterator[Collection]:
    """Index the documents of a set by their vectors in a temporary folder, without passages."""
    with TemporaryDirectory(prefix="slimdex-bench-", dir=temporary_parent()) as folder:
        path = Path(folder) / "set.index"
        with Collection.create(path, encoder, passages="off", lexical=lexical) as collection:
            rows = vectors.take(np.arange(len(vectors)))
            collection.add(map(Document, dataset.ids, dataset.texts), vectors=rows)
            yield collection


def content_key(encoder: Encoder, texts: Sequence[str], *, queries: bool = False) -> str:
    """Return a shortened SHA-256 of everything that determines the vectors of texts.

    If the weights have a checksum, the name of the model does not matter.
    """
    spec = encoder.spec()
    if spec.get("sha256"):
        spec.pop("model")
    if "prompts" in spec:
        spec["prompted as"] = "query" if queries else "document"
    digest = hashlib.sha256(json.dumps([spec, encoder.dim], sort_keys=True).encode())
    # Include the lengths: texts divided differently would have the same bytes.
    for text in texts:
        data = text.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:32]


@dataclass(frozen=True)
class Task:
    """A dataset encoded by a model."""

    dataset: Dataset
    model: str
    vectors: VectorFile
    queries: VectorFile

    @classmethod
    def encode(cls, dataset: Dataset, encoder: LocalEncoder, cache: Path) -> Task:
        """Encode texts that are not in the cache yet."""
        model = Path(encoder.spec()["model"]).name
        if encoder.precision != "fp32":
            model += f" ({encoder.precision})"
        vectors = encode_texts(encoder, dataset.texts, cache, "encoding documents")
        texts = dataset.query_texts
        queries = encode_texts(encoder, texts, cache, "encoding queries", queries=True)
        return cls(dataset, model, vectors, queries)

    def facts(self) -> dict[str, Any]:
        """Columns of every row of this task, with the name of its vectors."""
        return {
            "set": self.dataset.name,
            "model": self.model,
            "dim": self.vectors.dim,
            "documents": len(self.vectors),
            "queries": len(self.queries),
            "vectors": self.vectors.path.stem,
        }
