"""Long documents: staged documents longer than a passage are cut before they are encoded.

Most texts are short: those with few bytes are skipped, and only the others' tokens are counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from slimdex.indexes.arrays import batches
from slimdex.indexes.errors import InputError
from slimdex.indexes.execution.progress import progress

from ..documents import Document, content
from ..encoders.base import CountingEncoder, Encoder
from ..passages import LONGEST_UNIT, Count, Passage, divided
from ..store.change import Change
from ..store.passages import Cut, DocumentRows

SURE = 3 / 4
"""Bytes per token of a passage that are always safe: no tokenizer makes more tokens than bytes, and
special tokens and a prompt take the rest."""
READ_AT_ONCE = 1024


def cut_staged(change: Change, first: int, staged: int, count: Count | None) -> int:
    """Cut the documents of the rows first .. staged, so far one row each, if the index cuts texts.

    `count` counts tokens as the encoder does; None if no text is to be cut. Returns the new value
    of `staged`: rows are renumbered.
    """
    store, tokens = change.store, change.state.passages
    long_documents: list[tuple[int, int]] = []  # new first row, number of rows
    more, has_parts = 0, False
    for part in batches(staged, READ_AT_ONCE, first):
        cuts = dict[int, Cut]()
        parts = store.uncut(part.start, part.stop)
        has_parts |= bool(parts)
        long = dict[int, tuple[str, str]]()
        if count is not None and tokens is not None:
            longer = store.longer_texts(part.start, part.stop, int(SURE * tokens))
            long = _long({row: (title, text) for row, title, text in longer}, tokens, count)
        short = sorted(parts.keys() - long.keys())
        whole = store.whole_passages(short) if short else {}
        for row in sorted(parts.keys() | long.keys()):
            document_parts = parts.get(row, ())
            if row in long and count is not None and tokens is not None:
                passages = divided(*long[row], document_parts, count, tokens)
                progress("cutting", row + 1 - first, staged - first)
            else:
                passages = [whole[row]]
            cuts[row + more] = Cut(passages, document_parts)
            if len(passages) > 1:
                long_documents.append((row + more, len(passages)))
                more += len(passages) - 1
        store.insert_cuts(cuts)
    if has_parts:
        store.drop_uncut()
    if long_documents:
        progress("cutting", staged - first, staged - first)
        firsts, counts = np.array(long_documents, dtype=np.int64).T
        store.make_room(DocumentRows(firsts, counts))
    return staged + more


def _long(
    texts: Mapping[int, tuple[str, str]], tokens: int, count: Count
) -> dict[int, tuple[str, str]]:
    """Return the titles and texts with more than this number of tokens."""
    long = {i: each for i, each in texts.items() if len(each[1]) > LONGEST_UNIT * tokens}
    rest = {i: content(*each) for i, each in texts.items() if i not in long}
    counts = count([*rest.values()]) if rest else ()
    return long | {i: texts[i] for i, n in zip(rest, counts, strict=True) if n > tokens}


def contents_of(documents: Sequence[Document], tokens: int | None, count: Count) -> list[str]:
    """Texts to encode of documents that are cut into passages of so many tokens; None for none."""
    contents, long = list[str](), dict[int, tuple[str, str]]()
    if tokens is not None:
        texts = {i: (document.title, document.text) for i, document in enumerate(documents)}
        sizes = {i: len(content(*each).encode(errors="replace")) for i, each in texts.items()}
        long = _long({i: texts[i] for i in texts if sizes[i] > SURE * tokens}, tokens, count)
    for i, document in enumerate(documents):
        title, text = document.title, document.text
        if i in long and tokens is not None:
            cut = Cut(divided(title, text, document.parts, count, tokens))
            contents += cut.contents(text)
        elif document.parts:
            contents += Cut([Passage(0, len(text), title)]).contents(text)
        else:
            contents.append(content(title, text))
    return contents


def counter(encoder: Encoder) -> Count:
    """The encoder's count of tokens; raises `InputError` if it can't count them."""
    if not isinstance(encoder, CountingEncoder):
        raise InputError(
            f"encoder {type(encoder).__name__} can't count tokens, by which this index cuts texts; "
            "expected one with token_counts(texts)"
        )
    return encoder.token_counts
