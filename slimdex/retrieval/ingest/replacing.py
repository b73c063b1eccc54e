"""Replacing: all documents are encoded again by another encoder, in one run or several.

The new vectors are written beside the old ones, a window and a commit at a time, while searches are
answered from the old ones. Once all rows have a new vector, reducer, metric and codes are fitted to
them, and one commit replaces vectors, encoder and fit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from time import monotonic

from slimdex.errors import InputError
from slimdex.indexes.options import TABLE

from ..encoders.adapters import plain_spec
from ..encoders.base import Encoder, as_recorded, check_tokenizer, is_same_encoder
from ..index import Index
from ..store.state import Replacement
from .encode import Pace, encode_next, encode_waiting
from .fitting import try_fit


@dataclass(frozen=True)
class ReplacementReport:
    """Result of a run."""

    rows: int  # documents or passages that have a new vector
    total: int  # all of them
    finished: bool = False  # True if the new vectors are in use
    notes: tuple[str, ...] = ()  # of the fit, for the user


def replace_vectors(index: Index, encoder: Encoder, seconds: float = inf) -> ReplacementReport:
    """Encode documents again by another encoder, or resume this, for about `seconds`.

    A run makes at least one commit. It ends after the one in which its time is up, or with that
    which replaces the vectors. Raises `InputError` if the index has this encoder, or is moving to a
    third one.
    """
    end = monotonic() + seconds
    encoder = _begin(index, encoder)
    pace = Pace.of(index, seconds)
    while (replacement := index.state.replacement) is not None:
        total = index.state.rows
        if replacement.rows == total:
            notes = try_fit(index, None, replaces=True)
            if notes is not None:
                encode_waiting(index)  # what others have added during the fit
                return ReplacementReport(total, total, finished=True, notes=tuple(notes))
            continue
        encode_next(index, pace, replaces=True)
        now = index.state
        if now.replacement and monotonic() >= end:
            return ReplacementReport(now.replacement.rows, now.rows)

    # Another process has finished the migration or given it up.
    if not is_same_encoder(plain_spec(encoder.spec()), index.state.encoder):
        raise InputError(f"{index.path}: the migration was undone meanwhile")
    return ReplacementReport(index.state.rows, index.state.rows, finished=True)


def next_encoder(index: Index) -> Encoder:
    """The encoder of the replacement that was begun; raises `InputError` if none was."""
    replacement = index.state.replacement
    if replacement is None:
        raise InputError(f"{index.path}: no migration to continue; expected an encoder")
    return index.encoders.open(replacement.encoder)


def undo(index: Index) -> None:
    """Drop the vectors that replace the others; raises `InputError` if there are none."""
    with index.change() as change:
        if change.state.replacement is None:
            raise InputError(f"{index.path}: no migration to undo")
        change.commit(replace(change.state, replacement=None))


def _begin(index: Index, encoder: Encoder) -> Encoder:
    """Commit the start of the replacement, unless it has started.

    Returns the encoder, in the precision of the new vectors.
    """
    spec = plain_spec(encoder.spec())
    with index.change() as change:
        # A migration may have begun already, with this encoder or another one.
        state = change.state
        if state.replacement is not None:
            if is_same_encoder(spec, state.replacement.encoder):
                encoder = as_recorded(encoder, state.replacement.encoder)
                index.encoders.give(encoder)
                return encoder
            raise InputError(
                f"{index.path}: its documents are being encoded by "
                f"{state.replacement.encoder}; expected that encoder, or this to be undone first"
            )

        # Otherwise begin one.
        if is_same_encoder(spec, state.encoder):
            raise InputError(f"{index.path}: its vectors are this encoder's; expected another one")
        if not len(change.base):
            raise InputError(f"{index.path} holds no documents; expected some to encode")
        state.requested.checked(encoder.dim)
        if state.requested.query_encoder == TABLE:
            check_tokenizer(encoder)
        replacement = Replacement(spec, encoder.dim, state.new_name("vectors"))
        change.commit(replace(state, replacement=replacement))
        index.encoders.give(encoder)
        return encoder
