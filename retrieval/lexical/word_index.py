"""WordIndex: BM25 over the words of rows, in a folder of tantivy's segments.

Tantivy (Lucene's design, in Rust) supports appending; bm25s would recompute all scores. A folder is
immutable: adding rows creates another folder that shares files by hard links, and a commit chooses
one of them: see `segment_folder`.

Rows have the numbers of the vector index. As in Lucene, words of deleted rows count in BM25's
frequencies until `compact`. BM25 has k1 = 1.2 and b = 0.75 (Robertson and Zaragoza 2009), with
lengths stored in one byte.
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
    link_files,
    link_or_copy,
    publish,
    read_list,
    segment_files,
    short_lived_folder,
    tantivy_errors,
    work_folder,
)
from .tokens import misspelt_form, name_forms, name_words, names_of, stemmer, stems_of, words_of

HEAP_BYTES = 50_000_000
"""Memory of a writer before it writes a segment."""
AMONG = 4096
"""Largest row filter passed to tantivy; results are filtered afterwards for more rows."""
MOST_WORDS = 1024
"""Largest number of words used of a query; tantivy itself has no limit."""
MANUAL = "manual"
"""Reload policy without a background thread."""
ROW, NAME, STEMS = "row", "name", "stems"
"""Fields; the last is also the name of its analyzer, which a writer registers."""
NAMED = 10.0
"""Boost of a name that equals the query; exceeds the score of any other words."""
MOST_NAMED = 1000
"""Most rows found by an exact name; tantivy allocates memory for that many."""


class Found(NamedTuple):
    """Search results: rows (n,), best first, and their scores (n,).

    `named` (m,) are the rows whose name equals the query; if it occurs nowhere, within one edit.
    """

    scores: NDArray[np.float32]
    rows: Rows
    named: Rows = np.empty(0, np.int64)


class WordIndex:
    """BM25 index of rows, in an immutable folder.

    Its files are memory-mapped: it stays usable when they are deleted.

    Attributes
    ----------
    path : the folder.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> index = WordIndex.create(folder / "1", [("a", "The cat sat."), ("b", "Dogs and a cat.")])
    >>> more = index.extended(folder / "2", [("", "A cat, a cat, a dog.")])
    >>> index.search("dog or cat", 5).rows.tolist(), more.search("dog or cat", 5).rows.tolist()
    ([1, 0], [2, 1, 0])
    """

    def __init__(self, path: Path, index: Any) -> None:
        self.path, self._index = path, index
        self._searcher = index.searcher()

    @classmethod
    def create(cls, path: Path, documents: Iterable[tuple[str, str]] = ()) -> WordIndex:
        """Index rows' ids ("" for none) and texts in a new folder.

        The files are durable when this returns; the caller syncs the parent folder.

        Raises `OSError` if it can't be written; partial files are removed.
        """
        tantivy = _tantivy()
        schema = (
            tantivy.SchemaBuilder()
            .add_unsigned_field(ROW, indexed=True, fast=True)
            .add_text_field(NAME, tokenizer_name="raw", index_option="basic")
            .add_text_field(STEMS, tokenizer_name=STEMS, index_option="freq")
            .build()
        )
        with work_folder(path) as work:
            index = tantivy.Index(schema, path=str(work), reuse=False)
            _write(index, documents, 0)
            publish(work, path)
        return cls.open(path)

    @classmethod
    def open(cls, path: Path) -> WordIndex:
        """Open an existing index; raise `CorruptError` if it can't be read."""
        tantivy = _tantivy()
        with short_lived_folder() as links, tantivy_errors(path):
            link_files(path.absolute(), links, Path.symlink_to)
            index = tantivy.Index.open(str(links))
            index.config_reader(MANUAL)
            tantivy.Query.term_query(index.schema, ROW, 0)  # raises if the field is missing
            for field in (NAME, STEMS):
                tantivy.Query.term_query(index.schema, field, "")
            return cls(path, index)

    def __len__(self) -> int:
        """Number of rows, including deleted ones."""
        return int(self._searcher.num_docs)

    def extended(self, path: Path, documents: Iterable[tuple[str, str]]) -> WordIndex:
        """Create an index in a new folder with further rows; see `create`."""
        tantivy = _tantivy()
        with work_folder(path) as work:
            link_files(self.path, work, link_or_copy)
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
        """Return the k best rows for a query by BM25.

        Parameters
        ----------
        rows : sorted; restricts the search.
        hidden : sorted; never returned.
        """
        words = list(dict.fromkeys(stems_of(text)))[:MOST_WORDS]
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
        """List faults, one per line, reading every byte.

        `rows` is the expected number of rows.
        """
        found = list[str]()
        for name in segment_files(read_list(self.path), self.path):
            found += file_faults(self.path / name)
        return found or self.count_faults(rows) or self._row_faults()

    def count_faults(self, rows: int) -> list[str]:
        """List a fault if the number of rows is not as expected."""
        there = len(self)
        return [] if there == rows else [f"{self.path}: words of {there} rows; expected {rows}"]

    def _row_faults(self) -> list[str]:
        """List a fault unless each row occurs once; an untrusted index may hold anything."""
        every = _tantivy().Query.all_query()
        try:
            found = self._asked(every, max(len(self), 1)).rows
        except CorruptError as error:
            return [str(error)]
        is_each = np.array_equal(np.sort(found), np.arange(len(self)))
        return [] if is_each else [f"{self.path}: damaged: duplicate rows"]

    def _names(self, text: str) -> list[Any]:
        """Queries for rows whose name equals a text, or if it occurs nowhere, nearly does."""
        query, schema = _tantivy().Query, self._index.schema
        names = [query.term_query(schema, NAME, form, "basic") for form in name_forms(text)]
        form = misspelt_form(text)
        if form is None or len(self._named(names)):
            return names
        whole = query.term_query(schema, STEMS, stems_of(form)[-1], "basic")
        if len(self._asked(whole, 1).rows):
            return names
        return [query.fuzzy_term_query(schema, NAME, form, 1)]

    def _named(self, names: list[Any]) -> Rows:
        found = [self._asked(query, MOST_NAMED).rows for query in names]
        return np.concatenate([np.empty(0, np.int64), *found])

    def _query(self, words: list[str], names: list[Any], rows: Rows | None) -> Any:
        tantivy, schema = _tantivy(), self._index.schema
        should, must = tantivy.Occur.Should, tantivy.Occur.Must
        terms = [(should, tantivy.Query.term_query(schema, STEMS, w, "freq")) for w in words]
        terms += [(should, tantivy.Query.boost_query(name, NAMED)) for name in names]
        query = tantivy.Query.boolean_query(terms)
        if rows is None:
            return query
        among = tantivy.Query.term_set_query(schema, ROW, rows.tolist())
        return tantivy.Query.boolean_query(
            [(must, query), (must, tantivy.Query.const_score_query(among, 0.0))]
        )

    def _asked(self, query: Any, k: int) -> Found:
        with tantivy_errors(self.path):
            hits = self._searcher.search(query, k, count=False).hits
            rows = self._searcher.fast_field_values(ROW, [place for _, place in hits])
        if any(row is None or row >= len(self) for row in rows):
            raise CorruptError(f"{self.path}: damaged: words of a missing row")
        scores = np.array([score for score, _ in hits], dtype=np.float32)
        found = np.array(rows, dtype=np.int64)
        order = np.lexsort((found, -scores))  # ties by row, independent of segments
        return Found(scores[order], found[order])


def _write(index: Any, documents: Iterable[tuple[str, str]], first: int) -> None:
    """Add ids and texts as rows first, first + 1, ..., and wait for tantivy's threads."""
    index.config_reader(MANUAL)
    index.register_tokenizer(STEMS, stemmer())
    writer = index.writer(HEAP_BYTES, 1)
    try:
        for row, (id, text) in enumerate(documents, start=first):
            document = _tantivy().Document()
            document.add_unsigned(ROW, row)
            for name in names_of(id):
                document.add_text(NAME, name)
            document.add_text(STEMS, " ".join([*words_of(text), *name_words(id)]))
            writer.add_document(document)
        writer.commit()
    finally:
        with suppress(ValueError):  # the writer failed, which was raised above
            writer.wait_merging_threads()


def _tantivy() -> Any:
    """Import the library on first use, untyped: its stubs are incomplete."""
    import tantivy

    return tantivy
