"""Cutting: documents longer than a passage are cut before they are encoded.

Most texts are short: those with few bytes are skipped, and only the others' tokens are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from slimdex.errors import InputError
from slimdex.indexes.arrays import batches
from slimdex.system.progress import progress

from ..documents import Document
from ..encoders.base import CountingEncoder, Encoder
from ..passages import Count, divide
from ..store.record import Record

SURE = 3 / 4
"""Bytes per token of a passage that are always safe: no tokenizer makes more tokens than bytes, and
special tokens and a prompt take the rest."""
COUNTED_AT_ONCE = 1024
MOST_COUNTED = 1 << 20
"""Longer texts, in bytes, are cut without counting them first, to bound memory."""
LeaveOut = Callable[[Document, Exception], bool]
"""Note the file of a document that can't be added; returns False if it is not from a file."""


def cut(
    records: Sequence[Record], tokens: int, count: Count, leave_out: LeaveOut | None = None
) -> list[Record]:
    """Cut documents into passages of at most `tokens` tokens; those that fit stay as they are.

    `count` counts tokens as the index's encoder does. Documents that can't be cut are left out if
    `leave_out` notes them; otherwise `InputError` is raised.
    """
    try:
        return _cut(records, tokens, count)
    except Exception as error:  # a tokenizer may raise anything
        count([""])  # raises an error that is not the texts'
        if len(records) == 1:
            if leave_out is not None and leave_out(records[0].document, error):
                return []
            raise InputError(f"a text can't be cut into passages: {error!r}") from error

    # Find the documents to blame.
    half = len(records) // 2
    cuts = cut(records[:half], tokens, count, leave_out)
    return cuts + cut(records[half:], tokens, count, leave_out)


def _cut(records: Sequence[Record], tokens: int, count: Count) -> list[Record]:
    """Cut documents as `cut` does; raises the errors of `count`."""
    # Most documents are surely short. Count the others in batches, which also fills the tokenizer's
    # cache before they are cut.
    long = list[int]()
    unsure = list[int]()
    for position, record in enumerate(records):
        nbytes = len(record.document.content.encode(errors="replace"))
        if nbytes > SURE * tokens:
            (long if nbytes > MOST_COUNTED else unsure).append(position)
    for part in batches(len(unsure), COUNTED_AT_ONCE):
        counts = count([records[position].document.content for position in unsure[part]])
        long += [i for i, n in zip(unsure[part], counts, strict=True) if n > tokens]

    # Cut the long ones.
    cuts = [*records]
    for number, position in enumerate(long, start=1):
        document = records[position].document
        passages = divide(document.title, document.text, document.parts, count, tokens)
        spans = tuple((passage.start, passage.end) for passage in passages)
        cuts[position] = replace(
            records[position],
            document=replace(document, passages=spans),
            contexts=[passage.context for passage in passages],
        )
        progress("cutting", number, len(long))
    return cuts


def counter(encoder: Encoder) -> Count:
    """The encoder's count of tokens; raises `InputError` if it can't count them."""
    if not isinstance(encoder, CountingEncoder):
        raise InputError(
            f"encoder {type(encoder).__name__} can't count tokens, by which this index cuts texts; "
            "expected one with token_counts(texts)"
        )
    return encoder.token_counts
