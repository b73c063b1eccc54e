"""Tokens: texts to token ids, and ids to padded batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]

GROUP_TEXTS = 4096
"""Texts tokenised at a time..."""
GROUP_CHARACTERS = 4 << 20
"""...unless they have more characters than this: tokens take far more memory than their text."""


class Tokenizer:
    """Texts to ids.

    Parameters
    ----------
    tokenizer : of `tokenizers`, or a transformers tokenizer that is written in Python.
    pad_id : the token that fills up batches.
    max_length : tokens of a text that are read, special ones included.
    lower_case : put texts in lower case first.
    """

    def __init__(
        self, tokenizer: Any, pad_id: int, max_length: int, *, lower_case: bool = False
    ) -> None:
        self._tokenizer, self.pad_id, self.max_length = tokenizer, pad_id, max_length
        self._lower_case, self._is_fast = lower_case, hasattr(tokenizer, "encode_batch_fast")
        if self._is_fast:
            side = (tokenizer.truncation or {}).get("direction", "right")
            tokenizer.no_padding()
            tokenizer.enable_truncation(max_length, direction=side)

    @property
    def wrapped(self) -> Any:
        """The tokenizer inside."""
        return self._tokenizer

    def ids(self, texts: Sequence[str], prefix: str = "") -> list[list[int]]:
        """Token ids of each text; one padding token for a text that has none."""
        return [ids for ids, _ in self.ids_and_lengths(texts, prefix)]

    def ids_and_lengths(
        self, texts: Sequence[str], prefix: str = ""
    ) -> Iterator[tuple[list[int], int]]:
        """Token ids of each text, and how many it would have if none were cut off."""
        if prefix or self._lower_case:
            texts = [prefix + (text.lower() if self._lower_case else text) for text in texts]
        if not self._is_fast:
            found = self._tokenizer(list(texts), truncation=True, max_length=self.max_length)
            for text, ids in zip(texts, found["input_ids"], strict=True):
                is_full = len(ids) >= self.max_length
                yield ids or [self.pad_id], self._length(text) if is_full else len(ids)
            return
        if len(texts) == 1:  # a query: the pool of threads is not worth waking
            encodings = [self._tokenizer.encode(texts[0])]
        else:
            encodings = self._tokenizer.encode_batch_fast(list(texts))
        for encoding in encodings:
            ids = encoding.ids
            yield ids or [self.pad_id], len(ids) + self._cut_off(encoding, len(ids))

    def _length(self, text: str) -> int:
        return len(self._tokenizer(text, verbose=False)["input_ids"])

    def _cut_off(self, encoding: Any, length: int) -> int:
        """Tokens that were cut off, which come in pieces with special tokens of their own."""
        if length < self.max_length:
            return 0
        pieces = encoding.overflowing
        special: int = self._tokenizer.num_special_tokens_to_add(False)
        return sum(len(piece.ids) for piece in pieces) - special * len(pieces)

    def padded(self, ids: Sequence[list[int]]) -> tuple[Ids, Ids]:
        """Ids and mask (n, longest), padded on the right.

        Positions are counted from the left in most models, and no token of a decoder sees what
        comes after it, so that padding on the right changes no vector, whatever side the
        tokenizer would pad on.
        """
        longest = max(map(len, ids))
        padded = np.full((len(ids), longest), self.pad_id, dtype=np.int64)
        mask = np.zeros((len(ids), longest), dtype=np.int64)
        for row, seen, one in zip(padded, mask, ids, strict=True):
            row[: len(one)] = one
            seen[: len(one)] = 1
        return padded, mask


def fast_tokenizer(tokenizer: Any) -> Any:
    """What works inside a transformers tokenizer, or the tokenizer itself if it is all Python."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return tokenizer
    backend.enable_truncation(GROUP_CHARACTERS, direction=tokenizer.truncation_side)
    return backend


def padding_id(tokenizer: Any) -> int:
    """A transformers tokenizer's padding token; decoders have none, and what pads is masked."""
    ids = (tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id, 0)
    return int(next(id for id in ids if id is not None))


def groups(texts: Sequence[str]) -> Iterator[slice]:
    """Parts of the texts to tokenise at a time, which bounds the memory of a call with many.

    >>> [(part.start, part.stop) for part in groups(["a", "b" * GROUP_CHARACTERS, "c"])]
    [(0, 2), (2, 3)]
    """
    start = characters = 0
    for i, text in enumerate(texts):
        characters += len(text)
        if i + 1 - start >= GROUP_TEXTS or characters >= GROUP_CHARACTERS:
            yield slice(start, i + 1)
            start, characters = i + 1, 0
    if start < len(texts):
        yield slice(start, len(texts))


def token_batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Indices in batches, longest first, each batch's longest x size within `budget`.

    >>> list(token_batches([3, 9, 4, 8], budget=18))
    [[1, 3], [2, 0]]
    """
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    start = 0
    while start < len(order):
        size = max(1, budget // max(lengths[order[start]], 1))
        yield order[start : start + size]
        start += size
