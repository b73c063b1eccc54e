"""Cutting: staged documents longer than a passage are cut before they are encoded.

Most texts are short: those with few bytes are skipped, and only the others' tokens are counted.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from slimdex.indexes.arrays import batches
from slimdex.indexes.errors import InputError
from slimdex.indexes.progress import progress

from ..catalog.passages_table import Cut, DocumentRows
from ..documents import content
from ..encoders.base import CountingEncoder, Encoder
from ..passages import LEAST_TOKENS, LONGEST_UNIT, Count, divided
from .ledger import Ledger

AUTO, OFF = "auto", "off"
SURE = 3 / 4
"""Bytes per token of a passage that are always safe: no tokenizer makes more tokens than bytes, and
special tokens and a prompt take the rest."""
READ_AT_ONCE = 1024
"""Documents read per query."""


def passage_tokens(asked: str | int | None, encoder: Encoder) -> int | None:
    """Tokens of a passage; None if texts are not cut.

    Parameters
    ----------
    asked : "auto", as many as the encoder reads, if it has a limit and counts them; a number; "off"
        or None.

    Raises
    ------
    InputError
        If it is invalid or out of range, or the encoder can't count.

    >>> passage_tokens("off", object())
    """
    if asked is None or asked == OFF:
        return None
    most: int | None = getattr(encoder, "max_length", None)
    counts = isinstance(encoder, CountingEncoder)
    if asked == AUTO:
        return most if counts and most is not None and most >= LEAST_TOKENS else None
    if type(asked) is not int:
        raise InputError(f"passages={asked!r}; expected auto, off or a number of tokens")
    if not counts:
        raise InputError(f"passages={asked}: encoder {type(encoder).__name__} can't count tokens")
    if asked < LEAST_TOKENS or (most is not None and asked > most):
        known = "" if most is None else f" to {most}, what the encoder reads"
        raise InputError(f"passages={asked}; expected {LEAST_TOKENS}{known or ' or more'}")
    return asked


def cut_staged(
    ledger: Ledger, first: int, staged: int, encoder: Callable[[], Encoder] | None
) -> int:
    """Cut the documents of the rows first .. staged, so far one row each, if the index cuts texts.

    Parameters
    ----------
    encoder : returns the index's encoder, to count tokens; None if no text is to be cut.

    Returns
    -------
    The new value of `staged`: rows are renumbered.
    """
    store, tokens = ledger.store, ledger.state.passages if encoder else None
    found: list[tuple[int, int]] = []  # new first row, number of rows
    more = 0
    for part in batches(staged, READ_AT_ONCE, first):
        cuts = dict[int, Cut]()
        parts = store.passages.uncut(part.start, part.stop)
        long = dict[int, tuple[str, str]]()
        if encoder is not None and tokens is not None:
            long = _long(ledger, part, tokens, encoder)
            count = _counter(encoder()) if long else None
        whole = store.documents.whole(sorted(parts.keys() - long.keys()))
        for row in sorted(parts.keys() | long.keys()):
            own = parts.get(row, ())
            if row in long and count is not None and tokens is not None:
                passages = divided(*long[row], own, count, tokens)
                progress("cutting", row + 1 - first, staged - first)
            else:
                passages = [whole[row]]
            cuts[row + more] = Cut(passages, own)
            if len(passages) > 1:
                found.append((row + more, len(passages)))
                more += len(passages) - 1
        store.passages.insert(cuts)
    store.passages.drop_uncut(first)
    if found:
        progress("cutting", staged - first, staged - first)
        firsts, counts = np.array(found, dtype=np.int64).T
        store.documents.make_room(DocumentRows(firsts, counts), first)
    return staged + more


def _long(
    ledger: Ledger, part: slice, tokens: int, encoder: Callable[[], Encoder]
) -> dict[int, tuple[str, str]]:
    """Row -> title and text of the documents with more tokens."""
    asked = ledger.store.documents.longer(part.start, part.stop, int(SURE * tokens))
    long = {r: (title, text) for r, title, text in asked if len(text) > LONGEST_UNIT * tokens}
    rest = [(r, title, text) for r, title, text in asked if r not in long]
    if rest:
        counts = _counter(encoder())([content(title, text) for _, title, text in rest])
        for (row, title, text), count in zip(rest, counts, strict=True):
            if count > tokens:
                long[row] = title, text
    return long


def _counter(encoder: Encoder) -> Count:
    if not isinstance(encoder, CountingEncoder):
        raise InputError(
            f"encoder {type(encoder).__name__} can't count tokens, by which this index cuts texts; "
            "expected one with token_counts(texts)"
        )
    return encoder.token_counts
