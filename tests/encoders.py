"""Encoders for tests: both compute, neither is a stand-in that returns what it is told."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from indexes.arrays import Matrix


class WordEncoder:
    """A bag of words: each word is a fixed random direction, a text the sum of its words.

    It needs no torch, so that the many processes of the crash tests start fast.
    """

    def __init__(self, dim: int = 48) -> None:
        self.dim = dim
        self.encoded: list[str] = []

    def encode(self, texts: Sequence[str]) -> Matrix:
        self.encoded.extend(texts)
        out = np.zeros((len(texts), self.dim), dtype=np.float32)
        for row, text in zip(out, texts, strict=True):
            for word in re.findall(r"\w+", text.lower()) or [""]:
                row += self._direction(word)
        return out

    def spec(self) -> dict[str, Any]:
        return {"type": "words", "dim": self.dim}

    def _direction(self, word: str) -> Matrix:
        rng = np.random.default_rng(zlib.crc32(word.encode()))
        direction: Matrix = rng.standard_normal(self.dim).astype(np.float32)
        return direction


def make_tiny_bert(folder: Path) -> Path:
    """Save a BERT of three layers and 32 dimensions with random weights and its tokenizer."""
    import torch
    from tokenizers import BertWordPieceTokenizer
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokens = [*special, *letters, *(f"##{c}" for c in letters), "the", "cat", "dog", "rain"]
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=BertWordPieceTokenizer(
            vocab={token: i for i, token in enumerate(tokens)}
        )._tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=64,
    )
    tokenizer.save_pretrained(folder)
    torch.manual_seed(3)
    config = BertConfig(
        vocab_size=len(tokens),
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    BertModel(config).save_pretrained(folder)
    return folder
