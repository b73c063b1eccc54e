"""mteb's retrieval tasks answered by collections: of texts, or of the vectors of an mteb model.

Answers are those that `slimdex eval` measures: mteb requests 1,000 documents, and a search would
rescore more than these; users request ten. The documents beyond the hundredth follow, ranked by
their codes.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from mteb.models import ModelMeta, SearchEncoderWrapper
from mteb.models.model_implementations import MODEL_REGISTRY
from mteb.models.model_meta import ScoringFunction

from slimdex.errors import InputError
from slimdex.indexes.arrays import LARGEST, Matrix, Rows, as_matrix, normalize_rows
from slimdex.indexes.settings import Settings
from slimdex.system.atomic_files import STORED_ENDINGS, temporary_parent

from ..collection import Collection
from ..documents import Document
from ..encoders.adapters import GivenEncoder, as_encoder
from ..encoders.base import AUTO, OFF, Encoder, passage_tokens
from ..encoders.models import PACKAGED, is_hub_id
from ..encoders.opening import open_encoder
from ..encoders.transformer import TransformerEncoder
from ..quality.evaluation import DEPTH, merged_ranking, nearest_of, rank_documents
from ..quality.query_pools import encode_with_progress
from ..search.answer import nearest_documents
from ..search.request import SearchRequest
from ..sources.given_vectors import as_vectors, check_vectors

Answers = dict[str, dict[str, float]]
"""Query id -> document id -> score, mteb's format of answers."""
Ranked = tuple[list[float], list[int]]
"""Scores of a query, best first, and the rows of their documents."""
Similarity = Callable[[Any, Any], Any]
"""Queries (q, d) and documents (n, d) -> similarities (q, n)."""
COMPARED = 64
"""Documents, and queries, used to compare a model's similarity with the cosine."""
GAP = 1e-3
"""Difference below which cosines may be in any order."""
CHOSEN = "auto"
"""Name of a setting that depends on the corpus."""
RERANKING = "top_ranked: lists to rerank; expected a task that searches a corpus"


class Place(NamedTuple):
    """Task, split and subset of a result."""

    task: str
    split: str
    subset: str


@dataclass(frozen=True)
class Sizes:
    """Description and sizes of an index, in bytes."""

    documents: int
    vectors: int  # each passage of a text has one
    dimensions: int
    settings: Mapping[str, Any]  # effective; a small corpus may have changed them: see `notes`
    candidates: int  # vectors rescored per query
    stored: str  # format of the full vectors on disk: fp16, int8 or int4
    ram_bytes: int  # codes, reducer and metric, without ids and the system's caches
    ram_bytes_per_vector: float
    ram_bytes_fixed: int
    disk_bytes: int  # full vectors and derived files, without texts
    float32_bytes: int  # uncompressed vectors in memory
    compression: float  # float32_bytes / ram_bytes
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, collection: Collection, notes: Sequence[str]) -> Sizes:
        """Sizes of a collection with its effective settings; `notes` are those of its addition."""
        info = collection.info()
        memory = info["memory"]
        rows = info["passages"]["rows"]
        dim = info["dimensions"]
        words = (info["lexical"] or {}).get("disk_bytes_per_vector", 0)
        ram = round(rows * memory["ram_bytes_per_vector"] + memory["ram_bytes_fixed"])
        return cls(
            documents=info["documents"],
            vectors=rows,
            dimensions=dim,
            settings=info["settings"],
            candidates=info["search"]["candidates"],
            stored=info["stored"]["vectors"],
            ram_bytes=ram,
            ram_bytes_per_vector=memory["ram_bytes_per_vector"],
            ram_bytes_fixed=memory["ram_bytes_fixed"],
            disk_bytes=round(rows * (memory["disk_bytes_per_vector"] + words)),
            float32_bytes=4 * rows * dim,
            compression=4 * rows * dim / ram,
            notes=tuple(notes),
        )


class _OneCorpus:
    """Base: a collection of one corpus at a time, perhaps in a temporary folder."""

    _collection: Collection | None = None
    _removed: Callable[[], object] | None = None

    def _temporary(self, parent: str | Path | None = None) -> Path:
        """Create a folder that is deleted with this object, if not before."""
        folder = Path(tempfile.mkdtemp(prefix="slimdex-mteb-", dir=parent or temporary_parent()))
        self._removed = weakref.finalize(self, shutil.rmtree, folder, True)
        return folder

    def clear(self) -> None:
        """Close the index, and delete it if it is temporary; keep `sizes`."""
        if self._collection is not None:
            self._collection.close()
        if self._removed is not None:
            self._removed()
        self._collection = None
        self._removed = None


class SlimdexIndex(_OneCorpus):
    """An index backend for mteb: a collection of vectors alone.

    Parameters
    ----------
    settings : how vectors are reduced and quantised; by default `Settings()`.
    vector_dtype : format of the full vectors on disk: fp16, int8 or int4.
    folder : parent of the temporary files; by default the system's.

    Attributes
    ----------
    sizes : those of the index built last; None if there is none, or it has no documents.

    Raises `InputError` for invalid settings, vectors that are not finite or differ in dimension,
    and a model whose similarity is not the cosine.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        vector_dtype: str = "fp16",
        folder: str | Path | None = None,
    ) -> None:
        if vector_dtype not in STORED_ENDINGS:
            raise InputError(f"vector_dtype={vector_dtype!r}; expected {', '.join(STORED_ENDINGS)}")
        self.settings = settings or Settings()
        self.vector_dtype = vector_dtype
        self.sizes: Sizes | None = None
        self._parent = folder
        self._new: list[Matrix] = []  # not in the collection yet
        self._dim = 0
        self._sample: Matrix = np.empty((0, 0), np.float32)  # of the documents

    def add_documents(self, embeddings: Any, idxs: Sequence[str]) -> None:
        """Add vectors (n, d), an array or a tensor, of the documents with these ids."""
        vectors = as_vectors(_on_cpu(embeddings))
        if len(vectors) != len(idxs):
            raise InputError(f"{len(vectors)} vectors for {len(idxs)} ids; expected equal numbers")
        if self._collection is not None and vectors.dim != self._dim:
            raise InputError(
                f"vectors of {vectors.dim} dimensions; expected {self._dim}, as those before"
            )
        check_vectors(vectors)

        # The first vectors determine the dimensions of the index.
        if self._collection is None:
            self._dim = vectors.dim
            self.sizes = None
            self._sample = vectors.rows(0, min(COMPARED, len(vectors)))
            self._collection = Collection.create(
                self._temporary(self._parent) / "vectors.index",
                GivenEncoder(vectors.dim),
                self.settings,
                vector_dtype=self.vector_dtype,
                passages=OFF,
                lexical=False,
            )
        self._new.append(vectors.rows(0, len(vectors)))

    def search(
        self,
        embeddings: Any,
        top_k: int,
        similarity_fn: Similarity,
        top_ranked: Mapping[str, list[str]] | None = None,
        query_idx_to_id: Mapping[int, str] | None = None,
    ) -> tuple[list[list[float]], list[list[int]]]:
        """Scores and documents for queries (q, d): cosines in the metric of the settings.

        Documents are numbered in the order of addition. Raises `InputError` for lists of documents
        to rerank, which no index searches.
        """
        if top_ranked is not None:
            raise InputError(RERANKING)
        queries = _on_cpu(embeddings)
        collection = self.build()
        if collection is None:
            return [[] for _ in queries], [[] for _ in queries]
        queries = as_matrix(queries, dim=self._dim, name="queries", largest=LARGEST)
        _check_similarity(similarity_fn, queries[:COMPARED], self._sample)
        answers = _answers(collection, [(None, query) for query in queries[:, None]], top_k)
        return [scores for scores, _ in answers], [rows for _, rows in answers]

    def build(self) -> Collection | None:
        """Return the collection of the added vectors, fitted on all of them; None without any."""
        if self._collection is not None and self._new:
            before = len(self._collection)
            vectors = np.concatenate(self._new)
            names = map(str, range(before, before + len(vectors)))
            documents = [Document(name, name) for name in names]  # one without text is not found
            # The first addition is fitted anyway.
            refit = "always" if before else "never"
            added = self._collection.add(documents, vectors=vectors, refit=refit)
            self.sizes = Sizes.of(self._collection, added.notes)
            self._new = []
        return self._collection

    def clear(self) -> None:
        """Forget all documents and delete the files; keep `sizes`."""
        super().clear()
        self._new = []


class SlimdexSearchWrapper(SearchEncoderWrapper):
    """A model of mteb with a `SlimdexIndex`; its results are an experiment of the model.

    Parameters
    ----------
    model : an encoder of mteb, for instance from `mteb.get_model`.
    settings, vector_dtype, folder : see `SlimdexIndex`.

    Attributes
    ----------
    sizes : of the index of each task, split and subset.
    """

    def __init__(
        self,
        model: Any,
        settings: Settings | None = None,
        *,
        vector_dtype: str = "fp16",
        folder: str | Path | None = None,
    ) -> None:
        self._slimdex = SlimdexIndex(settings, vector_dtype=vector_dtype, folder=folder)
        super().__init__(model, index_backend=self._slimdex)
        self.mteb_model_meta = as_experiment(
            model.mteb_model_meta, self._slimdex.settings, vector_dtype
        )
        self.sizes: dict[Place, Sizes] = {}

    def index(
        self,
        corpus: Any,
        *,
        task_metadata: Any,
        hf_split: str,
        hf_subset: str,
        encode_kwargs: Any,
        num_proc: int | None = None,
    ) -> None:
        """Encode and index a corpus, called by mteb."""
        self._slimdex.clear()  # a failed search left its documents
        super().index(
            corpus,
            task_metadata=task_metadata,
            hf_split=hf_split,
            hf_subset=hf_subset,
            encode_kwargs=encode_kwargs,
            num_proc=num_proc,
        )
        self._slimdex.build()
        if self._slimdex.sizes is not None:
            place = Place(task_metadata.name, hf_split, hf_subset)
            self.sizes[place] = self._slimdex.sizes


class SlimdexSearch(_OneCorpus):
    """slimdex as a whole, from texts to documents, as mteb's `SearchProtocol`.

    Each corpus becomes an index, as by `slimdex build`.

    Parameters
    ----------
    encoder : the folder or name of a model, or an encoder; see `Collection.create`.
    settings, vector_dtype, passages, lexical : see `Collection.create`.
    folder : where to keep the indexes, one per task, split and subset; by default temporary.
    meta : metadata for the results; by default derived from the encoder.

    Attributes
    ----------
    sizes : of the index of each task, split and subset.
    """

    def __init__(
        self,
        encoder: Any = None,
        settings: Settings | None = None,
        *,
        vector_dtype: str = "fp16",
        passages: str | int | None = AUTO,
        lexical: bool = True,
        folder: str | Path | None = None,
        meta: ModelMeta | None = None,
    ) -> None:
        if isinstance(encoder, str | Path):
            encoder = open_encoder(str(encoder))
        self.encoder = TransformerEncoder() if encoder is None else as_encoder(encoder)
        self.settings = (settings or Settings()).checked(self.encoder.dim)
        self.vector_dtype = vector_dtype
        self.passages = passages
        self.lexical = lexical
        self._folder = None if folder is None else Path(folder)

        # For mteb, results with other settings are separate experiments.
        base = meta or meta_of(self.encoder)
        tokens = passage_tokens(passages, self.encoder)
        more: dict[str, Any] = {"passages": OFF if tokens is None else tokens, "lexical": lexical}
        precision = self.encoder.spec().get("precision")
        if precision:
            more["precision"] = precision
        self.mteb_model_meta = as_experiment(base, self.settings, vector_dtype, more)
        self.sizes: dict[Place, Sizes] = {}

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

        Raises `InputError` if the corpus has no texts, or its folder exists.
        """
        self.clear()
        place = Place(task_metadata.name, hf_split, hf_subset)
        collection = Collection.create(
            (self._folder or self._temporary()) / f"{'-'.join(place)}.index",
            self.encoder,
            self.settings,
            vector_dtype=self.vector_dtype,
            passages=self.passages,
            lexical=self.lexical,
        )
        self._collection = collection
        if not len(corpus):
            return
        added = collection.add(_documents(corpus), refit="never")
        self.sizes[place] = Sizes.of(collection, added.notes)

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
    ) -> Answers:
        """Find the documents closest to each query, in the corpus that `index` was called with.

        The arguments after `top_ranked`, of mteb's protocol, have no effect.

        Raises `InputError` if no corpus was indexed, a query is not text, or lists are to be
        reranked, which no index searches.
        """
        if top_ranked is not None:
            raise InputError(RERANKING)
        if self._collection is None:
            raise InputError("search: no corpus; expected `index` before, for each search")
        collection = self._collection
        names = [*map(str, queries["id"])]
        answers: Answers = {name: {} for name in names}
        if len(collection) and names:
            texts = _texts(queries)
            vectors = encode_with_progress(self.encoder, texts)
            pairs = [*zip(texts, vectors[:, None], strict=True)]
            ids = collection.index.store.ids_by_row(collection.index.state.rows)
            # If queries are documents, mteb asks for one more document, to drop the query's own.
            drops_one = not set(ids).isdisjoint(names)
            rankings = _answers(collection, pairs, top_k, int(drops_one))
            for name, (scores, rows) in zip(names, rankings, strict=True):
                answers[name] = dict(zip([ids[row] for row in rows], scores, strict=True))
        self.clear()
        return answers


def as_experiment(
    meta: ModelMeta, settings: Settings, stored: str, more: Mapping[str, Any] | None = None
) -> ModelMeta:
    """Copy a model's metadata so that results with these settings are stored separately.

    Raises `InputError` if the model is already such an experiment.
    """
    arguments = dict(meta.experiment_kwargs or {})
    experiment = {"index": "slimdex", **settings.as_dict(), "stored": stored, **(more or {})}
    taken = sorted(arguments.keys() & experiment.keys())
    if taken:
        raise InputError(
            f"model {meta.name}: its experiment has {', '.join(taken)} already; expected a model "
            "that is not compressed"
        )
    for name, value in experiment.items():
        arguments[name] = CHOSEN if value is None else value
    return meta.model_copy(update={"experiment_kwargs": arguments})


def meta_of(encoder: Encoder) -> ModelMeta:
    """Return mteb's metadata of an encoder's model, updated by the encoder's spec.

    If mteb does not know the model, the metadata are those of the spec alone.
    """
    spec = encoder.spec()
    model = str(spec.get("model") or spec.get("name") or spec.get("type"))
    model = PACKAGED[model].hub_id if model in PACKAGED else model
    known = MODEL_REGISTRY.get(model)
    name = model if "/" in model and is_hub_id(model) else f"local/{Path(model).name}"
    digest = str(spec.get("sha256", ""))[:16]
    facts = {
        "name": name,
        "revision": spec.get("revision") or digest or "no_revision_available",
        "embed_dim": encoder.dim,
        "max_tokens": spec.get("max_length"),
        "similarity_fn_name": ScoringFunction.COSINE,
    }
    return ModelMeta.create_empty(facts) if known is None else known.model_copy(update=facts)


def _documents(corpus: Any) -> Iterator[Document]:
    """Convert a corpus's rows to documents."""
    for row in corpus:
        if not isinstance(row.get("text"), str):
            raise InputError(f"document {row.get('id')!r} has no text; expected a corpus of texts")
        yield Document(str(row["id"]), row["text"], row.get("title") or "")


def _texts(queries: Any) -> list[str]:
    """Texts of queries followed by their instructions, as mteb's own models receive them."""
    texts = []
    for row in queries:
        if not isinstance(row.get("text"), str):
            raise InputError(
                f"query {row.get('id')!r} is not text; expected a text, not a conversation"
            )
        instruction = row.get("instruction")
        texts.append(f"{row['text']} {instruction}" if instruction is not None else row["text"])
    return texts


def _answers(
    collection: Collection, pairs: Sequence[tuple[str | None, Matrix]], top_k: int, more: int = 0
) -> list[Ranked]:
    """Answer queries, each a text and its vector (1, d), by the default search.

    A query whose text is None is searched by its vector alone. `more` is the number of results that
    mteb drops.
    """
    rescores = collection.index.snapshot.index.metric is not None

    def search_codes(vector: Matrix, k: int) -> tuple[Matrix, Rows]:
        request = SearchRequest(vectors=vector, limit=k, candidates=0)
        return collection.index.read(nearest_documents, request)

    # A long ranking continues by codes alone, without rescoring.
    answers = []
    for text, vector in pairs:
        search = partial(nearest_of, collection.index, vector)
        if text is not None:
            search = partial(rank_documents, collection.index, text, vector)
        beyond = None
        if top_k > DEPTH + more:
            deep_search = partial(search_codes, vector) if rescores else search
            beyond = (deep_search, top_k)
        answers.append(merged_ranking(search, min(top_k, DEPTH + more), more, beyond))
    return answers


def _on_cpu(embeddings: Any) -> Any:
    """Convert an array, or a tensor of any type, to an array."""
    return (
        embeddings.detach().float().cpu().numpy() if hasattr(embeddings, "detach") else embeddings
    )


def _check_similarity(similarity: Similarity, queries: Matrix, documents: Matrix) -> None:
    """Raise `InputError` if a similarity ranks documents (n, d) differently from the cosine.

    mteb does not give its backends the similarity, so it is computed on examples; a dot product
    or a distance of unit vectors ranks equally.
    """
    # A vector of zeros has no cosine.
    documents = documents[documents.any(axis=1)]
    if not len(documents) or not len(queries):
        return

    # Rankings agree unless clear differences have opposite signs.
    similarities = np.asarray(_on_cpu(similarity(queries, documents)), dtype=np.float64)
    cosines = normalize_rows(queries) @ normalize_rows(documents).T
    gap = 1e-4 * float(np.ptp(similarities))  # more than rounding errors
    for of_query, cosine in zip(similarities, cosines, strict=True):
        # Compare each pair of documents: is one nearer by the cosine, but less similar?
        is_nearer = cosine[:, None] - cosine[None] > GAP
        is_less_similar = of_query[:, None] < of_query[None] - gap
        if (is_nearer & is_less_similar).any():
            raise InputError(
                "similarity: the model's ranks these vectors differently from their cosine; "
                "expected a model that compares by cosine, or vectors of unit length"
            )
