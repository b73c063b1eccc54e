"""mteb's retrieval tasks answered by slimdex, with a model of mteb or an encoder of slimdex."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mteb import ResultCache
from mteb.models import ModelMeta, SearchEncoderWrapper
from mteb.models.model_implementations import MODEL_REGISTRY
from mteb.models.model_meta import ScoringFunction

from slimdex.indexes.arrays import Matrix, Rows
from slimdex.indexes.errors import InputError
from slimdex.indexes.settings import Settings

from ..catalog.where.conditions import Compare, as_sql
from ..collection import Collection
from ..documents import Document
from ..encoders.adapters import as_encoder
from ..encoders.base import AUTO, OFF, Encoder, for_new_documents, passage_tokens
from ..encoders.hub import PACKAGED
from ..encoders.opening import open_encoder
from ..encoders.transformer import TransformerEncoder
from ..open_index import OpenIndex
from ..quality.evaluation.deep_search import deep
from ..quality.info import word_bytes
from ..search.nearest import nearest_documents
from ..search.request import SearchRequest
from ..trials.query_pools import encoded
from .mteb_index import SlimdexIndex, searches_for
from .mteb_records import Place, Records, Sizes, as_experiment

Found = dict[str, dict[str, float]]
"""Query id -> document id -> score, mteb's format of answers."""


class SlimdexSearchWrapper(SearchEncoderWrapper):
    """A model of mteb with a `SlimdexIndex`; its results are an experiment of the model.

    Parameters
    ----------
    model : an encoder of mteb, for instance from `mteb.get_model`.
    settings, vector_dtype, folder : as for `SlimdexIndex`.
    cache : the one passed to `mteb.evaluate`; sizes are written beside its results.
    """

    def __init__(
        self,
        model: Any,
        settings: Settings | None = None,
        *,
        vector_dtype: str = "fp16",
        folder: str | Path | None = None,
        cache: ResultCache | None = None,
    ) -> None:
        self._slimdex = SlimdexIndex(settings, vector_dtype=vector_dtype, folder=folder)
        super().__init__(model, index_backend=self._slimdex)
        self.mteb_model_meta = as_experiment(
            model.mteb_model_meta, self._slimdex.settings, vector_dtype
        )
        self._records = Records(cache, self.mteb_model_meta)

    @property
    def sizes(self) -> Mapping[Place, Sizes]:
        """Sizes by indexed task, split and subset."""
        return self._records.sizes

    def index(
        self, corpus: Any, *, task_metadata: Any, hf_split: str, hf_subset: str, **kwargs: Any
    ) -> None:
        """Encode and index a corpus, called by mteb."""
        self._slimdex.clear()  # a failed search left its documents
        names = {"task_metadata": task_metadata, "hf_split": hf_split, "hf_subset": hf_subset}
        super().index(corpus, **names, **kwargs)
        self._slimdex.build()
        if self._slimdex.sizes is not None:
            self._records.add(Place(task_metadata.name, hf_split, hf_subset), self._slimdex.sizes)


class SlimdexSearch:
    """slimdex as a whole, from texts to documents, as mteb's `SearchProtocol`.

    Each corpus becomes an index, as by `slimdex build`, and answers are those that `slimdex eval`
    measures by default; those beyond the hundredth follow, ranked by their codes.

    Parameters
    ----------
    encoder : as for `Collection.create`, or the folder or name of a model.
    settings, vector_dtype, passages, lexical : as for `Collection.create`.
    folder : where to keep the indexes, one per task, split and subset; by default temporary.
    cache : the one passed to `mteb.evaluate`; sizes are written beside its results.
    meta : metadata for the results; by default derived from the encoder.
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
        cache: ResultCache | None = None,
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
        self._records = Records(cache, self.mteb_model_meta)
        self._collection: Collection | None = None
        self._closed: Callable[[], object] | None = None

    @property
    def sizes(self) -> Mapping[Place, Sizes]:
        """Sizes by indexed task, split and subset."""
        return self._records.sizes

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
        snapshot, info = collection.snapshot, collection.info()
        assert snapshot.state.settings is not None
        each = info["memory"]["disk_bytes_per_vector"] + (word_bytes(snapshot) or 0)
        disk = round(each * snapshot.state.rows)
        sizes = Sizes.of(
            snapshot.index,
            snapshot.state.settings,
            len(collection),
            disk,
            self.vector_dtype,
            tuple(added.notes),
        )
        self._records.add(place, sizes)

    def search(
        self,
        queries: Any,
        *,
        top_k: int,
        top_ranked: Mapping[str, list[str]] | None = None,
        **kwargs: Any,
    ) -> Found:
        """Find the documents closest to each query, or rank those listed for it.

        Raises `InputError` if no corpus was indexed, or a query is not text.
        """
        if self._collection is None:
            raise InputError("search: no corpus; expected `index` before, for each search")
        names, found = [str(id) for id in queries["id"]], Found()
        if not len(self._collection) or not names:
            found = {name: {} for name in names}
        else:
            texts = _texts(queries)
            asked = list(zip(texts, encoded(self.encoder, texts)[:, None], strict=True))
            found = _answers(self._collection, names, asked, top_k, top_ranked)
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
            parent = Path(tempfile.mkdtemp(prefix="slimdex-mteb-"))
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


def meta_of(encoder: Encoder) -> ModelMeta:
    """mteb's metadata of an encoder's model, or metadata from the encoder's spec."""
    spec = encoder.spec()
    told = str(spec.get("model") or spec.get("name") or spec.get("type"))
    told = PACKAGED[told].hub_id if told in PACKAGED else told
    known = MODEL_REGISTRY.get(told)
    is_hub_id = told.count("/") == 1 and not told.startswith("/")
    name = told if is_hub_id else f"local/{Path(told).name}"
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
    """Open an encoder of any accepted form, in the precision of new indexes."""
    if encoder is None:
        return for_new_documents(TransformerEncoder())
    named = isinstance(encoder, str | Path)
    return for_new_documents(open_encoder(str(encoder)) if named else as_encoder(encoder))


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
    core: OpenIndex,
    names: Sequence[str],
    asked: Sequence[tuple[str, Matrix]],
    top_k: int,
    top_ranked: Mapping[str, list[str]] | None,
) -> Found:
    """Return the documents that a default search finds for texts and their vectors (1, d).

    With `top_ranked`, those of each query's list.
    """
    ids = core.store.ids.by_row(core.state.rows)
    if top_ranked is not None:
        lists = [top_ranked.get(name) or [] for name in names]
        answers = [
            _of_list(partial(core.ranked, *query), listed, top_k)
            for query, listed in zip(asked, lists, strict=True)
        ]
    else:
        index = core.reduced_index
        asks_by_ids = not set(ids).isdisjoint(names)  # then `evaluate` asks for one more, to drop

        def coded(vector: Matrix, k: int) -> tuple[Matrix, Rows]:
            request = SearchRequest(vectors=vector, limit=k, candidates=0)
            return core.read(nearest_documents, request)

        answers = []
        for text, vector in asked:
            codes = None if index.metric is None else partial(coded, vector)
            search = partial(core.ranked, text, vector)
            answers.append(deep(searches_for(top_k, search, codes, asks_by_ids)))
    return {
        name: {ids[row]: score for score, row in zip(*answer, strict=True)}
        for name, answer in zip(names, answers, strict=True)
    }


def _of_list(
    search: Callable[..., tuple[Matrix, Rows]], listed: list[str], top_k: int
) -> tuple[list[float], list[int]]:
    """Scores and rows of the best of the listed documents by a search of them."""
    if not listed:
        return [], []
    where = as_sql(Compare("id", "IN", listed))
    scores, rows = search(len(listed), where)
    found = rows[0] >= 0
    return scores[0][found][:top_k].tolist(), rows[0][found][:top_k].tolist()
