"""mteb's retrieval tasks answered by slimdex, with a model of mteb or an encoder of slimdex."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from mteb.models import ModelMeta, SearchEncoderWrapper
from mteb.models.model_implementations import MODEL_REGISTRY
from mteb.models.model_meta import ScoringFunction

from slimdex.indexes.arrays import Matrix, Rows
from slimdex.indexes.errors import InputError
from slimdex.indexes.settings import Settings

from ..collection import Collection
from ..documents import Document
from ..encoders.adapters import as_encoder
from ..encoders.base import AUTO, OFF, Encoder, passage_tokens
from ..encoders.hub import PACKAGED, is_hub_id
from ..encoders.opening import open_encoder
from ..encoders.transformer import TransformerEncoder
from ..quality.evaluation.measures import deep, ranked
from ..quality.info import word_bytes
from ..quality.trials.query_pools import encoded
from ..search.answer import nearest_documents
from ..search.request import SearchRequest
from ..temporary_files import temporary_parent
from .mteb_index import Sizes, SlimdexIndex, searches_for

Found = dict[str, dict[str, float]]
"""Query id -> document id -> score, mteb's format of answers."""


CHOSEN = "auto"
"""Name of a setting that depends on the corpus."""


class Place(NamedTuple):
    """Task, split and subset of a result."""

    task: str
    split: str
    subset: str


class SlimdexSearchWrapper(SearchEncoderWrapper):
    """A model of mteb with a `SlimdexIndex`; its results are an experiment of the model.

    Parameters
    ----------
    model : an encoder of mteb, for instance from `mteb.get_model`.
    settings, vector_dtype, folder : as for `SlimdexIndex`.

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
        self, corpus: Any, *, task_metadata: Any, hf_split: str, hf_subset: str, **kwargs: Any
    ) -> None:
        """Encode and index a corpus, called by mteb."""
        self._slimdex.clear()  # a failed search left its documents
        names = {"task_metadata": task_metadata, "hf_split": hf_split, "hf_subset": hf_subset}
        super().index(corpus, **names, **kwargs)
        self._slimdex.build()
        if self._slimdex.sizes is not None:
            place = Place(task_metadata.name, hf_split, hf_subset)
            self.sizes[place] = self._slimdex.sizes


class SlimdexSearch:
    """slimdex as a whole, from texts to documents, as mteb's `SearchProtocol`.

    Each corpus becomes an index, as by `slimdex build`, and answers are those that `slimdex eval`
    measures by default; those beyond the hundredth follow, ranked by their codes.

    Parameters
    ----------
    encoder : as for `Collection.create`, or the folder or name of a model.
    settings, vector_dtype, passages, lexical : as for `Collection.create`.
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
        self.encoder = _opened(encoder)
        self.settings = (settings or Settings()).checked(self.encoder.dim)
        self.vector_dtype, self.passages, self.lexical = vector_dtype, passages, lexical
        self._kept = None if folder is None else Path(folder)
        base = meta or meta_of(self.encoder)
        tokens = passage_tokens(passages, self.encoder)
        more: dict[str, Any] = {"passages": OFF if tokens is None else tokens, "lexical": lexical}
        if precision := self.encoder.spec().get("precision"):
            more["precision"] = precision
        self.mteb_model_meta = as_experiment(base, self.settings, vector_dtype, more)
        self.sizes: dict[Place, Sizes] = {}
        self._collection: Collection | None = None
        self._closed: Callable[[], object] | None = None

    def index(
        self, corpus: Any, *, task_metadata: Any, hf_split: str, hf_subset: str, **kwargs: Any
    ) -> None:
        """Index a corpus: rows with "id", "text" and optionally "title".

        Raises `InputError` if the corpus has no texts, or its folder exists.
        """
        self.clear()
        place = Place(task_metadata.name, hf_split, hf_subset)
        self._collection = collection = self._created(place)
        if not len(corpus):
            return
        added = collection.add(_documents(corpus), refit="never")
        snapshot, info = collection.index.snapshot, collection.info()
        assert snapshot.state.settings is not None
        each = info["memory"]["disk_bytes_per_vector"] + (word_bytes(snapshot) or 0)
        disk = round(each * snapshot.state.rows)
        self.sizes[place] = Sizes.of(
            snapshot.index,
            snapshot.state.settings,
            len(collection),
            disk,
            self.vector_dtype,
            tuple(added.notes),
        )

    def search(
        self,
        queries: Any,
        *,
        top_k: int,
        top_ranked: Mapping[str, list[str]] | None = None,
        **kwargs: Any,
    ) -> Found:
        """Find the documents closest to each query.

        Raises `InputError` if no corpus was indexed, a query is not text, or lists are to be
        reranked, which no index searches.
        """
        if top_ranked is not None:
            raise InputError("top_ranked: lists to rerank; expected a task that searches a corpus")
        if self._collection is None:
            raise InputError("search: no corpus; expected `index` before, for each search")
        names, found = [str(id) for id in queries["id"]], Found()
        if not len(self._collection) or not names:
            found = {name: {} for name in names}
        else:
            texts = _texts(queries)
            asked = list(zip(texts, encoded(self.encoder, texts)[:, None], strict=True))
            found = _answers(self._collection, names, asked, top_k)
        self.clear()
        return found

    def clear(self) -> None:
        """Close the index, and delete it if it is temporary."""
        if self._collection is not None:
            self._collection.close()
        if self._closed is not None:
            self._closed()
        self._collection = self._closed = None

    def _created(self, place: Place) -> Collection:
        if self._kept is None:
            parent = Path(tempfile.mkdtemp(prefix="slimdex-mteb-", dir=temporary_parent()))
            self._closed = weakref.finalize(self, shutil.rmtree, parent, True)
        path = (self._kept or parent) / f"{'-'.join(place)}.index"
        return Collection.create(
            path,
            self.encoder,
            self.settings,
            vector_dtype=self.vector_dtype,
            passages=self.passages,
            lexical=self.lexical,
        )


def as_experiment(
    meta: ModelMeta, settings: Settings, stored: str, more: Mapping[str, Any] | None = None
) -> ModelMeta:
    """Copy a model's metadata so that results with these settings are stored separately.

    Raises `InputError` if the model is already such an experiment.
    """
    before = dict(meta.experiment_kwargs or {})
    own = {"index": "slimdex", **settings.as_dict(), "stored": stored, **(more or {})}
    if taken := sorted(before.keys() & own.keys()):
        raise InputError(
            f"model {meta.name}: its experiment has {', '.join(taken)} already; expected a model "
            "that is not compressed"
        )
    named = {name: CHOSEN if value is None else value for name, value in own.items()}
    return meta.model_copy(update={"experiment_kwargs": {**before, **named}})


def meta_of(encoder: Encoder) -> ModelMeta:
    """mteb's metadata of an encoder's model, or metadata from the encoder's spec."""
    spec = encoder.spec()
    told = str(spec.get("model") or spec.get("name") or spec.get("type"))
    told = PACKAGED[told].hub_id if told in PACKAGED else told
    known = MODEL_REGISTRY.get(told)
    name = told if "/" in told and is_hub_id(told) else f"local/{Path(told).name}"
    digest = str(spec.get("sha256", ""))[:16]
    own = {
        "name": name,
        "revision": spec.get("revision") or digest or "no_revision_available",
        "embed_dim": encoder.dim,
        "max_tokens": spec.get("max_length"),
        "similarity_fn_name": ScoringFunction.COSINE,
    }
    return ModelMeta.create_empty(own) if known is None else known.model_copy(update=own)


def _opened(encoder: Any) -> Encoder:
    """Open an encoder of any accepted form."""
    if encoder is None:
        return TransformerEncoder()
    named = isinstance(encoder, str | Path)
    return open_encoder(str(encoder)) if named else as_encoder(encoder)


def _documents(corpus: Any) -> Iterator[Document]:
    """Convert a corpus's rows to documents."""
    for row in corpus:
        if not isinstance(row.get("text"), str):
            raise InputError(f"document {row.get('id')!r} has no text; expected a corpus of texts")
        yield Document(str(row["id"]), row["text"], row.get("title") or "")


def _texts(queries: Any) -> list[str]:
    """Texts of queries followed by their instructions, as mteb's own models receive them."""
    found = []
    for row in queries:
        if not isinstance(row.get("text"), str):
            raise InputError(
                f"query {row.get('id')!r} is not text; expected a text, not a conversation"
            )
        instruction = row.get("instruction")
        found.append(f"{row['text']} {instruction}" if instruction is not None else row["text"])
    return found


def _answers(
    collection: Collection,
    names: Sequence[str],
    asked: Sequence[tuple[str, Matrix]],
    top_k: int,
) -> Found:
    """Return the documents that a default search finds for texts and their vectors (1, d)."""
    ids = collection.index.store.ids.by_row(collection.index.state.rows)
    index = collection.index.snapshot.index
    asks_by_ids = not set(ids).isdisjoint(names)  # then `evaluate` asks for one more, to drop

    def coded(vector: Matrix, k: int) -> tuple[Matrix, Rows]:
        request = SearchRequest(vectors=vector, limit=k, candidates=0)
        return collection.index.read(nearest_documents, request)

    answers = []
    for text, vector in asked:
        codes = None if index.metric is None else partial(coded, vector)
        search = partial(ranked, collection.index, text, vector)
        answers.append(deep(searches_for(top_k, search, codes, asks_by_ids)))
    return {
        name: {ids[row]: score for score, row in zip(*answer, strict=True)}
        for name, answer in zip(names, answers, strict=True)
    }
