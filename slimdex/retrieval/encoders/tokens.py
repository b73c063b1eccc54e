"""Tokenisation: texts to token ids, and ids to padded batches."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slimdex.errors import InputError
from slimdex.system.once import cached_property

from .pooling import PROMPT, TEXT

if TYPE_CHECKING:
    from .pieces import WordPieces

Ids = NDArray[np.int64]

DEFAULT_LENGTH = 256
"""Default maximum length of a text in tokens."""
SHORTEST_LENGTH = 3
"""Shortest maximum length: one token between two special ones."""
GROUP_TEXTS = 4096
"""Texts tokenised at a time..."""
GROUP_CHARACTERS = 4 << 20
"""...unless they have more characters than this: tokens take far more memory than their text."""


class Tokenizer:
    """Tokenizer with truncation and batch padding.

    Parameters
    ----------
    tokenizer : of `tokenizers`, or a transformers tokenizer written in Python.
    pad_id : padding token.
    max_length : maximum length of a text in tokens, including special ones.
    lower_case : lower-case texts first.
    """

    def __init__(
        self, tokenizer: Any, pad_id: int, max_length: int, *, lower_case: bool = False
    ) -> None:
        self._tokenizer = tokenizer
        self.pad_id = pad_id
        self.max_length = max_length
        self._lower_case = lower_case
        self._is_fast = hasattr(tokenizer, "encode_batch_fast")
        if self._is_fast:
            side = (tokenizer.truncation or {}).get("direction", "right")
            tokenizer.no_padding()
            tokenizer.enable_truncation(max_length, direction=side)

    @property
    def backend(self) -> Any:
        """Underlying tokenizer."""
        return self._tokenizer

    def plain(self) -> str:
        """A tokenizer of `tokenizers` as JSON; it adds no special tokens and truncates nothing."""
        data = json.loads(self._tokenizer.to_str())
        data |= {"post_processor": None, "truncation": None, "padding": None}
        if self._lower_case:
            parts = [{"type": "Lowercase"}, *filter(None, [data["normalizer"]])]
            data["normalizer"] = {"type": "Sequence", "normalizers": parts}
        return json.dumps(data, ensure_ascii=False)

    def ids(self, texts: Sequence[str], prefix: str = "") -> list[list[int]]:
        """Token ids of each text; one padding token for an empty text."""
        return [ids for ids, _ in self.ids_and_lengths(texts, prefix)]

    def ids_and_lengths(
        self, texts: Sequence[str], prefix: str = ""
    ) -> Iterator[tuple[list[int], int]]:
        """Yield token ids of each text, and its number of tokens before truncation.

        An empty text has one padding token and the length 0.
        """
        texts = self._prepared(texts, prefix)
        if not self._is_fast:
            encoded = self._tokenizer(list(texts), truncation=True, max_length=self.max_length)
            whole = self._tokenizer(list(texts), verbose=False)
            for ids, all_ids in zip(encoded["input_ids"], whole["input_ids"], strict=True):
                yield ids or [self.pad_id], len(all_ids)
            return
        if len(texts) == 1:  # a query: not worth waking the thread pool
            encodings = [self._tokenizer.encode(texts[0])]
        else:
            encodings = self._tokenizer.encode_batch_fast(list(texts))
        for encoding in encodings:
            ids = encoding.ids
            yield ids or [self.pad_id], len(ids) + self._count_truncated(encoding, len(ids))

    def counts(self, texts: Sequence[str], prefix: str = "") -> list[int]:
        """Number of tokens of each text, including special ones, without truncation."""
        if self._pieces is None:
            return [length for _, length in self.ids_and_lengths(texts, prefix)]
        special: int = self._tokenizer.num_special_tokens_to_add(False)
        return [special + count for count in self._pieces.counts(self._prepared(texts, prefix))]

    @cached_property
    def _pieces(self) -> WordPieces | None:
        """Counter of tokens, which truncates nothing; None for a tokenizer in part in Python."""
        from .pieces import WordPieces  # as in `read_tokenizer`

        try:
            return WordPieces(deepcopy(self._tokenizer)) if self._is_fast else None
        except Exception:  # tokenizers raises no other: its pre-tokenizer can't be copied
            return None

    def _prepared(self, texts: Sequence[str], prefix: str) -> Sequence[str]:
        """Prepend a prefix to texts, and lower-case them if need be."""
        if not prefix and not self._lower_case:
            return texts
        return [prefix + (text.lower() if self._lower_case else text) for text in texts]

    def _count_truncated(self, encoding: Any, length: int) -> int:
        """Count the tokens that were cut off, given how many were kept.

        The tokenizer returns them in pieces, each with special tokens of its own.
        """
        if length < self.max_length:
            return 0
        pieces = encoding.overflowing
        special: int = self._tokenizer.num_special_tokens_to_add(False)
        return sum(len(piece.ids) for piece in pieces) - special * len(pieces)

    def prompt_length(self, prompt: str) -> int:
        """Count the tokens of a prompt, without a special token at its end.

        The prompt is encoded alone, as in sentence-transformers.
        """
        if not prompt:
            return 0
        if self._is_fast:
            encoding = self._tokenizer.encode(prompt)
            ids = encoding.ids
            ends_special = encoding.special_tokens_mask[-1:] == [1]
        else:
            encoded = self._tokenizer(prompt, truncation=True, max_length=self.max_length)
            ids = encoded["input_ids"]
            ends_special = ids[-1] in self._tokenizer.all_special_ids
        return len(ids) - int(ends_special)

    def pad(self, ids: Sequence[list[int]], prompt_length: int = 0) -> tuple[Ids, Ids]:
        """Return ids and mask (n, `padded_length` of the longest), padded on the right.

        The mask is `TEXT` for tokens to pool, 0 for padding, and `PROMPT` for the first
        `prompt_length` tokens of each text: a prompt that is not pooled.

        Right padding changes no vector, whichever side the tokenizer pads on: positions count from
        the left in most models, and tokens of a decoder do not attend to later ones.
        """
        longest = max(map(len, ids))
        # Ids that did not come from this tokenizer may be longer than its maximum.
        width = max(longest, min(padded_length(longest), self.max_length))
        padded = np.full((len(ids), width), self.pad_id, dtype=np.int64)
        mask = np.zeros((len(ids), width), dtype=np.int64)
        for row, row_mask, text_ids in zip(padded, mask, ids, strict=True):
            row[: len(text_ids)] = text_ids
            row_mask[: len(text_ids)] = TEXT
            row_mask[: min(prompt_length, len(text_ids))] = PROMPT
        return padded, mask


def fast_tokenizer(tokenizer: Any) -> Any:
    """Return the `tokenizers` backend of a transformers tokenizer, or itself if it has none."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return tokenizer
    backend.enable_truncation(GROUP_CHARACTERS, direction=tokenizer.truncation_side)
    return backend


def padding_id(tokenizer: Any) -> int:
    """Return a transformers tokenizer's padding token, or 0 for decoders, where it is masked."""
    ids = (tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id, 0)
    return int(next(id for id in ids if id is not None))


def groups(texts: Sequence[str]) -> Iterator[slice]:
    """Yield slices of texts to tokenise at a time, to bound memory.

    >>> [(part.start, part.stop) for part in groups(["a", "b" * GROUP_CHARACTERS, "c"])]
    [(0, 2), (2, 3)]
    """
    start = 0
    characters = 0
    for i, text in enumerate(texts):
        characters += len(text)
        if i + 1 - start >= GROUP_TEXTS or characters >= GROUP_CHARACTERS:
            yield slice(start, i + 1)
            start = i + 1
            characters = 0
    if start < len(texts):
        yield slice(start, len(texts))


def padded_length(length: int) -> int:
    """Round a length up to one of few values: multiples of 4, at most 16 per power of two.

    OpenVINO plans every new shape and keeps the plan in memory, about 1 MB: with few lengths it
    plans seldom, and padding adds less than 4 tokens or a sixteenth.

    >>> [padded_length(length) for length in (7, 31, 33, 65, 250)]
    [8, 32, 36, 68, 256]
    """
    step = 1 << max(2, length.bit_length() - 5)
    steps = -(-length // step)  # rounded up
    return steps * step


def token_batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Group texts in batches, longest first, with at most `budget` tokens after padding.

    Yields the indices of each batch's texts. A text longer than the budget is a batch of its own.
    All batches of a length have the same number of texts, except the last batch.

    >>> list(token_batches([3, 9, 4, 8], budget=24))
    [[1, 3], [2, 0]]
    """
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    start = 0
    while start < len(order):
        longest = padded_length(lengths[order[start]])  # all others are padded to this
        size = max(1, budget // max(longest, 1))
        yield order[start : start + size]
        start += size


def resolve_length(requested: int | None, default: int | None, longest: int) -> int:
    """Return the maximum length of a text in tokens.

    This is `requested` if it is given; otherwise `default` (256 if None), but at most the model's
    limit `longest`.

    Raises `InputError` if `requested` is too short or beyond the limit.
    """
    length = min(default or DEFAULT_LENGTH, longest) if requested is None else requested
    if not SHORTEST_LENGTH <= length <= longest:
        raise InputError(
            f"max_length={requested}; expected {SHORTEST_LENGTH} to the model's {longest}"
        )
    return length


def random_batch(shape: tuple[int, int], vocabulary: int) -> tuple[Ids, Ids]:
    """Return random token ids and a mask (n, seq) of texts that test a network's masking.

    The first text fills its row, and each later one is a token shorter, except that the last of
    several has a single token: in a long row, whole windows of local attention are then padding.
    """
    ids = np.random.default_rng(0).integers(0, vocabulary, shape, dtype=np.int64)
    mask = np.ones(shape, dtype=np.int64)
    for i in range(1, len(mask)):
        mask[i, -i:] = 0
    if len(mask) > 1:
        mask[-1, 1:] = 0
    return ids, mask


def read_tokenizer(path: Path) -> Any:
    """Read a tokenizer of the library `tokenizers`; raises `InputError` for anything else."""
    # Imported late: `excerpts` uses a constant of this module, but no tokenizer.
    from tokenizers import Tokenizer as LibraryTokenizer

    try:
        return LibraryTokenizer.from_str(path.read_text(encoding="utf-8"))
    except Exception as error:  # the library raises nothing narrower
        raise InputError(f"{path}: {error}; expected a tokenizer of the library") from error
