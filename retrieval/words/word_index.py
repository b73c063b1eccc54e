"""WordIndex: BM25 over the words of rows, in a folder of tantivy's segments.

tantivy (Lucene's design, in Rust) adds to what is there, which bm25s can't: it computes all scores
anew. A folder never changes: what comes after an addition is another folder, which shares the files
that both have by hard links, so that a commit chooses one or the other. Beside the segments lies
their list with a checksum; tantivy, which wants to write locks and lists of its own, works in
folders for that.

Rows are numbered as in the vectors' index. Words of deleted rows count in BM25's frequencies until
`compact`, as they do in Lucene. Scores are BM25's with k1 = 1.2 and b = 0.75 (Robertson and
Zaragoza 2009), lengths in one byte.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slimdex.indexes.arrays import Rows, contains
from slimdex.indexes.errors import CorruptError, InputError, SlimdexError
from slimdex.indexes.json_text import READABLE, parsed

from ..atomic_files import sync
from .tokens import name_forms, name_words, names_of, words_of

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
LIST, THEIR_LIST = "segments.json", "meta.json"
"""Our list of what belongs to an index, which holds tantivy's, and where tantivy looks for that."""
REMOVALS = 10
"""Attempts to remove a folder that someone may write into meanwhile."""
MANUAL = "manual"
"""A reader that no thread of tantivy's keeps up to date."""
ENDINGS = ("fast", "fieldnorm", "idx", "store", "term")
"""Of the files that every segment has."""
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
        with _work(path) as work:
            index = tantivy.Index(schema, path=str(work), reuse=False)
            _write(index, documents, 0)
            _publish(work, path)
        return cls.open(path)

    @classmethod
    def open(cls, path: Path) -> WordIndex:
        """One that is there; raises `CorruptError` if it can't be read."""
        tantivy = _tantivy()
        with _short_lived_folder() as links, _guarded(path):
            _take(path.absolute(), links, Path.symlink_to)
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
        with _work(path) as work:
            _take(self.path, work, _linked)
            there = {file.name for file in work.iterdir()}
            _write(tantivy.Index.open(str(work)), documents, len(self))
            _publish(work, path, there)
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
        for name in _segment_files(_listed(self.path), self.path):
            found += _file_faults(self.path / name)
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
        with _guarded(self.path):
            hits = self._searcher.search(query, k, count=False).hits
            rows = self._searcher.fast_field_values(ROW, [place for _, place in hits])
        if any(row is None or row >= len(self) for row in rows):
            raise CorruptError(f"{self.path}: damaged: words of a row that is not there")
        scores = np.array([score for score, _ in hits], dtype=np.float32)
        found = np.array(rows, dtype=np.int64)
        order = np.lexsort((found, -scores))  # equal scores by their rows, however segments lie
        return Found(scores[order], found[order])


@contextmanager
def _short_lived_folder() -> Iterator[Path]:
    """A folder for links, which tantivy needs until the files are mapped.

    A thread that it has for a moment may put a lock there while the folder is removed.
    """
    folder = Path(mkdtemp(prefix="slimdex-words-"))
    try:
        yield folder
    finally:
        for _ in range(REMOVALS):
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                break


@contextmanager
def _work(path: Path) -> Iterator[Path]:
    """A folder to write in, gone at the end; should that fail, what was made by `path`, too."""
    work = path.with_name(f"{path.name}.tmp")
    for old in (work, path):  # of a process that was killed right here
        shutil.rmtree(old, ignore_errors=True)
    work.mkdir()
    try:
        with _guarded(path, writing=True):
            yield work
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


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


def _publish(work: Path, path: Path, durable: Collection[str] = ()) -> None:
    """Move an index from where tantivy wrote it to a folder of its own, durably.

    Parameters
    ----------
    durable : names of files whose bytes are on disk already.
    """
    theirs = (work / THEIR_LIST).read_text()
    path.mkdir()
    for name in _segment_files(parsed(theirs), work):
        _linked(path / name, work / name)
        if name not in durable:
            sync(path / name)
    ours = json.dumps({"crc": zlib.crc32(theirs.encode()), "list": theirs})
    (path / LIST).write_text(ours)
    sync(path / LIST)
    sync(path)


def _take(path: Path, folder: Path, link: Callable[[Path, Path], object]) -> None:
    """An index's files for tantivy, in another folder by links, and its list as it wants it."""
    listed = _listed(path)
    for name in _segment_files(listed, path):
        link(folder / name, path / name)
    (folder / THEIR_LIST).write_text(json.dumps(listed))


def _linked(new: Path, old: Path) -> None:
    """Another name for a file that never changes; where a disk has no such links, a copy."""
    try:
        os.link(old, new)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.EXDEV):
            raise
        shutil.copyfile(old, new)


def _listed(path: Path) -> dict[str, Any]:
    """What tantivy's list of an index says; raises `CorruptError` if it is damaged."""
    try:
        ours = parsed((path / LIST).read_text(), READABLE)
        if zlib.crc32(ours["list"].encode()) != ours["crc"]:
            raise ValueError("another checksum")
        listed: dict[str, Any] = parsed(ours["list"], READABLE)
        if not all(isinstance(each["segment_id"], str) for each in listed["segments"]):
            raise TypeError("expected segments with names")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptError(f"{path / LIST}: missing or damaged ({error})") from error
    return listed


def _segment_files(listed: dict[str, Any], path: Path) -> list[str]:
    """Names of the files of an index; raises `CorruptError` if one is missing."""
    stems = [segment["segment_id"].replace("-", "") for segment in listed["segments"]]
    names = sorted(file.name for file in path.iterdir() if file.stem in stems)
    expected = {f"{stem}.{ending}" for stem in stems for ending in ENDINGS}
    if missing := expected - {*names}:
        raise CorruptError(f"{path / min(missing)}: missing")
    return names


def _file_faults(path: Path) -> Iterator[str]:
    """Faults of a file: tantivy's have a checksum at their end."""
    data = path.read_bytes()
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
        is_theirs = type(error).__name__ == "PanicException" or type(error) in (ValueError, OSError)
        if not is_theirs or getattr(error, "errno", None) is not None:
            raise
        number = _NUMBER.search(reason)
        code = int(number[1]) if number else errno.EIO
        if writing and not number and shutil.disk_usage(path.parent).free < LITTLE_BYTES:
            code = errno.ENOSPC  # of what its threads met it says no more
        if number or writing:
            raise OSError(code, os.strerror(code), str(path)) from error
        raise CorruptError(f"{path}: damaged ({reason})") from error


_NUMBER = re.compile(r"(?:os error|code:) (\d+)")
"""How the system's refusals stand in what Rust says."""


def _tantivy() -> Any:
    """The library, which may not be there; its stubs lack some of what it has."""
    try:
        import tantivy
    except ImportError as error:
        raise InputError(
            "words beside meaning need tantivy; expected `pip install 'slimdex[hybrid]'`"
        ) from error
    return tantivy
