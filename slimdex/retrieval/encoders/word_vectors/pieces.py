"""Fast tokenization by caching: each piece between spaces is tokenized once.

This is exact for tokenizers that never look across a space, a tab or the end of a line. Most pieces
have been seen before and take one lookup each.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from threading import Lock
from typing import Any

import numpy as np
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from slimdex.indexes.arrays import Rows

MOST_PIECES = 1 << 18
MOST_CHARACTERS = 1 << 23
"""Limits of the cache; beyond them it is cleared."""
FEW = 16
"""Most texts that are tokenized one by one."""
LOCAL_NORMALIZERS = ("BertNormalizer", "Lowercase", "NFC", "NFD", "StripAccents")
LOCAL_SPLITTERS = ("BertPreTokenizer", "Whitespace", "WhitespaceSplit")
LOCAL_MODELS = ("WordPiece", "WordLevel")
SPACES = str.maketrans("\t\n\r", "   ")
"""Characters that these tokenizers treat as spaces."""
WORDS = r"\w+(?=n't\b)|n't\b|'(?:s|re|ve|ll|d|m)\b|\d+(?:[.,]\d+)+(?!\w)|\w+|[^\w\s]"
"""Words, numbers, punctuation, and English contractions as in GloVe."""


def word_tokenizer(words: Sequence[str]) -> Any:
    """Build a tokenizer with word positions as ids, lowercasing if all words are lower case.

    Unknown words get the id after the last word's.

    >>> tokenizer = word_tokenizer(["do", "n't", "go", "3.5"])
    >>> tokenizer.encode("Do or don't: 3.5, go").ids
    [0, 4, 0, 1, 4, 3, 4, 2]
    """
    vocabulary = {word: i for i, word in enumerate(words)}
    unknown = "[UNK]"
    while unknown in vocabulary:
        unknown += "]"
    vocabulary[unknown] = len(words)
    tokenizer: Any = Tokenizer(models.WordLevel(vocabulary, unk_token=unknown))
    # Keep what matches, and remove everything between.
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(WORDS), "removed", invert=True)
    if all(word == word.lower() for word in words):
        tokenizer.normalizer = normalizers.Lowercase()
    return tokenizer


def unknown_id(tokenizer: Any) -> int | None:
    """Id of a tokenizer's unknown token; None if it has none."""
    model = tokenizer.model
    if hasattr(model, "unk_token"):
        return None if model.unk_token is None else tokenizer.token_to_id(model.unk_token)
    id = json.loads(tokenizer.to_str())["model"].get("unk_id")
    return id if isinstance(id, int) else None


def splits_at_spaces(tokenizer: Any) -> bool:
    """Return whether tokenizing the pieces between spaces gives the tokens of the whole text."""
    # A file may have millions of words, too many to write as JSON.
    if tokenizer.get_vocab_size() >= 1 << 17:
        return _is_word_tokenizer(tokenizer)
    definition = json.loads(tokenizer.to_str())
    splitters = _kinds(definition["pre_tokenizer"], "pretokenizers")
    if not splitters:
        return False

    # No part of the tokenizer may look beyond a space.
    normalizer_kinds = _kinds(definition["normalizer"], "normalizers")
    return (
        definition["model"]["type"] in LOCAL_MODELS
        and all(" " not in token["content"] for token in definition["added_tokens"])
        and set(normalizer_kinds) <= set(LOCAL_NORMALIZERS)
        and (set(splitters) <= set(LOCAL_SPLITTERS) or _is_word_tokenizer(tokenizer))
    )


def _is_word_tokenizer(tokenizer: Any) -> bool:
    """Return whether `word_tokenizer` built the tokenizer."""
    kind = type(tokenizer.model).__name__
    return kind == "WordLevel" and "n't" in repr(tokenizer.pre_tokenizer)


def _kinds(part: dict[str, Any] | None, name: str) -> list[str]:
    """Return the types in a part of a tokenizer's JSON; `name` is the key of a Sequence's items."""
    if part is None:
        return []
    if part["type"] == "Sequence":
        kinds = list[str]()
        for item in part[name]:
            kinds += _kinds(item, name)
        return kinds
    return [part["type"]]


class WordPieces:
    """Converter of texts to token ids; one, `dropped`, may be omitted from every text.

    Padding and truncation of the tokenizer are switched off.
    """

    def __init__(self, tokenizer: Any, dropped: int | None) -> None:
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._tokenizer = tokenizer
        self._dropped = dropped
        self._is_local = splits_at_spaces(tokenizer)
        self._lock = Lock()
        self._forget()

    def ids(self, texts: Sequence[str]) -> tuple[Rows, Rows]:
        """Return the ids of all tokens, text after text, and the number of tokens of each text."""
        if not self._is_local:
            return self._encode(texts)
        pieces = _split(texts)

        # Look up where each piece's ids begin in the cache, and how many it has.
        with self._lock:
            self._learn_unseen(pieces)
            count = sum(map(len, pieces))
            looked_up = map(self._number.__getitem__, chain.from_iterable(pieces))
            numbers = np.fromiter(looked_up, np.int64, count)
            lengths = self._lengths[numbers]
            starts = self._starts[numbers]
            cached_ids = self._ids
            self._forget_if_many()

        # Cache positions of all tokens: start, start + 1, ... for each piece.
        ends = np.cumsum(lengths)
        positions = np.repeat(starts - ends + lengths, lengths) + np.arange(lengths.sum())

        # A text ends with its last piece; each has at least one, which may be empty.
        last_pieces = np.cumsum([*map(len, pieces)]) - 1
        return cached_ids[positions], np.diff(ends[last_pieces], prepend=0)

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text: faster than ids for many short texts."""
        if not self._is_local:
            return [*map(int, self._encode(texts)[1])]
        pieces = _split(texts)
        with self._lock:
            self._learn_unseen(pieces)
            number = self._number
            count_of = self._counts
            counts = [sum(count_of[number[piece]] for piece in part) for part in pieces]
            self._forget_if_many()
        return counts

    def _forget(self) -> None:
        """Empty the cache. Later, its arrays may be longer than their used part."""
        self._number: dict[str, int] = {}  # index of each piece in the next lists
        self._counts: list[int] = []  # tokens of each piece, as Python integers
        self._characters = 0  # in all pieces
        self._stored = 0  # number of ids in use
        self._ids = np.empty(0, dtype=np.int64)  # of the pieces' tokens, piece by piece
        self._lengths = np.empty(0, dtype=np.int64)  # tokens of each piece
        self._starts = np.empty(0, dtype=np.int64)  # where each piece begins in the ids

    def _forget_if_many(self) -> None:
        if len(self._number) > MOST_PIECES or self._characters > MOST_CHARACTERS:
            self._forget()

    def _learn_unseen(self, pieces: Sequence[Sequence[str]]) -> None:
        """Tokenize and store the pieces of texts that are not in the cache."""
        unseen = set(chain.from_iterable(pieces)).difference(self._number)
        if unseen:
            self._learn(sorted(unseen))

    def _learn(self, pieces: Sequence[str]) -> None:
        """Tokenize and store new pieces."""
        ids, lengths = self._encode(pieces)
        before = self._stored
        first = len(self._number)
        self._starts = _with(self._starts, first, before + np.cumsum(lengths) - lengths)
        self._lengths = _with(self._lengths, first, lengths)
        self._ids = _with(self._ids, before, ids)
        self._stored += len(ids)
        self._counts += lengths.tolist()
        self._number.update(zip(pieces, range(first, first + len(pieces)), strict=True))
        self._characters += sum(map(len, pieces))

    def _encode(self, texts: Sequence[str]) -> tuple[Rows, Rows]:
        """Tokenize texts without the cache; return the same as `ids`."""
        if len(texts) <= FEW:  # waking the thread pool costs more
            encodings = [self._tokenizer.encode(text, add_special_tokens=False) for text in texts]
        else:
            encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        parts = [encoding.ids for encoding in encodings]
        lengths = np.array([*map(len, parts)], dtype=np.int64)
        ids = np.fromiter(chain.from_iterable(parts), np.int64, int(lengths.sum()))
        if self._dropped is None:
            return ids, lengths

        # Drop tokens without a vector, and count the others of each text.
        is_known = ids != self._dropped
        known_before = np.append(0, np.cumsum(is_known))  # among the first 0, 1, 2, ... tokens
        ends = np.cumsum(lengths)
        return ids[is_known], known_before[ends] - known_before[ends - lengths]


def _split(texts: Sequence[str]) -> list[list[str]]:
    """Split each text at spaces, tabs and line ends; pieces may be empty."""
    return [text.translate(SPACES).split(" ") for text in texts]


def _with(array: Rows, used: int, more: Rows) -> Rows:
    """Write numbers behind the used ones of an array, or of a copy of twice the size.

    >>> _with(np.array([1, 2]), 2, np.array([3])).size
    4
    """
    end = used + len(more)
    if end > len(array):
        array = np.resize(array, max(end, 2 * len(array)))
    array[used:end] = more
    return array
