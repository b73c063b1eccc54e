"""Fast tokenization by caching: each piece between spaces is tokenized once.

This is exact for tokenizers that never look across a space, a tab or the end of a line. Most pieces
have been seen before and take one lookup each.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

from slimdex.indexes.arrays import Rows, batches

MOST_PIECES = 1 << 18
MOST_CHARACTERS = 1 << 23
"""Limits of the cache; beyond them it is cleared."""
TOGETHER = 1024
"""Pieces that are tokenized as one text."""
LOCAL_NORMALIZERS = ("BertNormalizer", "Lowercase", "NFC", "NFD", "StripAccents")
LOCAL_SPLITTERS = ("BertPreTokenizer", "Whitespace", "WhitespaceSplit")
LOCAL_MODELS = ("WordPiece", "WordLevel")
PIECE = re.compile(r"[^ \t\n\r]+")
"""A piece: characters without a space, a tab or a line break among them."""
BETWEEN = "\n"
"""Token between pieces that are tokenized as one text: no piece contains it."""
ID = np.dtype(np.int32)
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
    if tokenizer.get_vocab_size(with_added_tokens=False) >= 1 << 17:
        return _is_word_tokenizer(tokenizer)
    definition = json.loads(tokenizer.to_str())
    splitters = _kinds(definition["pre_tokenizer"], "pretokenizers")
    if not splitters:
        return False

    # No part of the tokenizer may look beyond a space.
    added = definition["added_tokens"]
    normalizer_kinds = _kinds(definition["normalizer"], "normalizers")
    return (
        definition["model"]["type"] in LOCAL_MODELS
        and not any(" " in token["content"] or token["rstrip"] for token in added)
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
    """Converter of texts to token ids, without special tokens; one id, `dropped`, may be omitted.

    Padding and truncation of the tokenizer are switched off. Threads, and forks of any of them, may
    share a converter: what it knows of a piece never changes.
    """

    def __init__(self, tokenizer: Any, dropped: int | None = None) -> None:
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._tokenizer = tokenizer
        self._dropped = dropped
        self._is_local = splits_at_spaces(tokenizer)
        if self._is_local:
            tokenizer.add_special_tokens([AddedToken(BETWEEN, normalized=False)])
        self._between = tokenizer.token_to_id(BETWEEN)
        self._known = dict[str, bytes]()  # the cache: ids of each piece
        self._characters = 0  # in all pieces

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave out the cache; another process builds its own."""
        return WordPieces, (self._tokenizer, self._dropped)

    def ids(self, texts: Sequence[str]) -> tuple[Rows, Rows]:
        """Return the ids of all tokens, text after text, and the number of tokens of each text."""
        ids = self._ids(texts)
        lengths = np.array([*map(len, ids)], dtype=np.int64) // ID.itemsize
        return np.frombuffer(b"".join(ids), dtype=ID).astype(np.int64), lengths

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text."""
        return [len(ids) // ID.itemsize for ids in self._ids(texts)]

    def _ids(self, texts: Sequence[str]) -> list[bytes]:
        """Ids of each text, as an array's bytes."""
        if not self._is_local:
            return [ids.tobytes() for ids in self._tokenize(texts)]
        pieces = [PIECE.findall(text) for text in texts]
        known = self._known
        unseen = [*set(chain.from_iterable(pieces)).difference(known)]
        if unseen:
            known.update(zip(unseen, self._of_pieces(unseen), strict=True))
            self._characters += sum(map(len, unseen))
        ids = [b"".join(map(known.__getitem__, part)) for part in pieces]
        if len(known) > MOST_PIECES or self._characters > MOST_CHARACTERS:
            self._known = {}
            self._characters = 0
        return ids

    def _of_pieces(self, pieces: Sequence[str]) -> Iterator[bytes]:
        """Tokenize pieces, many as one text, which is faster; return the same as `_ids`."""
        parts = batches(len(pieces), TOGETHER)
        for ids in self._tokenize([BETWEEN.join(pieces[part]) for part in parts]):
            start = 0
            for end in [*np.flatnonzero(ids == self._between).tolist(), len(ids)]:
                yield ids[start:end].tobytes()
                start = end + 1

    def _tokenize(self, texts: Sequence[str]) -> Iterator[NDArray[np.int32]]:
        """Tokenize texts without the cache, and yield the ids of each."""
        if len(texts) == 1:  # waking the thread pool costs more
            encodings = [self._tokenizer.encode(texts[0], add_special_tokens=False)]
        else:
            encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        for encoding in encodings:
            ids = np.array(encoding.ids, dtype=ID)
            yield ids if self._dropped is None else ids[ids != self._dropped]
