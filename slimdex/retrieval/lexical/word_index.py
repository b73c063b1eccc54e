"""WordIndex: BM25 over the words of rows, in a folder of tantivy's segments.

Tantivy (Lucene's design, in Rust) supports appending; bm25s would recompute all scores. A folder is
immutable: adding rows creates another folder that shares files by hard links, and a commit chooses
one of them: see `segment_folder`.

Rows have the numbers of the vector index. As in Lucene, words of deleted rows count in BM25's
frequencies until the index is rebuilt, with blank rows in their place. BM25 has k1 = 1.2 and
b = 0.75 (Robertson and Zaragoza 2009), with lengths stored in one byte.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from math import log
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import CorruptError
from slimdex.indexes.arrays import NO_ROWS, Rows, contains
from slimdex.system.atomic_files import size

from .code_files import is_code_path
from .rare_words import RareWords
from .segment_folder import (
    file_faults,
    has_memory,
    link_files,
    link_or_copy,
    publish,
    read_list,
    segment_files,
    short_lived_folder,
    symlink_or_copy,
    tantivy_errors,
    work_folder,
)
from .tokens import (
    PROPER,
    forms_of,
    full_names,
    id_terms,
    misspelt_form,
    name_forms,
    stemmer,
    stems_of,
    text_terms,
)

MERGED = 8
MERGED_ROWS = 10_000
"""tantivy merges segments once `MERGED` of them have at most `MERGED_ROWS` rows each."""
FEW = 1024
"""Most documents that are added in a folder in memory."""
HEAP_BYTES = 50_000_000
"""Memory of a writer before it writes a segment."""
MOST_WORDS = 1024
"""Largest number of words used of a query; tantivy itself has no limit."""
MANUAL = "manual"
"""Reload policy without a background thread."""
ROW = "row"
NAME = "name"
"""Fields of a document in tantivy."""
FORMS = "forms"
"""Field of further forms of the words, and of proper names (`text_terms`)."""
STEMS = "stems"
"""Field of the text's words, and the name of its analyzer, which a writer registers."""
COMMON = 0.2
FEWEST_COMMON = 100_000
"""Share and number of rows above which a word of a query is not searched. In small indexes all are:
there it costs little, and a word that most texts of one subject share can matter."""
CODE = " source code "
"""Name of rows of source code, to count them; more than one edit from any name without spaces."""
NAME_BOOST = 10.0
"""Boost of a name that equals the query; exceeds the score of any other words."""
MOST_NAMED = 1000
"""Most rows found by an exact name; tantivy allocates memory for that many."""


class ScoredRows(NamedTuple):
    """Search results: rows (n,), best first, and their scores (n,).

    `named` (m,) are the rows whose name equals the query; if it occurs nowhere, within one edit.
    `ideal` is the score of a row of mean length with each word searched once; 1 if unknown.
    `rare` (n,) are the bonuses of the rows' rare codes and names (`rare_words`); empty for none.
    """

    scores: NDArray[np.float32]
    rows: Rows
    named: Rows = NO_ROWS
    ideal: float = 1.0
    rare: NDArray[np.float64] = np.empty(0)


class WordIndex:
    """BM25 index of rows, in an immutable folder.

    Its files are memory-mapped: it stays usable when they are deleted.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> index = WordIndex.create(folder / "1", [("a", "The cat sat."), ("b", "Dogs and a cat.")])
    >>> write_extended(folder / "1", 2, folder / "2", [("", "A cat, a cat, a dog.")])
    >>> more = WordIndex.open(folder / "2")
    >>> index.search("dog or cat", 5).rows.tolist(), more.search("dog or cat", 5).rows.tolist()
    ([1, 0], [1, 2, 0])
    """

    def __init__(self, path: Path, index: Any) -> None:
        self.path = path
        self._index = index
        self._sizes = [(each.path, each.stat().st_size) for each in os.scandir(path)]
        self._searcher = index.searcher()

    @classmethod
    def create(cls, path: Path, documents: Iterable[tuple[str, str]] = ()) -> WordIndex:
        """Index rows' ids ("" for none) and texts in a new folder.

        The files are durable when this returns; a commit syncs the parent folder.

        Raises `OSError` if it can't be written; partial files are removed.
        """
        tantivy = _tantivy()
        schema = (
            tantivy.SchemaBuilder()
            .add_unsigned_field(ROW, fast=True)
            .add_text_field(NAME, tokenizer_name="raw", index_option="basic")
            .add_text_field(FORMS, tokenizer_name="raw", index_option="basic")
            .add_text_field(STEMS, tokenizer_name=STEMS, index_option="freq")
            .build()
        )
        with work_folder(path) as work:
            index = tantivy.Index(schema, path=str(work), reuse=False)
            index.config_reader(MANUAL)
            _write(index, documents, 0)
            publish(work, path)
        return cls.open(path)

    @classmethod
    def open(cls, path: Path, more: Sequence[tuple[str, str]] = ()) -> WordIndex:
        """Open an existing index; `more` rows' ids and texts are added in memory.

        Raises `CorruptError` if it can't be read.
        """
        tantivy = _tantivy()
        with short_lived_folder(path) as links, tantivy_errors(path):
            link_files(path.absolute(), links, symlink_or_copy)
            index = tantivy.Index.open(str(links))
            index.config_reader(MANUAL)
            tantivy.Query.term_query(index.schema, ROW, 0)  # raises if the field is missing
            for field in (NAME, FORMS, STEMS):
                tantivy.Query.term_query(index.schema, field, "")
            if more:
                with tantivy_errors(path, writing=True):
                    _write(index, more, int(index.searcher().num_docs))
                index.reload()
            return cls(path, index)

    def __len__(self) -> int:
        """Number of rows, including deleted ones."""
        return int(self._searcher.num_docs)

    @property
    def code_count(self) -> int:
        """Number of rows of source code."""
        return self._count(NAME, CODE)

    def check_files(self, *, deleted: bool = False) -> None:
        """Raise `CorruptError` if a file has been cut since it was mapped.

        Reading such a file would kill the process. With `deleted`, files must also exist.
        """
        for path, expected in self._sizes:
            try:
                size = os.stat(path).st_size
            except FileNotFoundError:
                if deleted:
                    raise CorruptError(f"{path}: deleted while it was open") from None
                continue  # its map stays readable
            if size < expected:
                raise CorruptError(
                    f"{path}: cut to {size:,} bytes while it was open; expected {expected:,}"
                )

    def search(self, text: str, k: int, hidden: Rows = NO_ROWS) -> ScoredRows:
        """Return the k best rows for a query by BM25; `hidden` rows, sorted, are never returned.

        Words that more than `COMMON` of the rows have are left out of a large index, if others can
        be found: a search would read little else, and they tell few rows apart.
        """
        words = list(dict.fromkeys(stems_of(text)))[:MOST_WORDS]
        if not words or not k or not len(self):
            return ScoredRows(np.empty(0, np.float32), NO_ROWS)
        self.check_files()

        # Weights of the words, and rows whose name is the query.
        counts = {word: self._rows_with(word) for word in words}
        for form in forms_of(text)[:MOST_WORDS]:
            if len(form) > 1 and (rows := self._count(FORMS, form)):
                counts.setdefault(form, rows)
        idfs = idfs_of(counts, len(self))
        names = self._names(text)
        named = NO_ROWS
        for name in names:
            named = np.concatenate([named, self._best_rows(name, MOST_NAMED).rows])

        # Rows that have any of the words, and the bonuses of rare ones.
        query = self._query(idfs, names if len(named) else [])
        best = self._best_visible_rows(query, k, hidden)
        full = {name: self._count(FORMS, name) for name in full_names(text)}
        rare = RareWords.of(
            text,
            full | counts,
            idfs_of(full, len(self)) | idfs,
            len(self),
            lambda word: self._count(FORMS, f"{PROPER}{word}") > 0,
        )
        return best._replace(
            named=best.rows[contains(np.sort(named), best.rows)],
            ideal=sum(idfs[word] for word in words if word in idfs),
            rare=self._rare(rare, best.rows, best.scores),
        )

    def _best_visible_rows(self, query: Any, k: int, hidden: Rows) -> ScoredRows:
        """Find the k best rows of a tantivy query that are not among sorted `hidden` rows."""
        k = min(k, len(self))  # tantivy allocates memory for as many as it is asked for
        ask = k
        while True:
            hits = self._best_rows(query, ask)
            is_visible = ~contains(hidden, hits.rows)
            has_all = len(hits.rows) < ask
            if has_all or is_visible.sum() >= k:
                return ScoredRows(hits.scores[is_visible][:k], hits.rows[is_visible][:k])
            ask = min(8 * ask, len(self) + 1)  # one more than all, so that `has_all` becomes true

    def _rare(
        self, words: RareWords, rows: Rows, scores: NDArray[np.float32]
    ) -> NDArray[np.float64]:
        """Bonuses of the rare words of rows (n,), which have these scores by BM25."""
        if not words.idfs:
            return np.zeros(len(rows))

        # Score each row by the sum of the idfs of its rare words.
        schema = self._index.schema
        query = _tantivy().Query
        should = _tantivy().Occur.Should
        terms = []
        most = 0  # number of rows that can match
        for word, idf in words.idfs.items():
            fields = [query.term_query(schema, field, word) for field in (STEMS, FORMS)]
            term = query.disjunction_max_query(fields)
            terms.append((should, query.const_score_query(term, idf)))
            most += self._rows_with(word)
        matches = self._best_rows(query.boolean_query(terms), most)
        idf_sums = dict(zip(matches.rows.tolist(), matches.scores.tolist(), strict=True))
        return words.bonuses(np.array([idf_sums.get(row, 0.0) for row in rows.tolist()]), scores)

    def faults(self, rows: int) -> list[str]:
        """List faults, one per line, reading every byte.

        `rows` is the expected number of rows.
        """
        damaged = list[str]()
        for name in segment_files(read_list(self.path), self.path):
            damaged += file_faults(self.path / name)
        return damaged or self.count_faults(rows) or self._row_faults()

    def count_faults(self, rows: int) -> list[str]:
        """List a fault if the number of rows is not as expected."""
        return _count_faults(self.path, len(self), rows)

    def _row_faults(self) -> list[str]:
        """List a fault unless each row occurs once; an untrusted index may hold anything."""
        every = _tantivy().Query.all_query()
        try:
            indexed = self._best_rows(every, max(len(self), 1)).rows
        except CorruptError as error:
            return [str(error)]
        has_each_once = np.array_equal(np.sort(indexed), np.arange(len(self)))
        return [] if has_each_once else [f"{self.path}: damaged: duplicate rows"]

    def _names(self, text: str) -> list[Any]:
        """Queries for the names that equal a text, or if it occurs nowhere, nearly do."""
        query = _tantivy().Query
        schema = self._index.schema
        existing = [form for form in name_forms(text) if self._count(NAME, form)]
        if existing:
            return [query.term_query(schema, NAME, form, "basic") for form in existing]

        # No name equals the text. If it is no indexed word either, look for names within one edit.
        form = misspelt_form(text)
        if form is None or self._count(STEMS, stems_of(form)[-1]):
            return []
        return [query.fuzzy_term_query(schema, NAME, form, 1)]

    def _query(self, words: Mapping[str, float], names: list[Any]) -> Any:
        """Build a query for rows with any of these stems, or one of the names from `_names`.

        The words have their inverse document frequencies, the scores of further forms.
        """
        query = _tantivy().Query
        schema = self._index.schema
        should = _tantivy().Occur.Should
        terms = []
        for word, idf in words.items():
            terms.append((should, query.term_query(schema, STEMS, word, "freq")))
            form = query.term_query(schema, FORMS, word, "basic")
            terms.append((should, query.const_score_query(form, idf)))
        for name in names:
            terms.append((should, query.boost_query(name, NAME_BOOST)))
        return query.boolean_query(terms)

    def _rows_with(self, word: str) -> int:
        """Number of rows that have a word, at most the sum of both fields."""
        return min(self._count(STEMS, word) + self._count(FORMS, word), len(self))

    def _count(self, field: str, term: str) -> int:
        """Number of rows that have a term in a field."""
        with tantivy_errors(self.path):
            return int(self._searcher.doc_freq(field, term))

    def _best_rows(self, query: Any, k: int) -> ScoredRows:
        """Find the k best rows of a tantivy query; raise `CorruptError` if a row does not exist."""
        with tantivy_errors(self.path):
            hits = self._searcher.search(query, k, count=False).hits
            rows = self._searcher.fast_field_values(ROW, [address for _, address in hits])
        scores = np.array([score for score, _ in hits], dtype=np.float32)

        # A document without a row number gets an invalid one, which is refused.
        numbers = np.array([len(self) if row is None else row for row in rows], dtype=np.uint64)
        if len(numbers) and numbers.max() >= len(self):
            raise CorruptError(f"{self.path}: damaged: words of a missing row")
        order = np.lexsort((numbers, -scores))  # ties by row, independent of segments
        return ScoredRows(scores[order], numbers[order].astype(np.int64))


def would_merge(path: Path, rows: int) -> bool:
    """True if another small segment makes tantivy merge some, which takes longer than writing it.

    Raises `CorruptError` if the index has another number of rows.

    >>> import tempfile
    >>> index = WordIndex.create(Path(tempfile.mkdtemp()) / "1", [("a", "The cat sat.")])
    >>> would_merge(index.path, 1)
    False
    """
    counts: list[int] = [segment["max_doc"] for segment in read_list(path)["segments"]]
    _check_count(path, sum(counts), rows)
    return sum(count <= MERGED_ROWS for count in counts) + 1 >= MERGED


def write_extended(old: Path, rows: int, path: Path, documents: Iterable[tuple[str, str]]) -> None:
    """Write an existing index, of `rows` rows, and further rows to a new folder.

    The files are durable when this returns. Raises `CorruptError` if the existing index has another
    number of rows.
    """
    # Write few documents in memory, if there is enough of it.
    documents = iter(documents)
    few = list(islice(documents, FEW + 1))  # one more than FEW, to see whether there are more
    nbytes = size(old) + sum(len(id) + len(text) for id, text in few)
    in_memory = len(few) <= FEW and has_memory(4 * nbytes)

    # Start the new index with the old one's files, and add to it.
    with work_folder(path, in_memory=in_memory) as work:
        link_files(old.absolute(), work, symlink_or_copy if in_memory else link_or_copy)
        names = {file.name for file in work.iterdir()}
        index = _tantivy().Index.open(str(work))
        index.config_reader(MANUAL)
        _check_count(old, int(index.searcher().num_docs), rows)
        _write(index, chain(few, documents), rows)
        publish(work, path, names)


def _count_faults(path: Path, count: int, rows: int) -> list[str]:
    return [] if count == rows else [f"{path}: words of {count} rows; expected {rows}"]


def _check_count(path: Path, count: int, rows: int) -> None:
    for fault in _count_faults(path, count, rows):
        raise CorruptError(fault)


def idfs_of(counts: Mapping[str, int], total: int) -> dict[str, float]:
    """Inverse document frequencies, as in Lucene, of the words to search.

    `counts` are the rows of each word, of `total`.

    >>> idfs_of({"cat": 1, "dog": 2}, 2)
    {'cat': 0.6931471805599453, 'dog': 0.1823215567939546}
    """
    most = max(COMMON * total, FEWEST_COMMON)
    telling = {word: rows for word, rows in counts.items() if rows <= most}
    # If no row has a telling word, all words are searched.
    searched = telling if any(telling.values()) else counts
    return {word: log(1 + (total - rows + 0.5) / (rows + 0.5)) for word, rows in searched.items()}


def _write(index: Any, documents: Iterable[tuple[str, str]], first: int) -> None:
    """Add ids and texts as rows first, first + 1, ..., and wait for tantivy's threads."""
    index.register_tokenizer(STEMS, stemmer())
    writer = index.writer(HEAP_BYTES, 1)
    try:
        for row, (id, text) in enumerate(documents, start=first):
            document = _tantivy().Document()
            document.add_unsigned(ROW, row)
            names, words = id_terms(id)
            for name in names:
                document.add_text(NAME, name)
            if is_code_path(id):
                document.add_text(NAME, CODE)
            text_words, forms = text_terms(text)
            document.add_text(STEMS, f"{text_words} {words}")
            for form in forms:
                document.add_text(FORMS, form)
            writer.add_document(document)
        writer.commit()
    finally:
        with suppress(ValueError):  # the writer failed, which was raised above
            writer.wait_merging_threads()


def _tantivy() -> Any:
    """Import the library on first use, untyped: its stubs are incomplete."""
    import tantivy  # not needed to open an index

    return tantivy
