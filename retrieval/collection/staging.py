"""Ingest: documents into the catalog, unseen; then their vectors, a window and a commit at a time.

Bad input ends in the first step, before anything is encoded; a kill in the second costs one window.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slimdex.indexes.arrays import Matrix, Rows, as_matrix, batches
from slimdex.indexes.errors import InputError
from slimdex.indexes.progress import Progress, silent
from slimdex.indexes.reduced_index import NO_ROWS
from slimdex.indexes.vector_file import BLOCK_BYTES

from ..atomic_files import sync
from ..catalog.passages_table import part_fault
from ..catalog.store import DocumentStore, PartlyRead
from ..documents import Document
from ..encoders.base import Encoder, Lengths, LimitedEncoder
from ..sources.given_vectors import GivenVectors, check_vectors
from .cutting import cut_staged
from .kept_vectors import DIGEST, KeptVectors
from .ledger import Ledger

WINDOW = 1024
"""Documents encoded between two commits: what a kill can cost."""
STEP_CHARACTERS = 16_384
"""Characters given to the encoder at a time: how often progress is reported."""
CHARACTERS_PER_TOKEN = 4
TEXT_CHARACTERS = 2 * CHARACTERS_PER_TOKEN
"""What a text takes beside its own: two special tokens."""
INSERTED, INSERTED_CHARACTERS = 1024, 1 << 24
"""Documents, and characters of theirs, that are written to the catalog at a time."""
INSERTED_VALUES = 1 << 20
"""And values of metadata."""
Missing = Callable[[int], Rows]


class TwiceError(InputError):
    """An id that two documents of one addition have: they are counted from 0."""

    def __init__(self, id: str, first: int, second: int) -> None:
        super().__init__(
            f"id {id!r} stands twice, in documents {first + 1:,} and {second + 1:,}; "
            "expected each id once"
        )
        self.id, self.first, self.second = id, first, second


@dataclass(frozen=True)
class Staged:
    """What staging has found.

    Attributes
    ----------
    unchanged : documents that were left out, since they are there already.
    gone : first rows of live documents that are to be deleted with the addition's commit.
    moved : of these, how many are added under another id.
    """

    unchanged: int
    gone: Rows
    moved: int


def stage(
    ledger: Ledger,
    documents: Iterable[Document],
    columns: Sequence[Mapping[str, str]],
    source: str,
    vectors: GivenVectors | None = None,
    origins: Mapping[str, str] | None = None,
    encoder: Callable[[], Encoder] | None = None,
    progress: Progress = silent,
    *,
    missing: Missing | None = None,
) -> Staged:
    """Write documents to the catalog in one transaction, unseen by readers.

    Those that are there already and the same in every column are left out, unless they come with
    vectors. Of the others those are cut that are longer than a passage may be.

    Parameters
    ----------
    encoder : gives the index's, which counts tokens; None if no text is to be cut.
    missing : once the documents are written, from its first row on gives the rows of those that are
        to go. Then there may be no documents to add.

    Raises
    ------
    InputError
        If there are none, one is malformed, an id stands twice or a value does not fit its column;
        or if the given vectors are not one for each, of the right dimensions and finite.
    """
    store, first = ledger.store, ledger.state.rows
    if vectors is not None:
        _check_dimensions(vectors, ledger.state.dim)
    with ledger.transaction():
        ledger.forget_pending()
        staged = _insert(store, documents, columns, first)
        if staged == first and missing is None:
            raise InputError("no documents; expected at least one")
        if staged > first:
            _check_inserted(ledger, first, staged, vectors)
        gone = missing(first) if missing else NO_ROWS
        moved = store.origins.moved(first, gone) if len(gone) else 0
        unchanged = _leave_out_unchanged(store, first, staged) if vectors is None else 0
        staged -= unchanged
        staged = cut_staged(ledger, first, staged, encoder if vectors is None else None, progress)
        pending = source if staged > first else None
        state = replace(ledger.state, staged=staged, encoded=first, source=pending)
        state = replace(state, given=vectors is not None)
        if origins is not None:
            state = replace(state, origins=dict(origins))
        if state.settings is None:
            state.requested.check_count(staged)
        ledger.set_state(state)
    return Staged(unchanged, gone, moved)


def _check_dimensions(vectors: GivenVectors, dim: int) -> None:
    if vectors.dim != dim:
        raise InputError(f"{vectors.name}: {vectors.dim} dimensions; expected {dim}")
    check_vectors(vectors)


def _insert(
    store: DocumentStore,
    documents: Iterable[Document],
    columns: Sequence[Mapping[str, str]],
    first: int,
) -> int:
    """Documents, a row each so far, with columns for what they have; returns the row after them."""
    for types in columns:
        store.ensure_columns(types)
    typed = {name.lower() for types in columns for name in types}
    staged, iterator = first, iter(documents)
    while batch := _some(iterator):
        store.insert(staged, batch, typed)
        staged += len(batch)
    return staged


def _check_inserted(ledger: Ledger, first: int, staged: int, vectors: GivenVectors | None) -> None:
    """Raise `InputError` if these documents can't be added together."""
    store, count = ledger.store, staged - first
    if vectors is None and ledger.state.settings is None and not store.has_text(first):
        raise InputError(f"none of {count} documents has a text; expected at least one that has")
    if vectors is not None and len(vectors) != count:
        raise InputError(
            f"{vectors.name}: {len(vectors)} rows for {count} documents; expected one for each"
        )
    if twice := store.duplicate_id(first):
        id, row, other = twice
        raise TwiceError(id, row - first, other - first)


def _leave_out_unchanged(store: DocumentStore, first: int, staged: int) -> int:
    """Drop the staged documents that are there already; returns how many."""
    unchanged, there = store.unchanged(first, staged) if first else (NO_ROWS, NO_ROWS)
    if len(unchanged):
        store.origins.adopt(unchanged, there)
        store.drop_rows(unchanged, first)
    return len(unchanged)


def _some(documents: Iterator[Document]) -> list[Document]:
    """The next documents, not too many nor too long."""
    batch, characters, values = list[Document](), 0, 0
    for document in documents:
        batch.append(_checked(document))
        characters += len(document.text)
        values += len(document.metadata)
        if len(batch) == INSERTED or characters > INSERTED_CHARACTERS or values > INSERTED_VALUES:
            break
    return batch


def encode_pending(
    ledger: Ledger,
    encoder: Encoder,
    progress: Progress,
    given: GivenVectors | None = None,
    gone: Rows = NO_ROWS,
) -> int:
    """Vectors of the staged documents that have none yet: the given ones, or the encoder's.

    Texts that documents have which are replaced, or are `gone`, keep their vectors. Returns how
    many texts were encoded.
    """
    state, store = ledger.state, ledger.store
    _check_given(ledger, given)
    vectors = ledger.vectors(state.encoded)
    ledger.check_tail(vectors)
    kept, work, done = KeptVectors(np.array([], DIGEST), NO_ROWS), None, 0
    if state.rows and given is None:
        kept = KeptVectors.of(ledger, gone)
    for window in batches(state.staged, WINDOW, state.encoded):
        partly: PartlyRead = {}
        if given is not None:
            encoded = given.rows(window.start - state.rows, window.stop - state.rows)
            progress("taking vectors", window.stop - state.rows, state.staged - state.rows)
        else:
            work = work or _Work(ledger, encoder, progress)
            encoded, partly, count = _encoded(ledger, encoder, window, kept, work)
            done += count
        first_block = vectors.nbytes // BLOCK_BYTES
        vectors.append(encoded)
        sync(ledger.path)
        state = replace(state, encoded=len(vectors))
        with ledger.transaction():
            store.set_blocks(state.vectors, first_block, list(vectors.blocks(first_block)))
            store.set_partly_read(partly)
            ledger.set_state(state)
    return done


def _check_given(ledger: Ledger, given: GivenVectors | None) -> None:
    """Raise `InputError` unless the rest of an addition gets its vectors from where it began."""
    state = ledger.state
    if state.given != (given is not None):
        began = "vectors from elsewhere" if state.given else "the encoder's vectors"
        raise InputError(f"{ledger.path}: an addition that began with {began}; expected them again")
    if given is not None and (len(given), given.dim) != (state.staged - state.rows, state.dim):
        raise InputError(
            f"{given.name}: {len(given)} rows of {given.dim} dimensions; expected those that the "
            f"addition began with, {state.staged - state.rows} of {state.dim}"
        )


class _Work:
    """How far encoding is, told in documents but measured in characters: long ones take longer.

    A window's longest texts come first, and one source may have longer ones than the next, so that
    documents that are done say little about the time that is left.
    """

    def __init__(self, ledger: Ledger, encoder: Encoder, progress: Progress) -> None:
        state = ledger.state
        tokens: int | None = getattr(encoder, "max_length", None)
        self._most = sys.maxsize if tokens is None else CHARACTERS_PER_TOKEN * tokens
        self._documents, self._progress = state.staged - state.rows, progress
        self._done, self._total = (
            ledger.store.characters(state.rows, stop, self._most)
            + TEXT_CHARACTERS * (stop - state.rows)
            for stop in (state.encoded, state.staged)
        )

    def did(self, texts: Sequence[str], *, last: bool) -> None:
        """Report that these are encoded; after the last ones nothing is left."""
        self._done += sum(min(len(text), self._most) + TEXT_CHARACTERS for text in texts)
        done = self._documents * self._done // self._total
        done = self._documents if last else min(done, self._documents - 1)
        self._progress("encoding", done, self._documents)


def _encoded(
    ledger: Ledger, encoder: Encoder, window: slice, known: KeptVectors, work: _Work
) -> tuple[Matrix, PartlyRead, int]:
    """Vectors of the rows of a window: kept where the text was there, else encoded.

    Also the rows whose text was not read to its end, and how many texts were encoded. The vector of
    a text that is empty is zero.
    """
    state = ledger.state
    contents = ledger.store.contents(window.start, window.stop)
    encoded: Matrix = np.zeros((len(contents), state.dim), dtype=np.float32)
    kept, old = known.among(contents)
    encoded[kept] = ledger.vectors().take(old)
    before = ledger.store.partly_read(old)
    same_rows = zip(kept.tolist(), old.tolist(), strict=True)
    partly = {window.start + i: before[row] for i, row in same_rows if row in before}
    empty = [i for i, text in enumerate(contents) if not text]
    partly |= {window.start + i: (0, 0) for i in empty}
    todo = np.setdiff1d(np.arange(len(contents)), [*kept, *empty]).tolist()
    is_last, left = window.stop == state.staged, len(todo)
    work.did([contents[i] for i in {*kept.tolist(), *empty}], last=is_last and not left)
    texts = [contents[i] for i in todo]
    for positions, vectors, read in encoded_steps(encoder, texts, state.dim):
        encoded[[todo[i] for i in positions]] = vectors
        partly |= {window.start + todo[i]: lengths for i, lengths in read.items()}
        left -= len(positions)
        work.did([texts[i] for i in positions], last=is_last and not left)
    return encoded, partly, len(todo)


def encoded_steps(
    encoder: Encoder, texts: Sequence[str], dim: int
) -> Iterator[tuple[list[int], Matrix, PartlyRead]]:
    """Positions of some of the texts at a time, their vectors, and which were not read to the end.

    The last is by position, too.
    """
    for positions in steps([len(text) for text in texts], _step_characters(encoder)):
        vectors, lengths = measured(encoder, [texts[i] for i in positions], dim)
        partly = {
            positions[i]: (tokens, read)
            for i, (tokens, read) in enumerate(lengths.tolist())
            if read < tokens
        }
        yield positions, vectors, partly


def measured(encoder: Encoder, texts: Sequence[str], dim: int) -> tuple[Matrix, Lengths]:
    """Vectors (n, dim), and (n, 2) tokens with those that were read; (0, 2) if that is not told.

    Raises
    ------
    InputError
        If the encoder gives anything but one finite vector for each text.
    """
    lengths: Lengths = np.empty((0, 2), dtype=np.int64)
    if isinstance(encoder, LimitedEncoder):
        found, lengths = encoder.encode_measured(texts)
    else:
        found = encoder.encode(texts)
    return _of_count(as_matrix(found, dim=dim, name="encoder"), len(texts)), lengths


def _step_characters(encoder: Encoder) -> int:
    """Enough characters to keep an encoder busy that says how many tokens it takes at once."""
    tokens: int = getattr(encoder, "tokens_at_once", 0)
    return max(STEP_CHARACTERS, 4 * CHARACTERS_PER_TOKEN * tokens)


def steps(lengths: Sequence[int], enough: int = STEP_CHARACTERS) -> Iterator[list[int]]:
    """A window's positions in parts of similar length, longest first: little is padding then.

    >>> list(steps([5, 20_000, 9_000, 8_000]))
    [[1], [2, 3], [0]]
    """
    step, characters = list[int](), 0
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        step.append(i)
        characters += lengths[i] + 1
        if characters >= enough:
            yield step
            step, characters = [], 0
    if step:
        yield step


def _of_count(vectors: Matrix, texts: int) -> Matrix:
    if len(vectors) != texts:
        raise InputError(f"encoder: {len(vectors)} vectors; expected one for each of {texts} texts")
    return vectors


def _checked(document: Document) -> Document:
    if not isinstance(document, Document):
        raise InputError(f"{document!r}; expected a Document")
    for name in ("id", "text", "title"):
        if not isinstance(value := getattr(document, name), str):
            raise InputError(f"document {document.id!r}: {name}={value!r}; expected a str")
    if document.parts:
        _check_parts(document)
    return document


def _check_parts(document: Document) -> None:
    start, name = 0, f"document {document.id!r}"
    for part in document.parts:
        if why := part_fault(part):
            raise InputError(f"{name}: {why}")
        if not start <= part.start <= len(document.text):
            raise InputError(
                f"{name}: a part starts at {part.start}; expected {start} to {len(document.text)}"
            )
        start = part.start
