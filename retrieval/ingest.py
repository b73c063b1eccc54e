"""Ingest: documents into the catalog, unseen; then their vectors, a window and a commit at a time.

Bad input ends in the first step, before anything is encoded; a kill in the second costs one window.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from indexes.arrays import Matrix, Rows, as_matrix, batches
from indexes.errors import InputError
from indexes.progress import Progress
from indexes.reduced_index import NO_ROWS
from indexes.vector_file import BLOCK_BYTES

from .documents import Document
from .encoder import Encoder
from .files import sync
from .given import GivenVectors, check_vectors
from .ledger import Ledger

WINDOW = 1024
"""Documents encoded between two commits: what a kill can cost."""
STEP_CHARACTERS = 16_384
"""Characters given to the encoder at a time: how often progress is reported."""
CHARACTERS_PER_TOKEN = 4
INSERTED, INSERTED_CHARACTERS = 1024, 1 << 24
"""Documents, and characters of theirs, that are written to the catalog at a time."""
INSERTED_VALUES = 1 << 20
"""And values of metadata."""


def stage(
    ledger: Ledger,
    documents: Iterable[Document],
    columns: Sequence[Mapping[str, str]],
    source: str,
    vectors: GivenVectors | None = None,
    origins: Mapping[str, str] | None = None,
) -> int:
    """Write documents to the catalog in one transaction, unseen by readers.

    Those that are there already and the same in every column are left out, unless they come with
    vectors; returns how many.

    Raises
    ------
    InputError
        If there are none, one is malformed, an id stands twice or a value does not fit its column;
        or if the given vectors are not one for each, of the right dimensions and finite.
    """
    store, first = ledger.store, ledger.state.rows
    if vectors is not None:
        if vectors.dim != ledger.state.dim:
            raise InputError(
                f"{vectors.name}: {vectors.dim} dimensions; expected {ledger.state.dim}"
            )
        check_vectors(vectors)
    staged, iterator = first, iter(documents)
    with ledger.transaction():
        ledger.forget_pending()
        for types in columns:
            store.ensure_columns(types)
        typed = {name.lower() for types in columns for name in types}
        while batch := _some(iterator):
            store.insert(staged, batch, typed)
            staged += len(batch)
        if staged == first:
            raise InputError("no documents; expected at least one")
        if vectors is not None and len(vectors) != staged - first:
            raise InputError(
                f"{vectors.name}: {len(vectors)} rows for {staged - first} documents; "
                "expected one for each"
            )
        if (twice := store.duplicate_id(first)) is not None:
            raise InputError(f"id {twice!r} stands twice; expected each id once")
        unchanged = store.unchanged(first, staged) if first and vectors is None else NO_ROWS
        if len(unchanged):
            store.drop_rows(unchanged, first)
            staged -= len(unchanged)
        pending = source if staged > first else None
        state = replace(ledger.state, staged=staged, encoded=first, source=pending)
        state = replace(state, given=vectors is not None)
        if origins is not None:
            state = replace(state, origins=dict(origins))
        if state.settings is None:
            state.requested.check_count(staged)
        ledger.set_state(state)
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
    ledger: Ledger, encoder: Encoder, progress: Progress, given: GivenVectors | None = None
) -> None:
    """Vectors of the staged documents that have none yet: the given ones, or the encoder's."""
    state, store = ledger.state, ledger.store
    _check_given(ledger, given)
    vectors = ledger.vectors(state.encoded)
    ledger.check_tail(vectors)
    same = _Same(NO_ROWS, NO_ROWS)
    if state.rows and given is None:
        same = _Same(*store.same_texts(state.encoded, state.staged))
    for window in batches(state.staged, WINDOW, state.encoded):
        if given is not None:
            encoded = given.rows(window.start - state.rows, window.stop - state.rows)
            progress("taking vectors", window.stop - state.rows, state.staged - state.rows)
        else:
            encoded = _encoded(ledger, encoder, window, same, progress)
        first_block = vectors.nbytes // BLOCK_BYTES
        vectors.append(encoded)
        sync(ledger.path)
        state = replace(state, encoded=len(vectors))
        with ledger.transaction():
            store.set_blocks(state.vectors, first_block, list(vectors.blocks(first_block)))
            ledger.set_state(state)


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


@dataclass(frozen=True)
class _Same:
    """Staged rows (n,), in order, whose text is as it was, and the rows that it was in."""

    new: Rows
    old: Rows

    def among(self, window: slice) -> tuple[Rows, Rows]:
        """Positions in a window, and the old row of each."""
        part = slice(*np.searchsorted(self.new, [window.start, window.stop]))
        return self.new[part] - window.start, self.old[part]


def _encoded(
    ledger: Ledger, encoder: Encoder, window: slice, same: _Same, progress: Progress
) -> Matrix:
    """Vectors of the documents of a window: kept where the text is as it was, else encoded."""
    state = ledger.state
    contents = ledger.store.contents(window.start, window.stop)
    encoded: Matrix = np.empty((len(contents), state.dim), dtype=np.float32)
    kept, old = same.among(window)
    encoded[kept] = ledger.vectors().take(old)
    todo = np.delete(np.arange(len(contents)), kept).tolist()
    done = window.stop - len(todo) - state.rows
    for step in steps([len(contents[i]) for i in todo], _step_characters(encoder)):
        positions = [todo[i] for i in step]
        found = encoder.encode([contents[i] for i in positions])
        encoded[positions] = _of_count(as_matrix(found, dim=state.dim, name="encoder"), len(step))
        done += len(step)
        progress("encoding", done, state.staged - state.rows)
    return encoded


def _step_characters(encoder: Encoder) -> int:
    """Enough characters to fill several batches of an encoder that says how large its are."""
    tokens: int = getattr(encoder, "batch_tokens", 0)
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
    return document
