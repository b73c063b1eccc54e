"""WordIndex: BM25 over the words of rows, in a folder of tantivy's segments.

tantivy (Lucene's design, in Rust) adds to what is there, which bm25s can't: it computes all scores
anew. A folder never changes: what comes after an addition is another folder, which shares the files
that both have by hard links, so that a commit chooses one or the other: see `segment_folder`.

Rows are numbered as in the vectors' index. Words of deleted rows count in BM25's frequencies until
`compact`, as they do in Lucene. Scores are BM25's with k1 = 1.2 and b = 0.75 (Robertson and
Zaragoza 2009), lengths in one byte.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Rows, contains
from slimdex.indexes.errors import CorruptError

from .segment_folder import (
    file_faults,
    guarded,
    linked,
    listed,
    publish,
    segment_files,
    short_lived_folder,
    take,
    work_folder,
)
from .tokens import name_forms, name_words, names_of, words_of

HEAP_BYTES = 50_000_000
"""What a writer may hold before it writes a segment."""
AMONG = 4096
"""Rows that a search among given ones names one by one; of more it takes what it finds."""
MOST_WORDS = 1024
"""Of a query: tantivy refuses none, and goes through each."""
MANUAL = "manual"
"""A reader that no thread of tantivy's keeps up to date."""
ROW, NAME, WORDS = "row", "name", "words"
NAMED = 10.0
"""How many times the name counts, if it is all of the query: no other words come to so much."""
MOST_NAMED = 1000
"""Rows of one name that are known to have it: tantivy takes memory for as many as may be found."""


class Found(NamedTuple):
    """Rows (n,), best first, and their scores (n,).

    Attributes
    ----------
    named : (m,), those of the rows whose name is all of the query.
    """

    scores: NDArray[np.float32]
    rows: Rows
    named: Rows = np.empty(0, np.int64)


class WordIndex:
    """The words of rows, in a folder that stays as it is.

    Its files are mapped: it can be asked when they are gone from the folder.

    Attributes
    ----------
    path : the folder.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> index = WordIndex.create(folder / "1", [("a", "The cat sat."), ("b", "Dogs and a cat.")])
    >>> more = index.extended(folder / "2", [("", "A cat, a cat, a dog.")])
    >>> index.search("dog or cat", 5).rows.tolist(), more.search("dog or cat", 5).rows.tolist()
    ([0, 1], [2, 0, 1])
    """

    def __init__(self, path: Path, index: Any) -> None:
        self.path, self._index = path, index
        self._searcher = index.searcher()

    @classmethod
    def create(cls, path: Path, documents: Iterable[tuple[str, str]] = ()) -> WordIndex:
        """One of some rows' ids ("" for none) and texts, in a folder that is not there yet.

        It is durable when this returns, but for the folder's own name.

        Raises
        ------
        OSError
            If it can't be written; then nothing is left of it.
        """
        tantivy = _tantivy()
        schema = (
            tantivy.SchemaBuilder()
            .add_unsigned_field(ROW, indexed=True, fast=True)
            .add_text_field(NAME, tokenizer_name="raw", index_option="basic")
            .add_text_field(WORDS, tokenizer_name="whitespace", index_option="freq")
            .build()
        )
        with work_folder(path) as work:
            index = tantivy.Index(schema, path=str(work), reuse=False)
            _write(index, documents, 0)
            publish(work, path)
        return cls.open(path)

    @classmethod
    def open(cls, path: Path) -> WordIndex:
        """One that is there; raises `CorruptError` if it can't be read."""
        tantivy = _tantivy()
        with short_lived_folder() as links, guarded(path):
            take(path.absolute(), links, Path.symlink_to)
            index = tantivy.Index.open(str(links))
            index.config_reader(MANUAL)
            tantivy.Query.term_query(index.schema, ROW, 0)  # a foreign one has no such field
            for field in (NAME, WORDS):
                tantivy.Query.term_query(index.schema, field, "")
            return cls(path, index)

    def __len__(self) -> int:
        """Rows, those of deleted documents included."""
        return int(self._searcher.num_docs)

    def extended(self, path: Path, documents: Iterable[tuple[str, str]]) -> WordIndex:
        """Another one, with more rows after those that there are; as `create`."""
        tantivy = _tantivy()
        with work_folder(path) as work:
            take(self.path, work, linked)
            there = {file.name for file in work.iterdir()}
            _write(tantivy.Index.open(str(work)), documents, len(self))
            publish(work, path, there)
        return WordIndex.open(path)

    def search(
        self,
        text: str,
        k: int,
        rows: Rows | None = None,
        hidden: Rows | None = None,
    ) -> Found:
        """The k rows that have most of a query's words, by BM25.

        Parameters
        ----------
        rows : sorted; the search is among these.
        hidden : sorted; these are not found.
        """
        words = list(dict.fromkeys(words_of(text)))[:MOST_WORDS]
        if not words or not k or not len(self) or (rows is not None and not len(rows)):
            return Found(np.empty(0, np.float32), np.empty(0, np.int64))
        names_all = rows is not None and len(rows) <= AMONG
        names = self._names(text)
        query, ask = self._query(words, names, rows if names_all else None), k
        while True:
            found = self._asked(query, ask)
            kept = np.ones(len(found.rows), dtype=bool)
            if hidden is not None:
                kept &= ~contains(hidden, found.rows)
            if rows is not None and not names_all:
                kept &= contains(rows, found.rows)
            if kept.sum() >= k or len(found.rows) < ask:
                best, named = found.rows[kept][:k], self._named(names)
                return Found(found.scores[kept][:k], best, best[np.isin(best, named)])
            ask = min(8 * ask, len(self) + 1)

    def faults(self, rows: int) -> list[str]:
        """What is wrong with it, a line for each fault; every byte is read.

        Parameters
        ----------
        rows : there ought to be so many.
        """
        found = list[str]()
        for name in segment_files(listed(self.path), self.path):
            found += file_faults(self.path / name)
        return found or self.count_faults(rows) or self._row_faults()

    def count_faults(self, rows: int) -> list[str]:
        """A line if it has not the words of so many rows."""
        there = len(self)
        return [] if there == rows else [f"{self.path}: words of {there} rows; expected {rows}"]

    def _row_faults(self) -> list[str]:
        """A line unless each row is there once: a stranger's index may say anything."""
        every = _tantivy().Query.all_query()
        try:
            found = self._asked(every, max(len(self), 1)).rows
        except CorruptError as error:
            return [str(error)]
        is_each = np.array_equal(np.sort(found), np.arange(len(self)))
        return [] if is_each else [f"{self.path}: damaged: rows that are there twice"]

    def _names(self, text: str) -> list[Any]:
        """Queries for what has all of a text as its name."""
        terms = _tantivy().Query.term_query
        return [terms(self._index.schema, NAME, form, "basic") for form in name_forms(text)]

    def _named(self, names: list[Any]) -> Rows:
        found = [self._asked(query, MOST_NAMED).rows for query in names]
        return np.concatenate([np.empty(0, np.int64), *found])

    def _query(self, words: list[str], names: list[Any], rows: Rows | None) -> Any:
        tantivy, schema = _tantivy(), self._index.schema
        should, must = tantivy.Occur.Should, tantivy.Occur.Must
        terms = [(should, tantivy.Query.term_query(schema, WORDS, w, "freq")) for w in words]
        terms += [(should, tantivy.Query.boost_query(name, NAMED)) for name in names]
        query = tantivy.Query.boolean_query(terms)
        if rows is None:
            return query
        among = tantivy.Query.term_set_query(schema, ROW, rows.tolist())
        return tantivy.Query.boolean_query(
            [(must, query), (must, tantivy.Query.const_score_query(among, 0.0))]
        )

    def _asked(self, query: Any, k: int) -> Found:
        with guarded(self.path):
            hits = self._searcher.search(query, k, count=False).hits
            rows = self._searcher.fast_field_values(ROW, [place for _, place in hits])
        if any(row is None or row >= len(self) for row in rows):
            raise CorruptError(f"{self.path}: damaged: words of a row that is not there")
        scores = np.array([score for score, _ in hits], dtype=np.float32)
        found = np.array(rows, dtype=np.int64)
        order = np.lexsort((found, -scores))  # equal scores by their rows, however segments lie
        return Found(scores[order], found[order])


def _write(index: Any, documents: Iterable[tuple[str, str]], first: int) -> None:
    """Add ids and texts as rows first, first + 1, ...; tantivy's threads end with it."""
    index.config_reader(MANUAL)
    writer = index.writer(HEAP_BYTES, 1)
    try:
        for row, (id, text) in enumerate(documents, start=first):
            document = _tantivy().Document()
            document.add_unsigned(ROW, row)
            for name in names_of(id):
                document.add_text(NAME, name)
            document.add_text(WORDS, " ".join([*words_of(text), *name_words(id)]))
            writer.add_document(document)
        writer.commit()
    finally:
        with suppress(ValueError):  # of a writer that failed, which was said before
            writer.wait_merging_threads()


def _tantivy() -> Any:
    """The library, loaded when words are; its stubs lack some of what it has."""
    import tantivy

    return tantivy
