"""WordIndex: BM25 over the words of rows, in a folder of tantivy's.

tantivy (Lucene's design, in Rust) adds to what is there, which bm25s can't: it computes all scores
anew. Rows are numbered as in the vectors' index. Whoever searches says how many of them there are,
and which are hidden: what an interrupted addition has left beyond is not seen, and removed before
the next one. Words of deleted rows count in BM25's frequencies until `compact`, as they do in
Lucene.

Scores are BM25's with k1 = 1.2 and b = 0.75 (Robertson and Zaragoza 2009), lengths in one byte.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Rows, contains
from slimdex.indexes.errors import CorruptError, InputError, SlimdexError

from .tokens import name_words, words_of

HEAP_BYTES = 50_000_000
"""What a writer may hold before it writes a segment."""
AMONG = 4096
"""Rows that a search among given ones names one by one; of more it takes what it finds."""
MOST_WORDS = 1024
"""Of a query: tantivy refuses none, and goes through each."""
LITTLE_BYTES = 1 << 20
"""Left on a disk that is full."""
MAGIC = 1337
"""What every file of tantivy's ends with, after the length of its footer."""
ROW, WORDS = "row", "words"
MANUAL = "manual"
"""A reader that no thread of tantivy's keeps up to date: it is asked to."""


class Found(NamedTuple):
    """Rows (n,) that have some of a query's words, best first, and their scores (n,)."""

    scores: NDArray[np.float32]
    rows: Rows


class WordIndex:
    """The words of rows in a folder; what it finds is what it had when it was opened.

    Attributes
    ----------
    path : the folder.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp()) / "words"
    >>> index = WordIndex.create(folder)
    >>> index = index.extended([("a", "The cat sat."), ("b", "Dogs and a cat, a cat.")], 0)
    >>> index.search("cats, dogs or a cat", 5, stop=2).rows.tolist()
    [1, 0]
    """

    def __init__(self, path: Path, index: Any) -> None:
        self.path, self._index = path, index
        self._searcher = index.searcher()

    @classmethod
    def create(cls, path: Path) -> WordIndex:
        """An empty one, in a folder that is not there yet."""
        tantivy = _tantivy()
        schema = (
            tantivy.SchemaBuilder()
            .add_unsigned_field(ROW, indexed=True, fast=True)
            .add_text_field(WORDS, tokenizer_name="whitespace", index_option="freq")
            .build()
        )
        with _guarded(path):
            path.mkdir()
            index = tantivy.Index(schema, path=str(path), reuse=False)
            index.config_reader(MANUAL)
            return cls(path, index)

    @classmethod
    def open(cls, path: Path) -> WordIndex:
        """One that is there; raises `CorruptError` if it can't be read."""
        tantivy = _tantivy()
        with _guarded(path):
            index = tantivy.Index.open(str(path))
            index.config_reader(MANUAL)
            found = cls(path, index)
            tantivy.Query.term_query(index.schema, ROW, 0)  # a foreign one has no such field
            tantivy.Query.term_query(index.schema, WORDS, "")
            return found

    def __len__(self) -> int:
        """Rows, those of deleted documents and of an interrupted addition included."""
        return int(self._searcher.num_docs)

    @property
    def nbytes(self) -> int:
        """On disk; of that the system keeps in memory what was read, as long as there is room."""
        return sum(file.stat().st_size for file in self.path.iterdir())

    def extended(self, documents: Iterable[tuple[str, str]], first: int) -> WordIndex:
        """What it is with rows first, first + 1, ... of an id ("" for none) and a text each.

        Rows from `first` on that are there, of an addition that failed, are removed. It is durable
        when this returns. This one goes on finding what it did.
        """
        with _guarded(self.path, writing=True), self._written() as writer:
            writer.delete_documents_by_query(self._from(first))
            for row, (id, text) in enumerate(documents, start=first):
                words = [*words_of(text), *name_words(id)]
                document = _tantivy().Document()
                document.add_unsigned(ROW, row)
                document.add_text(WORDS, " ".join(words))
                writer.add_document(document)
            writer.commit()
        with _guarded(self.path):
            self._index.reload()
            return WordIndex(self.path, self._index)

    def search(
        self,
        text: str,
        k: int,
        stop: int,
        rows: Rows | None = None,
        hidden: Rows | None = None,
    ) -> Found:
        """The k rows before `stop` that have a query's words, by BM25.

        Parameters
        ----------
        rows : sorted; the search is among these.
        hidden : sorted; these are not found.
        """
        words = list(dict.fromkeys(words_of(text)))[:MOST_WORDS]
        if not words or not k or not len(self) or (rows is not None and not len(rows)):
            return Found(np.empty(0, np.float32), np.empty(0, np.int64))
        names_all = rows is not None and len(rows) <= AMONG
        query, ask = self._query(words, rows if names_all else None), k
        while True:
            found = self._asked(query, ask)
            kept = found.rows < stop
            if hidden is not None:
                kept &= ~contains(hidden, found.rows)
            if rows is not None and not names_all:
                kept &= contains(rows, found.rows)
            if kept.sum() >= k or len(found.rows) < ask:
                return Found(found.scores[kept][:k], found.rows[kept][:k])
            ask = min(8 * ask, len(self) + 1)

    def faults(self, rows: int) -> list[str]:
        """What is wrong with it, a line for each fault; every byte is read.

        Parameters
        ----------
        rows : there ought to be so many, or more.
        """
        found = [fault for file in sorted(self.path.iterdir()) for fault in _file_faults(file)]
        return found or self.count_faults(rows)

    def count_faults(self, rows: int) -> list[str]:
        """Whether it has as many rows before that number as there are; a line if it has not."""
        count = self._before(rows)
        return [] if count == rows else [f"{self.path}: words of {count} rows; expected {rows}"]

    @contextmanager
    def _written(self) -> Iterator[Any]:
        """A writer that has ended when this ends, and its lock and threads with it."""
        writer = self._index.writer(HEAP_BYTES, 1)
        try:
            yield writer
        except BaseException as error:
            is_full = shutil.disk_usage(self.path).free < LITTLE_BYTES
            with suppress(ValueError):
                writer.wait_merging_threads()
            with suppress(ValueError):  # what it has written may fill the disk
                writer = self._index.writer(HEAP_BYTES, 1)
                writer.garbage_collect_files()
            if is_full and isinstance(error, ValueError):  # of its threads it says no more
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path)) from error
            raise
        finally:
            with suppress(ValueError):  # of a writer that failed, which was said before
                writer.wait_merging_threads()

    def _query(self, words: list[str], rows: Rows | None) -> Any:
        tantivy, schema = _tantivy(), self._index.schema
        should, must = tantivy.Occur.Should, tantivy.Occur.Must
        terms = [(should, tantivy.Query.term_query(schema, WORDS, w, "freq")) for w in words]
        query = tantivy.Query.boolean_query(terms)
        if rows is None:
            return query
        among = tantivy.Query.term_set_query(schema, ROW, rows.tolist())
        return tantivy.Query.boolean_query(
            [(must, query), (must, tantivy.Query.const_score_query(among, 0.0))]
        )

    def _asked(self, query: Any, k: int) -> Found:
        with _guarded(self.path):
            hits = self._searcher.search(query, k, count=False).hits
            rows = self._searcher.fast_field_values(ROW, [place for _, place in hits])
        scores = np.array([score for score, _ in hits], dtype=np.float32)
        found = np.array([-1 if row is None else row for row in rows], dtype=np.int64)
        order = np.lexsort((found, -scores))  # equal scores by their rows, however segments lie
        return Found(scores[order], found[order])

    def _from(self, row: int) -> Any:
        tantivy = _tantivy()
        return tantivy.Query.range_query(
            self._index.schema, ROW, tantivy.FieldType.Unsigned, lower_bound=row
        )

    def _before(self, row: int) -> int:
        with _guarded(self.path):
            beyond = self._searcher.search(self._from(row), 1, count=True).count
        return len(self) - int(beyond or 0)


_NUMBER = re.compile(r"(?:os error|code:) (\d+)")
"""How the system's refusals stand in what Rust says."""


def _file_faults(path: Path) -> Iterator[str]:
    """Faults of a file: tantivy's have a checksum at their end; its lists of them are JSON."""
    data = path.read_bytes()
    if path.suffix in (".json", ".lock") or path.name.startswith("."):
        if path.suffix == ".json":
            try:
                json.loads(data)
            except ValueError:
                yield f"{path}: damaged: no JSON"
        return
    length, magic = (int.from_bytes(data[a:b], "little") for a, b in ((-8, -4), (-4, len(data))))
    body = data[: -8 - length] if magic == MAGIC and length <= len(data) - 8 else None
    try:
        footer = {} if body is None else json.loads(data[len(body) : -8])
        is_whole = body is not None and footer["crc"] == zlib.crc32(body)
    except (ValueError, KeyError, TypeError):
        is_whole = False
    if not is_whole:
        yield f"{path}: damaged: another checksum"


@contextmanager
def _guarded(path: Path, *, writing: bool = False) -> Iterator[None]:
    """What tantivy says of a folder that it can't read or write, in a line.

    Of damaged files it may even panic, which reaches Python as no `Exception`.
    """
    try:
        yield
    except SlimdexError:
        raise
    except BaseException as error:
        reason = " ".join(str(error).split())[:300]
        is_theirs = type(error).__name__ == "PanicException" or type(error) is ValueError
        if isinstance(error, OSError) and error.errno is not None:
            raise
        if not is_theirs and not isinstance(error, OSError):
            raise
        if (number := _NUMBER.search(reason)) is not None:
            code = int(number[1])
            raise OSError(code, os.strerror(code), str(path)) from error
        if writing:
            raise OSError(errno.EIO, f"words can't be written ({reason})", str(path)) from error
        raise CorruptError(f"{path}: damaged ({reason})") from error


def _tantivy() -> Any:
    """The library, which may not be there; its stubs lack some of what it has."""
    try:
        import tantivy
    except ImportError as error:
        raise InputError(
            "words beside meaning need tantivy; expected `pip install 'slimdex[hybrid]'`"
        ) from error
    return tantivy
