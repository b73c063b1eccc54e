"""A collection against a dictionary and brute force, through thousands of steps by hypothesis."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from slimdex.errors import InputError
from slimdex.indexes.settings import Settings
from slimdex.indexes.vectors.row_formats import FLOAT16, STORED
from slimdex.retrieval.collection import Collection
from slimdex.retrieval.documents import Document
from slimdex.retrieval.ingest.adding import add
from slimdex.retrieval.ingest.addition import Addition
from slimdex.retrieval.ingest.repairing import verify
from slimdex.retrieval.lexical.tokens import name_words, stems_of
from slimdex.retrieval.lexical.word_index import WordIndex
from slimdex.retrieval.store.derived_files import rows_with_text
from slimdex.retrieval.store.state import center_from
from tests.chance import CHANCE, sweep
from tests.cutting import cut
from tests.encoders import ReadingEncoder

IDS = st.sampled_from([f"d{i}" for i in range(24)])
WORDS = ["red", "green", "blue", "cat", "dog", "sun", "moon"]
LONG = st.lists(st.sampled_from([*WORDS, "cat.", "sun.", "\n\n"]), min_size=16, max_size=60).map(
    lambda words: ["cat", *words, "sun"]
)
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4) | LONG
DOCUMENTS = st.dictionaries(
    IDS, st.tuples(TEXTS.map(" ".join), st.integers(0, 9)), min_size=1, max_size=8
)
CODES_ALONE = [
    Settings(kind=kind, gamma=0.0, reducer="identity", candidates=0) for kind in ("flat", "fp16")
]
"""Without rescoring, the codes in memory have to be right, too."""
SETTINGS = st.sampled_from(CODES_ALONE) | st.builds(
    Settings,
    k=st.sampled_from([None, 4, 8]),
    gamma=st.just(0.0),  # then the metric is the plain cosine, which needs no code of ours
    kind=st.sampled_from(["flat", "sq8", "hnsw"]),
    reducer=st.sampled_from(["random", "truncate"]),
)
FILTERS: dict[str, Callable[[str, int], bool]] = {
    "n >= 5": lambda text, n: n >= 5,
    "n % 2 = 0 AND text LIKE '%cat%'": lambda text, n: n % 2 == 0 and "cat" in text,
    "n > 99": lambda text, n: False,
    "true": lambda text, n: True,
}
Model = dict[str, tuple[str, int]]
DIM, TOKENS = 16, 16
"""Of the encoder; longer texts are cut."""


class CollectionMachine(RuleBasedStateMachine):
    """After any steps, collection and dictionary have the same contents."""

    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp()) / "x.index"
        self.model: Model = {}
        self.models: dict[int, Model] = {}  # by version
        self.encoder = ReadingEncoder(DIM, TOKENS)

    def passages(self, text: str) -> list[str]:
        """The texts that have a row each; other tests show how a text is cut."""
        if not self.are_cut:
            return [text]
        counts = ReadingEncoder(max_length=TOKENS).token_counts
        return [text[p.start : p.end] for p in cut("", text, (), counts, TOKENS)]

    @initialize(
        documents=DOCUMENTS,
        asked=SETTINGS,
        are_cut=st.booleans(),
        stored=st.sampled_from(sorted(STORED)),
        words=st.booleans(),
    )
    def build(
        self, documents: Model, asked: Settings, are_cut: bool, stored: str, words: bool
    ) -> None:
        self.are_cut, self.stored = are_cut, stored
        self.collection = Collection.create(
            self.path,
            self.encoder,
            replace(asked, k=None, reducer="identity"),
            passages="auto" if are_cut else "off",
            vector_dtype=stored,
            lexical=words,
        )
        self.add(documents)

    @rule(documents=DOCUMENTS)
    def add(self, documents: Model) -> None:
        self._put(documents)

    @rule(documents=DOCUMENTS, ids=st.sets(IDS, max_size=4))
    def bring_in_step(self, documents: Model, ids: set[str]) -> None:
        """As `sync` does: some come, some change, and others go in the same commit."""
        self._put(documents, sorted((ids & self.model.keys()) - documents.keys()))

    def _put(self, documents: Model, gone: Sequence[str] = ()) -> None:
        same = sum(self.model.get(id) == values for id, values in documents.items())
        new = [text for id, (text, _) in documents.items() if not self._has(id, text)]
        going = [id for id in documents.keys() & self.model.keys() if not self._is(id, documents)]
        had = {p for id in (*going, *gone) for p in self.passages(self.model[id][0])}
        encoded = {passage for text in new for passage in self.passages(text)} - had
        before = len(self.encoder.encoded)
        added = add(
            self.collection.index,
            Addition(
                _documents(documents), missing=lambda store, _: np.unique(store.rows_of(gone))
            ),
        )
        assert added.unchanged == same
        assert added.documents == len(documents) - same
        assert added.replaced == len(going)
        assert added.deleted == len(gone)
        assert set(self.encoder.encoded[before:]) == encoded
        self.model |= documents
        for id in gone:
            del self.model[id]

    def _is(self, id: str, documents: Model) -> bool:
        return self.model[id] == documents[id]

    @rule(ids=st.sets(IDS, min_size=1, max_size=4))
    def delete(self, ids: set[str]) -> None:
        known = sorted(ids & self.model.keys())
        if known:
            assert self.collection.delete(known) == len(known)
        for id in known:
            del self.model[id]

    @rule(where=st.sampled_from(sorted(FILTERS)))
    def delete_where(self, where: str) -> None:
        gone = [id for id, values in self.model.items() if FILTERS[where](*values)]
        assert self.collection.delete(where=where) == len(gone)
        for id in gone:
            del self.model[id]

    @precondition(lambda self: self.model)
    @rule(asked=SETTINGS)
    def reduce(self, asked: Settings) -> None:
        self.collection.reduce(asked)

    @rule()
    def compact(self) -> None:
        self.collection.compact()
        assert len(self.collection.index.snapshot.deleted) == 0
        rows = sum(len(self.passages(text)) for text, _ in self.model.values())
        assert len(self.collection.index.snapshot.vectors()) == rows
        stored = STORED[self.stored]
        row_bytes = stored.width(DIM) * stored.dtype.itemsize
        file = self.path / self.collection.index.state.vectors
        assert file.stat().st_size == rows * row_bytes

    @rule()
    def undo(self) -> None:
        before = self._before()
        if before is None:
            with pytest.raises(InputError, match="nothing to undo"):
                self.collection.undo()
        else:
            self.collection.undo()
            self.model = before

    def _before(self) -> Model | None:
        """The documents before the last change, or None if it can't be undone."""
        before = self.collection.index.state.before
        if before is None:
            return None
        version = max((v for v in self.models if v <= before.version), default=None)
        return {} if version is None else dict(self.models[version])

    @rule()
    def reopen(self) -> None:
        self.collection.close()
        self.collection = Collection.open(self.path, self.encoder)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), n=st.integers(0, 9))
    def change_metadata(self, data: st.DataObject, n: int) -> None:
        """Known texts are not encoded again."""
        ids = data.draw(st.sets(st.sampled_from(sorted(self.model)), min_size=1, max_size=6))
        self.add({id: (self.model[id][0], n) for id in sorted(ids)})

    @rule(
        query=TEXTS.map(" ".join),
        k=st.integers(1, 30),
        where=st.sampled_from([None, *sorted(FILTERS)]),
    )
    def search(self, query: str, k: int, where: str | None) -> None:
        (hits,) = self.collection.search_many(query, k, where, hybrid="off")
        keep = FILTERS[where] if where else FILTERS["true"]
        scores = {id: self._score(query, v[0]) for id, v in self.model.items() if keep(*v)}
        best = sorted(scores.values(), reverse=True)[:k]
        np.testing.assert_allclose([hit.score for hit in hits], best, atol=2e-3)
        assert len({hit.id for hit in hits}) == len(hits)
        for hit in hits:
            text, n = self.model[hit.id]
            assert (hit.text, hit.metadata["n"]) == (text[hit.start : hit.end], n)
            assert hit.text in self.passages(text)
            assert abs(hit.score - scores[hit.id]) < 2e-3
            assert abs(hit.score - self._cosine(query, hit.text)) < 2e-3

    @rule(query=TEXTS.map(" ".join), k=st.integers(1, 30))
    def search_passages(self, query: str, k: int) -> None:
        (hits,) = self.collection.search_many(query, k, group_by="passage", hybrid="off")
        there = [p for text, _ in self.model.values() for p in self.passages(text)]
        best = sorted((self._cosine(query, passage) for passage in there), reverse=True)[:k]
        np.testing.assert_allclose([hit.score for hit in hits], best, atol=2e-3)
        assert len({(hit.id, hit.start) for hit in hits}) == len(hits)

    @rule(on=st.booleans())
    def index_lexical(self, on: bool) -> None:
        self.collection.index_lexical(on)

    @precondition(lambda self: self.collection.index.state.words)
    @rule(query=TEXTS.map(" ".join) | IDS)
    def search_words(self, query: str) -> None:
        """Rows with any of the words, no other, each once."""
        stems = set(stems_of(query))
        expected = sorted(
            (id, passage)
            for id, (text, _) in self.model.items()
            for passage in self.passages(text)
            if stems & {*stems_of(passage), *stems_of(" ".join(name_words(id)))}
        )
        hits = self.collection.search_many([query], 1000, hybrid=1.0, group_by="passage")[0]
        assert sorted((hit.id, hit.text) for hit in hits if hit.found_by != "meaning") == expected

    @precondition(lambda self: self.collection.index.state.words)
    @rule(query=TEXTS.map(" ".join))
    def search_words_when_compact(self, query: str) -> None:
        """Scores equal those of a new lexical index."""
        self.collection.compact()
        snapshot = self.collection.index.snapshot
        with tempfile.TemporaryDirectory() as folder:
            rows = rows_with_text(snapshot.store, 0)
            expected = WordIndex.create(Path(folder) / "w", rows).search(query, 1000)
        assert snapshot.words is not None
        hits = snapshot.words.search(query, 1000, hidden=snapshot.hidden)
        assert hits.rows.tolist() == expected.rows.tolist()
        np.testing.assert_allclose(hits.scores, expected.scores, rtol=1e-5)

    @invariant()
    def counts_agree(self) -> None:
        if hasattr(self, "collection"):
            assert len(self.collection) == len(self.model)
            self.models[self.collection.version] = dict(self.model)

    def teardown(self) -> None:
        if hasattr(self, "collection"):
            assert self._documents_found() == self.model
            self.collection.close()
            assert verify(self.path) == []
        shutil.rmtree(self.path.parent)

    def _has(self, id: str, text: str) -> bool:
        return id in self.model and self.model[id][0] == text

    def _documents_found(self) -> Model:
        hits = self.collection.search_many("cat", 1000)[0]
        actual = {d.id: (d.text, d.metadata["n"]) for d in self.collection}
        assert {hit.id for hit in hits} == actual.keys()
        return actual

    def _score(self, query: str, text: str) -> float:
        return max(self._cosine(query, passage) for passage in self.passages(text))

    def _cosine(self, query: str, text: str) -> float:
        q, x = ReadingEncoder(DIM, TOKENS).encode([query, text])
        format = STORED[self.stored]
        center = center_from(self.collection.index.state.center, DIM)
        assert (center is None) == (format == FLOAT16)
        mean = np.zeros(DIM, dtype=np.float32) if center is None else center
        (x,) = format.unpack(format.pack(x[None] - mean), DIM) + mean
        return float(q @ x / np.linalg.norm(q) / np.linalg.norm(x))


def _documents(values: Model) -> list[Document]:
    return [Document(id, text, metadata={"n": n}) for id, (text, n) in values.items()]


@sweep
def test_a_collection_is_like_a_dictionary_for_thousands_of_steps() -> None:
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    run_state_machine_as_test(
        CollectionMachine,
        settings=settings(
            max_examples=CHANCE.examples(CHANCE.count(120, 2)),
            stateful_step_count=50,
            suppress_health_check=checks,
            phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking takes minutes
        ),
    )
