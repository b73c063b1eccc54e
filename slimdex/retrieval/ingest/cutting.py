"""Cutting: documents longer than a passage are cut before they are encoded.

Most texts are short: those with few bytes are skipped, and only the others' tokens are counted.
"""

from __future__ import annotations

from collections.abc import Sequence

from slimdex.errors import InputError
from slimdex.indexes.arrays import batches
from slimdex.system.progress import progress

from ..documents import Document
from ..encoders.base import CountingEncoder, Encoder
from ..passages import Count, Passage, divide, is_long
from ..store.passages import DocumentPassages

SURE = 3 / 4
"""Bytes per token of a passage that are always safe: no tokenizer makes more tokens than bytes, and
special tokens and a prompt take the rest."""
COUNTED_AT_ONCE = 1024


def cut(
    documents: Sequence[Document], tokens: int | None, count: Count
) -> list[DocumentPassages | None]:
    """Cut documents into passages of at most `tokens` tokens; if that is None, cut nothing.

    Returns the passages and parts of each document; None for one passage without parts. `count`
    counts tokens as the index's encoder does.
    """
    cuts = list[DocumentPassages | None]()
    for part in batches(len(documents), COUNTED_AT_ONCE):
        some = documents[part]
        long = {} if tokens is None else _long(some, tokens, count)
        for number, document in enumerate(some):
            title = document.title
            text = document.text
            parts = document.parts
            if number in long and tokens is not None:
                cuts.append(DocumentPassages(divide(title, text, parts, count, tokens), parts))
                progress("cutting", len(cuts), len(documents))
            elif parts:
                cuts.append(DocumentPassages([Passage(0, len(text), title)], parts))
            else:
                cuts.append(None)
    if any(each and len(each.passages) > 1 for each in cuts):
        progress("cutting", len(documents), len(documents))
    return cuts


def _long(documents: Sequence[Document], tokens: int, count: Count) -> set[int]:
    """Return the positions of the documents with more than this number of tokens."""
    # Most documents are surely short, and some surely long: only count the tokens of the others.
    long = set[int]()
    unsure = list[int]()
    for position, document in enumerate(documents):
        if len(document.content.encode(errors="replace")) <= SURE * tokens:
            continue
        if is_long(document.text, tokens):
            long.add(position)
        else:
            unsure.append(position)

    if unsure:
        counts = count([documents[position].content for position in unsure])
        for position, token_count in zip(unsure, counts, strict=True):
            if token_count > tokens:
                long.add(position)
    return long


def counter(encoder: Encoder) -> Count:
    """The encoder's count of tokens; raises `InputError` if it can't count them."""
    if not isinstance(encoder, CountingEncoder):
        raise InputError(
            f"encoder {type(encoder).__name__} can't count tokens, by which this index cuts texts; "
            "expected one with token_counts(texts)"
        )
    return encoder.token_counts
